//! Names and numbers of signals.

macro_rules! signals {
    ($($name:ident),* $(,)?) => {
        /// `"TERM"` or `"SIGTERM"`, as a client writes it.
        pub fn number(name: &str) -> Option<i32> {
            let name = name.strip_prefix("SIG").unwrap_or(name);
            $(if concat!("SIG", stringify!($name)).get(3..) == Some(name) { return Some(signal::$name); })*
            None
        }

        /// `"SIGTERM"`; real-time signals have no name of their own.
        pub fn name(number: i32) -> &'static str {
            $(if number == signal::$name { return concat!("SIG", stringify!($name)); })*
            "SIGRT"
        }
    };
}

mod signal {
    pub use libc::{
        SIGABRT as ABRT, SIGALRM as ALRM, SIGBUS as BUS, SIGCHLD as CHLD, SIGCONT as CONT, SIGFPE as FPE,
        SIGHUP as HUP, SIGILL as ILL, SIGINT as INT, SIGIO as IO, SIGKILL as KILL, SIGPIPE as PIPE, SIGPROF as PROF,
        SIGPWR as PWR, SIGQUIT as QUIT, SIGSEGV as SEGV, SIGSTKFLT as STKFLT, SIGSTOP as STOP, SIGSYS as SYS,
        SIGTERM as TERM, SIGTRAP as TRAP, SIGTSTP as TSTP, SIGTTIN as TTIN, SIGTTOU as TTOU, SIGURG as URG,
        SIGUSR1 as USR1, SIGUSR2 as USR2, SIGVTALRM as VTALRM, SIGWINCH as WINCH, SIGXCPU as XCPU, SIGXFSZ as XFSZ,
    };
}

signals!(
    HUP, INT, QUIT, ILL, TRAP, ABRT, BUS, FPE, KILL, USR1, SEGV, USR2, PIPE, ALRM, TERM, STKFLT, CHLD, CONT, STOP,
    TSTP, TTIN, TTOU, URG, XCPU, XFSZ, VTALRM, PROF, WINCH, IO, PWR, SYS,
);

#[cfg(test)]
mod tests {
    #[test]
    fn with_and_without_the_prefix() {
        assert_eq!(super::number("INT"), Some(2));
        assert_eq!(super::number("SIGKILL"), Some(9));
        assert_eq!(super::number("NOPE"), None);
        assert_eq!(super::name(15), "SIGTERM");
        assert_eq!(super::name(40), "SIGRT");
    }
}

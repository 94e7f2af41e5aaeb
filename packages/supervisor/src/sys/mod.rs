//! The kernel calls that need `unsafe`; everything else goes through `rustix` and stays safe.
#![allow(unsafe_code)]

pub mod launch;
pub mod namespaces;
pub mod offline;
pub mod setup;

use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Makes `fd` also descriptor `number`, which stays open in what we become.
pub fn duplicate(fd: BorrowedFd<'_>, number: i32) -> Result<(), Errno> {
    // SAFETY: takes two integers; a preforked process has opened nothing yet that would own a descriptor above 2.
    match unsafe { libc::dup2(fd.as_raw_fd(), number) } {
        -1 => Err(last()),
        _ => Ok(()),
    }
}

/// A descriptor that we were started with, now ours. Fails where there is none.
pub fn inherited(number: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes integers; the number is asked for once, before we have opened anything, so nothing else owns it.
    unsafe {
        match libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) {
            -1 => Err(last()),
            _ => Ok(OwnedFd::from_raw_fd(number)),
        }
    }
}

/// One descriptor that becomes readable when any signal of `signals` is pending.
pub fn signalfd(signals: &[i32]) -> Result<OwnedFd, Errno> {
    // SAFETY: `set` is initialised by sigemptyset before use; the returned descriptor is ours alone.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(last()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// The signals that were pending: number, and whether a process from outside this pid namespace has sent it by `kill`. Any other way to
/// send one leaves the sender's id to the sender (`rt_sigqueueinfo`) or out (`F_SETSIG`), but never has the code `SI_USER`.
pub fn read_signals(fd: BorrowedFd<'_>, mut each: impl FnMut(i32, bool)) {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut buffer = [0u8; SIZE * 4];
    while let Ok(count) = rustix::io::read(fd, &mut buffer) {
        for record in buffer[..count].chunks_exact(SIZE) {
            // struct signalfd_siginfo: ssi_signo, ssi_errno, ssi_code, ssi_pid, …
            if let Some([number, _, code, sender]) = record.as_chunks::<4>().0.first_chunk::<4>() {
                let is_from_outside = i32::from_ne_bytes(*code) == libc::SI_USER && u32::from_ne_bytes(*sender) == 0;
                each(u32::from_ne_bytes(*number) as i32, is_from_outside);
            }
        }
        if count < buffer.len() {
            return;
        }
    }
}

/// Signals the whole group `id`. Group 0 is our own and 1 everything: both are refused.
pub fn signal_group(id: i32, signal: i32) {
    if id > 1 {
        // SAFETY: takes two integers.
        unsafe { libc::kill(-id, signal) };
    }
}

/// Signals one process, for kernels where pidfds are refused.
pub fn signal_process(id: i32, signal: i32) {
    if id > 1 {
        // SAFETY: takes two integers.
        unsafe { libc::kill(id, signal) };
    }
}

/// As PID 1: signals everything else in the PID namespace.
pub fn signal_everything(signal: i32) {
    if std::process::id() == 1 {
        // SAFETY: takes two integers.
        unsafe { libc::kill(-1, signal) };
    }
}

pub fn pidfd_signal(fd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    // SAFETY: a null siginfo is what the call documents for a plain signal.
    match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal, 0usize, 0u32) } {
        -1 => Err(last()),
        _ => Ok(()),
    }
}

/// The hard limit RLIMIT_RTTIME of a process (0: of ourselves).
pub fn rttime_limit(pid: i32) -> Result<u64, Errno> {
    let mut old = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `old` outlives the call; nothing is set.
    match unsafe { libc::prlimit64(pid, libc::RLIMIT_RTTIME, std::ptr::null(), &mut old) } {
        -1 => Err(last()),
        _ => Ok(old.rlim_max),
    }
}

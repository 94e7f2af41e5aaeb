//! What a supervisor does to itself, once, before it dials.

use rustix::io::Errno;
use std::ffi::c_int;

use super::last;

/// Every signal blocked, so that none ends or interrupts PID 1; every disposition as children expect it.
pub fn take_signals() {
    // SAFETY: plain calls on initialised values; runs before any other thread exists. SIGKILL, SIGSTOP and the two that
    // libc keeps for itself refuse, which is fine.
    unsafe {
        for signal in 1..=64usize {
            // Not through libc, which keeps 32 and 33 for itself: ignored ones would be inherited by every child. Four
            // zero words are the kernel's sigaction for the default.
            let default = [0usize; 4];
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), 0usize, 8usize);
        }
        let mut all = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}

/// For a descriptor of `signalfd`.
pub fn block_signal(signal: c_int) {
    // SAFETY: the set is initialised by sigemptyset before use.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// Descriptors that we were started with are not for the sandbox; 0, 1 and 2 have to be taken, or a pipe would be.
pub fn close_inherited() {
    // SAFETY: plain calls on integers and a constant string, before we own any descriptor above 2.
    unsafe {
        while (0..3).contains(&libc::open(c"/dev/null".as_ptr(), libc::O_RDWR)) {}
        libc::syscall(libc::SYS_close_range, 3usize, u32::MAX as usize, 0usize);
    }
}

/// Keeps the allocator small and returns large blocks at once: one arena, whatever threads come and go.
pub fn tune_allocator() {
    #[cfg(target_env = "gnu")]
    // SAFETY: integers only, before the first thread.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 10);
    }
}

/// Nobody of the same user may trace us, read our memory or our descriptors.
pub fn become_untraceable() -> Result<(), Errno> {
    prctl(libc::PR_SET_DUMPABLE, 0)
}

/// Descendants whose parent ends become our children, also where we are not PID 1.
pub fn become_subreaper() -> Result<(), Errno> {
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1)
}

pub fn forbid_new_privileges() -> Result<(), Errno> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
}

fn prctl(option: c_int, value: libc::c_ulong) -> Result<(), Errno> {
    // SAFETY: these options take integers only.
    match unsafe { libc::prctl(option, value, 0 as libc::c_ulong, 0 as libc::c_ulong, 0 as libc::c_ulong) } {
        -1 => Err(last()),
        _ => Ok(()),
    }
}

/// Raises our own descriptor limit; returns what children are to have instead, where it differs.
pub fn raise_descriptor_limit() -> Option<libc::rlimit64> {
    let mut old = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both structs outlive the calls.
    unsafe {
        if libc::getrlimit64(libc::RLIMIT_NOFILE, &mut old) == -1 || old.rlim_cur == old.rlim_max {
            return None;
        }
        let new = libc::rlimit64 { rlim_cur: old.rlim_max, rlim_max: old.rlim_max };
        (libc::setrlimit64(libc::RLIMIT_NOFILE, &new) == 0).then_some(old)
    }
}

/// For us and everything that descends from us; the kernel counts by user and, from Linux 5.14 on, by user namespace. Nobody
/// here has the right to raise it again.
pub fn limit_processes(number: u64) -> Result<(), Errno> {
    let mut old = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both structs outlive the calls.
    let set = unsafe {
        if libc::getrlimit64(libc::RLIMIT_NPROC, &mut old) == -1 {
            return Err(last());
        }
        let number = number.min(old.rlim_max);
        libc::setrlimit64(libc::RLIMIT_NPROC, &libc::rlimit64 { rlim_cur: number, rlim_max: number })
    };
    if set == -1 { Err(last()) } else { Ok(()) }
}

pub fn install_filter(program: &[libc::sock_filter]) -> Result<(), Errno> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program during the call and does not write to it.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER as libc::c_ulong, &program) } {
        -1 => Err(last()),
        _ => Ok(()),
    }
}

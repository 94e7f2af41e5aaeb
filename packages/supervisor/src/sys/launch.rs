//! Starting a program: a child that shares our memory until it executes, so that nothing is copied and its failure is
//! simply there when `clone` returns.

use rustix::io::Errno;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::last;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Stage {
    Clone,
    Session,
    Terminal,
    Stdio,
    Limits,
    Directory,
    Execute,
}

/// Everything the child needs, ready made: it may not allocate, because it runs in our memory.
pub struct Launch<'a> {
    /// Paths tried in order, as a search along PATH does.
    pub candidates: &'a [*const c_char],
    /// Both end with a null pointer.
    pub argv: &'a [*const c_char],
    pub envp: &'a [*const c_char],
    pub cwd: &'a CStr,
    pub stdio: [c_int; 3],
    pub terminal: bool,
    pub tag: Option<u64>,
    pub cookie: u64,
    pub descriptors: Option<libc::rlimit64>,
}

struct Child<'a> {
    launch: &'a Launch<'a>,
    stage: Stage,
    errno: c_int,
}

const STACK: usize = 64 << 10;

/// The stack on which children run until they execute; one is enough, since `CLONE_VFORK` makes us wait.
pub struct Stack(*mut c_void);

impl Stack {
    pub fn new() -> Result<Stack, Errno> {
        // SAFETY: a fresh anonymous mapping; it is never unmapped, as it lives as long as the supervisor.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                STACK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED { Err(last()) } else { Ok(Stack(memory)) }
    }
}

/// Starts the program. The caller has every signal blocked, so no handler can run in the child on our memory.
pub fn launch(launch: &Launch<'_>, stack: &mut Stack) -> Result<i32, (Stage, Errno)> {
    let mut child = Child { launch, stage: Stage::Clone, errno: 0 };
    // SAFETY: the child runs on its own stack while this thread waits (CLONE_VFORK); `child` and all it points to stay
    // alive and untouched until then; `run` makes only kernel calls. No CLONE_SIGHAND, CLONE_FS or CLONE_FILES: what
    // the child changes there is its own.
    let pid = unsafe {
        libc::clone(
            run,
            stack.0.byte_add(STACK),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            ptr::from_mut(&mut child).cast(),
        )
    };
    if pid == -1 {
        return Err((Stage::Clone, last()));
    }
    // SAFETY: `child` was written through the pointer given to clone, which the compiler cannot see.
    let (stage, errno) = unsafe { (ptr::read_volatile(&child.stage), ptr::read_volatile(&child.errno)) };
    if errno == 0 {
        return Ok(pid);
    }
    // SAFETY: waits for our own child, which is on its way out.
    unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
    Err((stage, Errno::from_raw_os_error(errno)))
}

extern "C" fn run(child: *mut c_void) -> c_int {
    // SAFETY: `launch` above passes a live `Child` that nobody else touches meanwhile; errno and _exit are safe to use
    // here, and the parent expects no errno across its own clone.
    unsafe {
        let child = &mut *child.cast::<Child>();
        let Err(stage) = become_program(child.launch);
        ptr::write_volatile(&mut child.stage, stage);
        ptr::write_volatile(&mut child.errno, *libc::__errno_location());
        libc::_exit(127)
    }
}

/// Comes back only with the stage that failed; `errno` says why.
unsafe fn become_program(launch: &Launch<'_>) -> Result<std::convert::Infallible, Stage> {
    let check = |result: c_int, stage: Stage| if result == -1 { Err(stage) } else { Ok(()) };
    // SAFETY: all are async-signal-safe kernel calls on pointers and integers prepared by the parent.
    unsafe {
        check(libc::setsid(), Stage::Session)?;
        if launch.terminal {
            check(libc::ioctl(launch.stdio[0], libc::TIOCSCTTY, 0), Stage::Terminal)?;
        }
        for (target, fd) in (0..).zip(launch.stdio) {
            check(libc::dup2(fd, target), Stage::Stdio)?;
        }
        if let Some(tag) = launch.tag {
            let limit = libc::rlimit64 { rlim_cur: tag, rlim_max: tag };
            // The kernel takes four arguments; the seccomp filter lets only a call with the cookie as sixth set this.
            let set = libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_RTTIME, &limit, 0usize, 0usize, launch.cookie);
            check(set as c_int, Stage::Limits)?;
        }
        if let Some(limit) = launch.descriptors {
            check(libc::setrlimit64(libc::RLIMIT_NOFILE, &limit), Stage::Limits)?;
        }
        check(libc::chdir(launch.cwd.as_ptr()), Stage::Directory)?;
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        execute(launch);
    }
    Err(Stage::Execute)
}

/// As `execvp`: a name that is not there or not allowed leads on to the next, and a refusal is remembered.
unsafe fn execute(launch: &Launch<'_>) {
    let mut refused = false;
    for candidate in launch.candidates {
        // SAFETY: null-terminated strings and arrays prepared by the parent; errno is the thread's own.
        unsafe {
            libc::execve(*candidate, launch.argv.as_ptr(), launch.envp.as_ptr());
            match *libc::__errno_location() {
                libc::EACCES => refused = true,
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                _ => return,
            }
        }
    }
    if refused {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = libc::EACCES };
    }
}

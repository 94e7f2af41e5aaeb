//! Failures as the agent is told of them.

use rustix::io::Errno;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    NotFound,
    PermissionDenied,
    NotExecutable,
    BadCwd,
    BadArgs,
    ResourceLimit,
    PtyFailed,
    Exists,
    Conflict,
    Escapes,
    ReadOnly,
    IsDirectory,
    NotADirectory,
    NotAFile,
    NotEmpty,
    NoSpace,
    Gone,
    NotRunning,
    Busy,
    BadRequest,
    Changed,
    Refused,
    Reset,
    TimedOut,
    Other,
}

#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    pub kind: Kind,
    pub errno: Option<&'static str>,
    pub message: String,
}

impl Fault {
    pub fn new(kind: Kind, message: impl Into<String>) -> Fault {
        Fault { kind, errno: None, message: message.into() }
    }

    pub fn of(kind: Kind, errno: Errno, what: &str) -> Fault {
        Fault { kind, errno: name(errno), message: format!("{what}: {}", text(errno)) }
    }
}

/// What the kernel's manual calls it, without Rust's number behind it.
fn text(errno: Errno) -> String {
    let full = std::io::Error::from_raw_os_error(errno.raw_os_error()).to_string();
    match full.rfind(" (os error") {
        Some(at) => full[..at].to_string(),
        None => full,
    }
}

macro_rules! names {
    ($errno:expr, $($konst:ident = $name:literal),* $(,)?) => {
        match $errno { $(Errno::$konst => Some($name),)* _ => None }
    };
}

pub fn name(errno: Errno) -> Option<&'static str> {
    names!(
        errno,
        PERM = "EPERM",
        NOENT = "ENOENT",
        SRCH = "ESRCH",
        INTR = "EINTR",
        IO = "EIO",
        NXIO = "ENXIO",
        TOOBIG = "E2BIG",
        NOEXEC = "ENOEXEC",
        BADF = "EBADF",
        CHILD = "ECHILD",
        AGAIN = "EAGAIN",
        NOMEM = "ENOMEM",
        ACCESS = "EACCES",
        FAULT = "EFAULT",
        BUSY = "EBUSY",
        EXIST = "EEXIST",
        XDEV = "EXDEV",
        NODEV = "ENODEV",
        NOTDIR = "ENOTDIR",
        ISDIR = "EISDIR",
        INVAL = "EINVAL",
        NFILE = "ENFILE",
        MFILE = "EMFILE",
        NOTTY = "ENOTTY",
        TXTBSY = "ETXTBSY",
        FBIG = "EFBIG",
        NOSPC = "ENOSPC",
        SPIPE = "ESPIPE",
        ROFS = "EROFS",
        MLINK = "EMLINK",
        PIPE = "EPIPE",
        NAMETOOLONG = "ENAMETOOLONG",
        NOSYS = "ENOSYS",
        NOTEMPTY = "ENOTEMPTY",
        LOOP = "ELOOP",
        LIBBAD = "ELIBBAD",
        OPNOTSUPP = "EOPNOTSUPP",
        CONNREFUSED = "ECONNREFUSED",
        CONNABORTED = "ECONNABORTED",
        CONNRESET = "ECONNRESET",
        TIMEDOUT = "ETIMEDOUT",
        STALE = "ESTALE",
        DQUOT = "EDQUOT",
        OVERFLOW = "EOVERFLOW",
    )
}

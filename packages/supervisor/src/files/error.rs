//! What can go wrong with a file.

use rustix::io::Errno;

use crate::wire::fault::{Fault, Kind};

#[derive(Debug)]
pub enum FileError {
    System(Errno),
    /// The path or a link in it leads out of the root.
    Escapes,
    NotAFile,
    IsDirectory,
    /// It is not the version that was asked for.
    Changed,
    BadRequest(&'static str),
    /// A limit is reached.
    Busy(&'static str),
    /// The agent is gone, or what was promised to it cannot be kept: nobody to answer.
    Connection,
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        FileError::System(errno)
    }
}

impl FileError {
    pub fn fault(&self, path: &str) -> Fault {
        match self {
            FileError::System(errno) => Fault::of(kind(*errno), *errno, path),
            FileError::Escapes => Fault::new(Kind::Escapes, format!("{path}: leads out of the root")),
            FileError::NotAFile => Fault::new(Kind::NotAFile, format!("{path}: not a regular file")),
            FileError::IsDirectory => Fault::of(Kind::IsDirectory, Errno::ISDIR, path),
            FileError::Changed => Fault::new(Kind::Changed, format!("{path}: has changed")),
            FileError::BadRequest(why) => Fault::new(Kind::BadRequest, format!("{path}: {why}")),
            FileError::Busy(why) => Fault::new(Kind::Busy, format!("{path}: {why}")),
            FileError::Connection => Fault::new(Kind::Other, "connection"),
        }
    }
}

fn kind(errno: Errno) -> Kind {
    match errno {
        Errno::NOENT => Kind::NotFound,
        Errno::EXIST => Kind::Exists,
        Errno::ACCESS | Errno::PERM => Kind::PermissionDenied,
        Errno::ROFS => Kind::ReadOnly,
        Errno::ISDIR => Kind::IsDirectory,
        Errno::NOTDIR => Kind::NotADirectory,
        Errno::NOTEMPTY => Kind::NotEmpty,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Kind::NoSpace,
        Errno::NXIO | Errno::NODEV => Kind::NotAFile,
        Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => Kind::BadRequest,
        Errno::BUSY | Errno::TXTBSY => Kind::Busy,
        _ => Kind::Other,
    }
}

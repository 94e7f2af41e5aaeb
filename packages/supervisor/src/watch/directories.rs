//! The one inotify instance of a sandbox: which directory is watched for whom.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::mem::MaybeUninit;

use crate::files::FileError;

/// Of all watches of the sandbox together.
const MAX_DIRECTORIES: usize = 8192;
const TOO_MANY: FileError = FileError::Busy("more than 8,192 directories are watched in this sandbox");
const FULL: FileError = FileError::Busy("this machine watches too many directories");
const READ: usize = 64 << 10;

/// What a directory is to one watch. `path` is relative to the watch's own directory, which is the empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    pub watch: u32,
    pub path: Vec<u8>,
}

/// One event of the kernel.
pub struct Happened {
    pub wd: i32,
    pub mask: ReadFlags,
    pub cookie: u32,
    pub name: Option<Vec<u8>>,
}

pub struct Directories {
    inotify: OwnedFd,
    seats: HashMap<i32, Vec<Seat>>,
    buffer: Vec<MaybeUninit<u8>>,
}

impl Directories {
    pub fn new() -> Result<Directories, FileError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|errno| match errno {
            Errno::MFILE | Errno::NFILE => FULL,
            errno => errno.into(),
        })?;
        Ok(Directories { inotify, seats: HashMap::new(), buffer: vec![MaybeUninit::uninit(); READ] })
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.inotify
    }

    /// What one read brings.
    pub fn read(&mut self) -> Vec<Happened> {
        let mut all = Vec::new();
        let mut reader = Reader::new(self.inotify.as_fd(), &mut self.buffer);
        while let Ok(event) = reader.next() {
            all.push(Happened {
                wd: event.wd(),
                mask: event.events(),
                cookie: event.cookie(),
                name: event.file_name().map(|name| name.to_bytes().to_vec()),
            });
            if reader.is_buffer_empty() {
                break;
            }
        }
        all
    }

    /// Watches an open directory. False where the watch has it at this path already.
    pub fn add(&mut self, fd: &OwnedFd, seat: Seat) -> Result<bool, FileError> {
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::EXCL_UNLINK
            | WatchFlags::ONLYDIR;
        // By its descriptor: what the path names may be another by now.
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let wd = inotify::add_watch(&self.inotify, path, flags).map_err(|errno| match errno {
            Errno::NOSPC | Errno::NOMEM => FULL,
            errno => errno.into(),
        })?;
        if !self.seats.contains_key(&wd) && self.seats.len() >= MAX_DIRECTORIES {
            let _ = inotify::remove_watch(&self.inotify, wd);
            return Err(TOO_MANY);
        }
        let seats = self.seats.entry(wd).or_default();
        match seats.iter_mut().find(|known| known.watch == seat.watch) {
            Some(known) if known.path == seat.path => return Ok(false),
            Some(known) => *known = seat,
            None => seats.push(seat),
        }
        Ok(true)
    }

    pub fn seats(&self, wd: i32) -> Vec<Seat> {
        self.seats.get(&wd).cloned().unwrap_or_default()
    }

    /// The kernel has let go of it.
    pub fn forget(&mut self, wd: i32) -> Vec<Seat> {
        self.seats.remove(&wd).unwrap_or_default()
    }

    /// Lets go of what a watch has at a path and below it.
    pub fn remove_below(&mut self, watch: u32, path: &[u8]) {
        let inotify = &self.inotify;
        self.seats.retain(|wd, seats| {
            seats.retain(|seat| seat.watch != watch || !is_below(&seat.path, path));
            if seats.is_empty() {
                let _ = inotify::remove_watch(inotify, *wd);
            }
            !seats.is_empty()
        });
    }
}

fn is_below(path: &[u8], top: &[u8]) -> bool {
    top.is_empty() || path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn a_name_that_begins_like_a_directory_is_not_below_it() {
        assert!(is_below(b"a/b", b"a") && is_below(b"a", b"a") && is_below(b"a", b""));
        assert!(!is_below(b"ab", b"a") && !is_below(b"b", b"a"));
    }
}

//! Uploads: all or nothing.

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, Mode, OFlags, RawMode, RenameFlags, Stat, fallocate, fchmod, fchown, linkat,
    openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::TEMPORARY;
use super::channel::FileChannel;
use super::error::FileError;
use super::path::{Located, Root};
use super::read::check_regular;
use super::stat::etag;

/// From here on it pays to ask for the space of a file as a whole.
const LARGE: u64 = 1 << 20;

pub struct Upload {
    pub mode: Option<u32>,
    pub overwrite: bool,
    pub size: Option<u64>,
    pub if_match: Option<String>,
    /// Whether a link leads on to its target; else it is replaced itself.
    pub follow: bool,
}

/// A file under a temporary name, gone again unless it got its own.
struct Temporary<'a> {
    located: &'a Located,
    name: String,
    kept: bool,
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = unlinkat(&self.located.parent, &*self.name, AtFlags::empty());
        }
    }
}

pub fn write(link: &mut FileChannel, root: &Root, path: &str, upload: &Upload) -> Result<(), FileError> {
    root.create_parents(path)?;
    let located = root.locate(path, upload.follow)?;
    if located.is_root() {
        return Err(FileError::IsDirectory);
    }
    upload.check(&located)?;
    let (file, mut temporary) = create(root, &located)?;
    reserve(&file, upload.size)?;
    let mut written = 0;
    link.body(|bytes| {
        written += bytes.len() as u64;
        write_all(&file, bytes)
    })?;
    if upload.size.is_some_and(|size| size != written) {
        return Err(FileError::BadRequest("the body has another length than announced"));
    }
    // Whoever wrote to it meanwhile is asked about again, as close to the rename as can be.
    let now = match statat(&located.parent, &*located.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(errno.into()),
    };
    let before = now.filter(|stat| !is_link(stat)).map(|stat| stat.st_mode & 0o7777);
    fchmod(&file, Mode::from_raw_mode(upload.mode.map(|mode| mode & 0o7777).or(before).unwrap_or(0o644) as RawMode))?;
    drop(file);
    let created = now.is_none();
    let parent = &located.parent;
    let check = Located { parent: rustix::io::fcntl_dupfd_cloexec(parent, 3)?, name: located.name.clone(), stat: now };
    upload.check(&check)?;
    let (from, to) = (&*temporary.name, &*located.name);
    if upload.overwrite {
        renameat(parent, from, parent, to)?;
        temporary.kept = true;
    } else {
        match renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE) {
            Ok(()) => temporary.kept = true,
            // Not every file system has it; a second name does as well, and the first one goes.
            Err(Errno::INVAL | Errno::NOSYS) => linkat(parent, from, parent, to, AtFlags::empty())?,
            Err(errno) => return Err(errno.into()),
        }
    }
    drop(temporary);
    link.result(&serde_json::json!({ "created": created, "size": written }))
}

impl Upload {
    fn check(&self, located: &Located) -> Result<(), FileError> {
        let Some(stat) = located.stat else {
            return if self.if_match.is_some() { Err(FileError::Changed) } else { Ok(()) };
        };
        if self.follow || !is_link(&stat) {
            check_regular(stat.st_mode)?;
        }
        if !self.overwrite {
            return Err(Errno::EXIST.into());
        }
        match &self.if_match {
            Some(wanted) if *wanted != etag(&stat) => Err(FileError::Changed),
            _ => Ok(()),
        }
    }
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// Beside what it will be renamed to.
pub fn temporary_name() -> Result<String, Errno> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{TEMPORARY}{:016x}", u64::from_ne_bytes(random)))
}

fn create<'a>(root: &Root, located: &'a Located) -> Result<(OwnedFd, Temporary<'a>), FileError> {
    let name = temporary_name()?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&located.parent, &*name, flags, Mode::from_raw_mode(0o600))?;
    let temporary = Temporary { located, name, kept: false };
    if let Some((uid, gid)) = root.heir(&located.parent)? {
        fchown(&file, Some(uid), Some(gid))?;
    }
    Ok((file, temporary))
}

/// What does not fit is refused before it is sent. A file system that knows where the bytes go takes them in two thirds of
/// the time, and has nothing left to decide while the file gets its name.
fn reserve(file: &OwnedFd, size: Option<u64>) -> Result<(), FileError> {
    let Some(size) = size.filter(|size| *size >= LARGE) else { return Ok(()) };
    match fallocate(file, FallocateFlags::empty(), 0, size) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(errno.into()),
        // Not every file system can.
        _ => Ok(()),
    }
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), FileError> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

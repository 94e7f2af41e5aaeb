//! Walks of whole trees.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use serde::Serialize;

use super::TEMPORARY;
use super::error::FileError;
use super::list::descend;
use super::path::Root;

#[derive(Default, Serialize)]
pub struct Usage {
    bytes: u64,
    entries: u64,
}

/// What a client may see of a directory.
pub fn names(fd: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = all_names(fd)?;
    names.retain(|name| !name.starts_with(TEMPORARY.as_bytes()));
    Ok(names)
}

fn all_names(fd: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

/// A way down a tree that holds one directory open however deep it is: what is above is found again by `..`, and is known by its number.
struct Way {
    fd: OwnedFd,
    above: Vec<(u64, u64)>,
}

impl Way {
    fn down(&mut self, name: &[u8]) -> Result<(), Errno> {
        let inner = descend(&self.fd, name)?;
        let here = identity(&self.fd)?;
        // Who may not search a directory may not come back from it either.
        if identity(&outer(&inner)?)? != here {
            return Err(Errno::BUSY);
        }
        self.above.push(here);
        self.fd = inner;
        Ok(())
    }

    /// Fails where the directory has been moved meanwhile: it would lead into another tree.
    fn up(&mut self) -> Result<(), Errno> {
        let outer = outer(&self.fd)?;
        if self.above.pop() != Some(identity(&outer)?) {
            return Err(Errno::BUSY);
        }
        self.fd = outer;
        Ok(())
    }
}

fn outer(fd: &OwnedFd) -> Result<OwnedFd, Errno> {
    openat(fd, "..", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Device and inode.
pub fn identity(fd: &OwnedFd) -> Result<(u64, u64), Errno> {
    let stat = fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// The space that is taken, which for sparse files is less than their size.
pub fn usage(root: &Root) -> Result<Usage, FileError> {
    let mut usage = Usage::default();
    let mut way = Way { fd: root.locate("", true)?.open_directory()?, above: Vec::new() };
    // Of each directory on the way, the directories in it that are still to come.
    let mut inner = vec![count(&way.fd, &mut usage)];
    while let Some(names) = inner.last_mut() {
        if let Some(name) = names.pop() {
            if way.down(&name).is_ok() {
                inner.push(count(&way.fd, &mut usage));
            }
            continue;
        }
        inner.pop();
        if !inner.is_empty() {
            way.up()?;
        }
    }
    Ok(usage)
}

/// Adds what is in one directory; gives the directories in it.
fn count(fd: &OwnedFd, usage: &mut Usage) -> Vec<Vec<u8>> {
    let mut names = all_names(fd).unwrap_or_default();
    names.retain(|name| {
        let Ok(stat) = statat(fd, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) else { return false };
        usage.entries += 1;
        usage.bytes += stat.st_blocks.max(0) as u64 * 512;
        FileType::from_raw_mode(stat.st_mode) == FileType::Directory
    });
    names
}

/// Removes a directory with all it holds; links go, their targets stay.
pub fn remove(parent: &OwnedFd, name: &[u8]) -> Result<(), FileError> {
    let mut way = Way { fd: descend(parent, name)?, above: Vec::new() };
    let mut names = Vec::new();
    loop {
        if let Some(inner) = empty(&way.fd)? {
            way.down(&inner)?;
            names.push(inner);
            continue;
        }
        let Some(emptied) = names.pop() else { break };
        way.up()?;
        unlinkat(&way.fd, &*emptied, AtFlags::REMOVEDIR)?;
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

/// Removes what is in a directory up to the first directory in it that is not empty, which it gives.
fn empty(fd: &OwnedFd) -> Result<Option<Vec<u8>>, FileError> {
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno @ (Errno::ISDIR | Errno::PERM)) => match unlinkat(fd, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(Some(name.to_bytes().to_vec())),
                Err(Errno::NOTDIR) => return Err(errno.into()),
                Err(errno) => return Err(errno.into()),
            },
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(None)
}

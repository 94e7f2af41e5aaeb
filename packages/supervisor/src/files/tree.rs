//! Walks of whole trees.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, statat, unlinkat};
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

/// What a client may see of a directory. A name that is not UTF-8 cannot be named on the wire and is left out.
pub fn names(fd: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = all_names(fd)?;
    names.retain(|name| !name.starts_with(TEMPORARY));
    Ok(names)
}

fn all_names(fd: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(fd)? {
        if let Ok(name) = entry?.file_name().to_str()
            && name != "."
            && name != ".."
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// The space that is taken, which for sparse files is less than their size.
pub fn usage(root: &Root) -> Result<Usage, FileError> {
    let mut usage = Usage::default();
    let mut open = vec![root.locate("", true)?.open_directory()?];
    while let Some(fd) = open.pop() {
        for name in all_names(&fd).unwrap_or_default() {
            let Ok(stat) = statat(&fd, &*name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            usage.entries += 1;
            usage.bytes += stat.st_blocks.max(0) as u64 * 512;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                open.extend(descend(&fd, &name).ok());
            }
        }
    }
    Ok(usage)
}

/// Removes a directory with all it holds; links go, their targets stay.
pub fn remove(parent: &OwnedFd, name: &str) -> Result<(), FileError> {
    let mut way = vec![(descend(parent, name)?, name.to_owned())];
    while let Some((fd, _)) = way.last() {
        let mut inner = None;
        for entry in Dir::read_from(fd)? {
            let entry = entry?;
            let file_name = entry.file_name();
            if matches!(file_name.to_bytes(), b"." | b"..") {
                continue;
            }
            match unlinkat(fd, file_name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => {
                    let name = file_name.to_str().map_err(|_| Errno::ILSEQ)?.to_owned();
                    inner = Some((descend(fd, &name)?, name));
                    break;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        if let Some(inner) = inner {
            way.push(inner);
            continue;
        }
        let Some((_, name)) = way.pop() else { break };
        let above = way.last().map_or(parent, |(fd, _)| fd);
        unlinkat(above, &*name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

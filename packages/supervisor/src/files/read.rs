//! A file's content, from the page cache to the socket without a copy of ours.

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat, sendfile};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::channel::FileChannel;
use super::error::FileError;
use super::path::{Located, Root};
use super::stat::{describe, size};
use crate::wire::{Kind, MAX_DATA, header, push_bytes, push_json};

/// Up to here a file leaves in one write together with what is said about it.
const SMALL: u64 = 64 << 10;

pub fn read(
    link: &mut FileChannel,
    root: &Root,
    path: &str,
    offset: Option<u64>,
    length: Option<u64>,
) -> Result<(), FileError> {
    let file = open_regular(&root.locate(path, true)?)?;
    let stat = fstat(&file)?;
    let mut out = Vec::new();
    push_json(&mut out, Kind::Result, &describe(path, &stat));
    let offset = offset.unwrap_or(0).min(size(&stat));
    let mut left = length.unwrap_or(u64::MAX).min(size(&stat) - offset);
    if left <= SMALL {
        let mut content = vec![0; left as usize];
        let mut filled = 0;
        while filled < content.len() {
            match rustix::io::pread(&file, &mut content[filled..], offset + filled as u64) {
                Ok(0) => return Err(FileError::Connection),
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        if left > 0 {
            push_bytes(&mut out, Kind::Stdout, &content);
        }
        push_bytes(&mut out, Kind::End, &[]);
        return link.send(&out);
    }
    link.send(&out)?;
    let mut at = offset;
    while left > 0 {
        let frame = left.min(MAX_DATA as u64);
        let head = header(Kind::Stdout, frame as usize);
        match send(&link.fd, &head, SendFlags::MORE | SendFlags::NOSIGNAL) {
            Ok(count) if count == head.len() => {}
            // A helper's caller may have given it a pipe.
            Err(Errno::NOTSOCK) => link.send(&head)?,
            _ => return Err(FileError::Connection),
        }
        let mut in_frame = frame;
        while in_frame > 0 {
            match sendfile(&link.fd, &file, Some(&mut at), in_frame as usize) {
                // The length is out already: a file that has shrunk since can only end the channel.
                Ok(0) => return Err(FileError::Connection),
                Ok(count) => in_frame -= count as u64,
                Err(Errno::INTR) => {}
                Err(_) => return Err(FileError::Connection),
            }
        }
        left -= frame;
    }
    link.end()
}

/// Judged before it is opened, since opening a device or fifo may already do something, and after, since it may have
/// been replaced in between.
pub fn open_regular(located: &Located) -> Result<OwnedFd, FileError> {
    check_regular(located.existing()?.st_mode)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(&located.parent, &*located.name, flags, Mode::empty())?;
    check_regular(fstat(&file)?.st_mode)?;
    Ok(file)
}

pub fn check_regular(mode: u32) -> Result<(), FileError> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(FileError::IsDirectory),
        _ => Err(FileError::NotAFile),
    }
}

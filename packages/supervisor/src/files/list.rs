//! The tree below a directory, in order, line by line.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use serde::Serialize;
use std::borrow::Cow;

use super::channel::FileChannel;
use super::error::FileError;
use super::path::{MAX_BYTES, MAX_PARTS, Root, parts};
use super::stat::{mtime_ms, size};
use super::tree::names;
use crate::wire::file_name;

const FRAME: usize = 64 << 10;

#[derive(Serialize)]
struct Line<'a> {
    p: Cow<'a, str>,
    t: &'static str,
    s: u64,
    m: i64,
    o: u32,
}

struct Level {
    fd: OwnedFd,
    /// Path of this directory with a slash behind it, or empty.
    prefix: Vec<u8>,
    /// Names to come, the last one next.
    names: Vec<Vec<u8>>,
}

/// `skip`: the name of an entry of the directory itself that is left out, with all below it.
pub fn list(
    link: &mut FileChannel,
    root: &Root,
    path: &str,
    depth: Option<u32>,
    limit: u64,
    skip: Option<&str>,
) -> Result<(), FileError> {
    let top = open_directory(root, path)?;
    link.result(&serde_json::json!({}))?;
    let mut out = Vec::new();
    let mut left = limit;
    let mut truncated = false;
    let mut here = level(top, Vec::new());
    here.names.retain(|name| skip.is_none_or(|skip| name != skip.as_bytes()));
    let mut levels = vec![here];
    let path = file_name::bytes(path);
    let (above, before) = (parts(&path), path.len() + 1);
    while let Some(here) = levels.last_mut() {
        let Some(name) = here.names.pop() else {
            levels.pop();
            continue;
        };
        // Whatever vanished since its directory was read is left out.
        let Ok(stat) = statat(&here.fd, &*name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if left == 0 {
            truncated = true;
            break;
        }
        let mut full = [&*here.prefix, &*name].concat();
        // No call could name it.
        if above + levels.len() > MAX_PARTS || before + full.len() > MAX_BYTES {
            truncated = true;
            continue;
        }
        left -= 1;
        push_line(&mut out, &line(&full, &stat));
        if out.len() >= FRAME {
            link.data(&out)?;
            out.clear();
        }
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_directory
            && depth.is_none_or(|depth| levels.len() < depth as usize)
            && let Some(here) = levels.last()
            && let Ok(fd) = descend(&here.fd, &name)
        {
            full.push(b'/');
            levels.push(level(fd, full));
        }
    }
    if truncated {
        out.extend_from_slice(b"{\"truncated\":true}\n");
    }
    if !out.is_empty() {
        link.data(&out)?;
    }
    link.end()
}

/// A directory as the client names it, open for reading.
pub fn open_directory(root: &Root, path: &str) -> Result<OwnedFd, FileError> {
    let located = root.locate(path, true)?;
    let stat = located.existing()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Errno::NOTDIR.into());
    }
    located.open_directory()
}

pub fn descend(fd: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(fd, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn level(fd: OwnedFd, prefix: Vec<u8>) -> Level {
    let mut names = names(&fd).unwrap_or_default();
    names.sort_unstable_by(|a, b| b.cmp(a));
    Level { fd, prefix, names }
}

fn line<'a>(path: &'a [u8], stat: &Stat) -> Line<'a> {
    let t = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "f",
        FileType::Directory => "d",
        FileType::Symlink => "l",
        _ => "o",
    };
    Line { p: file_name::text(path), t, s: size(stat), m: mtime_ms(stat), o: stat.st_mode & 0o7777 }
}

fn push_line(out: &mut Vec<u8>, line: &Line<'_>) {
    if serde_json::to_writer(&mut *out, line).is_ok() {
        out.push(b'\n');
    }
}

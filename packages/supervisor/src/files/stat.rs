//! What is told about a file.

use rustix::fs::{FileType, Stat, readlinkat};
use serde::Serialize;

use super::error::FileError;
use super::path::Root;
use crate::wire::file_name;

#[derive(Serialize)]
pub struct Described {
    pub path: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub size: u64,
    pub mtime_ms: i64,
    pub mode: u32,
    pub etag: String,
    /// Where a link points, as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

pub fn of_path(root: &Root, path: &str, follow: bool) -> Result<Described, FileError> {
    let located = root.locate(path, follow)?;
    let stat = located.existing()?;
    let mut described = describe(path, &stat);
    if described.kind == "symlink" {
        let target = readlinkat(&located.parent, &*located.name, Vec::new())?;
        described.target = Some(file_name::text(target.as_bytes()).into_owned());
    }
    Ok(described)
}

pub fn describe(path: &str, stat: &Stat) -> Described {
    Described {
        path: path.into(),
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => "file",
            FileType::Directory => "directory",
            FileType::Symlink => "symlink",
            _ => "other",
        },
        size: size(stat),
        mtime_ms: mtime_ms(stat),
        mode: stat.st_mode & 0o7777,
        etag: etag(stat),
        target: None,
    }
}

pub fn size(stat: &Stat) -> u64 {
    stat.st_size.max(0) as u64
}

pub fn mtime_ms(stat: &Stat) -> i64 {
    stat.st_mtime * 1000 + stat.st_mtime_nsec as i64 / 1_000_000
}

/// Changes with the file's identity, length and time.
pub fn etag(stat: &Stat) -> String {
    let nanoseconds = i128::from(stat.st_mtime) * 1_000_000_000 + stat.st_mtime_nsec as i128;
    format!("{:x}-{:x}-{:x}", stat.st_ino, stat.st_size, nanoseconds as u64)
}

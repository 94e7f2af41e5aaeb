//! Changes of the tree that carry no content.

use rustix::fs::{AtFlags, FileType, Mode, RawMode, RenameFlags, renameat, renameat_with, symlinkat, unlinkat};
use rustix::io::Errno;

use super::error::FileError;
use super::path::{Located, Root};
use super::tree;
use super::write::temporary_name;
use crate::wire::file_name;

/// True where it was not there before.
pub fn mkdir(root: &Root, path: &str, parents: bool, mode: Option<u32>) -> Result<bool, FileError> {
    if parents {
        root.create_parents(path)?;
    }
    let located = root.locate(path, true)?;
    if let Some(stat) = located.stat {
        return match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if parents => Ok(false),
            _ => Err(Errno::EXIST.into()),
        };
    }
    let mode = Mode::from_raw_mode((mode.unwrap_or(0o777) & 0o7777) as RawMode);
    match root.make_directory(&located.parent, &located.name, mode) {
        Err(Errno::EXIST) if parents => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
}

pub fn rename(root: &Root, from: &str, to: &str, overwrite: bool) -> Result<(), FileError> {
    let source = not_root(root.locate(from, false)?)?;
    source.existing()?;
    root.create_parents(to)?;
    let target = not_root(root.locate(to, false)?)?;
    let (from, to) = (&*source.name, &*target.name);
    if overwrite {
        return Ok(renameat(&source.parent, from, &target.parent, to)?);
    }
    match renameat_with(&source.parent, from, &target.parent, to, RenameFlags::NOREPLACE) {
        // Not every file system has it; the moment between question and answer remains open there.
        Err(Errno::INVAL | Errno::NOSYS) if target.stat.is_none() => {
            Ok(renameat(&source.parent, from, &target.parent, to)?)
        }
        Err(Errno::INVAL | Errno::NOSYS) => Err(Errno::EXIST.into()),
        other => Ok(other?),
    }
}

pub fn remove(root: &Root, path: &str, recursive: bool) -> Result<(), FileError> {
    let located = not_root(root.locate(path, false)?)?;
    let is_directory = FileType::from_raw_mode(located.existing()?.st_mode) == FileType::Directory;
    if !is_directory {
        return Ok(unlinkat(&located.parent, &*located.name, AtFlags::empty())?);
    }
    match unlinkat(&located.parent, &*located.name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) if recursive => tree::remove(&located.parent, &located.name),
        other => Ok(other?),
    }
}

/// With any target: what follows a link judges where it leads. `replace`: a file or link that is there goes in the same moment.
pub fn symlink(root: &Root, path: &str, target: &str, replace: bool) -> Result<(), FileError> {
    let Located { parent, name, stat } = not_root(root.locate(path, false)?)?;
    let target = &*file_name::bytes(target);
    match symlinkat(target, &parent, &*name) {
        Err(Errno::EXIST) if replace => {}
        other => return Ok(other?),
    }
    if stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory) {
        return Err(FileError::IsDirectory);
    }
    let temporary = temporary_name()?;
    symlinkat(target, &parent, &*temporary)?;
    let renamed = renameat(&parent, &*temporary, &parent, &*name);
    if renamed.is_err() {
        let _ = unlinkat(&parent, &*temporary, AtFlags::empty());
    }
    Ok(renamed?)
}

fn not_root(located: Located) -> Result<Located, FileError> {
    if located.is_root() { Err(FileError::BadRequest("is the root")) } else { Ok(located) }
}

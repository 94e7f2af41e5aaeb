//! From a client's path to a directory that is held open and a name in it, without ever leaving the root.

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, chownat, fstat, mkdirat, openat, openat2,
    readlinkat, statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::error::FileError;
use super::request::RootName;
use crate::wire::file_name;

const LINKS: usize = 40;
/// What the kernel takes, without the NUL at its end.
pub const MAX_BYTES: usize = 4095;
/// Between its slashes. Deeper ones are reached by a working directory only, which file calls do not have.
pub const MAX_PARTS: usize = 256;
const TOO_DEEP: FileError = FileError::BadRequest("has more than 256 parts");
/// Where a guest finds its workspace.
const GUEST_MOUNTS: [&[u8]; 2] = [b"/workspace/", b"/app/"];

/// The tree in which an operation stays.
pub struct Root {
    fd: OwnedFd,
    /// Where it is in the sandbox, for links with an absolute target. Each ends with a slash.
    prefixes: Vec<Vec<u8>>,
    confined: bool,
    /// What is made belongs to whoever has the directory that it is made in.
    adopted: bool,
}

/// A name in an open directory. What it names may not exist; it is never a link if links were to be followed.
pub struct Located {
    pub parent: OwnedFd,
    /// Its bytes, UTF-8 or not.
    pub name: Vec<u8>,
    pub stat: Option<Stat>,
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Root {
    pub fn named(name: RootName, workspace: PathBuf) -> Result<Root, FileError> {
        match name {
            RootName::Workspace => Root::workspace(workspace),
            RootName::Sandbox => Root::sandbox(),
        }
    }

    fn workspace(path: PathBuf) -> Result<Root, FileError> {
        Root::open(path, OFlags::empty())
    }

    fn open(path: PathBuf, flags: OFlags) -> Result<Root, FileError> {
        let fd = openat(CWD, &path, DIRECTORY | flags, Mode::empty())?;
        let mut prefix = path.canonicalize().unwrap_or(path).as_os_str().as_bytes().to_vec();
        if !prefix.ends_with(b"/") {
            prefix.push(b'/');
        }
        Ok(Root { fd, prefixes: vec![prefix], confined: true, adopted: false })
    }

    /// The workspace of a sandbox as the host has it. Links are written by the guest, for which it is elsewhere; and what root makes
    /// there is the guest's to change. Where workspaces lie beside each other, a guest that sees them all may put a link in the place of one.
    pub fn from_outside(path: PathBuf) -> Result<Root, FileError> {
        let mut root = Root::open(path, OFlags::NOFOLLOW)?;
        root.prefixes.extend(GUEST_MOUNTS.map(Vec::from));
        root.adopted = geteuid().is_root();
        Ok(root)
    }

    fn sandbox() -> Result<Root, FileError> {
        Ok(Root {
            fd: openat(CWD, "/", DIRECTORY, Mode::empty())?,
            prefixes: vec![b"/".to_vec()],
            confined: false,
            adopted: false,
        })
    }

    /// `follow`: a link as the last part leads on to its target, which may be missing.
    pub fn locate(&self, path: &str, follow: bool) -> Result<Located, FileError> {
        let mut path = self.relative(path)?;
        for _ in 0..LINKS {
            let (folder, name) = split(&path);
            if matches!(name, b"" | b"." | b"..") {
                let parent = self.open_directory(&path)?;
                let stat = Some(statat(&parent, "", AtFlags::EMPTY_PATH)?);
                return Ok(Located { parent, name: b".".to_vec(), stat });
            }
            let parent = self.open_directory(folder)?;
            let stat = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Some(stat),
                Err(Errno::NOENT) => None,
                Err(errno) => return Err(errno.into()),
            };
            if !follow || stat.is_none_or(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Symlink) {
                return Ok(Located { parent, name: name.into(), stat });
            }
            path = self.target(folder, readlinkat(&parent, name, Vec::new())?.as_bytes())?;
        }
        Err(Errno::LOOP.into())
    }

    /// Creates the missing directories above `path`.
    pub fn create_parents(&self, path: &str) -> Result<(), FileError> {
        let path = self.relative(path)?;
        let (folder, _) = split(&path);
        self.ensure_directory(folder)
    }

    /// Part by part, without recursion: how many there are is the client's to say.
    fn ensure_directory(&self, path: &[u8]) -> Result<(), FileError> {
        let mut missing = Vec::new();
        let mut known = path;
        let mut parent = loop {
            match self.open_directory(known) {
                Err(FileError::System(Errno::NOENT)) if !known.is_empty() => {
                    let (folder, name) = split(known);
                    missing.push((known, name));
                    known = folder;
                }
                other => break other?,
            }
        };
        for (path, name) in missing.into_iter().rev() {
            match self.make_directory(&parent, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            parent = match openat(&parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(made) if !matches!(name, b"." | b"..") => made,
                // Parents, and a link that came in between, are judged like any other way.
                _ => self.open_directory(path)?,
            };
        }
        Ok(())
    }

    pub fn make_directory(&self, parent: &OwnedFd, name: &[u8], mode: Mode) -> Result<(), Errno> {
        mkdirat(parent, name, mode)?;
        match self.heir(parent)? {
            Some((uid, gid)) => chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW),
            None => Ok(()),
        }
    }

    /// To whom what is made in `parent` has to be given.
    pub fn heir(&self, parent: &OwnedFd) -> Result<Option<(Uid, Gid)>, Errno> {
        if !self.adopted {
            return Ok(None);
        }
        let stat = fstat(parent)?;
        Ok(Some((Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))))
    }

    /// Where a link in `folder` leads, as a path of this root.
    pub fn target(&self, folder: &[u8], target: &[u8]) -> Result<Vec<u8>, FileError> {
        if !target.starts_with(b"/") {
            return Ok(if folder.is_empty() { target.into() } else { [folder, target].join(&b'/') });
        }
        let with_slash = [target, b"/"].concat();
        let inside = self
            .prefixes
            .iter()
            .find_map(|prefix| with_slash.strip_prefix(prefix.as_slice()))
            .ok_or(FileError::Escapes)?;
        Ok(without_slashes(inside).into())
    }

    /// The bytes of a request's path.
    fn relative(&self, path: &str) -> Result<Vec<u8>, FileError> {
        let path = &*file_name::bytes(path);
        if path.contains(&0) {
            return Err(FileError::BadRequest("contains NUL"));
        }
        if self.confined && path.starts_with(b"/") {
            return Err(FileError::Escapes);
        }
        if path.len() > MAX_BYTES {
            return Err(FileError::BadRequest("has more than 4095 bytes"));
        }
        if parts(path) > MAX_PARTS {
            return Err(TOO_DEEP);
        }
        Ok(without_slashes(path).into())
    }

    pub fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, FileError> {
        let path = if path.is_empty() { b"." } else { path };
        if !self.confined {
            return Ok(openat(&self.fd, path, DIRECTORY, Mode::empty())?);
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.fd, path, DIRECTORY, Mode::empty(), resolve) {
            Ok(fd) => Ok(fd),
            // A link with an absolute target, which may still lead inside; or a kernel or engine without the call.
            Err(Errno::XDEV | Errno::NOSYS | Errno::PERM | Errno::AGAIN) => self.walk(path),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The same part by part, no link ever followed by the kernel; `..` goes back along the way that was taken.
    fn walk(&self, path: &[u8]) -> Result<OwnedFd, FileError> {
        let mut way = vec![openat(&self.fd, ".", DIRECTORY, Mode::empty())?];
        let mut parts: Vec<Vec<u8>> = path.rsplit(is_slash).map(Vec::from).collect();
        let mut links = 0;
        while let Some(part) = parts.pop() {
            let Some(last) = way.last() else {
                return Err(FileError::Escapes);
            };
            if matches!(&*part, b"" | b".") {
                continue;
            }
            if part == b".." {
                way.pop();
                if way.is_empty() {
                    return Err(FileError::Escapes);
                }
                continue;
            }
            match openat(last, &*part, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                // Each is held open, and links may add to a path.
                Ok(_) if way.len() > MAX_PARTS => return Err(TOO_DEEP),
                Ok(fd) => way.push(fd),
                // A link is not a directory either: then its target comes next.
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let target = match readlinkat(last, &*part, Vec::new()) {
                        Ok(target) => target.into_bytes(),
                        Err(_) => return Err(Errno::NOTDIR.into()),
                    };
                    links += 1;
                    if links > LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    let target = if target.starts_with(b"/") {
                        way.truncate(1);
                        self.target(b"", &target)?
                    } else {
                        target
                    };
                    parts.extend(target.rsplit(is_slash).map(Vec::from));
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        way.pop().ok_or(FileError::Escapes)
    }
}

impl Located {
    pub fn is_root(&self) -> bool {
        self.name == b"."
    }

    pub fn existing(&self) -> Result<Stat, FileError> {
        self.stat.ok_or(FileError::System(Errno::NOENT))
    }

    /// Opens it for reading, if it is a directory.
    pub fn open_directory(&self) -> Result<OwnedFd, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.parent, &*self.name, flags, Mode::empty())?)
    }
}

/// How many names a path has.
pub fn parts(path: &[u8]) -> usize {
    path.split(is_slash).filter(|part| !matches!(*part, b"" | b".")).count()
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(is_slash) {
        Some(at) => (without_slashes_behind(&path[..at]), &path[at + 1..]),
        None => (b"", path),
    }
}

fn without_slashes(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|byte| !is_slash(byte)).unwrap_or(path.len());
    without_slashes_behind(&path[start..])
}

fn without_slashes_behind(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| !is_slash(byte)).map_or(0, |last| last + 1);
    &path[..end]
}

fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

//! A root directory with no more of the host in it than it takes to start a sandbox. bubblewrap reads the list of all mounts for each
//! directory that it binds, and a host with an engine has several mounts for each container; in here there are a few. The devices
//! that every sandbox has are in it, too, so that one mount brings them all.

use rustix::fs::{CWD, FileType, Mode, OFlags, chmod, makedev, mknodat, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_move,
    mount_remount, unmount,
};
use rustix::process::{chdir, pivot_root};
use std::collections::BTreeSet;
use std::fs::{File, create_dir_all, read_link, remove_dir};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sys::namespaces::leave_mounts;

/// Where the new root is made; every Linux has it, and bubblewrap does the same.
const BASE: &str = "/tmp";
/// Where preforked processes find a `/proc` that few others use, once `renew_proc` has put one there.
const FRESH_PROC: &str = "/.proc";
const OLD: &str = "/.host";
const OLD_IN_BASE: &str = "/tmp/.host";

/// Character devices of major number 1, but for the terminal of whoever opens it.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
/// As bubblewrap has them.
const LINKS: [(&str, &str); 6] = [
    ("core", "/proc/kcore"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Leaves the host's mounts for ones of our own: `program` and `paths`, as they are on the host, `/proc` and `/dev`. False without
/// the rights; then, and after an error, everything looks as before. It is an error, too, when the program does not run there.
pub fn enter(program: &Path, paths: &[PathBuf]) -> io::Result<bool> {
    let covered =
        |path: &PathBuf| ["/proc", "/dev"].iter().any(|own| path.starts_with(own)) || Path::new(BASE).starts_with(path);
    if paths.iter().any(covered) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match leave_mounts() {
        Err(Errno::PERM) => return Ok(false),
        other => other?,
    }
    // What the host lets go of is let go of here as well.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    mount("tmpfs", BASE, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755")?;
    let turned = create_dir_all(OLD_IN_BASE).and_then(|()| Ok(pivot_root(BASE, OLD_IN_BASE)?));
    if turned.is_err() {
        unmount(BASE, UnmountFlags::DETACH)?;
        return turned.map(|()| true);
    }
    chdir("/")?;
    let filled = fill(program, paths);
    if filled.is_err() {
        // Without a path, which might lead elsewhere from here: what was the root is put over the new one, and goes.
        chdir(OLD)?;
        pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        chdir("/")?;
    } else {
        unmount(OLD, UnmountFlags::DETACH)?;
        remove_dir(OLD)?;
    }
    filled.map(|()| true)
}

fn fill(program: &Path, paths: &[PathBuf]) -> io::Result<()> {
    create_dir_all(BASE)?;
    // Without what is mounted below it: new ones can be mounted only where one is seen as a whole.
    create_dir_all("/proc")?;
    create_dir_all(FRESH_PROC)?;
    mount_bind("/.host/proc", "/proc")?;
    // One that lies in another comes after it, and is there already then.
    for path in paths.iter().map(PathBuf::as_path).chain([program]).collect::<BTreeSet<_>>() {
        bind(path)?;
    }
    create_dir_all("/dev")?;
    mount("tmpfs", "/dev", "tmpfs", MountFlags::NOSUID, c"mode=755")?;
    for (name, major, minor) in DEVICES {
        let path = format!("/dev/{name}");
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), makedev(major, minor))?;
        chmod(&path, Mode::from_raw_mode(0o666))?;
    }
    for (name, target) in LINKS {
        symlink(target, format!("/dev/{name}"))?;
    }
    create_dir_all("/dev/pts")?;
    create_dir_all("/dev/shm")?;
    // Where devices may be made and not be used.
    open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let tried = Command::new(program).arg("--version").env_clear().stdin(Stdio::null()).output()?;
    if !tried.status.success() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(mount_remount("/dev", MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID, c"")?)
}

/// Puts a new instance of proc in the place of the one before, for the processes to come; those that are there keep theirs. In
/// `/proc/sys/user` each user namespace has entries of its own under the same names, and the kernel looks through all that one
/// instance has had.
pub fn renew_proc() -> Result<(), Errno> {
    // There is none at first.
    let _ = unmount(FRESH_PROC, UnmountFlags::DETACH);
    mount("proc", FRESH_PROC, "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)
}

/// The terminals of one sandbox, and the newest `/proc`, in the root of the process that is to become it.
pub fn mount_terminals() -> Result<(), Errno> {
    leave_mounts()?;
    // Without it the host's is there.
    let _ = mount_move(FRESH_PROC, "/proc");
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", "/dev/pts", "devpts", flags, c"newinstance,ptmxmode=0666,mode=620")
}

/// What is there already lies in another one that is bound. A link stays one: on most systems `/bin` and `/lib` are.
fn bind(path: &Path) -> io::Result<()> {
    let host = Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path));
    if path.exists() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_dir_all(parent)?;
    }
    let metadata = host.symlink_metadata()?;
    if metadata.is_symlink() {
        return symlink(read_link(&host)?, path);
    }
    if metadata.is_dir() {
        create_dir_all(path)?;
    } else {
        File::create(path)?;
    }
    Ok(mount_bind_recursive(&host, path)?)
}

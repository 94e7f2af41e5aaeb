//! Pseudo-terminals.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::wire::message::Size;

pub struct Pty {
    pub master: OwnedFd,
    pub slave: OwnedFd,
}

/// Both ends, close-on-exec, the slave not yet anybody's terminal.
pub fn open(size: Size) -> Result<Pty, Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    let slave = match ioctl_tiocgptpeer(&master, flags) {
        Ok(slave) => slave,
        // Kernels and sandboxes without that call: by name.
        Err(_) => {
            use rustix::fs::{Mode, OFlags, open};
            open(ptsname(&master, Vec::new())?, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?
        }
    };
    resize(&master, size)?;
    Ok(Pty { master, slave })
}

/// The kernel tells the programs in front with SIGWINCH where the size differs.
pub fn resize(master: impl AsFd, size: Size) -> Result<(), Errno> {
    tcsetwinsize(master, Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 })
}

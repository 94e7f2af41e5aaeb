//! Namespaces that every sandbox has alike, for a process that is to become one.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::fd::AsRawFd;

use super::last;

const HOSTNAME: &[u8] = b"sandbox";

/// Leaves the host's network, shared memory and host name for new ones: a loopback device and nothing else.
/// `PERM` without the rights; then nothing has changed.
pub fn leave_host() -> Result<(), Errno> {
    // SAFETY: takes an integer; the process has one thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS) })?;
    // SAFETY: the name outlives the call.
    check(unsafe { libc::sethostname(HOSTNAME.as_ptr().cast(), HOSTNAME.len()) })?;
    raise_loopback()
}

/// A copy of the mounts, of which nobody else sees what becomes. `PERM` without the rights.
pub fn leave_mounts() -> Result<(), Errno> {
    // SAFETY: takes an integer; the process has one thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })
}

/// The kernel gives the device its addresses when it goes up.
fn raise_loopback() -> Result<(), Errno> {
    let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: zeros are a valid ifreq, whose name `lo` is terminated by the next of them; the kernel reads it during the call.
    unsafe {
        let mut request = std::mem::zeroed::<libc::ifreq>();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        check(libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &request))
    }
}

fn check(result: libc::c_int) -> Result<(), Errno> {
    if result == -1 { Err(last()) } else { Ok(()) }
}

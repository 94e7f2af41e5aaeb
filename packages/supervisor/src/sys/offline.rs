//! Takes the network from a namespace that an engine has made with one.

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::os::fd::{AsRawFd, OwnedFd};

use super::last;

/// Deletes every network device but the loopback. One that cannot be deleted, as a device of hardware, is lowered; an error where one
/// is up after that. Needs `CAP_NET_ADMIN`.
pub fn remove_devices() -> Result<(), Errno> {
    let control = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let links = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    for device in devices()? {
        // A device that another one takes with it, as the other end of a pair, is gone by now.
        match flags(&control, &device) {
            Ok(flags) if flags & libc::IFF_LOOPBACK != 0 => {}
            Ok(_) if delete(&links, device.index).is_err() => lower(&control, &device)?,
            Ok(_) | Err(Errno::NODEV) => {}
            Err(error) => return Err(error),
        }
    }
    for device in devices()? {
        let flags = flags(&control, &device)?;
        if flags & libc::IFF_LOOPBACK == 0 && flags & libc::IFF_UP != 0 {
            return Err(Errno::BUSY);
        }
    }
    Ok(())
}

struct Device {
    index: u32,
    request: libc::ifreq,
}

fn devices() -> Result<Vec<Device>, Errno> {
    // SAFETY: the list ends with an index of zero, its names are terminated and shorter than IFNAMSIZ, and it is freed once.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return Err(last());
        }
        let mut found = Vec::new();
        let mut entry = list;
        while (*entry).if_index != 0 {
            let mut request = std::mem::zeroed::<libc::ifreq>();
            libc::strncpy(request.ifr_name.as_mut_ptr(), (*entry).if_name, libc::IFNAMSIZ - 1);
            found.push(Device { index: (*entry).if_index, request });
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
        Ok(found)
    }
}

fn flags(control: &OwnedFd, device: &Device) -> Result<libc::c_int, Errno> {
    let mut request = device.request;
    // SAFETY: the kernel reads the name and writes the flags during the call.
    unsafe {
        if libc::ioctl(control.as_raw_fd(), libc::SIOCGIFFLAGS as libc::Ioctl, &mut request) == -1 {
            return Err(last());
        }
        Ok(libc::c_int::from(request.ifr_ifru.ifru_flags))
    }
}

fn lower(control: &OwnedFd, device: &Device) -> Result<(), Errno> {
    let mut request = device.request;
    request.ifr_ifru.ifru_flags = 0;
    // SAFETY: the kernel reads the request during the call.
    let lowered = unsafe { libc::ioctl(control.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &request) };
    if lowered == -1 { Err(last()) } else { Ok(()) }
}

const HEADER: usize = 16;
const LENGTH: usize = HEADER + 16;

/// `RTM_DELLINK` of rtnetlink(7): a header, and an `ifinfomsg` with the index. The kernel acknowledges with an errno, zero for success.
fn delete(links: &OwnedFd, index: u32) -> Result<(), Errno> {
    let mut message = [0u8; LENGTH];
    message[0..4].copy_from_slice(&(LENGTH as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&libc::RTM_DELLINK.to_ne_bytes());
    message[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    message[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    send(links, &message, SendFlags::empty())?;
    let mut answer = [0u8; 1024];
    let (length, _) = recv(links, &mut answer[..], RecvFlags::empty())?;
    match answer.get(HEADER..HEADER + 4) {
        Some(code) if length >= HEADER + 4 => match i32::from_ne_bytes([code[0], code[1], code[2], code[3]]) {
            0 => Ok(()),
            errno => Err(Errno::from_raw_os_error(-errno)),
        },
        _ => Err(Errno::BADMSG),
    }
}

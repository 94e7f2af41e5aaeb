//! One TCP connection to a program of the sandbox, as a channel carries it.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, connect, shutdown, socket_with, sockopt};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::channel::Interest;

/// Where programs listen that listen on the loopback only. Development servers choose either.
const HOSTS: [SocketAddr; 2] = [
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
    SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 0),
];

pub struct Tunnel {
    /// 0 for one that a program of the sandbox has begun.
    pub port: u16,
    /// Of such a one until the agent has taken it: the time until which the agent is tried. Nothing is read of it meanwhile.
    pub untaken: Option<u64>,
    fd: Option<OwnedFd>,
    /// How many of `HOSTS` have been tried.
    tried: usize,
    is_open: bool,
    /// Bytes of the channel that the program has not taken. At most one read: the channel is not read meanwhile.
    pending: Vec<u8>,
    pending_sent: usize,
    /// No more bytes come from the channel.
    input_ended: bool,
    is_shut: bool,
    /// The program sends no more bytes.
    output_ended: bool,
    /// What broke the connection.
    broken: Option<Errno>,
    /// What epoll is told about the connection; `None`: nothing, it is not among what is polled.
    pub interest: Option<Interest>,
}

/// What an attempt to connect has come to.
#[derive(Debug, PartialEq, Eq)]
pub enum Attempt {
    Open,
    /// The connection tells when it is there.
    Waits,
    Failed(Errno),
}

/// What a read of the connection has brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Got {
    Bytes(usize),
    Nothing,
    End,
}

impl Tunnel {
    pub fn new(port: u16) -> Tunnel {
        Tunnel {
            port,
            untaken: None,
            fd: None,
            tried: 0,
            is_open: false,
            pending: Vec::new(),
            pending_sent: 0,
            input_ended: false,
            is_shut: false,
            output_ended: false,
            broken: None,
            interest: None,
        }
    }

    /// Of a connection that a program of the sandbox has begun.
    pub fn accepted(fd: OwnedFd, untaken: u64) -> Tunnel {
        Tunnel { fd: Some(fd), is_open: true, untaken: Some(untaken), ..Tunnel::new(0) }
    }

    pub fn into_fd(self) -> Option<OwnedFd> {
        self.fd
    }

    pub fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The address that was tried last.
    pub fn host(&self) -> String {
        HOSTS[self.tried.clamp(1, HOSTS.len()) - 1].ip().to_string()
    }

    /// Tries the next address, or tells why none is left.
    pub fn connect(&mut self) -> Attempt {
        let mut failure = Errno::CONNREFUSED;
        while self.tried < HOSTS.len() {
            let mut address = HOSTS[self.tried];
            address.set_port(self.port);
            self.tried += 1;
            self.fd = None;
            self.interest = None;
            match begin(&address) {
                Ok((fd, is_open)) => {
                    self.fd = Some(fd);
                    self.is_open = is_open;
                    return if is_open { Attempt::Open } else { Attempt::Waits };
                }
                // Of an address that this namespace does not have nothing is learnt.
                Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL | Errno::NETUNREACH) => {}
                Err(errno) => failure = errno,
            }
        }
        Attempt::Failed(failure)
    }

    /// The connection that `Attempt::Waits` was about is there, or the next address is tried.
    pub fn connected(&mut self) -> Attempt {
        let outcome = self.fd.as_ref().map(sockopt::socket_error);
        match outcome {
            Some(Ok(Ok(()))) => {
                self.is_open = true;
                Attempt::Open
            }
            // The program took the connection, and broke it off before this was looked at. Asked elsewhere nobody would listen.
            Some(Ok(Err(errno @ (Errno::CONNRESET | Errno::PIPE)))) => Attempt::Failed(errno),
            _ => self.connect(),
        }
    }

    /// Bytes of the channel. False where the program has not taken all of them: then the channel waits.
    pub fn give(&mut self, mut bytes: &[u8]) -> bool {
        if self.input_ended || self.broken.is_some() {
            return true;
        }
        if self.is_open && self.pending.is_empty() {
            match self.write(bytes) {
                Some(count) => bytes = &bytes[count..],
                None => return true,
            }
        }
        self.pending.extend_from_slice(bytes);
        self.pending.is_empty()
    }

    /// The channel has no more bytes.
    pub fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// Writes what waits. True where nothing is left of it.
    pub fn feed(&mut self) -> bool {
        let pending = std::mem::take(&mut self.pending);
        match self.write(&pending[self.pending_sent..]) {
            Some(count) if self.pending_sent + count < pending.len() => {
                self.pending_sent += count;
                self.pending = pending;
                false
            }
            _ => {
                self.pending_sent = 0;
                true
            }
        }
    }

    /// How many bytes the program has taken; `None` where it takes none any more. What it has sent can be read all the same.
    fn write(&mut self, bytes: &[u8]) -> Option<usize> {
        let fd = self.fd.as_ref()?;
        let mut sent = 0;
        while sent < bytes.len() {
            match rustix::io::write(fd, &bytes[sent..]) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    self.broken = Some(errno);
                    return None;
                }
            }
        }
        Some(sent)
    }

    /// Reads what the program has sent.
    pub fn read(&mut self, buffer: &mut [u8]) -> Got {
        let Some(fd) = self.fd.as_ref().filter(|_| !self.output_ended) else {
            return Got::Nothing;
        };
        match rustix::io::read(fd, buffer) {
            Ok(0) => {
                self.output_ended = true;
                Got::End
            }
            Ok(count) => Got::Bytes(count),
            Err(Errno::AGAIN | Errno::INTR) => Got::Nothing,
            Err(errno) => {
                self.output_ended = true;
                self.broken = Some(errno);
                Got::End
            }
        }
    }

    /// Passes the end of the channel's bytes on once the last one is written.
    pub fn shut(&mut self) {
        if self.is_open && self.input_ended && self.pending.is_empty() && !self.is_shut {
            self.is_shut = true;
            if let Some(fd) = &self.fd {
                let _ = shutdown(fd, Shutdown::Write);
            }
        }
    }

    pub fn is_over(&self) -> bool {
        self.output_ended && (self.is_shut || self.broken.is_some())
    }

    pub fn broken(&self) -> Option<Errno> {
        self.broken
    }

    /// What the connection is polled for, where the channel has room for more or not.
    pub fn wanted(&self, has_room: bool) -> Option<Interest> {
        if self.untaken.is_some() {
            return None;
        }
        let read = self.is_open && !self.output_ended && has_room;
        let write = !self.is_open || !self.pending.is_empty() && self.broken.is_none();
        (read || write).then_some(Interest { read, write })
    }

    /// The channel has broken off: the program is to see that, not an end that looks complete.
    pub fn reset(&self) {
        if let Some(fd) = &self.fd {
            let _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
        }
    }
}

fn begin(address: &SocketAddr) -> Result<(OwnedFd, bool), Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    let _ = sockopt::set_tcp_nodelay(&fd, true);
    match connect(&fd, address) {
        Ok(()) => Ok((fd, true)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok((fd, false)),
        Err(errno) => Err(errno),
    }
}

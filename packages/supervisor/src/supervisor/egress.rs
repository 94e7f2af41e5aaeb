//! The way out: connections that programs of the sandbox make to a port of its loopback, carried to the agent.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, bind, listen, socket_with, sockopt};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use super::Supervisor;
use super::tunnels::{Way, carries, tunnel_of};
use crate::channel::{Channel, Interest, Job};
use crate::network::tunnel::Tunnel;
use crate::poll::Token;
use crate::timers::Timer;
use crate::wire::fault::{Fault, Kind as FaultKind};
use crate::wire::message::Asked;
use crate::wire::{Kind, WireError};

/// Carried, and waiting for the agent. Others wait in the backlog of the kernel.
const MAX_CONNECTIONS: usize = 256;
const BACKLOG: i32 = 512;
const AGAIN: u64 = 20_000_000;
/// An agent that rests listens as soon as it is asked to; one that restarts takes longer.
const PATIENCE: u64 = 5_000_000_000;
const READ: Interest = Interest { read: true, write: false };

#[derive(Default)]
pub struct Egress {
    listener: Option<OwnedFd>,
    port: u16,
    /// Nothing is accepted until there is room, and not before this time.
    paused: Option<u64>,
    /// Accepted, with the time until which the agent is tried. The oldest first.
    waiting: VecDeque<(OwnedFd, u64)>,
}

impl Egress {
    /// Where programs connect; `None` where nobody listens.
    pub fn port(&self) -> Option<u16> {
        self.listener.as_ref().map(|_| self.port)
    }
}

impl Supervisor {
    /// Listens on a port of 127.0.0.1, or no more. What is connected goes on.
    pub(super) fn listen_for_egress(&mut self, port: Option<u16>) -> Result<(), Fault> {
        if self.egress.port() == port {
            return Ok(());
        }
        // Closed, it is polled no more.
        self.egress.listener = None;
        self.egress.paused = None;
        let Some(port) = port else { return Ok(()) };
        if port == 0 {
            return Err(Fault::new(FaultKind::BadRequest, "a port is a number from 1 to 65535"));
        }
        let listener = listener(port).map_err(|errno| {
            Fault::of(if errno == Errno::ADDRINUSE { FaultKind::Busy } else { FaultKind::Other }, errno, "listen")
        })?;
        self.poll.add(&listener, Token::Egress, READ).map_err(|errno| Fault::of(FaultKind::Other, errno, "listen"))?;
        self.egress.listener = Some(listener);
        self.egress.port = port;
        Ok(())
    }

    pub(super) fn on_egress(&mut self) {
        let mut resume_at = 0;
        while self.has_room_for_egress() {
            let Some(listener) = &self.egress.listener else { return };
            match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(connection) => {
                    let _ = sockopt::set_tcp_nodelay(&connection, true);
                    let until = self.now() + PATIENCE;
                    self.carry(connection, until);
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                // No descriptors are left.
                Err(_) => {
                    resume_at = self.now() + AGAIN;
                    self.timers.hurry(Timer::Egress, resume_at);
                    break;
                }
            }
        }
        if let Some(listener) = &self.egress.listener {
            self.poll.remove(listener);
            self.egress.paused = Some(resume_at);
        }
    }

    /// At the end of each turn of the loop: connections may have ended.
    pub(super) fn resume_egress(&mut self) {
        let is_due = self.egress.paused.is_some_and(|at| at <= self.now());
        if !is_due || !self.has_room_for_egress() {
            return;
        }
        if let Some(listener) = &self.egress.listener
            && self.poll.add(listener, Token::Egress, READ).is_ok()
        {
            self.egress.paused = None;
        }
    }

    pub(super) fn retry_egress(&mut self) {
        let now = self.now();
        for (connection, until) in std::mem::take(&mut self.egress.waiting) {
            if now < until && self.shutdown.is_none() {
                self.carry(connection, until);
            } else {
                // The program is to see a reset, not an end that looks complete.
                let _ = sockopt::set_socket_linger(&connection, Some(Duration::ZERO));
            }
        }
    }

    fn has_room_for_egress(&self) -> bool {
        let carried = self.channels.values().filter(|channel| carries(channel, Way::Out)).count();
        carried + self.egress.waiting.len() < MAX_CONNECTIONS
    }

    /// Dials the agent for one connection. An agent that does not listen is asked to, and dialled again.
    fn carry(&mut self, connection: OwnedFd, until: u64) {
        self.next_channel += 1;
        let number = self.next_channel;
        let dialled = match self.control.is_up() {
            true => self.connect(&self.hello("egress", number)),
            false => Err(Errno::NOTCONN),
        };
        let Ok(fd) = dialled else {
            self.tell(Kind::Event, &Asked { event: "egress" });
            return self.wait_again(Some(connection), until);
        };
        if self.poll.add(&fd, Token::Channel(number), READ).is_err() {
            return;
        }
        let mut channel = Channel::new(number, fd);
        channel.interest = READ;
        channel.job = Job::Tunnel(Box::new(Tunnel::accepted(connection, until)));
        self.channels.insert(number, channel);
    }

    /// The agent has taken a connection: what its program sends is read from now on.
    pub(super) fn take_egress(&mut self, number: u32) -> Result<(), WireError> {
        let tunnel = self.channels.get_mut(&number).and_then(tunnel_of);
        if tunnel.and_then(|tunnel| tunnel.untaken.take()).is_none() {
            return Err(WireError::OutOfPlace);
        }
        self.settle_tunnel(number);
        Ok(())
    }

    /// Its channel was closed before the agent had taken it, as when an agent goes to rest at that moment.
    pub(super) fn wait_again(&mut self, connection: Option<OwnedFd>, until: u64) {
        self.egress.waiting.extend(connection.map(|connection| (connection, until)));
        let at = self.now() + AGAIN;
        self.timers.hurry(Timer::Egress, at);
    }
}

fn listener(port: u16) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    listen(&fd, BACKLOG)?;
    Ok(fd)
}

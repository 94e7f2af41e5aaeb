//! Channels that carry a TCP connection to a program of the sandbox.

use rustix::io::Errno;
use serde_json::{Value, json};

use super::{READ, Supervisor};
use crate::channel::{Channel, Job};
use crate::network::listening;
use crate::network::tunnel::{Attempt, Got, Tunnel};
use crate::poll::{Happened, Token};
use crate::timers::Timer;
use crate::wire::fault::{Fault, Kind as FaultKind};
use crate::wire::message::{Dial, Dialled};
use crate::wire::{HEADER, Kind, header};

const MS: u64 = 1_000_000;
const DEFAULT_TIMEOUT_MS: u64 = 5000;
const MAX_TIMEOUT_MS: u64 = 60_000;
/// Each has up to two reads in memory, and most have none.
const MAX_TUNNELS: usize = 256;

/// The channel with its connection, where it has one.
pub(super) fn tunnel_of(channel: &mut Channel) -> Option<&mut Tunnel> {
    match &mut channel.job {
        Job::Tunnel(tunnel) => Some(tunnel),
        _ => None,
    }
}

/// Which side began a connection: the agent, or a program of the sandbox.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    In,
    Out,
}

pub(super) fn carries(channel: &Channel, way: Way) -> bool {
    matches!(&channel.job, Job::Tunnel(tunnel) if (tunnel.port == 0) == (way == Way::Out))
}

impl Supervisor {
    pub(super) fn begin_dial(&mut self, number: u32, dial: &Dial) {
        if dial.port == 0 {
            return self.refuse(number, &Fault::new(FaultKind::BadRequest, "a port is a number from 1 to 65535"));
        }
        if self.egress.port() == Some(dial.port) {
            return self.refuse(number, &Fault::new(FaultKind::Refused, "the proxy of the sandbox listens there"));
        }
        if self.shutdown.is_some() {
            return self.refuse(number, &Fault::new(FaultKind::Gone, "shutting down"));
        }
        if self.channels.values().filter(|channel| carries(channel, Way::In)).count() >= MAX_TUNNELS {
            return self.refuse(number, &Fault::new(FaultKind::Busy, "too many connections"));
        }
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let mut tunnel = Box::new(Tunnel::new(dial.port));
        let attempt = tunnel.connect();
        channel.job = Job::Tunnel(tunnel);
        let timeout = dial.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS).min(MAX_TIMEOUT_MS);
        let at = self.now() + timeout * MS;
        self.timers.set(Timer::Connect(number), at);
        self.attempted(number, attempt);
    }

    fn attempted(&mut self, number: u32, attempt: Attempt) {
        match attempt {
            Attempt::Waits => {}
            Attempt::Failed(errno) => {
                let kind = match errno {
                    Errno::CONNREFUSED => FaultKind::Refused,
                    Errno::CONNRESET | Errno::PIPE => FaultKind::Reset,
                    _ => FaultKind::Other,
                };
                return self.end_tunnel(number, Some(&Fault::of(kind, errno, "connect")));
            }
            Attempt::Open => {
                self.timers.cancel(Timer::Connect(number));
                let Some(channel) = self.channels.get_mut(&number) else {
                    return;
                };
                let Some(host) = tunnel_of(channel).map(|tunnel| tunnel.host()) else {
                    return;
                };
                channel.queue(Kind::Ready, &Dialled { host: &host });
                self.dirty.push(number);
                self.feed_tunnel(number);
            }
        }
        self.settle_tunnel(number);
    }

    pub(super) fn connect_over(&mut self, number: u32) {
        let fault = Fault::of(FaultKind::TimedOut, Errno::TIMEDOUT, "connect");
        self.end_tunnel(number, Some(&fault));
    }

    /// Bytes of the channel, or their end.
    pub(super) fn tunnel_input(&mut self, number: u32, bytes: &[u8], is_end: bool) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let Some(tunnel) = tunnel_of(channel) else { return };
        if is_end {
            tunnel.end_input();
        } else if !tunnel.give(bytes) {
            channel.paused = true;
            self.dirty.push(number);
        }
        self.settle_tunnel(number);
    }

    pub(super) fn on_tunnel(&mut self, number: u32, event: &Happened) {
        let Some(tunnel) = self.channels.get_mut(&number).and_then(tunnel_of) else {
            return;
        };
        if !tunnel.is_open() {
            if event.writable {
                let attempt = tunnel.connected();
                self.attempted(number, attempt);
            }
            return;
        }
        if event.writable {
            self.feed_tunnel(number);
        }
        if event.readable {
            self.read_tunnel(number);
        }
        self.settle_tunnel(number);
    }

    fn feed_tunnel(&mut self, number: u32) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let Some(tunnel) = tunnel_of(channel) else { return };
        if tunnel.feed() && channel.paused {
            channel.paused = false;
            self.dirty.push(number);
        }
    }

    /// Reads once, and only where the channel has sent what was read before.
    fn read_tunnel(&mut self, number: u32) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        if channel.has_pending() {
            return;
        }
        let Some(tunnel) = tunnel_of(channel) else { return };
        let got = tunnel.read(&mut self.scratch[HEADER..HEADER + READ]);
        let count = match got {
            Got::Nothing => return,
            Got::Bytes(count) => count,
            Got::End if tunnel.broken().is_some() => return,
            Got::End => 0,
        };
        self.scratch[..HEADER].copy_from_slice(&header(Kind::Stdout, count));
        channel.send_now(&self.scratch[..HEADER + count]);
        if channel.has_pending() {
            self.dirty.push(number);
        }
    }

    /// Does what follows from what has been read and written: the end of one direction, of both, and what is waited for.
    pub(super) fn settle_tunnel(&mut self, number: u32) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let has_room = !channel.has_pending();
        let Some(tunnel) = tunnel_of(channel) else { return };
        tunnel.shut();
        if tunnel.is_over() {
            let fault = tunnel.broken().map(|errno| Fault::of(FaultKind::Reset, errno, "connection"));
            return self.end_tunnel(number, fault.as_ref());
        }
        let wanted = tunnel.wanted(has_room);
        let Some(fd) = tunnel.fd().filter(|_| wanted != tunnel.interest) else {
            return;
        };
        let token = Token::Tunnel(number);
        let done = match (tunnel.interest, wanted) {
            (Some(_), None) => {
                // Polled for nothing it would still report that it is broken, again and again.
                self.poll.remove(fd);
                Ok(())
            }
            (None, Some(interest)) => self.poll.add(fd, token, interest),
            (_, Some(interest)) => self.poll.modify(fd, token, interest),
            (None, None) => Ok(()),
        };
        match done {
            Ok(()) => tunnel.interest = wanted,
            Err(errno) => self.end_tunnel(number, Some(&Fault::of(FaultKind::Other, errno, "poll"))),
        }
    }

    /// The connection is closed; its channel is idle.
    fn end_tunnel(&mut self, number: u32, fault: Option<&Fault>) {
        self.timers.cancel(Timer::Connect(number));
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        if tunnel_of(channel).is_none() {
            return;
        }
        channel.job = Job::Idle;
        channel.paused = false;
        match fault {
            Some(fault) => channel.queue(Kind::Error, fault),
            None => channel.send_now(&header(Kind::End, 0)),
        }
        self.dirty.push(number);
    }

    /// The channel has gone, and its connection with it.
    pub(super) fn abandon_tunnel(&mut self, number: u32, tunnel: &Tunnel) {
        self.timers.cancel(Timer::Connect(number));
        tunnel.reset();
    }

    pub(super) fn listening_ports(&self) -> Result<Value, Fault> {
        let mut ports = listening::ports().map_err(|errno| Fault::of(FaultKind::Other, errno, "ports"))?;
        self.egress.port().map(|port| ports.remove(&port));
        Ok(json!({ "ports": ports }))
    }
}

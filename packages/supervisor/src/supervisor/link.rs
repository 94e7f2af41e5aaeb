//! Dialling the agent: the control connection, and a stock of idle channels.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};

use std::time::Duration;

use super::{READ, Supervisor};
use crate::channel::{Channel, Interest, Job};
use crate::poll::{Happened, Token};
use crate::timers::Timer;
use crate::wire::message::{Hello, Spare, Welcome};
use crate::wire::{Ack, Decoder, Item, Kind, VERSION, WireError, object, push_json};

const FIRST_BACKOFF: u64 = 20_000_000;
/// From here on the wait grows slowly.
const SLOWER_BACKOFF: u64 = 500_000_000;
const LAST_BACKOFF: u64 = 4_000_000_000;
/// Replies waiting for a slow agent, beyond which no more calls are read.
const QUEUE: usize = 4 << 20;
const SEND_BUFFER: usize = 1 << 20;
const MAX_SPARE: usize = 256;
const PATIENCE: Duration = Duration::from_millis(200);

#[derive(Default)]
pub struct Control {
    fd: Option<OwnedFd>,
    decoder: Decoder,
    out: Vec<u8>,
    out_sent: usize,
    interest: Interest,
    welcomed: bool,
    backoff: u64,
    secret: Option<String>,
    spare: usize,
}

impl Control {
    pub fn is_up(&self) -> bool {
        self.welcomed
    }
}

/// The wait after one of `last` nanoseconds: at first twice as long, then about a fifth of the time that the agent has been away. Ten
/// thousand sandboxes that dialled twice a second would make 20,000 dials a second beside the agent that is to adopt them.
fn backoff_after(last: u64) -> u64 {
    let grown = if last < SLOWER_BACKOFF { last * 2 } else { last + last / 4 };
    grown.clamp(FIRST_BACKOFF, LAST_BACKOFF)
}

impl Supervisor {
    pub(super) fn hello(&self, kind: &str, channel: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(192);
        let secret = self.control.secret.as_deref();
        let control = kind == "control";
        let boot = control.then_some(self.boot.as_str());
        let spares = control.then_some(true);
        let watches = control.then_some(true);
        // Both need sockets of the loopback.
        let dials = control.then_some(self.config.inet);
        let egress = control.then_some(self.config.inet);
        push_json(
            &mut out,
            Kind::Hello,
            &Hello {
                version: VERSION,
                kind,
                channel,
                pid: std::process::id(),
                secret,
                boot,
                spares,
                watches,
                dials,
                egress,
            },
        );
        out
    }

    pub(super) fn connect(&self, hello: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let _ = sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER);
        connect(&fd, &SocketAddrUnix::new(&self.config.socket)?)?;
        // A new socket's buffer is empty: a hello always fits.
        match rustix::io::write(&fd, hello)? == hello.len() {
            true => Ok(fd),
            false => Err(Errno::AGAIN),
        }
    }

    pub(super) fn dial(&mut self) {
        if self.control.fd.is_some() {
            return;
        }
        let interest = Interest { read: true, write: false };
        let dialled = self.connect(&self.hello("control", 0)).and_then(|fd| {
            self.poll.add(&fd, Token::Control, interest)?;
            Ok(fd)
        });
        match dialled {
            Ok(fd) => {
                self.control.fd = Some(fd);
                self.control.interest = interest;
            }
            Err(_) => self.dial_later(),
        }
    }

    fn dial_later(&mut self) {
        self.control.backoff = backoff_after(self.control.backoff);
        let at = self.now() + self.control.backoff;
        self.timers.set(Timer::Dial, at);
    }

    /// The agent is gone. Processes go on; the next control link takes over.
    pub(super) fn lose_control(&mut self) {
        let was_up = self.control.welcomed;
        let old = std::mem::take(&mut self.control);
        self.control.secret = old.secret;
        self.control.backoff = old.backoff;
        for process in self.processes.values_mut() {
            process.waits.clear();
        }
        self.stop_orphan_clocks();
        // At once after a link that worked; one that was refused has to wait, or two supervisors would fight.
        if was_up {
            self.control.backoff = 0;
            self.dial();
        } else {
            self.dial_later();
        }
    }

    pub(super) fn on_control(&mut self, event: &Happened) {
        if !event.readable {
            return;
        }
        let Some(fd) = &self.control.fd else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = match rustix::io::read(fd, &mut scratch[..READ]) {
            Ok(0) => Err(None),
            Ok(count) => self.control_input(&scratch[..count]).map_err(Some),
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(_) => Err(None),
        };
        self.scratch = scratch;
        if outcome.is_err() {
            self.lose_control();
        }
    }

    fn control_input(&mut self, mut input: &[u8]) -> Result<(), WireError> {
        let mut decoder = std::mem::take(&mut self.control.decoder);
        while let Some(item) = decoder.next(&mut input)? {
            match item {
                Item::Frame { kind: Kind::Ack, payload } => self.acknowledge(Ack::parse(payload)?),
                Item::Frame { kind: Kind::Call, payload } => self.call(payload)?,
                Item::Frame { kind: Kind::Welcome, payload } => self.welcome(object(payload)?)?,
                Item::Frame { kind: Kind::Spare, payload } => self.spare(object(payload)?)?,
                _ => return Err(WireError::OutOfPlace),
            }
        }
        self.control.decoder = decoder;
        Ok(())
    }

    fn welcome(&mut self, welcome: Welcome) -> Result<(), WireError> {
        if self.control.welcomed {
            return Err(WireError::OutOfPlace);
        }
        self.control.welcomed = true;
        self.control.backoff = 0;
        self.control.spare = welcome.spare.min(MAX_SPARE);
        // Only the first link may set it: whoever could later pose as the agent must not replace it.
        if self.control.secret.is_none() {
            self.control.secret = welcome.secret;
        }
        self.start_orphan_clocks();
        Ok(())
    }

    /// They are dialled at the end of this turn. Those that are too many the agent closes.
    fn spare(&mut self, spare: Spare) -> Result<(), WireError> {
        if !self.control.welcomed {
            return Err(WireError::OutOfPlace);
        }
        self.control.spare = spare.n.min(MAX_SPARE);
        Ok(())
    }

    /// Dials what is missing.
    pub(super) fn keep_spares(&mut self) {
        if !self.control.welcomed || self.shutdown.is_some() {
            return;
        }
        let mut idle = self.channels.values().filter(|channel| channel.is_idle()).count();
        while idle < self.control.spare {
            self.next_channel += 1;
            let number = self.next_channel;
            let interest = Interest { read: true, write: false };
            let Ok(fd) = self.connect(&self.hello("channel", number)) else {
                return self.try_spares_later();
            };
            if self.poll.add(&fd, Token::Channel(number), interest).is_err() {
                return self.try_spares_later();
            }
            let mut channel = Channel::new(number, fd);
            channel.interest = interest;
            self.channels.insert(number, channel);
            idle += 1;
        }
    }

    /// The agent's queue is full or it is gone; its end of the control link tells which.
    fn try_spares_later(&mut self) {
        let at = self.now() + FIRST_BACKOFF;
        self.timers.set(Timer::Dial, at);
    }

    pub(super) fn tell<T: serde::Serialize>(&mut self, kind: Kind, message: &T) {
        if self.control.welcomed {
            push_json(&mut self.control.out, kind, message);
        }
    }

    pub(super) fn flush_control(&mut self) {
        let control = &mut self.control;
        let Some(fd) = &control.fd else { return };
        let mut broken = false;
        while control.out_sent < control.out.len() {
            match rustix::io::write(fd, &control.out[control.out_sent..]) {
                Ok(count) => control.out_sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        let left = control.out.len() - control.out_sent;
        if left == 0 {
            control.out_sent = 0;
            control.out.clear();
            if control.out.capacity() > 16 << 10 {
                control.out = Vec::new();
            }
        }
        let wanted = Interest { read: left < QUEUE, write: left > 0 };
        if wanted != control.interest && self.poll.modify(fd, Token::Control, wanted).is_ok() {
            control.interest = wanted;
        }
        if broken {
            self.lose_control();
        }
    }

    /// The last words before the end, written even where the agent is slow to read them.
    pub(super) fn say_goodbye(&mut self) {
        let channels = self.channels.values().filter(|channel| !matches!(channel.job, Job::File));
        for fd in channels.filter_map(|channel| channel.fd.as_ref()).chain(self.control.fd.as_ref()) {
            let _ = rustix::io::ioctl_fionbio(fd, false);
            let _ = sockopt::set_socket_timeout(fd, sockopt::Timeout::Send, Some(PATIENCE));
        }
        self.flush_dirty();
        self.flush_control();
        let until = self.clock.elapsed() + PATIENCE;
        while self.abort_files() > 0 && self.clock.elapsed() < until {
            self.poll.wait(Some(50_000_000));
            self.on_threads();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_BACKOFF, LAST_BACKOFF, backoff_after};

    #[test]
    fn a_wait_is_at_most_half_a_second_and_a_quarter_of_the_absence() {
        let (mut away, mut wait) = (0, 0);
        while away < 60_000_000_000 {
            wait = backoff_after(wait);
            assert!(wait >= FIRST_BACKOFF);
            assert!(wait <= LAST_BACKOFF.min(500_000_000 + away / 4), "{wait} ns after {away} ns");
            away += wait;
        }
        assert_eq!(wait, LAST_BACKOFF);
    }
}

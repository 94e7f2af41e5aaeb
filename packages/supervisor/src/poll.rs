//! What the loop waits for, and how its events are named.

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

use crate::channel::Interest;

/// Names instead of descriptors: a number in an old event can never mean something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Signal,
    Threads,
    Control,
    Channel(u32),
    /// Stream 0 or 1 of a process by serial.
    Output(u32, usize),
    Stdin(u32),
    /// Output of what outlives an ended process, dropped.
    Sink(u32),
    /// The connection that a channel carries.
    Tunnel(u32),
    /// Where programs of the sandbox connect to get out.
    Egress,
}

impl Token {
    fn encode(self) -> u64 {
        let (kind, number) = match self {
            Token::Signal => (0, 0),
            Token::Threads => (1, 0),
            Token::Control => (2, 0),
            Token::Channel(number) => (3, number),
            Token::Output(serial, 0) => (4, serial),
            Token::Output(serial, _) => (5, serial),
            Token::Stdin(serial) => (6, serial),
            Token::Sink(number) => (7, number),
            Token::Tunnel(number) => (8, number),
            Token::Egress => (9, 0),
        };
        kind << 32 | u64::from(number)
    }

    fn decode(code: u64) -> Token {
        let number = code as u32;
        match code >> 32 {
            0 => Token::Signal,
            1 => Token::Threads,
            2 => Token::Control,
            3 => Token::Channel(number),
            4 => Token::Output(number, 0),
            5 => Token::Output(number, 1),
            6 => Token::Stdin(number),
            7 => Token::Sink(number),
            8 => Token::Tunnel(number),
            _ => Token::Egress,
        }
    }
}

pub struct Happened {
    pub token: Token,
    pub readable: bool,
    pub writable: bool,
}

pub struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poll {
    pub fn new() -> Result<Poll, Errno> {
        Ok(Poll { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(64) })
    }

    pub fn add(&self, fd: impl AsFd, token: Token, interest: Interest) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token.encode()), flags(interest))
    }

    pub fn modify(&self, fd: impl AsFd, token: Token, interest: Interest) -> Result<(), Errno> {
        epoll::modify(&self.epoll, fd, EventData::new_u64(token.encode()), flags(interest))
    }

    pub fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits at most `timeout` nanoseconds; `None` waits for ever.
    pub fn wait(&mut self, timeout: Option<u64>) -> Vec<Happened> {
        let timeout = timeout.map(|ns| {
            // epoll counts milliseconds: rounded up, or the loop would spin until the time is there.
            let ms = ns.div_ceil(1_000_000).min(3_600_000);
            Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 }
        });
        self.events.clear();
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref());
        let happened = self.events.iter().map(|event| {
            let flags = event.flags;
            let broken = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            Happened {
                token: Token::decode(event.data.u64()),
                readable: broken || flags.contains(EventFlags::IN),
                writable: broken || flags.contains(EventFlags::OUT),
            }
        });
        happened.collect()
    }
}

fn flags(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, interest.read);
    flags.set(EventFlags::OUT, interest.write);
    flags
}

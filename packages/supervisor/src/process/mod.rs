//! One started program: its streams, readers and end. The deciding parts have no clock and no I/O.

pub mod oom;
pub mod pty;
pub mod ring;
pub mod signals;
pub mod spawn;
pub mod tag;

use rustix::fd::OwnedFd;
use serde_json::Value;
use std::collections::VecDeque;

use crate::process::ring::{MAX, Ring};
use crate::wire::message::{Exit, From, Position, Reason, Size};

/// Unacknowledged bytes per stream beyond which a pipe with readers is left alone.
pub const WINDOW: u64 = 768 << 10;
/// Stdin kept for a program that does not read.
pub const STDIN_HIGH: usize = 512 << 10;
pub const STDIN_LOW: usize = 256 << 10;
/// How long the pipes of an ended process are waited for, in nanoseconds.
pub const DRAIN: u64 = 250_000_000;

#[derive(Default)]
pub struct Stream {
    pub ring: Ring,
    pub fd: Option<OwnedFd>,
    pub watched: bool,
    /// The highest offset that any reader ever acknowledged.
    pub delivered: u64,
    /// How much the next read asks for; grows with a stream that fills it.
    pub burst: usize,
    pub enlarged: bool,
    /// Where the stream stood, pipe included, when the main process ended.
    pub owed: u64,
}

#[derive(Default)]
pub struct Stdin {
    pub fd: Option<OwnedFd>,
    pub buffer: VecDeque<u8>,
    pub accepted: u64,
    pub ending: bool,
    pub watched: bool,
}

pub struct Reader {
    pub channel: u32,
    pub acknowledged: [u64; 2],
}

/// How the main process ended, as `waitpid` told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Exited(i32),
    Signaled(i32),
}

/// The clock of `orphan_ms`, which stands while the agent is away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Orphan {
    No,
    Until(u64),
    Standing(u64),
}

/// A kill under way, or done.
pub struct Ending {
    pub reason: Reason,
    pub cause: Option<String>,
    pub kill_at: u64,
    pub steps: u32,
    pub gone: bool,
}

pub struct Wait {
    pub rid: Value,
    pub stream: usize,
    pub offset: u64,
    pub until: u64,
}

/// What is known once the main process has been reaped.
pub struct Outcome {
    pub status: Status,
    pub reason: Reason,
    pub cause: Option<String>,
    pub oom: bool,
    pub at: u64,
}

pub struct Process {
    pub serial: u32,
    pub id: String,
    pub fingerprint: String,
    pub meta: String,
    pub pid: i32,
    pub tag: Option<u64>,
    pub pty: Option<Size>,
    pub detach: bool,
    pub orphan_ms: Option<u64>,
    pub orphan: Orphan,
    pub grace_ms: u64,
    pub started: u64,
    pub started_ms: u64,
    pub ended: u64,
    pub ended_ms: Option<u64>,
    pub oom_kills: u64,
    /// False while the output of a quiet process is left in its pipes.
    pub looked: bool,
    pub streams: [Stream; 2],
    pub stdin: Stdin,
    pub readers: Vec<Reader>,
    pub waits: Vec<Wait>,
    pub ending: Option<Ending>,
    pub outcome: Option<Outcome>,
    pub drain_left: u64,
    pub drain_since: Option<u64>,
    pub exit: Option<Exit>,
}

impl Process {
    /// How many bytes of a stream may be read now.
    pub fn allowance(&self, stream: usize) -> usize {
        let Stream { ring, delivered, .. } = &self.streams[stream];
        let fastest = self.readers.iter().map(|reader| reader.acknowledged[stream]).max();
        let (from, limit) = match fastest {
            Some(acknowledged) => (acknowledged, WINDOW),
            None if self.detach => return MAX,
            None => (*delivered, MAX as u64),
        };
        limit.saturating_sub(ring.end() - from.min(ring.end())) as usize
    }

    pub fn acknowledge(&mut self, channel: u32, offsets: [u64; 2]) -> bool {
        let Some(reader) = self.readers.iter_mut().find(|reader| reader.channel == channel) else {
            return false;
        };
        for (s, stream) in self.streams.iter_mut().enumerate() {
            let offset = offsets[s].min(stream.ring.end());
            reader.acknowledged[s] = reader.acknowledged[s].max(offset);
            stream.delivered = stream.delivered.max(offset);
        }
        true
    }

    /// Where a reader that asks for `wanted` begins; `None` where that is in the future.
    pub fn begin(&self, wanted: [From; 2]) -> Option<[u64; 2]> {
        let mut offsets = [0; 2];
        for (s, stream) in self.streams.iter().enumerate() {
            offsets[s] = match wanted[s] {
                From::End(_) => stream.ring.end(),
                From::Offset(offset) if offset > stream.ring.end() => return None,
                From::Offset(offset) => offset.max(stream.ring.oldest()),
            };
        }
        Some(offsets)
    }

    pub fn position(&self, stream: usize, offset: u64) -> Position {
        let ring = &self.streams[stream].ring;
        Position { offset, oldest: ring.oldest(), end: ring.end() }
    }

    pub fn is_running(&self) -> bool {
        self.exit.is_none()
    }

    /// Its own process group may be signalled: the main process is not reaped, so its number is still its own.
    pub fn group(&self) -> Option<i32> {
        (self.exit.is_none() && self.outcome.is_none() && self.pid > 1).then_some(self.pid)
    }

    pub fn is_drained(&self) -> bool {
        self.streams.iter().all(|stream| stream.fd.is_none())
    }

    /// Something that the main process may have written is still in its pipe because nobody takes it: the drain's clock
    /// stands. For what comes behind it, from children that outlive it, the clock goes on.
    pub fn is_held_up(&self) -> bool {
        (0..2).any(|s| {
            let stream = &self.streams[s];
            stream.fd.is_some() && stream.ring.end() < stream.owed && self.allowance(s) == 0
        })
    }

    /// The channel whose stdin counts; on a terminal everybody's does.
    pub fn takes_stdin_of(&self, channel: u32) -> bool {
        self.pty.is_some() || self.readers.last().is_some_and(|reader| reader.channel == channel)
    }

    pub fn stream_is_over(&self, stream: usize) -> bool {
        self.exit.is_some() || self.outcome.is_some() && self.streams[stream].fd.is_none()
    }

    pub fn ring_bytes(&self) -> usize {
        self.streams.iter().map(|stream| stream.ring.memory_bytes()).sum()
    }

    /// How the end of the main process is told.
    pub fn judge(&self, status: Status, oom: bool) -> (Reason, Option<String>, bool) {
        if let Some(ending) = &self.ending {
            return (ending.reason, ending.cause.clone(), false);
        }
        match status {
            Status::Exited(_) => (Reason::Exited, None, false),
            Status::Signaled(libc::SIGKILL) if oom => (Reason::OomKilled, None, true),
            Status::Signaled(_) => (Reason::Signaled, None, false),
        }
    }
}

//! A connection that carries one operation at a time, and how a process's output leaves on it.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io::IoSlice;

use crate::network::tunnel::Tunnel;
use crate::process::Process;
use crate::wire::{Decoder, Kind, header, push_bytes, push_json};

/// The payload of one large data frame.
const FRAME: usize = 256 << 10;
/// Up to here, output is copied together with what comes before and after it, to leave in one write.
const SMALL: usize = 16 << 10;

pub enum Job {
    Idle,
    Reader(Reading),
    /// A thread has the descriptor.
    File,
    Tunnel(Box<Tunnel>),
}

pub struct Reading {
    pub serial: u32,
    pub sent: [u64; 2],
    /// A data frame whose header is out: stream and bytes to go, taken from the ring.
    frame: Option<(usize, usize)>,
    exit_queued: bool,
}

pub struct Channel {
    pub number: u32,
    pub fd: Option<OwnedFd>,
    pub decoder: Decoder,
    pub job: Job,
    pub interest: Interest,
    pub paused: bool,
    /// Closed once everything in `out` has left.
    pub closing: bool,
    out: Vec<u8>,
    out_sent: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Flushed {
    /// All that there is has left.
    All,
    /// So has the exit: the channel is idle.
    Exit,
    Blocked,
    Dead,
}

impl Reading {
    pub fn new(serial: u32, sent: [u64; 2]) -> Reading {
        Reading { serial, sent, frame: None, exit_queued: false }
    }
}

impl Channel {
    pub fn new(number: u32, fd: OwnedFd) -> Channel {
        Channel {
            number,
            fd: Some(fd),
            decoder: Decoder::default(),
            job: Job::Idle,
            interest: Interest::default(),
            paused: false,
            closing: false,
            out: Vec::new(),
            out_sent: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.job, Job::Idle)
    }

    pub fn queue<T: serde::Serialize>(&mut self, kind: Kind, message: &T) {
        push_json(&mut self.out, kind, message);
    }

    /// Writes a frame at once; what the socket does not take waits. A socket that is broken is met by the next `flush`.
    pub fn send_now(&mut self, frame: &[u8]) {
        let written = match &self.fd {
            Some(fd) if !self.has_pending() => rustix::io::write(fd, frame).unwrap_or(0),
            _ => 0,
        };
        self.out.extend_from_slice(&frame[written..]);
    }

    pub fn has_pending(&self) -> bool {
        self.out_sent < self.out.len()
    }

    /// The ring is about to forget what this reader has not got. A frame already begun is completed from a copy, so that
    /// the channel stays usable. True where the reader falls behind.
    pub fn falls_behind(&mut self, process: &Process, oldest: [u64; 2]) -> bool {
        let Job::Reader(reading) = &mut self.job else {
            return false;
        };
        if (0..2).all(|s| reading.sent[s] >= oldest[s]) {
            return false;
        }
        if let Some((stream, left)) = reading.frame.take() {
            for part in process.streams[stream].ring.slices(reading.sent[stream], left) {
                self.out.extend_from_slice(part);
            }
        }
        true
    }

    /// Writes until nothing is left or the socket is full.
    pub fn flush(&mut self, process: Option<&Process>) -> Flushed {
        let Some(fd) = &self.fd else {
            return Flushed::All;
        };
        loop {
            let mut body = [IoSlice::new(&[]), IoSlice::new(&[])];
            if let (Job::Reader(reading), Some(process)) = (&mut self.job, process) {
                // A slow reader's output stays in the ring, where it is bounded.
                if reading.frame.is_none() && self.out.len() - self.out_sent < SMALL {
                    compose(&mut self.out, reading, process);
                }
                if let Some((stream, left)) = reading.frame {
                    body = process.streams[stream].ring.io_slices(reading.sent[stream], left);
                }
            }
            let pending = &self.out[self.out_sent..];
            let [first, second] = body;
            if pending.is_empty() && first.is_empty() {
                self.out.clear();
                self.out_sent = 0;
                if self.out.capacity() > SMALL / 4 {
                    self.out = Vec::new();
                }
                let over = matches!(&self.job, Job::Reader(reading) if reading.exit_queued);
                return if over { Flushed::Exit } else { Flushed::All };
            }
            let written = if first.is_empty() {
                rustix::io::write(fd, pending)
            } else {
                rustix::io::writev(fd, &[IoSlice::new(pending), first, second])
            };
            let mut count = match written {
                Ok(count) => count,
                Err(Errno::AGAIN) => return Flushed::Blocked,
                Err(Errno::INTR) => continue,
                Err(_) => return Flushed::Dead,
            };
            let from_out = count.min(pending.len());
            self.out_sent += from_out;
            count -= from_out;
            if let Job::Reader(reading) = &mut self.job
                && let Some((stream, left)) = reading.frame
            {
                reading.sent[stream] += count as u64;
                reading.frame = (count < left).then_some((stream, left - count));
            }
        }
    }
}

/// Puts what may leave next into `out`: small data whole, of large data the header, and the exit behind the last byte.
fn compose(out: &mut Vec<u8>, reading: &mut Reading, process: &Process) {
    for stream in [0, 1] {
        let ring = &process.streams[stream].ring;
        let ready = (ring.end() - reading.sent[stream]) as usize;
        let kind = if stream == 0 { Kind::Stdout } else { Kind::Stderr };
        if ready > SMALL {
            let count = ready.min(FRAME);
            out.extend_from_slice(&header(kind, count));
            reading.frame = Some((stream, count));
            return;
        }
        if ready > 0 {
            let [first, second] = ring.slices(reading.sent[stream], ready);
            if second.is_empty() {
                push_bytes(out, kind, first);
            } else {
                push_bytes(out, kind, &[first, second].concat());
            }
            reading.sent[stream] += ready as u64;
        }
    }
    if let Some(exit) = process.exit.as_ref().filter(|_| !reading.exit_queued) {
        push_json(out, Kind::Exit, exit);
        reading.exit_queued = true;
    }
}

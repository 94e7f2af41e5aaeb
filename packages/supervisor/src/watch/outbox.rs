//! What one watch has to say and its channel has not taken yet, never more than a bound.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use serde::Serialize;

use crate::wire::fault::Fault;
use crate::wire::file_name;
use crate::wire::{Kind, push_bytes, push_json};

/// Of lines that wait. Above it they are dropped, and one `overflow` says so.
const MAX_WAITING: usize = 256 << 10;
const OVERFLOW: &[u8] = b"{\"e\":\"overflow\"}\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    Create,
    Write,
    Remove,
    Rename,
    Chmod,
}

#[derive(Serialize)]
struct Line<'a> {
    e: Change,
    p: &'a str,
    d: bool,
}

#[derive(Default)]
pub struct Outbox {
    /// Frames of which the first `sent` bytes are gone.
    frames: Vec<u8>,
    sent: usize,
    /// Lines that are in no frame yet.
    lines: Vec<u8>,
    /// Where the last line begins.
    last: usize,
    overflowed: bool,
    ended: bool,
}

impl Outbox {
    pub fn begin(&mut self) {
        push_json(&mut self.frames, Kind::Result, &serde_json::json!({}));
    }

    pub fn change(&mut self, e: Change, path: &[u8], d: bool) {
        if self.overflowed || self.ended {
            return;
        }
        let start = self.lines.len();
        if serde_json::to_writer(&mut self.lines, &Line { e, p: &file_name::text(path), d }).is_err() {
            return self.lines.truncate(start);
        }
        self.lines.push(b'\n');
        // Each call that writes to a file is one event.
        if self.lines[self.last..start] == self.lines[start..] {
            return self.lines.truncate(start);
        }
        self.last = start;
        if self.lines.len() > MAX_WAITING {
            self.overflow();
        }
    }

    /// Drops what waits: the reader has to look for itself.
    pub fn overflow(&mut self) {
        if self.overflowed || self.ended {
            return;
        }
        self.lines.clear();
        self.lines.extend_from_slice(OVERFLOW);
        self.last = 0;
        self.overflowed = true;
    }

    /// The last frame: `end`, or why it ends.
    pub fn end(&mut self, fault: Option<&Fault>) {
        if self.ended {
            return;
        }
        self.frame_lines();
        self.ended = true;
        match fault {
            Some(fault) => push_json(&mut self.frames, Kind::Error, fault),
            None => push_bytes(&mut self.frames, Kind::End, &[]),
        }
    }

    pub fn is_waiting(&self) -> bool {
        self.sent < self.frames.len() || !self.lines.is_empty()
    }

    /// The last frame has left.
    pub fn is_over(&self) -> bool {
        self.ended && !self.is_waiting()
    }

    /// Writes what the channel takes without waiting. An error where the channel is gone.
    pub fn flush(&mut self, fd: &OwnedFd) -> Result<(), Errno> {
        loop {
            if self.sent == self.frames.len() {
                self.frames.clear();
                self.sent = 0;
                self.frame_lines();
            }
            if self.frames.is_empty() {
                return Ok(());
            }
            match send(fd, &self.frames[self.sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    fn frame_lines(&mut self) {
        if !self.lines.is_empty() {
            push_bytes(&mut self.frames, Kind::Stdout, &self.lines);
            self.lines.clear();
        }
        self.last = 0;
        self.overflowed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn a_reader_that_stands_still_costs_a_bounded_amount_and_gets_one_overflow() {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
                .unwrap();
        let mut outbox = Outbox::default();
        for number in 0..200_000 {
            outbox.change(Change::Create, format!("some/directory/file-{number}").as_bytes(), false);
            if number % 100 == 0 {
                outbox.flush(&ours).unwrap();
            }
            assert!(outbox.frames.len() + outbox.lines.len() <= 2 * MAX_WAITING + 1024);
        }
        let mut got = Vec::new();
        let mut chunk = vec![0; 64 << 10];
        while outbox.is_waiting() {
            outbox.flush(&ours).unwrap();
            while let Ok(count @ 1..) = rustix::io::read(&theirs, &mut *chunk) {
                got.extend_from_slice(&chunk[..count]);
            }
        }
        let overflows = got.windows(OVERFLOW.len()).filter(|window| *window == OVERFLOW).count();
        assert_eq!(overflows, 1);
        outbox.change(Change::Write, b"later", false);
        assert!(outbox.is_waiting(), "events come again afterwards");
    }

    #[test]
    fn equal_events_in_a_row_are_one() {
        let mut outbox = Outbox::default();
        for _ in 0..3 {
            outbox.change(Change::Write, b"a", false);
        }
        outbox.change(Change::Write, b"b", false);
        outbox.change(Change::Write, b"a", false);
        assert_eq!(outbox.lines.iter().filter(|byte| **byte == b'\n').count(), 3);
    }
}

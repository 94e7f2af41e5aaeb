//! From the pipes into the rings.

use rustix::io::Errno;

use super::{READ, Supervisor};
use crate::channel::Interest;
use crate::poll::Token;
use crate::process::Process;

/// What one stream may take of one turn of the loop.
const SLICE: usize = 256 << 10;
const FIRST_READ: usize = 4 << 10;
/// A stream with this much output gets a larger pipe.
const BUSY: u64 = 64 << 10;
const PIPE: usize = 1 << 20;

#[derive(PartialEq, Eq)]
enum Got {
    Bytes,
    Empty,
    End,
    /// The window is closed or the slice used up.
    Enough,
}

impl Supervisor {
    pub(super) fn on_output(&mut self, serial: u32, stream: usize) {
        self.pump(serial, stream);
        self.after_output(serial);
    }

    /// Reads a slice of one stream. True where it has been read empty.
    fn pump(&mut self, serial: u32, stream: usize) -> bool {
        let mut taken = 0;
        loop {
            let Some(process) = self.processes.get_mut(&serial) else {
                return true;
            };
            let room = room(process, stream).min(SLICE - taken);
            // Only a reader slower than the fastest, or any of a detached process, can be overtaken.
            if process.readers.len() > 1 || process.detach {
                let mut oldest = [0, 1].map(|s| process.streams[s].ring.oldest());
                oldest[stream] = process.streams[stream].ring.oldest_after(room);
                self.drop_slow_readers(serial, oldest);
            }
            let Some(process) = self.processes.get_mut(&serial) else {
                return true;
            };
            match read(process, stream, room, &mut taken) {
                Got::Bytes => {}
                Got::Enough => return false,
                Got::Empty => return true,
                Got::End => {
                    // Closing it, before the next wait, takes it out of epoll: nobody else holds this descriptor.
                    self.spent.extend(process.streams[stream].fd.take());
                    process.streams[stream].watched = false;
                    return true;
                }
            }
        }
    }

    /// Reads everything that can be read now: what an ended process left behind.
    pub(super) fn pump_dry(&mut self, serial: u32) {
        for stream in [0, 1] {
            // A background child may write without end; the ring's length is enough for what the main process wrote.
            for _ in 0..8 {
                if self.pump(serial, stream) {
                    break;
                }
            }
        }
    }

    fn after_output(&mut self, serial: u32) {
        self.mark_readers_dirty(serial);
        self.go_on(serial);
        if self.processes.get(&serial).is_some_and(|process| !process.waits.is_empty()) {
            self.answer_waits(serial);
        }
    }

    pub(super) fn mark_readers_dirty(&mut self, serial: u32) {
        if let Some(process) = self.processes.get(&serial) {
            self.dirty.extend(process.readers.iter().map(|reader| reader.channel));
        }
    }

    /// Pipes are polled while their window is open; a closed one has to leave epoll, which would report its hangup.
    pub(super) fn watch_output(&mut self, serial: u32) {
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        if !process.looked || process.exit.is_some() {
            return;
        }
        for s in [0, 1] {
            let wanted = process.allowance(s) > 0;
            let stream = &mut process.streams[s];
            let Some(fd) = &stream.fd else { continue };
            if wanted && !stream.watched {
                let interest = Interest { read: true, write: false };
                stream.watched = self.poll.add(fd, Token::Output(serial, s), interest).is_ok();
            } else if !wanted && stream.watched {
                self.poll.remove(fd);
                stream.watched = false;
            }
        }
    }

    /// What background children of an ended process still write.
    pub(super) fn drop_output(&mut self, number: u32) {
        let Some(fd) = self.sinks.get(&number) else {
            return;
        };
        match rustix::io::read(fd, &mut self.scratch[..READ]) {
            Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(0) | Err(_) => {
                self.sinks.remove(&number);
            }
        }
    }
}

fn room(process: &mut Process, stream: usize) -> usize {
    let allowed = process.allowance(stream);
    let stream = &mut process.streams[stream];
    if stream.fd.is_none() {
        return 0;
    }
    let burst = stream.burst.max(FIRST_READ);
    stream.ring.reserve(burst.min(allowed))
}

fn read(process: &mut Process, stream: usize, room: usize, taken: &mut usize) -> Got {
    let stream = &mut process.streams[stream];
    let Some(fd) = &stream.fd else {
        return Got::Empty;
    };
    if room == 0 {
        return Got::Enough;
    }
    match rustix::io::readv(fd, &mut stream.ring.space(room)) {
        // A terminal whose programs are gone says EIO.
        Ok(0) | Err(Errno::IO) => Got::End,
        Ok(count) => {
            *taken += count;
            stream.ring.commit(count);
            if stream.ring.end() > BUSY && !stream.enlarged {
                stream.enlarged = true;
                let _ = rustix::pipe::fcntl_setpipe_size(fd, PIPE);
            }
            if count == room {
                stream.burst = (room * 4).clamp(FIRST_READ, SLICE);
            }
            Got::Bytes
        }
        Err(Errno::AGAIN) => Got::Empty,
        Err(Errno::INTR) => Got::Bytes,
        Err(_) => Got::End,
    }
}

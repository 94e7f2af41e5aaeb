//! What arrives on channels.

use rustix::io::Errno;

use super::{READ, Supervisor};
use crate::channel::{Interest, Job};
use crate::poll::{Happened, Token};
use crate::process::{STDIN_HIGH, STDIN_LOW};
use crate::wire::fault::Fault;
use crate::wire::{HEADER, Item, Kind, WireError, object};

impl Supervisor {
    pub(super) fn on_channel(&mut self, number: u32, event: &Happened) {
        if event.writable {
            self.dirty.push(number);
        }
        if !event.readable {
            return;
        }
        let Some(fd) = self.channels.get(&number).and_then(|channel| channel.fd.as_ref()) else {
            return;
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        // A frame of 64 KiB is read whole, and leaves in one write.
        let alive = match rustix::io::read(fd, &mut scratch[..HEADER + READ]) {
            Ok(0) => false,
            Ok(count) => self.channel_input(number, &scratch[..count]).is_ok(),
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        };
        self.scratch = scratch;
        if !alive {
            self.close_channel(number);
        }
    }

    pub(super) fn channel_input(&mut self, number: u32, mut input: &[u8]) -> Result<(), WireError> {
        let Some(channel) = self.channels.get_mut(&number) else {
            return Ok(());
        };
        let mut decoder = std::mem::take(&mut channel.decoder);
        while let Some(item) = decoder.next(&mut input)? {
            let Some(channel) = self.channels.get(&number) else {
                return Ok(());
            };
            match (&channel.job, item) {
                // Sent before the agent saw the end of what it was for.
                (Job::Idle, Item::Data { kind: Kind::Stdin, .. }) => {}
                (Job::Reader(reading), Item::Data { kind: Kind::Stdin, bytes, empty, .. }) => {
                    let serial = reading.serial;
                    self.stdin(serial, number, bytes, empty);
                }
                (Job::Tunnel(_), Item::Data { kind: Kind::Stdin, bytes, empty, .. }) => {
                    self.tunnel_input(number, bytes, empty);
                }
                (Job::Tunnel(_), Item::Frame { kind: Kind::Take, .. }) => self.take_egress(number)?,
                (Job::Idle, Item::Frame { kind: Kind::Start, payload }) => {
                    let start = object(payload)?;
                    self.start(number, start);
                }
                (Job::Idle, Item::Frame { kind: Kind::Attach, payload }) => {
                    let attach = object(payload)?;
                    self.attach_by_id(number, attach);
                }
                (Job::Idle, Item::Frame { kind: Kind::Dial, payload }) => {
                    let dial = object(payload)?;
                    self.begin_dial(number, &dial);
                }
                (Job::Idle, Item::Frame { kind: Kind::File, payload }) => {
                    let request = object(payload)?;
                    let leftover = input.to_vec();
                    self.begin_file(number, request, std::mem::take(&mut decoder), leftover);
                    return Ok(());
                }
                _ => return Err(WireError::OutOfPlace),
            }
        }
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.decoder = decoder;
        }
        Ok(())
    }

    pub(super) fn refuse(&mut self, number: u32, fault: &Fault) {
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.queue(Kind::Error, fault);
            self.dirty.push(number);
        }
    }

    pub(super) fn close_channel(&mut self, number: u32) {
        let Some(channel) = self.channels.remove(&number) else {
            return;
        };
        match channel.job {
            Job::Reader(reading) => self.leave(reading.serial, number),
            Job::Tunnel(tunnel) => match tunnel.untaken {
                Some(until) => self.wait_again(tunnel.into_fd(), until),
                None => self.abandon_tunnel(number, &tunnel),
            },
            Job::Idle | Job::File => {}
        }
    }

    /// Writes what is there, and turns a reader whose process has been told to its end into an idle channel.
    pub(super) fn flush_dirty(&mut self) {
        while let Some(number) = self.dirty.pop() {
            self.flush_channel(number);
        }
    }

    fn flush_channel(&mut self, number: u32) {
        use crate::channel::Flushed;
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let process = match &channel.job {
            Job::Reader(reading) => self.processes.get(&reading.serial).map(Box::as_ref),
            _ => None,
        };
        let flushed = channel.flush(process);
        if flushed == Flushed::Dead || channel.closing && flushed == Flushed::All {
            return self.close_channel(number);
        }
        if flushed == Flushed::Exit
            && let Job::Reader(reading) = std::mem::replace(&mut channel.job, Job::Idle)
        {
            channel.paused = false;
            if let Some(process) = self.processes.get_mut(&reading.serial) {
                process.readers.retain(|reader| reader.channel != number);
            }
        }
        let carries = flushed == Flushed::All && matches!(channel.job, Job::Tunnel(_));
        self.watch_channel(number, flushed == Flushed::Blocked);
        if carries {
            self.settle_tunnel(number);
        }
    }

    fn watch_channel(&mut self, number: u32, blocked: bool) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let Some(fd) = &channel.fd else { return };
        let wanted = Interest { read: !channel.paused, write: blocked };
        if wanted != channel.interest && self.poll.modify(fd, Token::Channel(number), wanted).is_ok() {
            channel.interest = wanted;
        }
    }

    fn stdin(&mut self, serial: u32, number: u32, mut bytes: &[u8], end: bool) {
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        if !process.takes_stdin_of(number) || process.stdin.ending {
            return;
        }
        let terminal = process.pty.is_some();
        let stdin = &mut process.stdin;
        stdin.accepted += bytes.len() as u64;
        if end && terminal {
            // What a person types to end a terminal's input.
            bytes = b"\x04";
        } else if end {
            stdin.ending = true;
        }
        let Some(fd) = &stdin.fd else { return };
        while stdin.buffer.is_empty() && !bytes.is_empty() {
            match rustix::io::write(fd, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    // Nobody reads any more; what still comes is counted and dropped.
                    stdin.fd = None;
                    return;
                }
            }
        }
        stdin.buffer.extend(bytes);
        if stdin.buffer.len() > STDIN_HIGH
            && let Some(channel) = self.channels.get_mut(&number)
        {
            channel.paused = true;
            self.dirty.push(number);
        }
        self.feed_stdin(serial);
    }

    /// Passes buffered input on, and lets the channels be read again once there is room.
    pub(super) fn feed_stdin(&mut self, serial: u32) {
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        let stdin = &mut process.stdin;
        if let Some(fd) = &stdin.fd {
            let mut open = true;
            while !stdin.buffer.is_empty() {
                match rustix::io::write(fd, stdin.buffer.as_slices().0) {
                    Ok(count) => drop(stdin.buffer.drain(..count)),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(_) => {
                        open = false;
                        break;
                    }
                }
            }
            let waiting = open && !stdin.buffer.is_empty();
            if waiting && !stdin.watched {
                let interest = Interest { read: false, write: true };
                stdin.watched = self.poll.add(fd, Token::Stdin(serial), interest).is_ok();
            } else if !waiting && stdin.watched {
                self.poll.remove(fd);
                stdin.watched = false;
            }
            if !open || stdin.ending && stdin.buffer.is_empty() {
                stdin.fd = None;
            }
        }
        if stdin.fd.is_none() {
            stdin.buffer.clear();
        }
        if stdin.buffer.is_empty() {
            stdin.buffer.shrink_to(0);
        }
        if stdin.buffer.len() <= STDIN_LOW {
            for reader in &process.readers {
                if let Some(channel) = self.channels.get_mut(&reader.channel).filter(|channel| channel.paused) {
                    channel.paused = false;
                    self.dirty.push(reader.channel);
                }
            }
        }
    }
}

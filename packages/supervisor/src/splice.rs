//! Takes the rest of a large upload from the client's connection to a channel, as `stdin` frames, or, for the relay of a
//! broker, to the connection of an agent as it is. The bytes stay in the kernel: neither we nor who starts us look at them.
//!
//! Descriptor 3 is the client's connection, 4 the other one. Both are our parent's too, which leaves them alone meanwhile,
//! and both do not block.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::time::{Duration, Instant};

use crate::sys;
use crate::wire::{Kind, MAX_DATA, header};

/// Why the bytes are not all there; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stop {
    /// This kernel does not move these bytes. Nothing has been taken, nothing written.
    Untouched = 3,
    /// The connection has ended, or is broken.
    Source = 4,
    /// The channel is closed.
    Sink = 5,
    /// Nothing moved for the time given.
    Stalled = 6,
    /// The host has failed us.
    Broken = 7,
}

/// How the bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As `stdin` frames of a channel.
    Frames,
    Bytes,
}

struct Splicer {
    from: OwnedFd,
    to: OwnedFd,
    shape: Shape,
    patience: Duration,
    /// When a byte has moved last. Not each wait has the whole patience: something may always be ready, and never move.
    moved: Instant,
}

/// Splices exactly `bytes`; gives up when none moves for `patience`.
pub fn run(shape: Shape, bytes: u64, patience: Duration) -> Result<(), Stop> {
    // Nobody else would end us, and the other side would take us for our parent.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let (Ok(from), Ok(to)) = (sys::inherited(3), sys::inherited(4)) else { return Err(Stop::Untouched) };
    Splicer { from, to, shape, patience, moved: Instant::now() }.run(bytes)
}

impl Splicer {
    fn run(&mut self, bytes: u64) -> Result<(), Stop> {
        let Ok((output, input)) = pipe_with(PipeFlags::CLOEXEC) else { return Err(Stop::Untouched) };
        // Smaller ones are slower, no more.
        let _ = fcntl_setpipe_size(&input, MAX_DATA);
        let mut left = bytes;
        // Of the frame that has been begun.
        let mut promised = 0;
        while left > 0 {
            let wanted = if promised > 0 { promised } else { left.min(MAX_DATA as u64) as usize };
            let taken = self.take(&input, wanted, left == bytes)?;
            if promised == 0 {
                promised = wanted;
                if self.shape == Shape::Frames {
                    self.announce(promised)?;
                }
            }
            self.give(&output, taken)?;
            promised -= taken;
            left -= taken as u64;
        }
        Ok(())
    }

    fn take(&mut self, input: &OwnedFd, wanted: usize, first: bool) -> Result<usize, Stop> {
        loop {
            match splice(&self.from, None, input, None, wanted, SpliceFlags::MOVE) {
                Ok(0) => return Err(Stop::Source),
                Ok(taken) => {
                    self.moved = Instant::now();
                    return Ok(taken);
                }
                Err(Errno::AGAIN) => {
                    // Urgent data is of no use to HTTP, and splice does not get past it.
                    if self.wait(self.from.as_fd(), PollFlags::IN | PollFlags::PRI)?.contains(PollFlags::PRI) {
                        return Err(Stop::Source);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) if first => {
                    return Err(Stop::Untouched);
                }
                Err(Errno::CONNRESET | Errno::TIMEDOUT | Errno::PIPE | Errno::NOTCONN) => return Err(Stop::Source),
                Err(_) => return Err(Stop::Broken),
            }
        }
    }

    fn announce(&self, payload: usize) -> Result<(), Stop> {
        let head = header(Kind::Stdin, payload);
        let mut rest = &head[..];
        while !rest.is_empty() {
            match rustix::io::write(&self.to, rest) {
                Ok(written) => rest = &rest[written..],
                Err(errno) => self.full(errno)?,
            }
        }
        Ok(())
    }

    fn give(&mut self, output: &OwnedFd, mut count: usize) -> Result<(), Stop> {
        while count > 0 {
            match splice(output, None, &self.to, None, count, SpliceFlags::MOVE) {
                Ok(0) => return Err(Stop::Sink),
                Ok(given) => {
                    self.moved = Instant::now();
                    count -= given;
                }
                Err(errno) => self.full(errno)?,
            }
        }
        Ok(())
    }

    fn full(&self, errno: Errno) -> Result<(), Stop> {
        match errno {
            Errno::AGAIN => self.wait(self.to.as_fd(), PollFlags::OUT).map(|_| ()),
            Errno::INTR => Ok(()),
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Err(Stop::Sink),
            _ => Err(Stop::Broken),
        }
    }

    fn wait(&self, fd: BorrowedFd<'_>, flags: PollFlags) -> Result<PollFlags, Stop> {
        let left = self.patience.saturating_sub(self.moved.elapsed());
        if left.is_zero() {
            return Err(Stop::Stalled);
        }
        let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => Err(Stop::Stalled),
            _ => Ok(fds[0].revents()),
        }
    }
}

//! The one place that waits for children, and what follows from their end.

use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, wait};
use std::os::fd::AsFd;

use super::{Supervisor, unix_ms};
use crate::channel::Interest;
use crate::poll::Token;
use crate::process::signals;
use crate::process::{Outcome, Status};
use crate::sys;
use crate::timers::Timer;
use crate::wire::Kind;
use crate::wire::message::{Ended, Exit};

impl Supervisor {
    pub(super) fn on_signals(&mut self) {
        let mut terminate = false;
        // A process of the sandbox has the right to signal PID 1, and must not end the sandbox by it: only the engine may.
        let obeys_anyone = std::process::id() != 1;
        sys::read_signals(self.signals.as_fd(), |signal, is_from_outside| {
            terminate |= signal != libc::SIGCHLD && (is_from_outside || obeys_anyone);
        });
        self.reap();
        if terminate {
            self.begin_shutdown(None, None, 2000);
        }
    }

    /// Takes every ended child, ours and those that became ours when their parent ended. True where none is left.
    pub(super) fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if let Some(serial) = self.pids.remove(&pid.as_raw_nonzero().get()) {
                        self.main_ended(serial, judge(status));
                    }
                }
                Ok(None) => return false,
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn main_ended(&mut self, serial: u32, status: Status) {
        let now = self.now();
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        let oom = status == Status::Signaled(libc::SIGKILL) && self.oom.read() > process.oom_kills;
        let (reason, cause, oom) = process.judge(status, oom);
        process.outcome = Some(Outcome { status, reason, cause, oom, at: now });
        process.drain_since = Some(now);
        process.looked = true;
        self.timers.cancel(Timer::Timeout(serial));
        self.timers.cancel(Timer::Look(serial));
        self.pump_dry(serial);
        self.mark_readers_dirty(serial);
        let Some(process) = self.processes.get_mut(&serial) else { return };
        for stream in &mut process.streams {
            let inside = stream.fd.as_ref().and_then(|fd| rustix::io::ioctl_fionread(fd).ok());
            stream.owed = stream.ring.end() + inside.unwrap_or(0);
        }
        if process.ending.is_some() {
            self.kill_step(serial);
        }
        self.go_on(serial);
    }

    /// Ends the record once its main process is gone, its output taken, and a kill of its tree complete.
    pub(super) fn settle(&mut self, serial: u32) {
        let now = self.now();
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        if process.outcome.is_none() || process.exit.is_some() {
            return;
        }
        if process.ending.as_ref().is_some_and(|ending| !ending.gone) {
            return;
        }
        let forsaken = process.ending.is_some() && (process.readers.is_empty() || self.shutdown.is_some());
        if process.is_drained() || process.drain_left == 0 || forsaken {
            return self.finish(serial);
        }
        // The clock of the drain stands while a slow reader keeps the pipes full.
        if process.is_held_up() {
            if let Some(since) = process.drain_since.take() {
                process.drain_left = process.drain_left.saturating_sub(now - since).max(1);
            }
            self.timers.cancel(Timer::Drain(serial));
        } else {
            let since = *process.drain_since.get_or_insert(now);
            self.timers.set(Timer::Drain(serial), since + process.drain_left);
        }
    }

    pub(super) fn drain_over(&mut self, serial: u32) {
        self.pump_dry(serial);
        self.mark_readers_dirty(serial);
        if let Some(process) = self.processes.get_mut(&serial) {
            if !process.is_held_up() {
                process.drain_left = 0;
            }
            self.go_on(serial);
        }
    }

    fn finish(&mut self, serial: u32) {
        let now = self.now();
        for timer in [Timer::Drain(serial), Timer::Orphan(serial), Timer::Look(serial)] {
            self.timers.cancel(timer);
        }
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        let Some(outcome) = &process.outcome else {
            return;
        };
        let (code, signal) = match outcome.status {
            Status::Exited(code) => (Some(code), None),
            Status::Signaled(signal) => (None, Some(signals::name(signal))),
        };
        let exit = Exit {
            id: process.id.clone(),
            code,
            signal,
            reason: outcome.reason,
            cause: outcome.cause.clone(),
            spawn_error: None,
            duration_ms: (outcome.at - process.started) / 1_000_000,
            stdout_bytes: process.streams[0].ring.end(),
            stderr_bytes: process.streams[1].ring.end(),
            oom: outcome.oom,
        };
        process.exit = Some(exit.clone());
        process.ended = now;
        process.ended_ms = Some(unix_ms());
        process.stdin.fd = None;
        process.stdin.buffer = Default::default();
        let unread = process.readers.is_empty();
        for s in [0, 1] {
            let stream = &mut process.streams[s];
            stream.ring.shrink();
            if let Some(fd) = stream.fd.take() {
                if std::mem::take(&mut stream.watched) {
                    self.poll.remove(&fd);
                }
                self.next_sink += 1;
                let interest = Interest { read: true, write: false };
                if self.poll.add(&fd, Token::Sink(self.next_sink), interest).is_ok() {
                    self.sinks.insert(self.next_sink, fd);
                }
            }
        }
        self.mark_readers_dirty(serial);
        self.answer_waits(serial);
        if unread {
            self.tell(Kind::Event, &Ended { event: "ended", id: &exit.id, exit: &exit });
        }
        self.keep_record(serial);
    }
}

fn judge(status: WaitStatus) -> Status {
    match status.terminating_signal() {
        Some(signal) => Status::Signaled(signal),
        None => Status::Exited(status.exit_status().unwrap_or(0)),
    }
}

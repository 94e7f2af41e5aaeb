//! Who reads a process, from where, and what happens when nobody does.

use super::Supervisor;
use crate::channel::{Job, Reading};
use crate::process::{Orphan, Process, Reader};
use crate::timers::Timer;
use crate::wire::fault::{Fault, Kind as FaultKind};
use crate::wire::message::{Attach, From, Ready, Reason};
use crate::wire::{Ack, Kind};

const MS: u64 = 1_000_000;

pub(super) fn ready(process: &Process, attached: bool, offsets: [u64; 2]) -> Ready<'_> {
    Ready {
        id: &process.id,
        pid: process.pid,
        attached,
        stdout: process.position(0, offsets[0]),
        stderr: process.position(1, offsets[1]),
        stdin_offset: process.stdin.accepted,
        ended: process.exit.is_some(),
        pty: process.pty,
    }
}

impl Supervisor {
    pub(super) fn attach_by_id(&mut self, number: u32, attach: Attach) {
        match self.ids.get(&attach.id).copied() {
            Some(serial) => self.attach(number, serial, [attach.stdout, attach.stderr]),
            None => self.refuse(number, &Fault::new(FaultKind::NotFound, "no such process")),
        }
    }

    pub(super) fn attach(&mut self, number: u32, serial: u32, wanted: [From; 2]) {
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        let Some(offsets) = process.begin(wanted) else {
            return self.refuse(number, &Fault::new(FaultKind::BadRequest, "the offset is beyond the end"));
        };
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        channel.queue(Kind::Ready, &ready(process, true, offsets));
        channel.job = Job::Reader(Reading::new(serial, offsets));
        process.readers.push(Reader { channel: number, acknowledged: offsets });
        process.orphan = Orphan::No;
        self.timers.cancel(Timer::Orphan(serial));
        self.dirty.push(number);
        self.go_on(serial);
    }

    pub(super) fn acknowledge(&mut self, ack: Ack) {
        let Some(Job::Reader(reading)) = self.channels.get(&ack.channel).map(|channel| &channel.job) else {
            return;
        };
        let serial = reading.serial;
        if self.processes.get_mut(&serial).is_some_and(|process| process.acknowledge(ack.channel, ack.offsets)) {
            self.go_on(serial);
        }
    }

    /// The window may have opened or closed.
    pub(super) fn go_on(&mut self, serial: u32) {
        self.watch_output(serial);
        self.settle(serial);
    }

    pub(super) fn leave(&mut self, serial: u32, number: u32) {
        if let Some(process) = self.processes.get_mut(&serial) {
            process.readers.retain(|reader| reader.channel != number);
        }
        self.orphan_clock(serial);
        self.go_on(serial);
    }

    /// Starts the clock of a process that nobody reads; it stands while there is no control connection.
    pub(super) fn orphan_clock(&mut self, serial: u32) {
        let up = self.control.is_up();
        let now = self.now();
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        self.timers.cancel(Timer::Orphan(serial));
        process.orphan = match process.orphan_ms.map(|ms| ms.saturating_mul(MS)) {
            Some(length) if process.readers.is_empty() && process.is_running() && !process.detach => {
                if up {
                    Orphan::Until(now.saturating_add(length))
                } else {
                    Orphan::Standing(length)
                }
            }
            _ => Orphan::No,
        };
        match process.orphan {
            Orphan::Until(at) if at <= now => self.orphan(serial),
            Orphan::Until(at) => self.timers.set(Timer::Orphan(serial), at),
            _ => {}
        }
    }

    pub(super) fn orphan(&mut self, serial: u32) {
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        process.orphan = Orphan::No;
        if process.is_running() && process.readers.is_empty() && !process.detach {
            let grace = process.grace_ms;
            self.kill(serial, Reason::Killed, Some("disconnect".into()), grace);
        }
    }

    pub(super) fn stop_orphan_clocks(&mut self) {
        let now = self.now();
        for process in self.processes.values_mut() {
            if let Orphan::Until(at) = process.orphan {
                process.orphan = Orphan::Standing(at.saturating_sub(now));
                self.timers.cancel(Timer::Orphan(process.serial));
            }
        }
    }

    pub(super) fn start_orphan_clocks(&mut self) {
        let now = self.now();
        for process in self.processes.values_mut() {
            if let Orphan::Standing(left) = process.orphan {
                let at = now.saturating_add(left);
                process.orphan = Orphan::Until(at);
                self.timers.set(Timer::Orphan(process.serial), at);
            }
        }
    }

    /// Readers that the ring is about to leave behind get `gone`.
    pub(super) fn drop_slow_readers(&mut self, serial: u32, oldest: [u64; 2]) {
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        let mut behind = Vec::new();
        for reader in &process.readers {
            let channel = self.channels.get_mut(&reader.channel);
            if channel.is_some_and(|channel| channel.falls_behind(process, oldest)) {
                behind.push(reader.channel);
            }
        }
        if behind.is_empty() {
            return;
        }
        process.readers.retain(|reader| !behind.contains(&reader.channel));
        for number in behind {
            if let Some(channel) = self.channels.get_mut(&number) {
                channel.job = Job::Idle;
                channel.paused = false;
            }
            self.refuse(number, &Fault::new(FaultKind::Gone, "the reader fell behind"));
        }
    }
}

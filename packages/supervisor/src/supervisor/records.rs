//! What is kept of ended processes, and for how long.

use super::Supervisor;
use crate::timers::Timer;

const KEPT: u64 = 600_000_000_000;
const RECORDS: usize = 1000;
const RINGS: usize = 32 << 20;

/// What has been kept since the limits were looked at.
#[derive(Default)]
pub(super) struct Grown {
    number: bool,
    rings: bool,
}

impl Supervisor {
    pub(super) fn keep_record(&mut self, serial: u32) {
        self.ended.push_back(serial);
        self.grown.number = true;
        self.grown.rings |= self.processes.get(&serial).is_some_and(|process| process.ring_bytes() > 0);
    }

    /// Forgets what is too much. At the end of a turn, when the exits have been written: nobody waits for it.
    pub(super) fn bound_records(&mut self) {
        let grown = std::mem::take(&mut self.grown);
        if grown.number {
            self.bound_number();
            self.set_expiry();
        }
        // The sum goes over all records, up to a thousand.
        if grown.rings {
            self.bound_rings();
        }
    }

    pub(super) fn ring_bytes(&self) -> usize {
        self.processes.values().map(|process| process.ring_bytes()).sum()
    }

    fn bound_number(&mut self) {
        while self.ended.len() > RECORDS {
            // One that is being read stays until the next end.
            let Some(at) = self.ended.iter().position(|serial| self.is_unread(*serial)) else {
                return;
            };
            self.forget(at);
        }
    }

    fn bound_rings(&mut self) {
        let mut total = self.ring_bytes();
        for serial in &self.ended {
            if total <= RINGS {
                return;
            }
            let Some(process) = self.processes.get_mut(serial).filter(|process| process.readers.is_empty()) else {
                continue;
            };
            total -= process.ring_bytes();
            process.streams.iter_mut().for_each(|stream| stream.ring.clear());
        }
    }

    fn is_unread(&self, serial: u32) -> bool {
        self.processes.get(&serial).is_none_or(|process| process.readers.is_empty())
    }

    fn forget(&mut self, at: usize) {
        let Some(process) = self.ended.remove(at).and_then(|serial| self.processes.remove(&serial)) else {
            return;
        };
        self.ids.remove(&process.id);
        self.timers.cancel(Timer::Kill(process.serial));
        self.timers.cancel(Timer::KillAfter(process.serial));
        self.timers.cancel(Timer::Wait(process.serial));
    }

    pub(super) fn expire(&mut self) {
        let now = self.now();
        while let Some(serial) = self.ended.front().copied() {
            if self.expiry(serial) > now || !self.is_unread(serial) {
                break;
            }
            self.forget(0);
        }
        self.set_expiry();
    }

    fn expiry(&self, serial: u32) -> u64 {
        self.processes.get(&serial).map_or(0, |process| process.ended + KEPT)
    }

    fn set_expiry(&mut self) {
        if let Some(serial) = self.ended.front() {
            // One that is still read is looked at again a second later.
            let at = self.expiry(*serial).max(self.now() + 1_000_000_000);
            self.timers.set(Timer::Expire, at);
        }
    }
}

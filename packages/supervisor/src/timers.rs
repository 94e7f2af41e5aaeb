//! Deadlines of the loop, each named by what it is for, so that setting one again replaces it.

use std::collections::{BTreeSet, HashMap};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Timer {
    /// A process has run as long as it may.
    Timeout(u32),
    /// The next step of a kill.
    Kill(u32),
    /// What was signalled is killed, if it is still there.
    KillAfter(u32),
    /// The pipes of an ended process have been waited for long enough.
    Drain(u32),
    /// Nobody has read a process for `orphan_ms`.
    Orphan(u32),
    /// The output of a quiet process is looked at for the first time.
    Look(u32),
    /// A `wait` of a process is over.
    Wait(u32),
    /// A connection to a program of the sandbox has been tried for long enough.
    Connect(u32),
    /// The oldest record has been kept long enough.
    Expire,
    Dial,
    /// Connections that wait to get out are tried again.
    Egress,
    Shutdown,
}

#[derive(Default)]
pub struct Timers {
    by_time: BTreeSet<(u64, Timer)>,
    by_name: HashMap<Timer, u64>,
}

impl Timers {
    pub fn set(&mut self, timer: Timer, at: u64) {
        if let Some(old) = self.by_name.insert(timer, at) {
            self.by_time.remove(&(old, timer));
        }
        self.by_time.insert((at, timer));
    }

    /// Sets one that is not set yet, or for an earlier time.
    pub fn hurry(&mut self, timer: Timer, at: u64) {
        if self.by_name.get(&timer).is_none_or(|set| at < *set) {
            self.set(timer, at);
        }
    }

    pub fn cancel(&mut self, timer: Timer) {
        if let Some(old) = self.by_name.remove(&timer) {
            self.by_time.remove(&(old, timer));
        }
    }

    pub fn next(&self) -> Option<u64> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub fn due(&mut self, now: u64) -> Option<Timer> {
        let (at, timer) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.by_time.remove(&(at, timer));
        self.by_name.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_set_again_fires_once_at_its_later_time() {
        let mut timers = Timers::default();
        timers.set(Timer::Dial, 5);
        timers.set(Timer::Dial, 9);
        timers.set(Timer::Kill(1), 7);
        assert_eq!(timers.next(), Some(7));
        assert_eq!(timers.due(6), None);
        assert_eq!(timers.due(10), Some(Timer::Kill(1)));
        assert_eq!(timers.due(10), Some(Timer::Dial));
        assert_eq!(timers.due(10), None);
        timers.set(Timer::Expire, 1);
        timers.cancel(Timer::Expire);
        assert_eq!(timers.next(), None);
    }
}

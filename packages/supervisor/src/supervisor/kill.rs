//! Ending a process and everything that descends from it: TERM, grace, KILL, repeated until nothing is left.

use super::Supervisor;
use crate::process::Ending;
use crate::process::tag::{self, Scope};
use crate::sys;
use crate::timers::Timer;
use crate::wire::message::Reason;

const MS: u64 = 1_000_000;
/// Processes that survive KILL this long are stuck in the kernel; the exit is told without them.
const GIVE_UP: u64 = 10_000 * MS;
/// New children of a tree that forks while it is killed turn up in the next pass.
const PASSES: usize = 20;

impl Supervisor {
    pub(super) fn time_out(&mut self, serial: u32) {
        let Some(process) = self.processes.get(&serial) else {
            return;
        };
        if process.outcome.is_none() {
            let grace = process.grace_ms;
            self.kill(serial, Reason::TimedOut, None, grace);
        }
    }

    /// Also of an ended process: its background children may live.
    pub(super) fn kill(&mut self, serial: u32, reason: Reason, cause: Option<String>, grace_ms: u64) {
        let now = self.now();
        let kill_at = now.saturating_add(grace_ms.saturating_mul(MS));
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        match &mut process.ending {
            // The first reason stays; a later kill can only hurry.
            Some(ending) if !ending.gone => ending.kill_at = ending.kill_at.min(kill_at),
            _ => process.ending = Some(Ending { reason, cause, kill_at, steps: 0, gone: false }),
        }
        if grace_ms > 0 {
            signal_tree(process.group(), process.tag, libc::SIGTERM);
            // A stopped process would never see it.
            signal_tree(process.group(), process.tag, libc::SIGCONT);
        }
        self.kill_step(serial);
    }

    pub(super) fn kill_step(&mut self, serial: u32) {
        let now = self.now();
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        let (group, tag) = (process.group(), process.tag);
        let Some(ending) = &mut process.ending else {
            return;
        };
        if ending.gone {
            return;
        }
        let left = if now >= ending.kill_at {
            kill_passes(group, tag)
        } else {
            tag.map_or(0, |tag| tag::count(Scope::Tag(tag)))
        };
        // The main process may be a zombie that is about to be reaped: the record waits for that.
        if left == 0 && group.is_none() || now >= ending.kill_at.saturating_add(GIVE_UP) {
            ending.gone = true;
            self.timers.cancel(Timer::Kill(serial));
            self.pump_dry(serial);
            self.mark_readers_dirty(serial);
            return self.go_on(serial);
        }
        ending.steps += 1;
        let pause = (u64::from(ending.steps) * 2 * MS).min(50 * MS);
        let next = now + pause;
        let next = if now < ending.kill_at { next.min(ending.kill_at) } else { next };
        self.timers.set(Timer::Kill(serial), next);
    }
}

fn signal_tree(group: Option<i32>, tag: Option<u64>, signal: i32) {
    if let Some(tag) = tag {
        tag::signal(Scope::Tag(tag), signal);
    } else if let Some(group) = group {
        sys::signal_group(group, signal);
    }
}

fn kill_passes(group: Option<i32>, tag: Option<u64>) -> usize {
    if let Some(group) = group {
        sys::signal_group(group, libc::SIGKILL);
    }
    let Some(tag) = tag else { return 0 };
    let mut left = 0;
    for _ in 0..PASSES {
        left = tag::signal(Scope::Tag(tag), libc::SIGKILL);
        if left == 0 {
            break;
        }
    }
    left
}

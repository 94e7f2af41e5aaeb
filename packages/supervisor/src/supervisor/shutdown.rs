//! The end of the sandbox.

use serde_json::Value;

use super::Supervisor;
use crate::process::tag;
use crate::sys;
use crate::timers::Timer;
use crate::wire::Kind;
use crate::wire::message::{Done, Empty, Reason};

const MS: u64 = 1_000_000;
const GIVE_UP: u64 = 10_000 * MS;
const STEP: u64 = 10 * MS;

pub struct Shutdown {
    rid: Option<Value>,
    kill_at: u64,
    complete: bool,
}

impl Supervisor {
    pub(super) fn begin_shutdown(&mut self, rid: Option<Value>, cause: Option<String>, grace_ms: u64) {
        let kill_at = self.now().saturating_add(grace_ms.saturating_mul(MS));
        match &mut self.shutdown {
            Some(shutdown) => {
                shutdown.kill_at = shutdown.kill_at.min(kill_at);
                shutdown.rid = rid.or(shutdown.rid.take());
            }
            None => self.shutdown = Some(Shutdown { rid, kill_at, complete: false }),
        }
        let cause = cause.unwrap_or_else(|| "shutdown".into());
        let running: Vec<u32> = self.processes.values().filter(|p| p.is_running()).map(|p| p.serial).collect();
        for serial in running {
            self.kill(serial, Reason::Killed, Some(cause.clone()), grace_ms);
        }
        self.signal_all(libc::SIGTERM);
        self.signal_all(libc::SIGCONT);
        self.shutdown_step();
    }

    pub(super) fn shutdown_step(&mut self) {
        let now = self.now();
        let none_left = self.reap();
        let Some(shutdown) = &self.shutdown else {
            return;
        };
        if shutdown.complete {
            return;
        }
        let (kill_at, give_up) = (shutdown.kill_at, shutdown.kill_at.saturating_add(GIVE_UP));
        if now >= kill_at {
            self.signal_all(libc::SIGKILL);
        }
        // As subreaper we are the parent of all that is left: no child means nothing lives.
        let over = none_left && !self.processes.values().any(|process| process.is_running());
        if !over && now < give_up {
            let next = now + STEP;
            return self.timers.set(Timer::Shutdown, if now < kill_at { next.min(kill_at) } else { next });
        }
        let rid = self.shutdown.as_mut().and_then(|shutdown| {
            shutdown.complete = true;
            shutdown.rid.take()
        });
        if let Some(rid) = rid {
            self.tell(Kind::Reply, &Done { rid: &rid, ok: Empty {} });
        }
    }

    fn signal_all(&self, signal: i32) {
        tag::signal(self.tags.all(), signal);
        sys::signal_everything(signal);
    }

    pub(super) fn is_over(&self) -> bool {
        self.shutdown.as_ref().is_some_and(|shutdown| shutdown.complete)
    }
}

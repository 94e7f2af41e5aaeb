//! `start`: get or create.

use super::{Supervisor, unix_ms};
use crate::channel::{Job, Reading};
use crate::process::oom::OomScore;
use crate::process::spawn::SpawnError;
use crate::process::{DRAIN, Orphan, Process, Reader, Stdin, Stream};
use crate::sys::launch::Stage;
use crate::timers::Timer;
use crate::wire::Kind;
use crate::wire::fault::{Fault, Kind as FaultKind};
use crate::wire::message::{Exit, Reason, Start};

const MS: u64 = 1_000_000;
const DEFAULT_GRACE: u64 = 1000;
/// How long the output of a quiet process stays in its pipes. Most are over by then, and everything leaves at once.
const QUIET: u64 = 2 * MS;

impl Supervisor {
    pub(super) fn start(&mut self, number: u32, start: Start) {
        if let Err(fault) = start.check() {
            return self.refuse(number, &fault);
        }
        if let Some(serial) = self.ids.get(&start.id).copied() {
            if self.processes.get(&serial).is_some_and(|process| process.fingerprint == start.fingerprint) {
                return self.attach(number, serial, [start.stdout, start.stderr]);
            }
            return self.refuse(number, &Fault::new(FaultKind::Conflict, "the id belongs to another command"));
        }
        if self.shutdown.is_some() {
            return self.refuse(number, &Fault::new(FaultKind::Gone, "shutting down"));
        }
        self.next_serial += 1;
        let serial = self.next_serial;
        let tag = self.tags.give();
        let mut process = self.record(serial, &start, number);
        process.tag = Some(tag);
        let score = self.oom_score.as_ref().map(OomScore::raised);
        let spawned = match self.spawner.spawn(&start, process.tag) {
            Err(SpawnError::Launch(Stage::Limits, _)) => {
                // A kernel or engine that refuses the tag: the process group alone has to do.
                process.tag = None;
                self.spawner.spawn(&start, None)
            }
            other => other,
        };
        drop(score);
        match spawned {
            Ok(child) => {
                process.pid = child.pid;
                process.stdin.fd = child.stdin;
                for (stream, fd) in process.streams.iter_mut().zip(child.output) {
                    stream.fd = fd;
                }
                self.pids.insert(child.pid, serial);
                process.oom_kills = self.oom.read();
                self.begin(number, process, &start);
            }
            Err(error) => self.not_spawned(number, process, error.fault(&start)),
        }
    }

    fn record(&self, serial: u32, start: &Start, number: u32) -> Process {
        Process {
            serial,
            id: start.id.clone(),
            fingerprint: start.fingerprint.clone(),
            meta: start.meta.clone(),
            pid: 0,
            tag: None,
            pty: start.pty,
            detach: start.detach,
            orphan_ms: start.orphan_ms,
            orphan: Orphan::No,
            grace_ms: start.grace_ms.unwrap_or(DEFAULT_GRACE),
            started: self.now(),
            started_ms: unix_ms(),
            ended: 0,
            ended_ms: None,
            oom_kills: 0,
            looked: !start.quiet,
            streams: [Stream::default(), Stream::default()],
            stdin: Stdin::default(),
            readers: vec![Reader { channel: number, acknowledged: [0; 2] }],
            waits: Vec::new(),
            ending: None,
            outcome: None,
            drain_left: DRAIN,
            drain_since: None,
            exit: None,
        }
    }

    fn begin(&mut self, number: u32, process: Process, start: &Start) {
        let serial = process.serial;
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.job = Job::Reader(Reading::new(serial, [0; 2]));
            if !start.quiet {
                channel.queue(Kind::Ready, &super::readers::ready(&process, false, [0; 2]));
                self.dirty.push(number);
            }
        }
        if let Some(ms) = start.timeout_ms {
            self.timers.set(Timer::Timeout(serial), process.started + ms.saturating_mul(MS));
        }
        if start.quiet {
            self.timers.set(Timer::Look(serial), process.started + QUIET);
        }
        self.ids.insert(process.id.clone(), serial);
        self.processes.insert(serial, Box::new(process));
        self.watch_output(serial);
    }

    fn not_spawned(&mut self, number: u32, mut process: Process, fault: Fault) {
        let serial = process.serial;
        process.tag = None;
        process.ended = process.started;
        process.ended_ms = Some(unix_ms());
        process.exit = Some(Exit {
            id: process.id.clone(),
            code: None,
            signal: None,
            reason: Reason::SpawnFailed,
            cause: None,
            spawn_error: Some(fault),
            duration_ms: 0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            oom: false,
        });
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.job = Job::Reader(Reading::new(serial, [0; 2]));
            self.dirty.push(number);
        }
        self.ids.insert(process.id.clone(), serial);
        self.processes.insert(serial, Box::new(process));
        self.keep_record(serial);
    }

    /// The output of a quiet process is read from now on.
    pub(super) fn look(&mut self, serial: u32) {
        if let Some(process) = self.processes.get_mut(&serial) {
            process.looked = true;
            self.watch_output(serial);
        }
    }
}

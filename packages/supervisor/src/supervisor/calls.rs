//! Requests on the control connection.

use serde::Serialize;
use serde_json::{Value, json};

use super::Supervisor;
use crate::process::{Process, Wait};
use crate::process::{pty, signals};
use crate::sys;
use crate::timers::Timer;
use crate::wire::base64;
use crate::wire::fault::{Fault, Kind as FaultKind};
use crate::wire::message::{Done, Empty, Exit, Failed, Op, Reason, Size, StreamName};
use crate::wire::{Kind, WireError, object};

const MS: u64 = 1_000_000;
const OUTPUT: usize = 1 << 20;
const DEFAULT_GRACE: u64 = 5000;

#[derive(Serialize)]
struct Listed<'a> {
    id: &'a str,
    fingerprint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a str>,
    pid: i32,
    state: &'static str,
    pty: bool,
    detach: bool,
    started_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<&'a Exit>,
    readers: usize,
}

fn listed(process: &Process, meta: bool) -> Listed<'_> {
    Listed {
        id: &process.id,
        fingerprint: &process.fingerprint,
        meta: meta.then_some(&process.meta),
        pid: process.pid,
        state: if process.is_running() { "running" } else { "ended" },
        pty: process.pty.is_some(),
        detach: process.detach,
        started_ms: process.started_ms,
        ended_ms: process.ended_ms,
        exit: process.exit.as_ref(),
        readers: process.readers.len(),
    }
}

fn index(stream: StreamName) -> usize {
    match stream {
        StreamName::Stdout => 0,
        StreamName::Stderr => 1,
    }
}

fn value<T: Serialize>(of: T) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

impl Supervisor {
    pub(super) fn call(&mut self, payload: &[u8]) -> Result<(), WireError> {
        let message: Value = object(payload)?;
        let rid = message.get("rid").cloned().unwrap_or(Value::Null);
        let answer = match serde_json::from_value(message) {
            Ok(op) => self.perform(&rid, op),
            Err(error) => Err(Fault::new(FaultKind::BadRequest, error.to_string())),
        };
        match answer {
            Ok(Some(ok)) => self.tell(Kind::Reply, &Done { rid: &rid, ok }),
            // Answered later.
            Ok(None) => {}
            Err(error) => self.tell(Kind::Reply, &Failed { rid: &rid, error }),
        }
        Ok(())
    }

    fn perform(&mut self, rid: &Value, op: Op) -> Result<Option<Value>, Fault> {
        let done = Ok(Some(json!({})));
        match op {
            Op::Ping {} => done,
            Op::List { meta } => {
                let mut all: Vec<_> = self.processes.values().collect();
                all.sort_by_key(|process| process.serial);
                let processes: Vec<Listed> = all.into_iter().map(|process| listed(process, meta)).collect();
                Ok(Some(json!({ "processes": value(processes) })))
            }
            Op::Get { id } => Ok(Some(value(listed(self.find(&id)?, true)))),
            Op::Signal { id, signal, kill_after_ms } => {
                let number = signals::number(&signal)
                    .ok_or_else(|| Fault::new(FaultKind::BadRequest, format!("unknown signal {signal}")))?;
                let process = self.find(&id)?;
                let (serial, group) = (process.serial, process.group());
                sys::signal_group(group.ok_or_else(|| Fault::new(FaultKind::NotRunning, "it has ended"))?, number);
                if let Some(after) = kill_after_ms {
                    let at = self.now().saturating_add(after.saturating_mul(MS));
                    self.timers.hurry(Timer::KillAfter(serial), at);
                }
                done
            }
            Op::Kill { id, cause, grace_ms } => {
                let serial = self.find(&id)?.serial;
                self.kill(serial, Reason::Killed, cause, grace_ms.unwrap_or(DEFAULT_GRACE));
                done
            }
            Op::Resize { id, cols, rows } => self.resize(&id, Size { cols, rows }).map(|()| Some(json!({}))),
            Op::Output { id, stream, offset, limit } => {
                let process = self.find(&id)?;
                output(process, index(stream), offset, limit.min(OUTPUT)).map(Some)
            }
            Op::StdinOffset { id } => Ok(Some(json!({ "offset": self.find(&id)?.stdin.accepted }))),
            Op::Wait { id, stream, offset, ms } => {
                let until = self.now().saturating_add(ms.saturating_mul(MS));
                let serial = self.find(&id)?.serial;
                if let Some(process) = self.processes.get_mut(&serial) {
                    process.waits.push(Wait { rid: rid.clone(), stream: index(stream), offset, until });
                }
                self.answer_waits(serial);
                Ok(None)
            }
            Op::Detach { id, detach } => {
                let serial = self.find(&id)?.serial;
                if let Some(process) = self.processes.get_mut(&serial) {
                    process.detach = detach;
                }
                self.orphan_clock(serial);
                self.go_on(serial);
                done
            }
            Op::Statistics {} => Ok(Some(json!({
                "processes": self.processes.len(),
                "running": self.processes.values().filter(|process| process.is_running()).count(),
                "rings_bytes": self.ring_bytes(),
                "channels": self.channels.len(),
            }))),
            Op::Ports {} => self.listening_ports().map(Some),
            Op::Egress { port } => self.listen_for_egress(port).map(|()| Some(json!({}))),
            Op::Shutdown { cause, grace_ms } => {
                self.begin_shutdown(Some(rid.clone()), cause, grace_ms.unwrap_or(DEFAULT_GRACE));
                Ok(None)
            }
        }
    }

    fn find(&self, id: &str) -> Result<&Process, Fault> {
        let serial = self.ids.get(id);
        let process = serial.and_then(|serial| self.processes.get(serial));
        process.map(Box::as_ref).ok_or_else(|| Fault::new(FaultKind::NotFound, "no such process"))
    }

    fn resize(&mut self, id: &str, size: Size) -> Result<(), Fault> {
        let serial = self.find(id)?.serial;
        let Some(process) = self.processes.get_mut(&serial) else {
            return Ok(());
        };
        if process.pty.is_none() {
            return Err(Fault::new(FaultKind::BadRequest, "it has no terminal"));
        }
        let master = process.streams[0].fd.as_ref().filter(|_| process.exit.is_none());
        let master = master.ok_or_else(|| Fault::new(FaultKind::NotRunning, "it has ended"))?;
        pty::resize(master, size).map_err(|errno| Fault::of(FaultKind::Other, errno, "resize"))?;
        process.pty = Some(size);
        Ok(())
    }

    /// Answers the waits that have something to tell or whose time is over.
    pub(super) fn answer_waits(&mut self, serial: u32) {
        let now = self.now();
        let Some(process) = self.processes.get_mut(&serial) else {
            return;
        };
        let ends = [0, 1].map(|s| process.streams[s].ring.end());
        let over = process.exit.is_some();
        let (answered, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut process.waits)
            .into_iter()
            .partition(|wait| over || ends[wait.stream] > wait.offset || wait.until <= now);
        match waiting.iter().map(|wait| wait.until).min() {
            Some(until) => self.timers.set(Timer::Wait(serial), until),
            None => self.timers.cancel(Timer::Wait(serial)),
        }
        process.waits = waiting;
        for wait in answered {
            self.tell(Kind::Reply, &Done { rid: &wait.rid, ok: Empty {} });
        }
    }
}

fn output(process: &Process, stream: usize, offset: u64, limit: usize) -> Result<Value, Fault> {
    let ring = &process.streams[stream].ring;
    if offset > ring.end() {
        return Err(Fault::new(FaultKind::BadRequest, "the offset is beyond the end"));
    }
    let offset = offset.max(ring.oldest());
    let parts = ring.slices(offset, limit);
    let next = offset + parts.iter().map(|part| part.len() as u64).sum::<u64>();
    Ok(json!({
        "offset": offset,
        "next": next,
        "oldest": ring.oldest(),
        "end": ring.end(),
        "eof": process.stream_is_over(stream) && next == ring.end(),
        "data": base64::encode(parts),
    }))
}

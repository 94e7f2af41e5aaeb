//! The JSON payloads of the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::wire::fault::{Fault, Kind};

#[derive(Serialize)]
pub struct Hello<'a> {
    pub version: u32,
    pub kind: &'a str,
    pub channel: u32,
    pub pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<&'a str>,
    /// On the control connection: that `Spare` is understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spares: Option<bool>,
    /// On the control connection: that the file operation `watch` is understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watches: Option<bool>,
    /// On the control connection: that `Dial` and the call `ports` are understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dials: Option<bool>,
    /// On the control connection: that the call `egress` is understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<bool>,
}

#[derive(Deserialize)]
pub struct Welcome {
    pub secret: Option<String>,
    pub spare: usize,
}

/// How many idle channels are to be kept dialled from now on.
#[derive(Deserialize)]
pub struct Spare {
    pub n: usize,
}

/// Where a reader begins: at an offset, or at what comes from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum From {
    Offset(u64),
    End(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    End,
}

impl Default for From {
    fn default() -> Self {
        From::Offset(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Size {
    pub cols: u16,
    pub rows: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StdinMode {
    Open,
    Closed,
}

#[derive(Deserialize)]
pub struct Start {
    pub id: String,
    #[serde(default)]
    pub fingerprint: String,
    #[serde(default)]
    pub meta: String,
    pub command: Option<String>,
    pub argv: Option<Vec<String>>,
    pub shell: Option<String>,
    pub cwd: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default = "closed")]
    pub stdin: StdinMode,
    pub pty: Option<Size>,
    pub timeout_ms: Option<u64>,
    pub grace_ms: Option<u64>,
    #[serde(default)]
    pub detach: bool,
    pub orphan_ms: Option<u64>,
    #[serde(default)]
    pub stdout: From,
    #[serde(default)]
    pub stderr: From,
    #[serde(default)]
    pub quiet: bool,
}

fn closed() -> StdinMode {
    StdinMode::Closed
}

#[derive(Deserialize)]
pub struct Attach {
    pub id: String,
    #[serde(default)]
    pub stdout: From,
    #[serde(default)]
    pub stderr: From,
}

/// A connection to a port of the sandbox's loopback.
#[derive(Deserialize)]
pub struct Dial {
    pub port: u16,
    pub timeout_ms: Option<u64>,
}

/// Where somebody listens.
#[derive(Serialize)]
pub struct Dialled<'a> {
    pub host: &'a str,
}

#[derive(Serialize)]
pub struct Position {
    pub offset: u64,
    pub oldest: u64,
    pub end: u64,
}

#[derive(Serialize)]
pub struct Ready<'a> {
    pub id: &'a str,
    pub pid: i32,
    pub attached: bool,
    pub stdout: Position,
    pub stderr: Position,
    pub stdin_offset: u64,
    pub ended: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<Size>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Exited,
    Signaled,
    TimedOut,
    OomKilled,
    Killed,
    SpawnFailed,
}

#[derive(Clone, Debug, Serialize)]
pub struct Exit {
    pub id: String,
    pub code: Option<i32>,
    pub signal: Option<&'static str>,
    pub reason: Reason,
    pub cause: Option<String>,
    pub spawn_error: Option<Fault>,
    pub duration_ms: u64,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub oom: bool,
}

#[derive(Serialize)]
pub struct Ended<'a> {
    pub event: &'static str,
    pub id: &'a str,
    pub exit: &'a Exit,
}

/// What the agent is asked for.
#[derive(Serialize)]
pub struct Asked {
    pub event: &'static str,
}

#[derive(Serialize)]
pub struct Done<'a, T: Serialize> {
    pub rid: &'a Value,
    pub ok: T,
}

#[derive(Serialize)]
pub struct Failed<'a> {
    pub rid: &'a Value,
    pub error: Fault,
}

#[derive(Serialize)]
pub struct Empty {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamName {
    Stdout,
    Stderr,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    List {
        #[serde(default)]
        meta: bool,
    },
    Get {
        id: String,
    },
    Signal {
        id: String,
        signal: String,
        #[serde(default)]
        kill_after_ms: Option<u64>,
    },
    Kill {
        id: String,
        #[serde(default)]
        cause: Option<String>,
        #[serde(default)]
        grace_ms: Option<u64>,
    },
    Resize {
        id: String,
        cols: u16,
        rows: u16,
    },
    Output {
        id: String,
        stream: StreamName,
        offset: u64,
        limit: usize,
    },
    StdinOffset {
        id: String,
    },
    Wait {
        id: String,
        stream: StreamName,
        offset: u64,
        ms: u64,
    },
    Detach {
        id: String,
        detach: bool,
    },
    Statistics {},
    Ping {},
    Ports {},
    Egress {
        #[serde(default)]
        port: Option<u16>,
    },
    Shutdown {
        #[serde(default)]
        cause: Option<String>,
        #[serde(default)]
        grace_ms: Option<u64>,
    },
}

impl Start {
    pub fn check(&self) -> Result<(), Fault> {
        let long = |text: &str, limit: usize| text.chars().count() > limit;
        if self.id.is_empty() || long(&self.id, 64) || long(&self.fingerprint, 128) || long(&self.meta, 4096) {
            return Err(Fault::new(Kind::BadRequest, "id, fingerprint or meta is too long, or id is empty"));
        }
        if self.command.is_some() == self.argv.is_some() {
            return Err(Fault::new(Kind::BadRequest, "exactly one of command and argv is needed"));
        }
        Ok(())
    }
}

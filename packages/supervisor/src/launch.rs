//! A process made ahead of time, which becomes a sandbox's first one when it is told what to run. Forking a large agent and
//! moving a process into its control groups each take several milliseconds; here both lie before the request.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, stdin};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// One JSON line on stdin.
#[derive(Deserialize)]
struct Order {
    file: PathBuf,
    arguments: Vec<String>,
    directory: PathBuf,
    environment: BTreeMap<String, String>,
    uid: Option<u32>,
    gid: Option<u32>,
    /// Becomes stdout and stderr; opened with our rights, before they are given up.
    log: PathBuf,
}

/// Waits for the order and becomes what it says. Descriptor 3 is handed on. Returns when the agent is gone without an order;
/// an error is also in the log, where the agent looks for the reason.
pub fn launch() -> Result<(), String> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
    if line.is_empty() {
        return Ok(());
    }
    let order: Order = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    let log =
        OpenOptions::new().create(true).append(true).mode(0o600).open(&order.log).map_err(|error| error.to_string())?;
    let errors = log.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new(&order.file);
    command.args(&order.arguments).current_dir(&order.directory).env_clear().envs(&order.environment);
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    if let Some(gid) = order.gid {
        command.gid(gid);
    }
    if let Some(uid) = order.uid {
        command.uid(uid);
    }
    Err(format!("{}: {}", order.file.display(), command.exec()))
}

//! A process made ahead of time, which becomes a sandbox's first one when it is told what to run. Moving into control groups
//! and making a network namespace each take milliseconds; here both lie before the request.

use serde::Deserialize;
use std::fs::{OpenOptions, create_dir, write};
use std::io::{BufRead, ErrorKind, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::sys::{self, namespaces};

/// What the nursery hears when it may be told what to run. On the same pipe follows what bubblewrap tells about itself.
pub const READY: &[u8] = b"ready\n";

/// One JSON line on stdin.
#[derive(Deserialize)]
struct Order {
    file: PathBuf,
    arguments: Vec<String>,
    /// Those of `arguments` that make what `leave_host` has made already; they stand together.
    ahead: Vec<String>,
    directory: PathBuf,
    uid: Option<u32>,
    gid: Option<u32>,
    /// Becomes stdout and stderr; opened with our rights, before they are given up.
    log: PathBuf,
}

/// Enters a control group in each directory, waits for the order and becomes what it says; what stdout was is descriptor 3
/// then. Returns when nobody is left to give one; an error of the order is also in the log, where the agent looks for the reason.
pub fn launch(groups: &[PathBuf]) -> Result<(), String> {
    // A session of its own: it must outlive the agent once it is a sandbox.
    let _ = rustix::process::setsid();
    enter(groups).map_err(|error| error.to_string())?;
    // Without the rights bubblewrap does it; half of it is of no use to anyone.
    let left = match namespaces::leave_host() {
        Ok(()) => true,
        Err(rustix::io::Errno::PERM) => false,
        Err(error) => return Err(error.to_string()),
    };
    stdout().write_all(READY).and_then(|()| stdout().flush()).map_err(|error| error.to_string())?;
    // Before anything is opened that would be given this number.
    sys::duplicate_to_info(stdout().as_fd()).map_err(|error| error.to_string())?;
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
    command.args(if left { without(&order.arguments, &order.ahead) } else { order.arguments });
    command.current_dir(&order.directory).env_clear();
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    if let Some(gid) = order.gid {
        command.gid(gid);
    }
    if let Some(uid) = order.uid {
        command.uid(uid);
    }
    Err(format!("{}: {}", order.file.display(), command.exec()))
}

fn enter(groups: &[PathBuf]) -> std::io::Result<()> {
    for group in groups {
        match create_dir(group) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            // Version 1 lets a thread move itself by itself. Moving a process stops every fork on the host for milliseconds.
            _ => write(group.join("tasks"), "0").or_else(|_| write(group.join("cgroup.procs"), "0"))?,
        }
    }
    Ok(())
}

/// `arguments` less the first place where `part` stands in them.
fn without(arguments: &[String], part: &[String]) -> Vec<String> {
    let at = arguments.windows(part.len().max(1)).position(|window| window == part);
    let (before, rest) = arguments.split_at(at.unwrap_or(arguments.len()));
    [before, rest.get(part.len()..).unwrap_or_default()].concat()
}

#[cfg(test)]
mod tests {
    use super::without;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_the_whole_part_is_left_out() {
        assert_eq!(without(&words("a b c d"), &words("b c")), words("a d"));
        assert_eq!(without(&words("a b"), &words("a b")), words(""));
        assert_eq!(without(&words("a b x c"), &words("b c")), words("a b x c"));
        assert_eq!(without(&words("a b"), &[]), words("a b"));
        assert_eq!(without(&words("a"), &words("a b")), words("a"));
    }
}

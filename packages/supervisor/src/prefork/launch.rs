//! A process made ahead of time, which becomes a sandbox's first one when it is told how. Moving into control groups and making
//! a network namespace each take milliseconds; here both lie before the request, and so does the start of bubblewrap.

use serde::Deserialize;
use std::fs::{OpenOptions, create_dir, write};
use std::io::{ErrorKind, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::root::mount_terminals;
use crate::sys::{self, namespaces};

/// What the prefork process reads when it may be told how. On the same pipe follows what bubblewrap tells about itself.
pub const READY: &[u8] = b"ready\n";

/// How bubblewrap takes over the devices that are there already.
const OWN_DEVICES: [&str; 3] = ["--dev-bind", "/dev", "/dev"];

/// The one argument, as JSON.
#[derive(Deserialize)]
struct Order {
    /// Control groups to enter, made where they are missing.
    groups: Vec<PathBuf>,
    /// bubblewrap, which reads the rest of its arguments from descriptor 4 and tells of itself on descriptor 3.
    file: PathBuf,
    /// Arguments for what `leave_host` makes, where it could not.
    namespaces: Vec<String>,
    /// Arguments for devices, where there are none in the root directory already (root.rs).
    devices: Vec<String>,
    arguments: Vec<String>,
    /// From the prefork process: whether it has entered a root directory of its own.
    #[serde(default)]
    own_root: bool,
    uid: Option<u32>,
    gid: Option<u32>,
    /// Becomes stdout and stderr; opened with our rights, before they are given up.
    log: PathBuf,
}

/// Does what the order says and becomes its program, with what stdout was as descriptor 3 and what stdin was as descriptor 4.
/// It reads 4 to its end before it does anything: when nobody is left to write there, it finds no program to run, and ends.
pub fn launch(order: &str) -> Result<(), String> {
    let order: Order = serde_json::from_str(order).map_err(|error| error.to_string())?;
    become_program(&order).map_err(|error| format!("{}: {error}", order.file.display()))
}

fn become_program(order: &Order) -> std::io::Result<()> {
    // Before anything is opened that would be given these numbers.
    sys::duplicate(stdout().as_fd(), 3)?;
    sys::duplicate(stdin().as_fd(), 4)?;
    // A session of its own: it must outlive the agent once it is a sandbox.
    let _ = rustix::process::setsid();
    enter(&order.groups)?;
    // Without the rights bubblewrap does it; half of it is of no use to anyone.
    let left = match namespaces::leave_host() {
        Ok(()) => true,
        Err(rustix::io::Errno::PERM) => false,
        Err(error) => return Err(error.into()),
    };
    let devices = match order.own_root.then(mount_terminals) {
        Some(Ok(())) => OWN_DEVICES.map(String::from).to_vec(),
        _ => order.devices.clone(),
    };
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&order.log)?;
    let errors = log.try_clone()?;
    let mut command = Command::new(&order.file);
    command.args(if left { &[][..] } else { &order.namespaces }).args(devices).args(&order.arguments);
    command.current_dir("/").env_clear();
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    if let Some(gid) = order.gid {
        command.gid(gid);
    }
    if let Some(uid) = order.uid {
        command.uid(uid);
    }
    stdout().write_all(READY)?;
    stdout().flush()?;
    Err(command.exec())
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

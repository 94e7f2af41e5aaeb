//! Keeps the processes of `launch` and speaks for them: forking takes a large agent milliseconds, in which it does nothing
//! else, and us a fraction of one.
//!
//! Its arguments are the program that they become, and the paths of the host that they need.
//!
//! JSON lines. From the agent: `{"make": name, "order": …}` with the order of `launch`, `{"run": name, "arguments": […]}`, or
//! `{"drop": name}` for one that is of no use any more.
//! To it: `{"ready": name, "pid": …}`; after `run` `{"inner": name, "pid": …}`, PID 1 of the sandbox by its id on the host, or
//! null when it could not be set up; `{"gone": name}` for one that ended before its order.

mod launch;
mod root;

pub use launch::launch;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::remove_dir;
use std::io::{Read, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use self::launch::READY;
use crate::sys;

#[derive(Deserialize)]
#[serde(untagged)]
enum Message {
    Make { make: String, order: serde_json::Value },
    Run { run: String, arguments: Vec<String> },
    Drop { drop: String },
}

/// How many preforked processes share the same instance of `/proc` (root.rs). Each instance costs memory in every control group there is.
const PROCESSES_PER_PROC: u32 = 16;

struct Preforked {
    child: Child,
    groups: Vec<PathBuf>,
    /// Where it hears the rest of its arguments; gone once it has.
    rest: Option<ChildStdin>,
    /// What it says; gone once that is at its end.
    says: Option<ChildStdout>,
    said: Vec<u8>,
    told: bool,
}

#[derive(Default)]
struct Prefork {
    own_root: bool,
    made: u32,
    /// Those that wait or begin. One that has become a sandbox is none any more: thousands may live.
    preforked: BTreeMap<String, Preforked>,
    input: Vec<u8>,
}

/// Returns when the agent is gone. Those that still wait end with us, their control groups too; the sandboxes go on.
pub fn keep(program: &Path, paths: &[PathBuf]) -> Result<(), Errno> {
    // Without it everything works as well, and more slowly.
    let own_root = root::enter(program, paths).unwrap_or(false);
    sys::setup::block_signal(libc::SIGCHLD);
    let children = sys::signalfd(&[libc::SIGCHLD])?;
    let mut prefork = Prefork { own_root, ..Prefork::default() };
    loop {
        let (events, names) = {
            let input = stdin();
            let mut fds = vec![PollFd::new(&input, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
            let mut names = Vec::new();
            for (name, says) in prefork.preforked.iter().filter_map(|(name, one)| Some((name, one.says.as_ref()?))) {
                fds.push(PollFd::new(says, PollFlags::IN));
                names.push(name.clone());
            }
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            (fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>(), names)
        };
        for (name, _) in names.iter().zip(&events[2..]).filter(|(_, happened)| **happened) {
            prefork.listen(name);
        }
        if events[1] {
            sys::read_signals(children.as_fd(), |_, _| {});
            prefork.reap();
        }
        if events[0] && !prefork.hear() {
            prefork.close();
            return Ok(());
        }
    }
}

fn tell(message: &serde_json::Value) {
    // An agent that does not listen is gone, which its end of stdin tells.
    let _ = writeln!(stdout(), "{message}");
}

impl Prefork {
    /// False at the end of stdin.
    fn hear(&mut self) -> bool {
        let mut piece = [0; 16 << 10];
        match rustix::io::read(stdin(), &mut piece) {
            Ok(0) => return false,
            Ok(count) => self.input.extend_from_slice(&piece[..count]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return false,
        }
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            match serde_json::from_slice::<Message>(&line) {
                Ok(Message::Make { make, order }) => self.make(make, order),
                Ok(Message::Run { run, arguments }) => self.run(&run, &arguments),
                Ok(Message::Drop { drop }) => self.drop(&drop),
                Err(_) => {}
            }
        }
        true
    }

    fn make(&mut self, name: String, mut order: serde_json::Value) {
        order["own_root"] = self.own_root.into();
        if self.own_root && self.made.is_multiple_of(PROCESSES_PER_PROC) {
            // Where the kernel refuses it, they have the host's.
            let _ = root::renew_proc();
        }
        self.made = self.made.wrapping_add(1);
        let groups =
            order["groups"].as_array().into_iter().flatten().filter_map(|group| Some(group.as_str()?.into())).collect();
        let mut command = Command::new("/proc/self/exe");
        command.arg("--launch").arg(order.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            return tell(&json!({ "gone": name }));
        };
        let (rest, says) = (child.stdin.take(), child.stdout.take());
        self.preforked.insert(name, Preforked { child, groups, rest, says, said: Vec::new(), told: false });
    }

    fn run(&mut self, name: &str, arguments: &[String]) {
        let rest = self.preforked.get_mut(name).and_then(|one| one.rest.take());
        let bytes: Vec<u8> = arguments.iter().flat_map(|argument| [argument.as_bytes(), b"\0"].concat()).collect();
        if rest.is_none_or(|mut rest| rest.write_all(&bytes).is_err()) {
            if let Some(one) = self.preforked.get_mut(name) {
                one.told = true;
            }
            tell(&json!({ "inner": name, "pid": null }));
        }
    }

    /// It is told `gone`, as each that ends before its time.
    fn drop(&mut self, name: &str) {
        if let Some(one) = self.preforked.get_mut(name).filter(|one| one.rest.is_some()) {
            let _ = one.child.kill();
        }
    }

    fn listen(&mut self, name: &str) {
        let Some(one) = self.preforked.get_mut(name) else { return };
        let mut piece = [0; 1024];
        let count = one.says.as_mut().map_or(0, |says| says.read(&mut piece).unwrap_or(0));
        one.said.extend_from_slice(&piece[..count]);
        if one.said.starts_with(READY) {
            one.said.drain(..READY.len());
            tell(&json!({ "ready": name, "pid": one.child.id() }));
        }
        let pid = child_pid(&one.said);
        // bubblewrap dies of a pipe that closes while it still writes: it is read to the end.
        if count == 0 {
            one.says = None;
        }
        if one.rest.is_none() && !one.told && (pid.is_some() || count == 0) {
            one.told = true;
            tell(&json!({ "inner": name, "pid": pid }));
        }
        if one.says.is_none() && one.rest.is_none() {
            self.preforked.remove(name);
        }
    }

    /// Takes note of those that have ended. A sandbox's control groups are the agent's to remove.
    fn reap(&mut self) {
        while let Ok(Some((pid, _))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get().cast_unsigned();
            let ended = self.preforked.iter().find(|(_, one)| one.child.id() == pid);
            // A sandbox's monitor: its end is the agent's to notice.
            let Some(name) = ended.map(|(name, _)| name.clone()) else { continue };
            let Some(one) = self.preforked.remove(&name) else { continue };
            if one.rest.is_some() {
                remove(&one.groups);
                tell(&json!({ "gone": name }));
            } else if !one.told {
                tell(&json!({ "inner": name, "pid": null }));
            }
        }
    }

    fn close(&mut self) {
        for mut one in std::mem::take(&mut self.preforked).into_values().filter(|one| one.rest.is_some()) {
            let _ = one.child.kill();
            let _ = one.child.wait();
            remove(&one.groups);
        }
    }
}

fn remove(groups: &[PathBuf]) {
    for group in groups {
        let _ = remove_dir(group);
    }
}

/// Of bubblewrap's `--info-fd`: a small JSON object, which may not be there to its end.
fn child_pid(said: &[u8]) -> Option<u32> {
    let text = str::from_utf8(said).ok()?;
    let (digits, _) = text.split_once("\"child-pid\": ")?.1.split_once(|after: char| !after.is_ascii_digit())?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::child_pid;

    #[test]
    fn the_pid_is_known_once_its_last_digit_is() {
        assert_eq!(child_pid(b"{\n    \"child-pid\": 1234"), None);
        assert_eq!(child_pid(b"{\n    \"child-pid\": 1234,\n    \"net-namespace\": 5\n}\n"), Some(1234));
        assert_eq!(child_pid(b"{\n    \"child-pid\": 77\n}\n"), Some(77));
        assert_eq!(child_pid(b""), None);
    }
}

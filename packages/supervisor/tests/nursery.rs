//! The process that makes and holds launchers, as the agent speaks to it.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Nursery {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Nursery {
    fn start() -> Nursery {
        let mut child = Command::new(env!("CARGO_BIN_EXE_supervisor"))
            .arg("--nursery")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()).lines());
        Nursery { child, input, output }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn hear(&mut self) -> Value {
        serde_json::from_str(&self.output.next().unwrap().unwrap()).unwrap()
    }

    /// The process id of one that waits for its order.
    fn make(&mut self, name: &str) -> i32 {
        self.say(&json!({ "make": name, "groups": [] }));
        let ready = self.hear();
        assert_eq!(ready["ready"], name);
        i32::try_from(ready["pid"].as_i64().unwrap()).unwrap()
    }
}

fn order(name: &str, log: &PathBuf, script: &str) -> Value {
    json!({
        "run": name, "file": "/bin/sh", "arguments": ["-c", script, "--left-out", "kept"], "ahead": ["--never-there"],
        "directory": "/", "uid": null, "gid": null, "log": log,
    })
}

fn log_file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("nursery-{name}"));
    let _ = std::fs::remove_file(&path);
    path
}

fn kill(pid: i32) {
    // SAFETY: takes two integers.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn one_becomes_what_its_order_says_and_its_pid_inside_is_told() {
    let mut nursery = Nursery::start();
    let log = log_file("runs");
    let pid = nursery.make("a");
    nursery.make("b");
    let script = r#"echo $$; echo oops >&2; cat; printf '{\n    "child-pid": 4242\n}\n' >&3"#;
    nursery.say(&order("a", &log, script));
    assert_eq!(nursery.hear(), json!({ "inner": "a", "pid": 4242 }));
    // Its end is nobody's business, and `b` still waits.
    nursery.say(&order("b", &log_file("other"), "exit 1"));
    assert_eq!(nursery.hear(), json!({ "inner": "b", "pid": null }));
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text, format!("{pid}\noops\n"));
}

#[test]
fn one_that_ends_early_is_told_gone_and_an_order_to_it_is_refused() {
    let mut nursery = Nursery::start();
    let pid = nursery.make("a");
    kill(pid);
    assert_eq!(nursery.hear(), json!({ "gone": "a" }));
    nursery.say(&order("a", &log_file("gone"), "true"));
    assert_eq!(nursery.hear(), json!({ "inner": "a", "pid": null }));
    nursery.say(&json!({ "make": "c", "groups": ["/proc/none/group"] }));
    assert_eq!(nursery.hear(), json!({ "gone": "c" }));
}

#[test]
fn the_end_of_the_agent_ends_those_that_wait_and_spares_what_runs() {
    let mut nursery = Nursery::start();
    let log = log_file("outlives");
    let (running, waiting) = (nursery.make("a"), nursery.make("b"));
    nursery.say(&order("a", &log, r#"printf '{ "child-pid": 7 }' >&3; kill -STOP $$"#));
    assert_eq!(nursery.hear(), json!({ "inner": "a", "pid": 7 }));
    nursery.input = None;
    assert!(nursery.child.wait().unwrap().success());
    assert!(!PathBuf::from(format!("/proc/{waiting}")).exists());
    assert!(std::fs::read_to_string(format!("/proc/{running}/cmdline")).unwrap().starts_with("/bin/sh"));
    kill(running);
}

//! The process that forks ahead and holds what it forked, as the agent speaks to it.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

struct Prefork {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Prefork {
    fn start() -> Prefork {
        Prefork::of(&format!("{TESTS}/programs/stand-in"))
    }

    fn of(program: &str) -> Prefork {
        let mut child = Command::new(env!("CARGO_BIN_EXE_supervisor"))
            .args(["--prefork", program, TESTS, env!("CARGO_TARGET_TMPDIR")])
            .args(["/usr", "/bin", "/lib", "/lib64"].iter().filter(|path| PathBuf::from(path).exists()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()).lines());
        Prefork { child, input, output }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn hear(&mut self) -> Value {
        serde_json::from_str(&self.output.next().unwrap().unwrap()).unwrap()
    }

    /// The process id of one that waits for the rest of its arguments.
    fn make(&mut self, name: &str, order: &Value) -> i32 {
        self.say(&json!({ "make": name, "order": order }));
        let ready = self.hear();
        assert_eq!(ready["ready"], name);
        i32::try_from(ready["pid"].as_i64().unwrap()).unwrap()
    }

    fn run(&mut self, name: &str, script: &str) {
        self.say(&json!({ "run": name, "arguments": [script] }));
    }
}

fn order(log: &PathBuf) -> Value {
    json!({
        "groups": [], "file": format!("{TESTS}/programs/stand-in"), "namespaces": [], "devices": ["none"],
        "arguments": [], "uid": null, "gid": null, "log": log,
    })
}

fn log_file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("prefork-{name}"));
    let _ = std::fs::remove_file(&path);
    path
}

fn kill(pid: i32) {
    // SAFETY: takes two integers.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn one_becomes_what_its_order_says_and_its_pid_inside_is_told() {
    let mut prefork = Prefork::start();
    let log = log_file("runs");
    let pid = prefork.make("a", &order(&log));
    prefork.make("b", &order(&log_file("other")));
    prefork.run("a", r#"echo $$; echo oops >&2; cat; printf '{\n    "child-pid": 4242\n}\n' >&3"#);
    assert_eq!(prefork.hear(), json!({ "inner": "a", "pid": 4242 }));
    // Its end is nobody's business, and `b` still waits.
    prefork.run("b", "exit 1");
    assert_eq!(prefork.hear(), json!({ "inner": "b", "pid": null }));
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text, format!("{pid}\noops\n"));
}

#[test]
fn one_that_ends_early_is_told_gone_and_to_run_it_is_refused() {
    let mut prefork = Prefork::start();
    let pid = prefork.make("a", &order(&log_file("gone")));
    kill(pid);
    assert_eq!(prefork.hear(), json!({ "gone": "a" }));
    prefork.run("a", "true");
    assert_eq!(prefork.hear(), json!({ "inner": "a", "pid": null }));
    let mut nowhere = order(&log_file("nowhere"));
    nowhere["groups"] = json!(["/proc/none/group"]);
    prefork.say(&json!({ "make": "c", "order": nowhere }));
    assert_eq!(prefork.hear(), json!({ "gone": "c" }));
    let mut nothing = order(&log_file("nothing"));
    nothing["file"] = json!("/no/such/program");
    prefork.make("d", &nothing);
    assert_eq!(prefork.hear(), json!({ "gone": "d" }));
}

#[test]
fn one_that_is_dropped_ends_and_a_sandbox_cannot_be() {
    let mut prefork = Prefork::start();
    let log = log_file("dropped");
    let (running, waiting) = (prefork.make("a", &order(&log)), prefork.make("b", &order(&log)));
    prefork.run("a", r#"printf '{ "child-pid": 7 }' >&3; kill -STOP $$"#);
    assert_eq!(prefork.hear(), json!({ "inner": "a", "pid": 7 }));
    for name in ["a", "b", "never made"] {
        prefork.say(&json!({ "drop": name }));
    }
    assert_eq!(prefork.hear(), json!({ "gone": "b" }));
    assert!(!PathBuf::from(format!("/proc/{waiting}")).exists());
    assert!(PathBuf::from(format!("/proc/{running}")).exists());
    kill(running);
}

#[test]
fn the_end_of_the_agent_ends_those_that_wait_and_spares_what_runs() {
    let mut prefork = Prefork::start();
    let log = log_file("outlives");
    let (running, waiting) = (prefork.make("a", &order(&log)), prefork.make("b", &order(&log_file("waits"))));
    prefork.run("a", r#"printf '{ "child-pid": 7 }' >&3; kill -STOP $$"#);
    assert_eq!(prefork.hear(), json!({ "inner": "a", "pid": 7 }));
    prefork.input = None;
    assert!(prefork.child.wait().unwrap().success());
    assert!(!PathBuf::from(format!("/proc/{waiting}")).exists());
    assert!(std::fs::read_to_string(format!("/proc/{running}/cmdline")).unwrap().contains("/stand-in"));
    kill(running);
}

/// For who may make mounts; for anyone else everything is as on the host.
#[test]
fn those_that_wait_see_the_paths_they_were_given_and_devices_of_their_own() {
    let mut prefork = Prefork::start();
    let (first, second) = (log_file("root"), log_file("root-2"));
    prefork.make("a", &order(&first));
    prefork.make("b", &order(&second));
    let look = r#"echo $(ls -A /) : $(ls /usr/bin/tr) $(ls "$0"); echo > /dev/null; touch /dev/x; : <> /dev/ptmx; ls /dev/pts; tr '\0' ' ' < /proc/$$/cmdline; printf '{ "child-pid": 7 }' >&3"#;
    for name in ["a", "b"] {
        prefork.run(name, look);
        assert_eq!(prefork.hear(), json!({ "inner": name, "pid": 7 }));
    }
    if !Command::new("unshare").args(["--mount", "true"]).status().unwrap().success() {
        return;
    }
    for log in [first, second] {
        let text = std::fs::read_to_string(log).unwrap();
        let outermost: Vec<_> =
            [TESTS, env!("CARGO_TARGET_TMPDIR")].iter().filter_map(|path| path.split('/').nth(1)).collect();
        let (names, found) = text.lines().next().unwrap().split_once(" : ").unwrap();
        for name in names.split(' ') {
            assert!(
                [".proc", "bin", "dev", "lib", "lib64", "proc", "tmp", "usr"].contains(&name)
                    || outermost.contains(&name),
                "{name}"
            );
        }
        assert_eq!(found, format!("/usr/bin/tr {TESTS}/programs/stand-in"));
        assert!(text.contains("Read-only file system"), "{text}");
        // Its own terminals: none but the one that makes them.
        assert!(text.contains("\nptmx\n"), "{text}");
        assert!(text.contains("--dev-bind /dev /dev"), "{text}");
    }
}

/// For who may mount proc. Linux before 5.8 has one instance of it for all.
#[test]
fn sixteen_at_a_time_have_one_proc_and_those_after_them_another() {
    let mut prefork = Prefork::start();
    let log = log_file("proc");
    let (mut pids, mut instances) = (Vec::new(), Vec::new());
    for at in 0..17 {
        let name = at.to_string();
        pids.push(prefork.make(&name, &order(&log)));
        // Each stays: the number of an instance that is gone is given to the next one.
        prefork.run(&name, r#"printf '{ "child-pid": %d }' $(stat -c %d /proc) >&3; kill -STOP $$"#);
        instances.push(prefork.hear()["pid"].as_u64().unwrap());
    }
    pids.into_iter().for_each(kill);
    if !Command::new("unshare").args(["--mount", "mount", "-t", "proc", "proc", "/proc"]).status().unwrap().success() {
        return;
    }
    let (first, others) = instances.split_at(16);
    assert!(first.iter().all(|instance| *instance == first[0]), "{first:?}");
    assert_ne!(first[0], others[0]);
}

#[test]
fn where_the_program_does_not_run_among_those_paths_everything_is_as_on_the_host() {
    let mut prefork = Prefork::of("/usr/bin/false");
    let log = log_file("host");
    prefork.make("a", &order(&log));
    prefork.run("a", r#"tr '\0' ' ' < /proc/$$/cmdline; ls -d /etc; ls /.host; printf '{ "child-pid": 7 }' >&3"#);
    assert_eq!(prefork.hear(), json!({ "inner": "a", "pid": 7 }));
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.contains("stand-in none /etc\n"), "{text}");
    assert!(text.contains("No such file"), "{text}");
}

#[test]
fn the_death_of_the_prefork_ends_those_that_wait() {
    let mut prefork = Prefork::start();
    let pid = prefork.make("a", &order(&log_file("orphan")));
    // SAFETY: takes two integers.
    let watched = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    kill(i32::try_from(prefork.child.id()).unwrap());
    prefork.child.wait().unwrap();
    let mut ended = libc::pollfd { fd: watched as i32, events: libc::POLLIN, revents: 0 };
    // SAFETY: one initialised entry, which outlives the call.
    assert_eq!(unsafe { libc::poll(&mut ended, 1, 10_000) }, 1, "it still waits");
}

//! Starting, ending and killing.

mod support;

use boxoffice_supervisor::wire::Kind;
use serde_json::json;
use std::time::Duration;
use support::{Agent, living, unique, write};

#[test]
fn output_and_exit_code_are_exact() {
    let mut agent = Agent::new();
    let ran = agent.sh("echo hi; echo err >&2; exit 3");
    assert_eq!((ran.stdout.as_slice(), ran.stderr.as_slice()), (&b"hi\n"[..], &b"err\n"[..]));
    assert_eq!(ran.exit["code"], 3);
    assert_eq!(ran.exit["reason"], "exited");
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    let ran = agent.sh("seq 1 200000");
    assert!(ran.stdout == expected.as_bytes());
    assert_eq!(ran.exit["stdout_bytes"], expected.len());
    assert_eq!(agent.sh("printf 'a\\n\\n'").stdout, b"a\n\n");
}

#[test]
fn a_quiet_start_says_nothing_but_output_and_exit() {
    let mut agent = Agent::new();
    let mut channel = agent.start(&json!({"argv": ["/bin/echo", "hi"], "quiet": true}));
    assert_eq!(channel.expect(Kind::Stdout).payload, b"hi\n");
    assert_eq!(channel.expect(Kind::Exit).json()["code"], 0);
    // The channel is idle again and takes the next.
    channel.send(Kind::Stdin, &json!({}));
    channel.send(Kind::Start, &json!({"id": "next", "command": "sleep 0.02; echo later", "quiet": true}));
    assert_eq!(channel.expect(Kind::Stdout).payload, b"later\n");
    channel.expect(Kind::Exit);
}

#[test]
fn the_environment_and_folder_of_a_process() {
    let mut agent = Agent::new();
    std::fs::create_dir(agent.workspace().join("sub")).unwrap();
    let start = json!({"command": "pwd; echo $BASE $A $LANG $HOME", "cwd": "sub", "env": {"A": "ü"}});
    let expected = format!(
        "{}\nfrom PID 1 ü C.UTF-8 {}\n",
        agent.workspace().join("sub").display(),
        agent.folder.join("home").display()
    );
    assert_eq!(String::from_utf8(agent.run(start).stdout).unwrap(), expected);
    // PATH of the merged environment is the one that is searched.
    write(&agent.workspace().join("sub/tool"), "#!/bin/sh\necho found\n", 0o755);
    let path = agent.workspace().join("sub").to_string_lossy().into_owned();
    assert_eq!(agent.run(json!({"argv": ["tool"], "env": {"PATH": path}})).stdout, b"found\n");
}

#[test]
fn a_child_starts_with_default_signals_and_only_its_own_descriptors() {
    let mut agent = Agent::new();
    let ran = agent.sh("grep -E '^Sig(Blk|Ign)' /proc/self/status; echo /proc/self/fd/*");
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(text.contains("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"), "{text}");
    assert!(text.ends_with("/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n"), "{text}");
}

#[test]
fn ends_by_signal_are_told_as_such() {
    let mut agent = Agent::new();
    let ran = agent.sh("kill -TERM $$");
    assert_eq!((&ran.exit["code"], &ran.exit["signal"]), (&json!(null), &json!("SIGTERM")));
    assert_eq!(ran.exit["reason"], "signaled");
    let ran = agent.sh("kill -KILL $$");
    assert_eq!((&ran.exit["signal"], &ran.exit["oom"]), (&json!("SIGKILL"), &json!(false)));
}

#[test]
fn each_kind_of_failed_spawn() {
    let mut agent = Agent::new();
    let workspace = agent.workspace();
    write(&workspace.join("plain"), "#!/bin/sh\n", 0o644);
    write(&workspace.join("garbage"), "\u{1}\u{2}\u{3}\u{4}", 0o755);
    let long = "x".repeat(4 << 20);
    let cases = [
        (json!({"argv": ["/nowhere/tool"]}), "not_found"),
        (json!({"argv": ["no-such-tool"]}), "not_found"),
        (json!({"argv": ["./plain"]}), "permission_denied"),
        (json!({"argv": ["./garbage"]}), "not_executable"),
        (json!({"argv": ["/bin/true"], "cwd": "nowhere"}), "bad_cwd"),
        (json!({"argv": ["/bin/true"], "cwd": "plain"}), "bad_cwd"),
        (json!({"argv": ["/bin/echo", "a\u{0}b"]}), "bad_args"),
        (json!({"argv": []}), "bad_args"),
        (json!({"argv": ["/bin/true"], "env": {"A=B": "c"}}), "bad_args"),
        (json!({"command": "true", "shell": "/no/shell"}), "not_found"),
    ];
    for (start, kind) in cases {
        let mut channel = agent.start(&start);
        let exit = channel.expect(Kind::Exit).json();
        assert_eq!(exit["reason"], "spawn_failed");
        assert_eq!(exit["spawn_error"]["kind"], kind, "{start} {exit}");
        assert_eq!((&exit["code"], &exit["signal"]), (&json!(null), &json!(null)));
        agent.channels.push_back(channel);
    }
    let mut channel = agent.start(&json!({"argv": ["/bin/true"], "env": {"LONG": &long[..3 << 20]}}));
    assert_eq!(channel.expect(Kind::Exit).json()["spawn_error"]["kind"], "bad_args");
    // It is a record like any other end.
    let listed = agent.call(json!({"op": "list"})).unwrap();
    assert!(listed["processes"].as_array().unwrap().iter().all(|process| process["state"] == "ended"));
}

#[test]
fn a_timeout_reaches_every_descendant() {
    let mut agent = Agent::new();
    let time = unique().to_string();
    let double = format!("(setsid sh -c 'sleep {time} & exit' &)");
    let stubborn = format!("sh -c \"trap '' TERM; sleep {time}; sleep {time}; sleep {time}\"");
    let command = format!("sleep {time} & setsid sleep {time} & {double}; {stubborn} & sleep {time}");
    let ran = agent.run(json!({"command": command, "timeout_ms": 500, "grace_ms": 300}));
    assert_eq!(ran.exit["reason"], "timed_out");
    assert_eq!(living(&time), 0, "all are gone when the exit is told");
    assert!(ran.took < Duration::from_secs(3), "{:?}", ran.took);
}

#[test]
fn a_stopped_tree_can_be_killed() {
    let mut agent = Agent::new();
    let time = unique().to_string();
    let command = format!("setsid sh -c 'kill -STOP $$; sleep {time}' {time} & kill -STOP $$; sleep {time}");
    let ran = agent.run(json!({"command": command, "timeout_ms": 200, "grace_ms": 200}));
    assert_eq!(ran.exit["reason"], "timed_out");
    assert_eq!(living(&time), 0);
}

#[test]
fn the_mark_cannot_be_taken_off() {
    let mut agent = Agent::new();
    let ran = agent.sh("prlimit --pid $$ --rttime=1000:1000 2>/dev/null && echo changed; prlimit --pid $$ --rttime >/dev/null && echo read");
    assert_eq!(ran.stdout, b"read\n");
}

#[test]
fn a_background_child_that_holds_stdout_delays_nothing() {
    let mut agent = Agent::new();
    let time = unique().to_string();
    let ran = agent.sh(&format!("sleep {time} & echo done"));
    assert_eq!(ran.stdout, b"done\n");
    assert!(ran.took < Duration::from_millis(450), "{:?}", ran.took);
    assert_eq!(living(&time), 1, "it lives on");
    // It is found by its exec's id after the exec's end.
    let id = ran.exit["id"].clone();
    agent.call(json!({"op": "kill", "id": id, "cause": "released", "grace_ms": 100})).unwrap();
    agent.until("the child is gone", |_| living(&time) == 0);
    assert_eq!(agent.call(json!({"op": "get", "id": id})).unwrap()["exit"]["reason"], "exited");
}

#[test]
fn a_background_child_that_writes_without_end_does_not_hold_the_exit() {
    let mut agent = Agent::new();
    let ran = agent.sh("yes & echo done");
    assert!(ran.took < Duration::from_secs(2), "{:?}", ran.took);
    agent.call(json!({"op": "kill", "id": ran.exit["id"], "cause": "released", "grace_ms": 0})).unwrap();
    assert_eq!(agent.sh("echo next").stdout, b"next\n");
}

#[test]
fn kill_signal_and_their_refusals() {
    let mut agent = Agent::new();
    let mut channel = agent.start(
        &json!({"id": "k", "command": "exec 2>/dev/null; trap 'echo usr' USR1; echo up; while :; do sleep 0.01; done"}),
    );
    channel.expect(Kind::Ready);
    channel.expect(Kind::Stdout);
    agent.call(json!({"op": "signal", "id": "k", "signal": "USR1"})).unwrap();
    assert_eq!(channel.expect(Kind::Stdout).payload, b"usr\n");
    assert_eq!(agent.call(json!({"op": "signal", "id": "k", "signal": "NO"})).unwrap_err()["kind"], "bad_request");
    agent.call(json!({"op": "kill", "id": "k", "cause": "released", "grace_ms": 1000})).unwrap();
    let exit = channel.expect(Kind::Exit).json();
    assert_eq!(
        (&exit["reason"], &exit["cause"], &exit["signal"]),
        (&json!("killed"), &json!("released"), &json!("SIGTERM"))
    );
    assert_eq!(agent.call(json!({"op": "signal", "id": "k", "signal": "TERM"})).unwrap_err()["kind"], "not_running");
    assert_eq!(agent.call(json!({"op": "kill", "id": "nobody", "cause": "x"})).unwrap_err()["kind"], "not_found");
    assert_eq!(agent.call(json!({"op": "nonsense"})).unwrap_err()["kind"], "bad_request");
}

#[test]
fn one_id_is_one_run() {
    let mut agent = Agent::new();
    let start =
        json!({"id": "once", "fingerprint": "a", "meta": "kept", "command": "echo line >> runs; echo out; sleep 0.1"});
    let first = agent.start(&start);
    let second = agent.start(&start);
    for channel in [first, second] {
        assert_eq!(agent.follow(channel, [0, 0]).stdout, b"out\n");
    }
    // Ended: the record answers.
    let mut channel = agent.start(&start);
    let ready = channel.expect(Kind::Ready).json();
    assert_eq!((&ready["attached"], &ready["ended"]), (&json!(true), &json!(true)));
    assert_eq!(agent.follow(channel, [0, 0]).stdout, b"out\n");
    assert_eq!(std::fs::read_to_string(agent.workspace().join("runs")).unwrap(), "line\n");
    let mut channel = agent.start(&json!({"id": "once", "fingerprint": "b", "command": "true"}));
    assert_eq!(channel.expect(Kind::Error).json()["kind"], "conflict");
    assert_eq!(agent.call(json!({"op": "get", "id": "once"})).unwrap()["meta"], "kept");
}

#[test]
fn shutdown_leaves_nothing() {
    let mut agent = Agent::new();
    let time = unique().to_string();
    let mut channel =
        agent.start(&json!({"command": format!("(setsid sleep {time} &); trap '' TERM; sleep {time}; sleep {time}")}));
    channel.expect(Kind::Ready);
    agent.until("both run", |_| living(&time) == 2);
    agent.call(json!({"op": "shutdown", "cause": "released", "grace_ms": 100})).unwrap();
    assert_eq!(living(&time), 0);
    let exit = channel.expect(Kind::Exit).json();
    assert_eq!((&exit["reason"], &exit["cause"]), (&json!("killed"), &json!("released")));
    assert!(agent.child.wait().unwrap().success());
}

#[test]
fn a_bad_frame_ends_its_connection_and_nothing_else() {
    use std::io::Write;
    let mut agent = Agent::new();
    let bad: [&[u8]; 5] = [
        &[0, 0, 0, 0],
        &[255, 255, 255, 255],
        &[1, 0, 0, 0, 0x7f],
        &[2, 0, 0, 0, 0x12, b'{'],
        &[3, 0, 0, 0, 0x21, b'{', b'}'],
    ];
    for bytes in bad {
        let mut channel = agent.channel();
        channel.stream.write_all(bytes).unwrap();
        assert!(channel.next().is_none());
    }
    assert_eq!(agent.sh("echo fine").stdout, b"fine\n");
}

#[test]
fn children_go_before_the_supervisor_when_memory_is_short() {
    let mut agent = Agent::new();
    let score = |text: &str| text.trim().parse::<i32>().unwrap();
    let path = format!("/proc/{}/oom_score_adj", agent.pid());
    let own = score(&std::fs::read_to_string(&path).unwrap());
    // From their first moment: what they start at once inherits it.
    for _ in 0..20 {
        let ran = agent.sh("cat /proc/self/oom_score_adj");
        assert!(score(std::str::from_utf8(&ran.stdout).unwrap()) > own);
    }
    assert_eq!(score(&std::fs::read_to_string(&path).unwrap()), own);
}

#[test]
fn namespaces_and_mounts_are_refused() {
    let mut agent = Agent::new();
    for command in ["unshare -U true", "unshare -m true", "mount -t tmpfs none /mnt", "umount /proc"] {
        assert_ne!(agent.sh(&format!("exec 2>/dev/null; {command}")).exit["code"], 0, "{command}");
    }
    let mut free = Agent::with(&["--no-seccomp"]);
    assert_eq!(free.sh("echo fine").stdout, b"fine\n");
}

//! Flow control, attaching, coming back, terminals and stdin.

mod support;

use boxoffice_supervisor::wire::Kind;
use serde_json::json;
use std::io::Write;
use std::time::{Duration, Instant};
use support::{Agent, living, unique};

const WINDOW: u64 = 768 << 10;

#[test]
fn a_reader_that_does_not_acknowledge_stops_the_producer() {
    let mut agent = Agent::new();
    let mut channel = agent.start(&json!({"id": "y", "command": "yes"}));
    channel.expect(Kind::Ready);
    let mut got = 0;
    while got < WINDOW {
        got += channel.expect(Kind::Stdout).payload.len() as u64;
    }
    assert_eq!(got, WINDOW);
    channel.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(std::io::Read::read(&mut channel.stream, &mut [0]).is_err(), "nothing comes beyond the window");
    let before = agent.resident_kib();
    channel.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for _ in 0..200 {
        agent.acknowledge(channel.number, [got, 0]);
        got += channel.expect(Kind::Stdout).payload.len() as u64;
    }
    assert!(agent.resident_kib() < before + 512, "memory is flat: {} then {}", before, agent.resident_kib());
    agent.call(json!({"op": "kill", "id": "y", "cause": "released", "grace_ms": 0})).unwrap();
}

#[test]
fn several_readers_are_paced_by_the_fastest_and_the_slow_one_is_told() {
    let mut agent = Agent::new();
    let mut slow = agent.start(&json!({"id": "m", "command": "read line; seq 1 1000000", "stdin": "open"}));
    slow.expect(Kind::Ready);
    let mut fast = agent.channel();
    fast.send(Kind::Attach, &json!({"id": "m", "stdout": 0, "stderr": 0}));
    fast.send_bytes(Kind::Stdin, b"go\n");
    let ran = agent.follow(fast, [0, 0]);
    let expected: String = (1..=1_000_000).map(|n| format!("{n}\n")).collect();
    assert!(ran.stdout == expected.as_bytes());
    // What the slow one got until then is whole frames of the same bytes.
    let mut got = Vec::new();
    loop {
        let frame = slow.next().unwrap();
        match frame.kind {
            0x01 => got.extend_from_slice(&frame.payload),
            0x23 => break assert_eq!(frame.json()["kind"], "gone"),
            other => panic!("frame {other:#x}"),
        }
    }
    assert!(got.len() < expected.len() && expected.as_bytes().starts_with(&got));
    // Its channel is idle and can be used.
    slow.send(Kind::Start, &json!({"id": "again", "command": "echo fine"}));
    slow.expect(Kind::Ready);
    assert_eq!(slow.expect(Kind::Stdout).payload, b"fine\n");
}

#[test]
fn an_agent_that_dies_in_mid_stream_comes_back_and_misses_nothing() {
    let mut agent = Agent::new();
    let mut channel = agent.start(&json!({"id": "s", "command": "seq 1 600000; echo end >&2"}));
    channel.expect(Kind::Ready);
    let mut all = Vec::new();
    for cut in [300_000usize, 1_100_000, 2_500_000] {
        while all.len() < cut {
            let frame = channel.expect(Kind::Stdout);
            all.extend_from_slice(&frame.payload);
            agent.acknowledge(channel.number, [all.len() as u64, 0]);
        }
        drop(channel);
        agent.restart();
        channel = agent.channel();
        channel.send(Kind::Attach, &json!({"id": "s", "stdout": all.len(), "stderr": 0}));
        let ready = channel.expect(Kind::Ready).json();
        assert_eq!(ready["stdout"]["offset"], all.len(), "{ready}");
    }
    let ran = agent.follow(channel, [all.len() as u64, 0]);
    all.extend_from_slice(&ran.stdout);
    let expected: String = (1..=600_000).map(|n| format!("{n}\n")).collect();
    assert!(all == expected.as_bytes(), "{} of {}", all.len(), expected.len());
    assert_eq!(ran.stderr, b"end\n");
}

#[test]
fn an_attached_process_blocks_without_a_reader_and_a_detached_one_wraps() {
    let mut agent = Agent::new();
    for (id, detach, blocked) in [("blocks", false, true), ("wraps", true, false)] {
        let command = "head -c 3000000 /dev/zero; touch written-$ID; echo tail";
        let mut channel = agent.start(&json!({"id": id, "command": command, "detach": detach, "env": {"ID": id}}));
        channel.expect(Kind::Ready);
        drop(channel);
        let marker = agent.workspace().join(format!("written-{id}"));
        if blocked {
            let end = |agent: &mut Agent| {
                let message = json!({"op": "output", "id": id, "stream": "stdout", "offset": 0, "limit": 0});
                agent.call(message).unwrap()["end"].as_u64().unwrap()
            };
            agent.until("the ring is full", |agent| end(agent) == 1 << 20);
            assert!(!marker.exists());
            let mut channel = agent.channel();
            channel.send(Kind::Attach, &json!({"id": id, "stdout": 0, "stderr": 0}));
            let ran = agent.follow(channel, [0, 0]);
            assert_eq!(ran.stdout.len(), 3_000_005, "not a byte is lost");
        } else {
            assert_eq!(agent.event()["exit"]["stdout_bytes"], 3_000_005);
            let mut channel = agent.channel();
            channel.send(Kind::Attach, &json!({"id": id, "stdout": 0, "stderr": 0}));
            let ready = channel.expect(Kind::Ready).json();
            assert_eq!(ready["stdout"]["offset"], 3_000_005 - (1 << 20));
            let ran = agent.follow(channel, [3_000_005 - (1 << 20), 0]);
            assert_eq!(ran.stdout.len(), 1 << 20);
            assert!(ran.stdout.ends_with(b"\0tail\n"));
        }
        assert!(marker.exists());
    }
}

#[test]
fn attaching_beyond_the_end_or_to_nobody_is_refused() {
    let mut agent = Agent::new();
    let id = agent.sh("echo hi").exit["id"].clone();
    let mut channel = agent.channel();
    channel.send(Kind::Attach, &json!({"id": id, "stdout": 4, "stderr": 0}));
    assert_eq!(channel.expect(Kind::Error).json()["kind"], "bad_request");
    channel.send(Kind::Attach, &json!({"id": "nobody", "stdout": 0, "stderr": 0}));
    assert_eq!(channel.expect(Kind::Error).json()["kind"], "not_found");
    channel.send(Kind::Attach, &json!({"id": id, "stdout": "end", "stderr": "end"}));
    assert_eq!(channel.expect(Kind::Ready).json()["stdout"]["offset"], 3);
    assert_eq!(channel.expect(Kind::Exit).json()["code"], 0);
}

#[test]
fn orphans_end_after_their_time() {
    let mut agent = Agent::new();
    let time = unique().to_string();
    let start = json!({"id": "o", "command": format!("sleep {time}"), "orphan_ms": 300});
    let mut channel = agent.start(&start);
    channel.expect(Kind::Ready);
    drop(channel);
    // A reader that comes back in time saves it.
    let mut channel = agent.channel();
    channel.send(Kind::Attach, &json!({"id": "o", "stdout": 0, "stderr": 0}));
    channel.expect(Kind::Ready);
    let begun = Instant::now();
    drop(channel);
    let event = agent.event();
    assert_eq!((&event["exit"]["reason"], &event["exit"]["cause"]), (&json!("killed"), &json!("disconnect")));
    assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
    assert_eq!(living(&time), 0);
}

#[test]
fn the_clock_of_orphans_stands_while_the_agent_is_away() {
    let mut agent = Agent::new();
    let time = unique().to_string();
    let mut channel = agent.start(&json!({"id": "o", "command": format!("sleep {time}"), "orphan_ms": 100}));
    channel.expect(Kind::Ready);
    agent.drop_links();
    drop(channel);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(living(&time), 1);
    agent.welcome_back();
    assert_eq!(agent.event()["exit"]["cause"], "disconnect");
    let now = agent.start(&json!({"id": "n", "command": format!("sleep {time}"), "orphan_ms": 0}));
    drop(now);
    assert_eq!(agent.event()["exit"]["cause"], "disconnect");
    // Detached ones stay.
    let mut channel =
        agent.start(&json!({"id": "d", "command": "sleep 0.3; echo done", "orphan_ms": 0, "detach": true}));
    channel.expect(Kind::Ready);
    drop(channel);
    assert_eq!(agent.event()["exit"]["reason"], "exited");
}

#[test]
fn output_and_wait_answer_without_a_reader() {
    let mut agent = Agent::new();
    let mut channel =
        agent.start(&json!({"id": "w", "command": "read a; echo $a; read b", "stdin": "open", "detach": true}));
    channel.expect(Kind::Ready);
    let wait = json!({"op": "wait", "id": "w", "stream": "stdout", "offset": 0, "ms": 50});
    let begun = Instant::now();
    agent.call(wait).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(50));
    channel.send_bytes(Kind::Stdin, b"line\n");
    agent.call(json!({"op": "wait", "id": "w", "stream": "stdout", "offset": 0, "ms": 20_000})).unwrap();
    let output = agent.call(json!({"op": "output", "id": "w", "stream": "stdout", "offset": 0, "limit": 100})).unwrap();
    assert_eq!(output, json!({"offset": 0, "next": 5, "oldest": 0, "end": 5, "eof": false, "data": "bGluZQo="}));
    assert_eq!(agent.call(json!({"op": "stdin_offset", "id": "w"})).unwrap()["offset"], 5);
    channel.send_bytes(Kind::Stdin, b"");
    agent.call(json!({"op": "wait", "id": "w", "stream": "stderr", "offset": 0, "ms": 20_000})).unwrap();
    let output = agent.call(json!({"op": "output", "id": "w", "stream": "stdout", "offset": 5, "limit": 100})).unwrap();
    assert_eq!((&output["eof"], &output["data"]), (&json!(true), &json!("")));
    let statistics = agent.call(json!({"op": "statistics"})).unwrap();
    assert_eq!((&statistics["processes"], &statistics["running"]), (&json!(1), &json!(0)));
    agent.call(json!({"op": "ping"})).unwrap();
}

#[test]
fn stdin_of_any_length_arrives_and_ends() {
    let mut agent = Agent::new();
    let body: Vec<u8> = (0..4u32 << 20).map(|n| (n ^ n >> 9) as u8).collect();
    let mut channel = agent.start(&json!({"id": "c", "command": "sleep 0.1; cat", "stdin": "open"}));
    channel.expect(Kind::Ready);
    let mut writer = channel.stream.try_clone().unwrap();
    let sent = body.clone();
    let thread = std::thread::spawn(move || {
        for chunk in sent.chunks(100_000) {
            let mut frame = ((chunk.len() + 1) as u32).to_le_bytes().to_vec();
            frame.push(0);
            frame.extend_from_slice(chunk);
            writer.write_all(&frame).unwrap();
        }
        writer.write_all(&[1, 0, 0, 0, 0]).unwrap();
    });
    let ran = agent.follow(channel, [0, 0]);
    thread.join().unwrap();
    assert!(ran.stdout == body, "{} bytes", ran.stdout.len());
    assert_eq!(agent.call(json!({"op": "stdin_offset", "id": "c"})).unwrap()["offset"], body.len());
}

#[test]
fn stdin_nobody_reads_is_bounded() {
    let mut agent = Agent::new();
    let mut channel = agent.start(&json!({"id": "c", "command": "sleep 1000", "stdin": "open"}));
    channel.expect(Kind::Ready);
    channel.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut frame = (1u32 << 20).to_le_bytes().to_vec();
    frame.extend(vec![0; 1 << 20]);
    let mut refused = false;
    for _ in 0..8 {
        refused |= channel.stream.write_all(&frame).is_err();
    }
    assert!(refused, "the socket is full");
    assert!(agent.resident_kib() < 8 << 10);
    let accepted = agent.call(json!({"op": "stdin_offset", "id": "c"})).unwrap()["offset"].as_u64().unwrap();
    assert!(accepted < 800 << 10, "{accepted}");
    agent.call(json!({"op": "kill", "id": "c", "cause": "released", "grace_ms": 0})).unwrap();
    channel.expect(Kind::Exit);
}

#[test]
fn a_terminal_has_a_size_and_tells_of_a_new_one() {
    let mut agent = Agent::new();
    let command = "trap 'stty size; told=1' WINCH; tty; stty size; while [ -z \"$told\" ]; do sleep 0.01; done; echo ready; exec sleep 1000";
    let mut channel =
        agent.start(&json!({"id": "t", "command": command, "pty": {"cols": 100, "rows": 30}, "stdin": "open"}));
    assert_eq!(channel.expect(Kind::Ready).json()["pty"], json!({"cols": 100, "rows": 30}));
    let read_until = |channel: &mut support::Conn, wanted: &str| {
        let mut text = String::new();
        while !text.contains(wanted) {
            text += &String::from_utf8(channel.expect(Kind::Stdout).payload).unwrap();
        }
        text
    };
    assert!(read_until(&mut channel, "30 100\r\n").starts_with("/dev/pts/"));
    agent.call(json!({"op": "resize", "id": "t", "cols": 81, "rows": 25})).unwrap();
    assert!(read_until(&mut channel, "ready").contains("25 81\r\n"));
    // The interrupt character reaches the programs in front.
    channel.send_bytes(Kind::Stdin, b"\x03");
    let exit = loop {
        let frame = channel.next().unwrap();
        if frame.kind == Kind::Exit as u8 {
            break frame.json();
        }
    };
    assert_eq!(exit["signal"], "SIGINT");
    assert_eq!(
        agent.call(json!({"op": "resize", "id": "t", "cols": 1, "rows": 1})).unwrap_err()["kind"],
        "not_running"
    );
}

#[test]
fn the_end_of_stdin_ends_a_shell_on_a_terminal() {
    let mut agent = Agent::new();
    let mut channel = agent.start(&json!({"argv": ["/bin/sh"], "pty": {"cols": 80, "rows": 24}, "stdin": "open"}));
    channel.expect(Kind::Ready);
    channel.send_bytes(Kind::Stdin, b"exit 7\n");
    channel.send_bytes(Kind::Stdin, b"");
    assert_eq!(agent.follow(channel, [0, 0]).exit["code"], 7);
    let mut channel = agent.start(&json!({"argv": ["/bin/cat"], "pty": {"cols": 80, "rows": 24}, "stdin": "open"}));
    channel.expect(Kind::Ready);
    channel.send_bytes(Kind::Stdin, b"");
    assert_eq!(agent.follow(channel, [0, 0]).exit["code"], 0);
}

#[test]
fn records_are_bounded() {
    let mut agent = Agent::new();
    for n in 0..1010 {
        agent.run(json!({"id": format!("r{n}"), "argv": ["/bin/true"], "quiet": true}));
    }
    let listed = agent.call(json!({"op": "list", "meta": true})).unwrap();
    let listed = listed["processes"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["id"]), (1000, &json!("r10")));
    for n in 0..40 {
        agent.run(json!({"id": format!("b{n}"), "argv": ["head", "-c", "1100000", "/dev/zero"], "quiet": true}));
    }
    let statistics = agent.call(json!({"op": "statistics"})).unwrap();
    assert!(statistics["rings_bytes"].as_u64().unwrap() <= 32 << 20, "{statistics}");
    let output = |id: &str| json!({"op": "output", "id": id, "stream": "stdout", "offset": 0, "limit": 1});
    assert_eq!(agent.call(output("b0")).unwrap()["oldest"], 1_100_000, "the ring went, the record stays");
    assert_eq!(agent.call(output("b39")).unwrap()["oldest"], 1_100_000 - (1 << 20));
    assert_eq!(agent.call(json!({"op": "get", "id": "b0"})).unwrap()["exit"]["stdout_bytes"], 1_100_000);
}

//! File operations, above all what they refuse.

mod support;

use boxoffice_supervisor::wire::Kind;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use support::{Agent, write};

impl Agent {
    /// Sends a request; the answer, and the content that came with it.
    fn ask(&mut self, request: Value) -> Result<(Value, Vec<u8>), Value> {
        let mut channel = self.channel();
        channel.send(Kind::File, &request);
        let mut content = Vec::new();
        let mut result = Value::Null;
        loop {
            let frame = channel.next().expect("the channel ended");
            match frame.kind {
                0x22 => result = frame.json(),
                0x01 => content.extend_from_slice(&frame.payload),
                0x24 => break,
                0x23 => {
                    self.channels.push_back(channel);
                    return Err(frame.json());
                }
                other => panic!("frame {other:#x}"),
            }
            if frame.kind == 0x22 && !matches!(request["op"].as_str(), Some("read" | "list")) {
                break;
            }
        }
        self.channels.push_back(channel);
        Ok((result, content))
    }

    fn kind_of(&mut self, request: Value) -> String {
        self.ask(request).unwrap_err()["kind"].as_str().unwrap().to_owned()
    }

    fn upload(&mut self, request: Value, body: &[u8]) -> Result<Value, Value> {
        let mut channel = self.channel();
        channel.send(Kind::File, &request);
        for chunk in body.chunks(1 << 20) {
            channel.send_bytes(Kind::Stdin, chunk);
        }
        channel.send_bytes(Kind::Stdin, b"");
        let frame = channel.next().unwrap();
        match frame.kind {
            0x22 => {
                self.channels.push_back(channel);
                Ok(frame.json())
            }
            0x23 => {
                assert!(channel.next().is_none(), "a failed upload closes its channel");
                Err(frame.json())
            }
            other => panic!("frame {other:#x}"),
        }
    }

    fn names(&mut self, request: Value) -> Vec<String> {
        let (_, content) = self.ask(request).unwrap();
        let lines =
            std::str::from_utf8(&content).unwrap().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| line["p"].as_str().map_or("(truncated)".into(), str::to_owned)).collect()
    }
}

fn no_temporary_file(folder: &Path) -> bool {
    std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .all(|entry| !entry.file_name().to_string_lossy().starts_with(".boxoffice"))
}

#[test]
fn what_is_written_is_read_back() {
    let mut agent = Agent::new();
    let body: Vec<u8> = (0..10u32 << 20).map(|n| (n ^ n >> 7) as u8).collect();
    let path = "deep/er/fi le\n\u{fc}.bin";
    let answer =
        agent.upload(json!({"op": "write", "path": path, "overwrite": true, "mode": 0o640, "size": body.len()}), &body);
    assert_eq!(answer.unwrap(), json!({"created": true, "size": body.len()}));
    let (stat, content) = agent.ask(json!({"op": "read", "path": path})).unwrap();
    assert!(content == body);
    assert_eq!((&stat["type"], &stat["mode"], &stat["size"]), (&json!("file"), &json!(0o640), &json!(body.len())));
    let (_, content) = agent.ask(json!({"op": "read", "path": path, "offset": 5, "length": 3_000_000})).unwrap();
    assert!(content == body[5..3_000_005]);
    let (_, content) = agent.ask(json!({"op": "read", "path": path, "offset": body.len() - 2, "length": 10})).unwrap();
    assert!(content == body[body.len() - 2..]);
    // Overwritten: other content, the mode stays.
    let answer = agent.upload(json!({"op": "write", "path": path, "overwrite": true}), b"");
    assert_eq!(answer.unwrap(), json!({"created": false, "size": 0}));
    let (stat, content) = agent.ask(json!({"op": "read", "path": path})).unwrap();
    assert_eq!((content.len(), &stat["mode"]), (0, &json!(0o640)));
    assert!(no_temporary_file(&agent.workspace().join("deep/er")));
}

#[test]
fn names_that_are_not_utf_8_are_listed_and_taken() {
    let mut agent = Agent::new();
    let workspace = agent.workspace();
    let raw = |bytes: &[u8]| workspace.join(OsStr::from_bytes(bytes));
    std::fs::create_dir(raw(b"\xff\xfe")).unwrap();
    std::fs::create_dir(raw(b"\xff\xfe/\xe9")).unwrap();
    write(&raw(b"\xff\xfe/\xe9/caf\xe9"), "inside", 0o644);
    symlink(OsStr::from_bytes(b"\xff\xfe/\xe9"), raw(b"to")).unwrap();
    let (top, file) = ("\u{10feff}\u{10fefe}", "\u{10feff}\u{10fefe}/\u{10fee9}/caf\u{10fee9}");
    let listed = agent.names(json!({"op": "list", "path": top, "limit": 10}));
    assert_eq!(listed, ["\u{10fee9}", "\u{10fee9}/caf\u{10fee9}"]);
    for path in [file, "to/caf\u{10fee9}"] {
        assert_eq!(agent.ask(json!({"op": "read", "path": path})).unwrap().1, b"inside", "{path}");
    }
    let (link, _) = agent.ask(json!({"op": "stat", "path": "to"})).unwrap();
    assert_eq!(link["target"], "\u{10feff}\u{10fefe}/\u{10fee9}");
    agent.ask(json!({"op": "symlink", "path": "\u{10fe80}", "target": link["target"]})).unwrap();
    assert_eq!(std::fs::read_link(raw(b"\x80")).unwrap().as_os_str().as_bytes(), b"\xff\xfe/\xe9");
    agent.upload(json!({"op": "write", "path": file, "overwrite": true}), b"new").unwrap();
    agent.ask(json!({"op": "move", "from": file, "to": "\u{10fe81}/\u{10fe82}"})).unwrap();
    assert_eq!(std::fs::read(raw(b"\x81/\x82")).unwrap(), b"new");
    agent.ask(json!({"op": "remove", "path": top, "recursive": true})).unwrap();
    assert!(!raw(b"\xff\xfe").exists());
    // No way around what a path may be: these stay characters of a name.
    let escape = "\u{10fe2e}\u{10fe2e}\u{10fe2f}secret";
    agent.upload(json!({"op": "write", "path": escape, "overwrite": true}), b"x").unwrap();
    assert!(workspace.join(escape).exists());
}

#[test]
fn conditions_of_an_upload() {
    let mut agent = Agent::new();
    write(&agent.workspace().join("empty"), "", 0o644);
    let refused = agent.upload(json!({"op": "write", "path": "empty", "overwrite": false}), b"x");
    assert_eq!(refused.unwrap_err()["kind"], "exists");
    let refused = agent.upload(json!({"op": "write", "path": "empty", "overwrite": true, "if_match": "0-0-0"}), b"x");
    assert_eq!(refused.unwrap_err()["kind"], "changed");
    let refused = agent.upload(json!({"op": "write", "path": "new", "overwrite": true, "if_match": "0-0-0"}), b"x");
    assert_eq!(refused.unwrap_err()["kind"], "changed");
    let etag = agent.ask(json!({"op": "stat", "path": "empty"})).unwrap().0["etag"].clone();
    agent.upload(json!({"op": "write", "path": "empty", "overwrite": true, "if_match": etag}), b"x").unwrap();
    let refused = agent.upload(json!({"op": "write", "path": "short", "overwrite": true, "size": 5}), b"x");
    assert_eq!(refused.unwrap_err()["kind"], "bad_request");
    agent.upload(json!({"op": "write", "path": "once", "overwrite": false}), b"first").unwrap();
    assert_eq!(
        agent.upload(json!({"op": "write", "path": "", "overwrite": true}), b"x").unwrap_err()["kind"],
        "is_directory"
    );
    assert_eq!(
        agent.upload(json!({"op": "write", "path": "once/below", "overwrite": true}), b"x").unwrap_err()["kind"],
        "not_a_directory"
    );
    assert!(no_temporary_file(&agent.workspace()));
}

#[test]
fn what_cannot_fit_is_refused_before_it_is_sent() {
    let mut agent = Agent::new();
    write(&agent.workspace().join("file"), "old", 0o644);
    let mut channel = agent.channel();
    channel.send(Kind::File, &json!({"op": "write", "path": "file", "overwrite": true, "size": 1u64 << 50}));
    channel.send_bytes(Kind::Stdin, b"");
    assert_eq!(channel.expect(Kind::Error).json()["kind"], "no_space");
    assert!(no_temporary_file(&agent.workspace()));
    assert_eq!(std::fs::read_to_string(agent.workspace().join("file")).unwrap(), "old");
    // A body that is shorter than its space is refused as any other.
    let short = json!({"op": "write", "path": "file", "overwrite": true, "size": 2 << 20});
    assert_eq!(agent.upload(short, &[1; 1 << 20]).unwrap_err()["kind"], "bad_request");
    assert!(no_temporary_file(&agent.workspace()));
}

#[test]
fn an_upload_that_is_cut_off_leaves_the_old_file_and_nothing_else() {
    let mut agent = Agent::new();
    let workspace = agent.workspace();
    write(&workspace.join("file"), "old", 0o644);
    let mut channel = agent.channel();
    channel.send(Kind::File, &json!({"op": "write", "path": "file", "overwrite": true}));
    channel.send_bytes(Kind::Stdin, &vec![1; 1 << 20]);
    agent.until("the temporary file is there", |_| !no_temporary_file(&workspace));
    assert_eq!(agent.names(json!({"op": "list", "path": "", "limit": 10})), ["file"], "it is not listed");
    drop(channel);
    agent.until("it is gone", |_| no_temporary_file(&workspace));
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "old");
    // The same when the sandbox ends in the middle.
    let mut channel = agent.channel();
    channel.send(Kind::File, &json!({"op": "write", "path": "file", "overwrite": true}));
    channel.send_bytes(Kind::Stdin, &[1]);
    agent.until("the temporary file is there", |_| !no_temporary_file(&workspace));
    agent.call(json!({"op": "shutdown", "cause": "stopped", "grace_ms": 0})).unwrap();
    assert!(agent.child.wait().unwrap().success());
    assert!(no_temporary_file(&workspace));
}

#[test]
fn links_out_of_the_workspace_are_refused_by_every_operation() {
    let mut agent = Agent::new();
    let workspace = agent.workspace();
    write(&agent.folder.join("secret"), "secret", 0o644);
    std::fs::create_dir(workspace.join("sub")).unwrap();
    symlink("../secret", workspace.join("file")).unwrap();
    symlink(agent.folder.join("secret"), workspace.join("absolute")).unwrap();
    symlink("..", workspace.join("up")).unwrap();
    symlink("/", workspace.join("slash")).unwrap();
    symlink("../../secret", workspace.join("sub/file")).unwrap();
    symlink("/proc/self/root/etc", workspace.join("magic")).unwrap();
    for path in
        ["file", "absolute", "up/secret", "slash/etc/passwd", "sub/file", "magic/passwd", "../secret", "/etc/passwd"]
    {
        assert_eq!(agent.kind_of(json!({"op": "read", "path": path})), "escapes", "read {path}");
        assert_eq!(agent.kind_of(json!({"op": "stat", "path": path, "follow": true})), "escapes", "stat {path}");
        let refused = agent.upload(json!({"op": "write", "path": path, "overwrite": true}), b"x").unwrap_err();
        assert_eq!(refused["kind"], "escapes", "write {path}");
    }
    for path in ["up/new", "slash/tmp/new", "../new"] {
        assert_eq!(agent.kind_of(json!({"op": "mkdir", "path": path, "parents": true})), "escapes");
        assert_eq!(agent.kind_of(json!({"op": "remove", "path": path, "recursive": true})), "escapes");
        assert_eq!(agent.kind_of(json!({"op": "move", "from": "sub", "to": path, "overwrite": true})), "escapes");
        assert_eq!(agent.kind_of(json!({"op": "symlink", "path": path, "target": "x"})), "escapes");
    }
    assert_eq!(agent.kind_of(json!({"op": "list", "path": "up", "limit": 10})), "escapes");
    for target in ["..", "../x", "/etc", "sub/../../x"] {
        agent.ask(json!({"op": "symlink", "path": "new", "target": target, "replace": true})).unwrap();
        assert_eq!(std::fs::read_link(workspace.join("new")).unwrap().to_str(), Some(target));
        assert_eq!(agent.kind_of(json!({"op": "list", "path": "new", "limit": 1})), "escapes", "{target}");
    }
    assert_eq!(std::fs::read_to_string(agent.folder.join("secret")).unwrap(), "secret");
    // A link itself may be looked at, moved and removed.
    assert_eq!(agent.ask(json!({"op": "stat", "path": "file"})).unwrap().0["type"], "symlink");
    agent.ask(json!({"op": "move", "from": "file", "to": "sub/moved", "overwrite": false})).unwrap();
    agent.ask(json!({"op": "remove", "path": "sub", "recursive": true})).unwrap();
    assert!(agent.folder.join("secret").exists());
}

#[test]
fn links_that_stay_inside_work_also_with_an_absolute_target() {
    let mut agent = Agent::new();
    let workspace = agent.workspace();
    std::fs::create_dir_all(workspace.join("a/b")).unwrap();
    write(&workspace.join("a/b/c"), "content", 0o644);
    symlink(workspace.join("a"), workspace.join("absolute")).unwrap();
    symlink("../a/b", workspace.join("a/around")).unwrap();
    symlink(workspace.join("a/b/c"), workspace.join("last")).unwrap();
    symlink("absolute/around/c", workspace.join("chain")).unwrap();
    for path in ["absolute/b/c", "a/around/c", "last", "chain", "absolute/around/c"] {
        assert_eq!(agent.ask(json!({"op": "read", "path": path})).unwrap().1, b"content", "{path}");
    }
    // Written through the link, not over it.
    agent.upload(json!({"op": "write", "path": "chain", "overwrite": true}), b"new").unwrap();
    assert_eq!(std::fs::read_to_string(workspace.join("a/b/c")).unwrap(), "new");
    assert!(workspace.join("chain").is_symlink());
    symlink("loop", workspace.join("loop")).unwrap();
    assert_eq!(agent.kind_of(json!({"op": "read", "path": "loop"})), "other");
}

#[test]
fn a_race_of_links_never_leads_out() {
    let mut agent = Agent::new();
    let workspace = agent.workspace();
    write(&agent.folder.join("secret"), "secret", 0o644);
    std::fs::create_dir_all(workspace.join("real")).unwrap();
    write(&workspace.join("real/secret"), "inside", 0o644);
    let flip = format!("cd {} && while :; do ln -sfn real door; ln -sfn .. door; done", workspace.display());
    let mut channel = agent.start(&json!({"id": "flip", "command": flip, "detach": true}));
    channel.expect(Kind::Ready);
    for _ in 0..300 {
        if let Ok((_, content)) = agent.ask(json!({"op": "read", "path": "door/secret"})) {
            assert_eq!(content, b"inside");
        }
        let _ = agent.upload(json!({"op": "write", "path": "door/new", "overwrite": true}), b"x");
    }
    assert!(!agent.folder.join("new").exists());
    agent.call(json!({"op": "kill", "id": "flip", "cause": "released", "grace_ms": 0})).unwrap();
}

#[test]
fn only_regular_files_are_opened() {
    let mut agent = Agent::new();
    assert_eq!(agent.sh("mkfifo fifo").exit["code"], 0);
    let _socket = std::os::unix::net::UnixListener::bind(agent.workspace().join("sock")).unwrap();
    for path in ["fifo", "sock"] {
        assert_eq!(agent.kind_of(json!({"op": "read", "path": path})), "not_a_file");
        assert_eq!(
            agent.upload(json!({"op": "write", "path": path, "overwrite": true}), b"x").unwrap_err()["kind"],
            "not_a_file"
        );
        assert_eq!(agent.ask(json!({"op": "stat", "path": path})).unwrap().0["type"], "other");
    }
    assert_eq!(agent.kind_of(json!({"op": "read", "root": "sandbox", "path": "/dev/zero"})), "not_a_file");
    assert_eq!(agent.kind_of(json!({"op": "read", "path": ""})), "is_directory");
    assert_eq!(agent.kind_of(json!({"op": "read", "path": "nope"})), "not_found");
    assert_eq!(agent.kind_of(json!({"op": "read", "path": "fifo/x"})), "not_a_directory");
}

#[test]
fn the_tree_is_listed_in_order_and_within_limits() {
    let mut agent = Agent::new();
    let workspace = agent.workspace();
    std::fs::create_dir_all(workspace.join("b/c")).unwrap();
    for name in ["a", "b/1", "b/c/2", "z"] {
        write(&workspace.join(name), name, 0o600);
    }
    symlink("b", workspace.join("link")).unwrap();
    let all = ["a", "b", "b/1", "b/c", "b/c/2", "link", "z"];
    assert_eq!(agent.names(json!({"op": "list", "path": "", "limit": 7})), all);
    assert_eq!(agent.names(json!({"op": "list", "path": "", "depth": 1, "limit": 100})), ["a", "b", "link", "z"]);
    assert_eq!(agent.names(json!({"op": "list", "path": "link", "limit": 100})), ["1", "c", "c/2"]);
    assert_eq!(agent.names(json!({"op": "list", "path": "", "limit": 2})), ["a", "b", "(truncated)"]);
    assert_eq!(agent.kind_of(json!({"op": "list", "path": "a", "limit": 2})), "not_a_directory");
    let (_, content) = agent.ask(json!({"op": "list", "path": "b/c", "limit": 1})).unwrap();
    let line: Value = serde_json::from_slice(&content).unwrap();
    assert_eq!((&line["t"], &line["s"], &line["o"]), (&json!("f"), &json!(5), &json!(0o600)));
    let (usage, _) = agent.ask(json!({"op": "usage"})).unwrap();
    assert_eq!(usage["entries"], 7);
}

#[test]
fn no_depth_is_too_much_for_it() {
    let mut agent = Agent::new();
    let deep = |count: usize| vec!["d"; count].join("/");
    let write = |path: String| json!({"op": "write", "path": path, "overwrite": true});
    agent.upload(json!({"op": "write", "path": "source", "overwrite": true}), b"x").unwrap();
    for refused in [deep(257), deep(1500), deep(2048), "x".repeat(4096)] {
        for request in [
            write(refused.clone()),
            json!({"op": "mkdir", "path": refused, "parents": true}),
            json!({"op": "move", "from": "source", "to": refused, "overwrite": true}),
            json!({"op": "move", "from": refused, "to": "target", "overwrite": true}),
            json!({"op": "stat", "path": refused}),
            json!({"op": "list", "path": refused, "limit": 1}),
        ] {
            let kind = if request["op"] == "write" {
                agent.upload(request, b"x").unwrap_err()["kind"].clone()
            } else {
                agent.ask(request).unwrap_err()["kind"].clone()
            };
            assert_eq!(kind, "bad_request");
        }
    }
    assert_eq!(agent.names(json!({"op": "list", "path": "", "limit": 10})), ["source"]);
    agent.ask(json!({"op": "remove", "path": "source", "recursive": true})).unwrap();
    agent.upload(write(format!("{}/f", deep(255))), b"x").unwrap();
    agent.ask(json!({"op": "move", "from": format!("{}/f", deep(255)), "to": format!("e/{}/f", deep(254))})).unwrap();
    assert_eq!(agent.names(json!({"op": "list", "path": "e", "limit": 1000})).len(), 255);
    agent.ask(json!({"op": "remove", "path": "e", "recursive": true})).unwrap();
    // What a command has made deeper than calls may name.
    let open = |parent: BorrowedFd<'_>, name: &str| openat(parent, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    let mut way = open(CWD, agent.workspace().to_str().unwrap());
    for _ in 0..1700 {
        mkdirat(&way, "n", Mode::from_raw_mode(0o755)).unwrap();
        way = open(way.as_fd(), "n");
    }
    openat(&way, "f", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o644)).unwrap();
    let listed = agent.names(json!({"op": "list", "path": "", "limit": 10000}));
    assert_eq!(listed.len(), 255 + 256 + 1);
    assert_eq!(listed.last().map(String::as_str), Some("(truncated)"));
    assert_eq!(agent.ask(json!({"op": "usage"})).unwrap().0["entries"], 255 + 1700 + 1);
    agent.ask(json!({"op": "remove", "path": "n", "recursive": true})).unwrap();
    assert!(!agent.workspace().join("n").exists());
}

#[test]
fn folders_moves_and_removals() {
    let mut agent = Agent::new();
    let made = |agent: &mut Agent, path: &str, parents: bool| {
        agent.ask(json!({"op": "mkdir", "path": path, "parents": parents}))
    };
    assert_eq!(made(&mut agent, "x/y", true).unwrap().0, json!({"created": true}));
    assert_eq!(made(&mut agent, "x/y", true).unwrap().0, json!({"created": false}));
    assert_eq!(made(&mut agent, "x/y", false).unwrap_err()["kind"], "exists");
    assert_eq!(made(&mut agent, "n/o", false).unwrap_err()["kind"], "not_found");
    write(&agent.workspace().join("x/file"), "1", 0o644);
    write(&agent.workspace().join("other"), "2", 0o644);
    let moved =
        |from: &str, to: &str, overwrite: bool| json!({"op": "move", "from": from, "to": to, "overwrite": overwrite});
    assert_eq!(agent.kind_of(moved("x/file", "other", false)), "exists");
    agent.ask(moved("x/file", "other", true)).unwrap();
    agent.ask(moved("other", "new/place/file", false)).unwrap();
    assert_eq!(agent.kind_of(moved("other", "y", false)), "not_found");
    assert_eq!(agent.kind_of(moved("x", "x/y/z", false)), "bad_request");
    let removed = |path: &str, recursive: bool| json!({"op": "remove", "path": path, "recursive": recursive});
    assert_eq!(agent.kind_of(removed("new", false)), "not_empty");
    agent.ask(removed("new", true)).unwrap();
    assert_eq!(agent.kind_of(removed("new", true)), "not_found");
    assert_eq!(agent.kind_of(removed("", true)), "bad_request");
    agent.ask(removed("x/y", false)).unwrap();
    agent.ask(json!({"op": "symlink", "path": "x/link", "target": "../y"})).unwrap();
    assert_eq!(agent.kind_of(json!({"op": "symlink", "path": "x/link", "target": "y"})), "exists");
}

#[test]
fn the_sandbox_root_takes_absolute_paths() {
    let mut agent = Agent::new();
    let path = agent.folder.join("outside/file").to_string_lossy().into_owned();
    agent.upload(json!({"op": "write", "root": "sandbox", "path": path, "overwrite": true}), b"body").unwrap();
    assert_eq!(agent.ask(json!({"op": "read", "root": "sandbox", "path": path})).unwrap().1, b"body");
    let inode = std::fs::metadata(&path).unwrap().ino();
    let (stat, _) = agent.ask(json!({"op": "stat", "root": "sandbox", "path": path, "follow": true})).unwrap();
    assert!(stat["etag"].as_str().unwrap().starts_with(&format!("{inode:x}-4-")));
}

#[test]
fn a_channel_serves_one_operation_after_the_other() {
    let mut agent = Agent::new();
    write(&agent.workspace().join("f"), "content", 0o644);
    let mut channel = agent.channel();
    for _ in 0..100 {
        channel.send(Kind::File, &json!({"op": "read", "path": "f"}));
        channel.expect(Kind::Result);
        channel.expect(Kind::Stdout);
        channel.expect(Kind::End);
        channel
            .send(Kind::Start, &json!({"id": format!("e{}", support::unique()), "argv": ["/bin/true"], "quiet": true}));
        channel.expect(Kind::Exit);
    }
    // Sent before the answer to the first was there.
    channel.send(Kind::File, &json!({"op": "stat", "path": "f"}));
    channel.send(Kind::File, &json!({"op": "stat", "path": "nope"}));
    channel.expect(Kind::Result);
    channel.expect(Kind::Error);
}

//! The file helper of programs on the host, as one of them speaks to it.

mod support;

use boxoffice_supervisor::wire::{Kind, push_bytes, push_json};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    directory: PathBuf,
}

impl Helper {
    fn start(name: &str) -> Helper {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("helper-{name}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let mut child =
            support::supervisor().arg("--files").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Helper { child, input, output, directory }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.output.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize - 1];
        self.output.read_exact(&mut payload).unwrap();
        (head[4], payload)
    }

    /// The answer, and the content that came with it.
    fn ask(&mut self, mut request: Value, body: Option<&[u8]>) -> Result<(Value, Vec<u8>), Value> {
        request["directory"] = json!(self.directory);
        let mut out = Vec::new();
        push_json(&mut out, Kind::File, &request);
        if let Some(body) = body {
            for chunk in body.chunks(1 << 20) {
                push_bytes(&mut out, Kind::Stdin, chunk);
            }
            push_bytes(&mut out, Kind::Stdin, &[]);
        }
        self.send(&out);
        let (mut result, mut content) = (Value::Null, Vec::new());
        loop {
            match self.frame() {
                (0x22, payload) => result = serde_json::from_slice(&payload).unwrap(),
                (0x01, payload) => content.extend(payload),
                (0x24, _) => return Ok((result, content)),
                (0x23, payload) => return Err(serde_json::from_slice(&payload).unwrap()),
                (other, _) => panic!("frame {other:#x}"),
            }
            if !matches!(request["op"].as_str(), Some("read" | "list")) {
                return Ok((result, content));
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success(), "it ends with its stdin");
    }
}

#[test]
fn serves_one_request_after_another() {
    let mut helper = Helper::start("requests");
    let large: Vec<u8> = (0..5_000_000u32).map(|n| n as u8).collect();
    let written = helper.ask(json!({ "op": "write", "path": "a/b" }), Some(&large)).unwrap().0;
    assert_eq!(written, json!({ "created": true, "size": 5_000_000 }));
    assert_eq!(helper.ask(json!({ "op": "read", "path": "a/b" }), None).unwrap().1, large);
    let listed = helper.ask(json!({ "op": "list", "limit": 10 }), None).unwrap().1;
    assert_eq!(String::from_utf8(listed).unwrap().lines().count(), 2);
    helper.ask(json!({ "op": "remove", "path": "a", "recursive": true }), None).unwrap();
    assert_eq!(helper.ask(json!({ "op": "stat", "path": "a/b" }), None).unwrap_err()["kind"], "not_found");
}

#[test]
fn goes_on_after_a_refused_upload() {
    let mut helper = Helper::start("refused");
    fs::write(helper.directory.join("there"), "kept").unwrap();
    let body = vec![7; 3 << 20];
    let refused = helper.ask(json!({ "op": "write", "path": "there", "overwrite": false }), Some(&body)).unwrap_err();
    assert_eq!(refused["kind"], "exists");
    assert_eq!(helper.ask(json!({ "op": "read", "path": "there" }), None).unwrap().1, b"kept");
}

#[test]
fn follows_links_of_the_guest_and_leaves_nothing_by_them() {
    let mut helper = Helper::start("links");
    let directory = helper.directory.clone();
    fs::write(directory.join("file"), "inside").unwrap();
    fs::write(directory.with_extension("canary"), "canary").unwrap();
    symlink("/workspace/file", directory.join("one")).unwrap();
    symlink("/app/file", directory.join("other")).unwrap();
    symlink(directory.with_extension("canary"), directory.join("out")).unwrap();
    symlink("/workspacex/file", directory.join("beside")).unwrap();
    for name in ["one", "other"] {
        assert_eq!(helper.ask(json!({ "op": "read", "path": name }), None).unwrap().1, b"inside");
    }
    for name in ["out", "beside", "../helper-links.canary", "/etc/hostname"] {
        assert_eq!(helper.ask(json!({ "op": "read", "path": name }), None).unwrap_err()["kind"], "escapes", "{name}");
    }
}

#[test]
fn takes_no_link_for_a_workspace() {
    let mut helper = Helper::start("instead");
    fs::write(helper.directory.join("file"), "inside").unwrap();
    let link = helper.directory.with_extension("link");
    let _ = fs::remove_file(&link);
    symlink(&helper.directory, &link).unwrap();
    helper.directory = link;
    assert_eq!(helper.ask(json!({ "op": "read", "path": "file" }), None).unwrap_err()["kind"], "not_a_directory");
}

#[test]
fn gives_what_root_makes_to_the_owner_of_the_directory() {
    let mut helper = Helper::start("owner");
    if fs::metadata(&helper.directory).unwrap().uid() != 0 {
        return;
    }
    chown(&helper.directory, Some(4242), Some(4343)).unwrap();
    helper.ask(json!({ "op": "write", "path": "a/b/c" }), Some(b"x")).unwrap();
    helper.ask(json!({ "op": "mkdir", "path": "d" }), None).unwrap();
    for path in ["a", "a/b", "a/b/c", "d"] {
        let made = fs::metadata(helper.directory.join(path)).unwrap();
        assert_eq!((made.uid(), made.gid()), (4242, 4343), "{path}");
    }
}

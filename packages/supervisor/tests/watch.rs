//! Watches of directories.

mod support;

use boxoffice_supervisor::wire::Kind;
use serde_json::{Value, json};
use std::fs::{create_dir, create_dir_all, remove_dir, remove_file, rename, write};
use support::{Agent, Conn};

/// A watch and the lines that it has brought.
struct Watch {
    channel: Conn,
    rest: Vec<u8>,
}

impl Watch {
    fn open(agent: &mut Agent, request: Value) -> Result<Watch, Value> {
        let mut channel = agent.channel();
        let mut message = json!({ "op": "watch" });
        message.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
        channel.send(Kind::File, &message);
        let frame = channel.next().expect("the channel ended");
        if frame.kind == Kind::Result as u8 { Ok(Watch { channel, rest: Vec::new() }) } else { Err(frame.json()) }
    }

    /// The next line as words; `None` at the end of the watch.
    fn next(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line: Value = serde_json::from_slice(&line).unwrap();
                let kind = if line["d"] == json!(true) { "/" } else { "" };
                return Some(format!("{} {}{kind}", line["e"].as_str().unwrap(), line["p"].as_str().unwrap_or("")));
            }
            let frame = self.channel.next().expect("the channel ended");
            match frame.kind {
                0x01 => self.rest.extend_from_slice(&frame.payload),
                0x24 => return None,
                other => panic!("frame {other:#x}: {}", String::from_utf8_lossy(&frame.payload)),
            }
        }
    }

    /// Lines up to and with this one.
    fn until(&mut self, last: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line| line != last) {
            lines.push(self.next().expect("the watch ended"));
        }
        lines
    }
}

#[test]
fn tells_of_files_in_one_directory_and_not_of_those_below() {
    let mut agent = Agent::new();
    let top = agent.workspace();
    create_dir(top.join("inner")).unwrap();
    let mut watch = Watch::open(&mut agent, json!({ "path": "" })).unwrap();
    write(top.join("inner/deep"), "x").unwrap();
    write(top.join("a"), "x").unwrap();
    rename(top.join("a"), top.join("b")).unwrap();
    remove_file(top.join("b")).unwrap();
    create_dir(top.join("made")).unwrap();
    assert_eq!(
        watch.until("create made/"),
        ["create a", "write a", "rename a", "create b", "remove b", "create made/"]
    );
}

#[test]
fn follows_new_directories_and_tells_what_was_in_them() {
    let mut agent = Agent::new();
    let top = agent.workspace();
    create_dir_all(top.join("tree/old")).unwrap();
    let outside = top.join("outside/full/deep");
    create_dir_all(&outside).unwrap();
    write(outside.join("file"), "x").unwrap();
    let mut watch = Watch::open(&mut agent, json!({ "path": "tree", "recursive": true })).unwrap();
    rename(top.join("outside/full"), top.join("tree/full")).unwrap();
    assert_eq!(watch.until("create full/deep/file"), ["create full/", "create full/deep/", "create full/deep/file"]);
    write(top.join("tree/full/deep/file"), "y").unwrap();
    write(top.join("tree/old/file"), "y").unwrap();
    // To write anew is to cut off and to write: two events, which are one where they meet.
    let mut lines = watch.until("write old/file");
    lines.dedup();
    assert_eq!(lines, ["write full/deep/file", "create old/file", "write old/file"]);
    rename(top.join("tree/full"), top.join("gone")).unwrap();
    write(top.join("gone/deep/file"), "unseen").unwrap();
    write(top.join("tree/last"), "").unwrap();
    assert_eq!(watch.until("create last"), ["rename full/", "create last"]);
    // The same name again is another directory.
    rename(top.join("gone"), top.join("tree/full")).unwrap();
    watch.until("create full/deep/file");
    write(top.join("tree/full/deep/file"), "z").unwrap();
    watch.until("write full/deep/file");
}

#[test]
fn ends_with_its_directory_and_gives_its_channel_back() {
    let mut agent = Agent::new();
    let top = agent.workspace();
    for moved in [false, true] {
        create_dir(top.join("watched")).unwrap();
        let mut watch = Watch::open(&mut agent, json!({ "path": "watched", "recursive": true })).unwrap();
        if moved {
            rename(top.join("watched"), top.join("elsewhere")).unwrap();
        } else {
            remove_dir(top.join("watched")).unwrap();
        }
        assert_eq!(watch.next(), None);
        agent.channels.push_back(watch.channel);
    }
}

#[test]
fn refuses_what_is_no_directory_and_what_leads_out() {
    let mut agent = Agent::new();
    let top = agent.workspace();
    write(top.join("file"), "x").unwrap();
    std::os::unix::fs::symlink("/etc", top.join("out")).unwrap();
    let kind = |agent: &mut Agent, path: &str| match Watch::open(agent, json!({ "path": path })) {
        Ok(_) => "none".to_owned(),
        Err(error) => error["kind"].as_str().unwrap().to_owned(),
    };
    assert_eq!(kind(&mut agent, "missing"), "not_found");
    assert_eq!(kind(&mut agent, "file"), "not_a_directory");
    assert_eq!(kind(&mut agent, "out"), "escapes");
}

#[test]
fn a_sandbox_has_eight_watches_and_a_number_of_directories() {
    let mut agent = Agent::new();
    let top = agent.workspace();
    let mut watches: Vec<Watch> = (0..8).map(|_| Watch::open(&mut agent, json!({ "path": "" })).unwrap()).collect();
    assert_eq!(Watch::open(&mut agent, json!({ "path": "" })).err().unwrap()["kind"], "busy");
    // All of them hear of the same.
    write(top.join("a"), "").unwrap();
    watches.iter_mut().for_each(|watch| assert_eq!(watch.next().as_deref(), Some("create a")));
    watches.clear();
    for folder in 0..100 {
        for inner in 0..90 {
            create_dir_all(top.join(format!("many/{folder}/{inner}"))).unwrap();
        }
    }
    let mut refused = Value::Null;
    // The supervisor ends the watch of a closed channel a moment later.
    agent.until("the directories are the limit", |agent| {
        match Watch::open(agent, json!({ "path": "many", "recursive": true })) {
            Ok(_) => panic!("it has 9,101 directories"),
            Err(error) => refused = error,
        }
        refused["message"].as_str().unwrap().contains("8,192")
    });
    assert_eq!(refused["kind"], "busy");
    assert!(Watch::open(&mut agent, json!({ "path": "many/1", "recursive": true })).is_ok());
}

#[test]
fn a_reader_that_stands_still_gets_one_overflow_and_what_comes_later() {
    let mut agent = Agent::new();
    let top = agent.workspace();
    let mut watch = Watch::open(&mut agent, json!({ "path": "", "recursive": true })).unwrap();
    let before = agent.resident_kib();
    for number in 0..30_000 {
        let path = top.join(format!("file-with-a-long-name-so-that-the-events-are-long-as-well-{number:06}"));
        write(&path, "").unwrap();
        remove_file(&path).unwrap();
    }
    assert!(agent.resident_kib() < before + 8192, "{before} {}", agent.resident_kib());
    watch.until("overflow ");
    // While changes of before are still on the way, another overflow may stand for this one.
    let told = (0..).map(|number| format!("later-{number}")).find(|name| {
        create_dir(top.join(name)).unwrap();
        loop {
            match watch.next().expect("the watch ended") {
                line if line == format!("create {name}/") => return true,
                line if line == "overflow " => return false,
                _ => {}
            }
        }
    });
    let later = told.unwrap();
    write(top.join(&later).join("file"), "").unwrap();
    watch.until(&format!("create {later}/file"));
}

#[test]
fn the_end_of_the_sandbox_ends_its_watches() {
    let mut agent = Agent::new();
    let mut watch = Watch::open(&mut agent, json!({ "path": "" })).unwrap();
    agent.call(json!({ "op": "shutdown", "cause": "destroyed", "grace_ms": 0 })).unwrap();
    assert!(watch.channel.next().is_none());
}

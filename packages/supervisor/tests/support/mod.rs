//! A small agent: listens, welcomes, and speaks the wire with blocking calls.
#![allow(dead_code)]

use boxoffice_supervisor::wire::{Ack, Kind, push_bytes, push_json};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const SECRET: &str = "abababababababababababababababababababababababababababababababab";
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Conn {
    pub stream: UnixStream,
    pub number: u32,
    input: Vec<u8>,
}

pub struct Frame {
    pub kind: u8,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.payload).unwrap()
    }
}

impl Conn {
    fn new(stream: UnixStream) -> Conn {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Conn { stream, number: 0, input: Vec::new() }
    }

    /// The next frame; `None` at the end of the connection.
    pub fn next(&mut self) -> Option<Frame> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            if let Some(head) = self.input.first_chunk::<4>() {
                let length = u32::from_le_bytes(*head) as usize;
                if self.input.len() >= 4 + length {
                    let rest = self.input.split_off(4 + length);
                    let frame = std::mem::replace(&mut self.input, rest);
                    return Some(Frame { kind: frame[4], payload: frame[5..].to_vec() });
                }
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no frame: {error}"),
            }
        }
    }

    pub fn expect(&mut self, kind: Kind) -> Frame {
        let frame = self.next().expect("the connection ended");
        assert_eq!(frame.kind, kind as u8, "{}", String::from_utf8_lossy(&frame.payload));
        frame
    }

    pub fn send(&mut self, kind: Kind, message: &Value) {
        let mut out = Vec::new();
        push_json(&mut out, kind, message);
        self.stream.write_all(&out).unwrap();
    }

    pub fn send_bytes(&mut self, kind: Kind, payload: &[u8]) {
        let mut out = Vec::new();
        push_bytes(&mut out, kind, payload);
        self.stream.write_all(&out).unwrap();
    }
}

pub struct Agent {
    listener: UnixListener,
    pub child: Child,
    pub folder: PathBuf,
    pub control: Conn,
    pub channels: VecDeque<Conn>,
    rid: u64,
    pub events: Vec<Value>,
}

/// All that a process said.
#[derive(Debug)]
pub struct Ran {
    pub exit: Value,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub took: Duration,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

pub fn unique() -> u32 {
    std::process::id() * 1000 + COUNT.fetch_add(1, Ordering::Relaxed)
}

/// The program under test. `BOXOFFICE_TEST_RUNNER` names an emulator, where this machine cannot run it by itself.
pub fn supervisor() -> Command {
    let program = env!("CARGO_BIN_EXE_supervisor");
    let Some(runner) = std::env::var_os("BOXOFFICE_TEST_RUNNER") else { return Command::new(program) };
    let mut command = Command::new(runner);
    command.arg(program);
    command
}

impl Agent {
    pub fn new() -> Agent {
        Agent::with(&[])
    }

    pub fn with(arguments: &[&str]) -> Agent {
        let folder = std::env::temp_dir().join(format!("boxoffice-supervisor-{}", unique()));
        std::fs::create_dir_all(folder.join("workspace")).unwrap();
        let socket = folder.join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let child = supervisor()
            .args(["--socket".as_ref(), socket.as_os_str()])
            .args(["--workspace".as_ref(), folder.join("workspace").as_os_str()])
            .args(["--home".as_ref(), folder.join("home").as_os_str()])
            .args(arguments)
            .env("BASE", "from PID 1")
            .spawn()
            .unwrap();
        let mut control = accept(&listener);
        let hello = control.expect(Kind::Hello).json();
        assert_eq!((&hello["kind"], &hello["version"]), (&json!("control"), &json!(1)));
        assert_eq!(hello.get("secret"), None);
        for ability in ["spares", "watches", "dials"] {
            assert_eq!(hello[ability], json!(true), "{ability}");
        }
        control.send(Kind::Welcome, &json!({"secret": SECRET, "spare": 3}));
        let channels = VecDeque::new();
        Agent { listener, child, folder, control, channels, rid: 0, events: Vec::new() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    /// An idle channel.
    pub fn channel(&mut self) -> Conn {
        if let Some(channel) = self.channels.pop_front() {
            return channel;
        }
        let mut channel = accept(&self.listener);
        let hello = channel.expect(Kind::Hello).json();
        assert_eq!((&hello["kind"], &hello["secret"]), (&json!("channel"), &json!(SECRET)));
        channel.number = hello["channel"].as_u64().unwrap() as u32;
        channel
    }

    /// The agent dies and comes back: every connection is closed, then a control link is welcomed again.
    pub fn restart(&mut self) {
        self.drop_links();
        self.welcome_back();
    }

    pub fn drop_links(&mut self) {
        self.channels.clear();
        let (control, _) = UnixStream::pair().unwrap();
        self.control = Conn::new(control);
        // Channels that were dialled but not yet taken.
        self.listener.set_nonblocking(true).unwrap();
    }

    pub fn welcome_back(&mut self) {
        self.listener.set_nonblocking(false).unwrap();
        loop {
            let mut conn = accept(&self.listener);
            // Some were dialled before the restart and never looked at: their hello is from then.
            let Some(frame) = conn.next() else { continue };
            let hello = frame.json();
            assert_eq!(hello["secret"], SECRET);
            if hello["kind"] == "control" {
                self.control = conn;
                self.control.send(Kind::Welcome, &json!({"spare": 3}));
                return;
            }
        }
    }

    pub fn start(&mut self, start: &Value) -> Conn {
        let mut channel = self.channel();
        channel.send(Kind::Start, &complete(start));
        channel
    }

    pub fn acknowledge(&mut self, channel: u32, offsets: [u64; 2]) {
        self.control.send_bytes(Kind::Ack, &Ack { channel, offsets }.payload());
    }

    /// Reads a started process to its exit, acknowledging as a good reader does.
    pub fn follow(&mut self, mut channel: Conn, from: [u64; 2]) -> Ran {
        let begun = Instant::now();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            let frame = channel.next().expect("the channel ended");
            match frame.kind {
                0x01 => stdout.extend_from_slice(&frame.payload),
                0x02 => stderr.extend_from_slice(&frame.payload),
                0x20 => continue,
                0x21 => {
                    self.channels.push_front(channel);
                    return Ran { exit: frame.json(), stdout, stderr, took: begun.elapsed() };
                }
                other => panic!("frame {other:#x}: {}", String::from_utf8_lossy(&frame.payload)),
            }
            let offsets = [from[0] + stdout.len() as u64, from[1] + stderr.len() as u64];
            self.acknowledge(channel.number, offsets);
        }
    }

    pub fn run(&mut self, start: Value) -> Ran {
        let channel = self.start(&start);
        self.follow(channel, [0, 0])
    }

    pub fn sh(&mut self, command: &str) -> Ran {
        self.run(json!({ "command": command }))
    }

    /// A call and its reply; events that come between are kept.
    pub fn call(&mut self, mut message: Value) -> Result<Value, Value> {
        self.rid += 1;
        message["rid"] = self.rid.into();
        self.control.send(Kind::Call, &message);
        loop {
            let frame = self.control.next().expect("the control link ended");
            if frame.kind == Kind::Event as u8 {
                self.events.push(frame.json());
                continue;
            }
            let reply = frame.json();
            assert_eq!(reply["rid"], self.rid);
            return match reply.get("ok") {
                Some(ok) => Ok(ok.clone()),
                None => Err(reply["error"].clone()),
            };
        }
    }

    pub fn event(&mut self) -> Value {
        match self.events.pop() {
            Some(event) => event,
            None => self.control.expect(Kind::Event).json(),
        }
    }

    /// Asks until the answer is as wanted; for facts that no event tells.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Agent) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < PATIENCE, "never: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A supervisor that does not end within its patience is a failed test by itself.
        // SAFETY: signals a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Ok(Some(status)) = self.child.try_wait() {
                let _ = std::fs::remove_dir_all(&self.folder);
                if !std::thread::panicking() {
                    assert!(status.success(), "the supervisor ended with {status}");
                }
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            panic!("the supervisor did not end");
        }
    }
}

fn accept(listener: &UnixListener) -> Conn {
    // SAFETY: one poll of one descriptor that stays open.
    let ready = unsafe {
        let mut poll = libc::pollfd { fd: std::os::fd::AsRawFd::as_raw_fd(listener), events: libc::POLLIN, revents: 0 };
        libc::poll(&mut poll, 1, PATIENCE.as_millis() as i32)
    };
    assert_eq!(ready, 1, "nobody dialled");
    Conn::new(listener.accept().unwrap().0)
}

fn complete(start: &Value) -> Value {
    let mut all = json!({
        "id": format!("e{}", unique()), "fingerprint": "f", "meta": "", "env": {}, "stdin": "closed",
        "grace_ms": 1000, "detach": false, "stdout": 0, "stderr": 0, "quiet": false,
    });
    for (name, value) in start.as_object().unwrap() {
        all[name] = value.clone();
    }
    all
}

/// How many living processes have `word` among their arguments.
pub fn living(word: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
    .count()
}

pub fn write(path: &Path, content: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

//! What nobody would send: bytes for the decoder, and file calls of any shape. Seeded, so that a failure comes again.
//! `FUZZ_SECONDS` makes each of them go on for so long, `FUZZ_SEED` is another seed (`npm run fuzz`).

mod support;

use boxoffice_supervisor::wire::message::{Attach, Dial, Op, Start, Welcome};
use boxoffice_supervisor::wire::{Ack, Decoder, Item, Kind, object, push_bytes, push_json};
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, Instant};
use support::Agent;

const INPUTS: u64 = 200_000;
const CALLS: u64 = 10_000;
/// A busy machine makes fewer of them.
const WITHIN: Duration = Duration::from_secs(15);

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// How often a test repeats, and how often it has.
struct Budget {
    most: u64,
    until: Instant,
    spent: u64,
}

impl Budget {
    /// `most` in 15 s, unless the environment says for how long.
    fn new(most: u64) -> Self {
        let seconds = number_of("FUZZ_SECONDS");
        let within = seconds.map_or(WITHIN, Duration::from_secs);
        Self { most: if seconds.is_some() { u64::MAX } else { most }, until: Instant::now() + within, spent: 0 }
    }

    fn spend(&mut self) -> bool {
        let is_left = self.spent < self.most && Instant::now() < self.until;
        if is_left {
            self.spent += 1;
        } else {
            println!("executions: {}", self.spent);
        }
        is_left
    }
}

/// Numbers that follow from a seed (xorshift).
struct Random(u64);

impl Random {
    /// The environment's seed, else `default`.
    fn new(default: u64) -> Self {
        // Never 0, which would stay 0.
        Self(number_of("FUZZ_SEED").map_or(default, |seed| (seed << 1 | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

fn frames() -> Vec<Vec<u8>> {
    let vectors: Value = serde_json::from_str(include_str!("../vectors/wire.json")).unwrap();
    let hex =
        |text: &str| (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect();
    vectors["frames"].as_array().unwrap().iter().map(|frame| hex(frame["frame_hex"].as_str().unwrap())).collect()
}

/// As the supervisor reads a connection, cut at `cut`.
fn decode(input: &[u8], cut: usize) {
    let (first, second) = input.split_at(cut);
    let mut decoder = Decoder::default();
    for mut piece in [first, second] {
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(Item::Frame { kind, payload })) => match kind {
                    Kind::Start => drop(object::<Start>(payload)),
                    Kind::Attach => drop(object::<Attach>(payload)),
                    Kind::Dial => drop(object::<Dial>(payload)),
                    Kind::Welcome => drop(object::<Welcome>(payload)),
                    Kind::Call => drop(object::<Op>(payload)),
                    Kind::Ack => drop(Ack::parse(payload)),
                    _ => {}
                },
                Ok(Some(Item::Data { bytes, .. })) => assert!(bytes.len() <= input.len()),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

#[test]
fn the_decoder_takes_any_bytes() {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let frames = frames();
    let mut budget = Budget::new(INPUTS);
    while budget.spend() {
        let mut input = Vec::new();
        for _ in 0..=random.below(3) {
            input.extend_from_slice(&frames[random.below(frames.len())]);
        }
        input.truncate(4096);
        for _ in 0..random.below(6) {
            let at = random.below(input.len());
            input[at] = random.below(256) as u8;
        }
        let length = 1 + random.below(input.len());
        input.truncate(length);
        decode(&input, random.below(length + 1));
    }
}

/// Never deeper than what a mistake could do no harm to: `up` allows one step above the workspace.
fn path(random: &mut Random, up: bool) -> String {
    let long = "x".repeat(300);
    let deep = vec!["d"; 200].join("/");
    let mut parts: Vec<&str> = (0..random.below(4)).map(|_| random.of(&["a", "b", "c", "l", "ü", "", "."])).collect();
    match random.below(40) {
        0 => parts.push(&long),
        1 => parts.extend([deep.as_str(), &deep]),
        2 => parts.push(&deep),
        3 => parts.push("nul\0"),
        4 if up => parts.insert(0, ".."),
        _ => {}
    }
    parts.join("/")
}

fn call(random: &mut Random) -> Value {
    let (free, kept) = (path(random, true), path(random, false));
    let flag = random.below(2) == 0;
    match random.below(10) {
        0 | 1 => json!({"op": "write", "path": free, "overwrite": flag, "follow": random.below(2) == 0}),
        2 => json!({"op": "read", "path": free, "offset": random.below(9), "length": random.below(9)}),
        3 => json!({"op": "stat", "path": free, "follow": flag}),
        4 => json!({"op": "list", "path": free, "depth": random.below(4), "limit": random.below(20)}),
        5 => json!({"op": "mkdir", "path": free, "parents": flag, "mode": 0o700}),
        6 => json!({"op": "move", "from": kept, "to": path(random, false), "overwrite": flag}),
        7 => json!({"op": "remove", "path": kept, "recursive": flag}),
        8 => {
            let target = random.of(&["a", "l", "../b", "../outside", "/nowhere", "", "c/../.."]);
            json!({"op": "symlink", "path": kept, "target": target, "replace": flag})
        }
        _ => json!({"op": random.of(&["usage", "list", "nothing", "move"]), "limit": 5}),
    }
}

#[test]
fn file_calls_of_any_shape_are_answered() {
    let mut random = Random::new(0x0123_4567_89ab_cdef);
    let mut agent = Agent::new();
    let outside = agent.folder.join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("kept"), "kept").unwrap();
    let mut budget = Budget::new(CALLS);
    while budget.spend() {
        let number = budget.spent;
        let request = call(&mut random);
        let mut channel = agent.channel();
        let mut out = Vec::new();
        push_json(&mut out, Kind::File, &request);
        if request["op"] == "write" {
            push_bytes(&mut out, Kind::Stdin, b"body");
            push_bytes(&mut out, Kind::Stdin, b"");
        }
        channel.stream.write_all(&out).unwrap();
        let content = matches!(request["op"].as_str(), Some("read" | "list"));
        let is_idle = loop {
            match channel.next().map(|frame| frame.kind) {
                Some(0x22) if !content => break true,
                Some(0x24) => break true,
                Some(0x23) => break request["op"] != "write",
                Some(0x22 | 0x01) => {}
                // A message that is no file call ends its channel.
                None => break false,
                Some(kind) => panic!("call {number}: {request}: frame {kind:#x}"),
            }
        };
        if is_idle {
            agent.channels.push_back(channel);
        }
    }
    assert_eq!(std::fs::read_to_string(outside.join("kept")).unwrap(), "kept");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(agent.sh("echo fine").stdout, b"fine\n");
}

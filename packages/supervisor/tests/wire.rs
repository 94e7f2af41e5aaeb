//! The decoder against the vectors that the agent reads too, and against a hostile peer.

use boxoffice_supervisor::wire::message::Start;
use boxoffice_supervisor::wire::{Ack, Decoder, Item, Kind, MAX_DATA, WireError, object, push_bytes};
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../vectors/wire.json")).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Whole frames out of pieces, data put together again.
fn decode(pieces: &[&[u8]]) -> Result<Vec<(u8, Vec<u8>)>, WireError> {
    let mut decoder = Decoder::default();
    let mut frames: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut open = false;
    for piece in pieces {
        let mut input = *piece;
        while let Some(item) = decoder.next(&mut input)? {
            match item {
                Item::Frame { kind, payload } => frames.push((kind as u8, payload.to_vec())),
                Item::Data { kind, bytes, last, .. } => {
                    if !open {
                        frames.push((kind as u8, Vec::new()));
                    }
                    frames.last_mut().unwrap().1.extend_from_slice(bytes);
                    open = !last;
                }
            }
        }
        assert!(input.is_empty(), "a decoder that wants more has to use up what it got");
    }
    Ok(frames)
}

fn parse(kind: u8, payload: &[u8]) -> Result<(), WireError> {
    match kind {
        0x12 => object::<Start>(payload).map(drop),
        0x15 => Ack::parse(payload).map(drop),
        0..=2 => Ok(()),
        _ => object::<Value>(payload).map(drop),
    }
}

#[test]
fn every_vector_decodes_at_every_cut_and_encodes_back() {
    for vector in vectors()["frames"].as_array().unwrap() {
        let frame = bytes(vector["frame_hex"].as_str().unwrap());
        let payload = bytes(vector["payload_hex"].as_str().unwrap());
        let expected = vec![(vector["type"].as_u64().unwrap() as u8, payload.clone())];
        for cut in 0..=frame.len() {
            let (a, b) = frame.split_at(cut);
            assert_eq!(decode(&[a, b]).unwrap(), expected, "{} cut at {cut}", vector["name"]);
        }
        parse(expected[0].0, &payload).unwrap();
        if let Some(json) = vector.get("json") {
            assert_eq!(&object::<Value>(&payload).unwrap(), json);
        }
        if let Some(ack) = vector.get("ack") {
            let parsed = Ack::parse(&payload).unwrap();
            assert_eq!(parsed.channel, ack["channel"].as_u64().unwrap() as u32);
            assert_eq!(parsed.offsets, [ack["stdout"].as_u64().unwrap(), ack["stderr"].as_u64().unwrap()]);
            let mut out = Vec::new();
            push_bytes(&mut out, Kind::Ack, &parsed.payload());
            assert_eq!(out, frame);
        }
    }
}

#[test]
fn every_bad_vector_is_refused() {
    for vector in vectors()["bad"].as_array().unwrap() {
        let input = bytes(vector["hex"].as_str().unwrap());
        let refused = match decode(&[&input]) {
            Err(_) => true,
            Ok(frames) => frames.iter().any(|(kind, payload)| parse(*kind, payload).is_err()),
        };
        assert!(refused, "{}", vector["name"]);
    }
}

/// xorshift64*: the same inputs in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

#[test]
fn a_hostile_peer_can_neither_crash_nor_bloat_the_decoder() {
    let seeds: Vec<Vec<u8>> =
        vectors()["frames"].as_array().unwrap().iter().map(|v| bytes(v["frame_hex"].as_str().unwrap())).collect();
    let mut random = Random(0x5eed);
    for _ in 0..200_000 {
        let mut input = Vec::new();
        for _ in 0..1 + random.below(3) {
            if random.below(4) == 0 {
                input.extend((0..random.below(24)).map(|_| random.next() as u8));
            } else {
                input.extend_from_slice(&seeds[random.below(seeds.len())]);
            }
        }
        for _ in 0..random.below(4) {
            if let Some(byte) = {
                let at = random.below(input.len());
                input.get_mut(at)
            } {
                *byte = random.next() as u8;
            }
        }
        input.truncate(random.below(input.len() + 1) + random.below(8));
        let first = random.below(input.len() + 1);
        let second = first + random.below(input.len() - first + 1);
        let whole = decode(&[&input]);
        let pieces = decode(&[&input[..first], &input[first..second], &input[second..]]);
        assert_eq!(whole, pieces, "the same frames however the input is cut: {input:02x?}");
        for (kind, payload) in whole.unwrap_or_default() {
            let _ = parse(kind, &payload);
            assert!(kind > 2 || payload.len() <= MAX_DATA);
        }
    }
}

//! Frames as they stand on the socket; `WIRE.md` is the specification, `vectors/wire.json` the test.

pub mod base64;
pub mod fault;
pub mod file_name;
pub mod message;

use serde::{Serialize, de::DeserializeOwned};

pub const VERSION: u32 = 1;
pub const HEADER: usize = 5;
pub const MAX_LENGTH: usize = 4 << 20;
pub const MAX_DATA: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Stdin = 0x00,
    Stdout = 0x01,
    Stderr = 0x02,
    Hello = 0x10,
    Welcome = 0x11,
    Start = 0x12,
    Attach = 0x13,
    File = 0x14,
    Ack = 0x15,
    Call = 0x16,
    Spare = 0x17,
    Dial = 0x18,
    Take = 0x19,
    Ready = 0x20,
    Exit = 0x21,
    Result = 0x22,
    Error = 0x23,
    End = 0x24,
    Reply = 0x25,
    Event = 0x26,
}

impl Kind {
    fn from_byte(byte: u8) -> Result<Kind, WireError> {
        use Kind::*;
        Ok(match byte {
            0x00 => Stdin,
            0x01 => Stdout,
            0x02 => Stderr,
            0x10 => Hello,
            0x11 => Welcome,
            0x12 => Start,
            0x13 => Attach,
            0x14 => File,
            0x15 => Ack,
            0x16 => Call,
            0x17 => Spare,
            0x18 => Dial,
            0x19 => Take,
            0x20 => Ready,
            0x21 => Exit,
            0x22 => Result,
            0x23 => Error,
            0x24 => End,
            0x25 => Reply,
            0x26 => Event,
            other => return Err(WireError::UnknownType(other)),
        })
    }

    fn is_data(self) -> bool {
        matches!(self, Kind::Stdin | Kind::Stdout | Kind::Stderr)
    }
}

/// Every one of these ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    BadLength(u32),
    UnknownType(u8),
    OutOfPlace,
    BadJson,
    BadAck,
}

/// What a decoder hands on: data as it comes, everything else as whole frames.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    Data { kind: Kind, bytes: &'a [u8], empty: bool, last: bool },
    Frame { kind: Kind, payload: &'a [u8] },
}

/// Reads frames from input that may be cut anywhere.
#[derive(Default)]
pub struct Decoder {
    head: [u8; HEADER],
    filled: usize,
    kind: Option<Kind>,
    left: usize,
    body: Vec<u8>,
    handed_on: bool,
}

impl Decoder {
    /// The next item of `input`, which moves on; `None` when more input is needed.
    pub fn next<'x, 'b: 'x>(&'x mut self, input: &mut &'b [u8]) -> Result<Option<Item<'x>>, WireError> {
        if self.handed_on {
            self.handed_on = false;
            // A large frame is rare: its memory is given back rather than kept on each channel.
            self.body = Vec::new();
        }
        let kind = match self.kind {
            Some(kind) => kind,
            None => {
                let take = input.len().min(HEADER - self.filled);
                let (head, rest) = input.split_at(take);
                self.head[self.filled..self.filled + take].copy_from_slice(head);
                self.filled += take;
                *input = rest;
                // The length is judged as soon as it is there, before the type.
                if self.filled >= 4 {
                    self.check_length()?;
                }
                if self.filled < HEADER {
                    return Ok(None);
                }
                let kind = self.start_payload()?;
                if kind.is_data() && self.left == 0 {
                    self.reset();
                    return Ok(Some(Item::Data { kind, bytes: &[], empty: true, last: true }));
                }
                kind
            }
        };
        if kind.is_data() {
            if input.is_empty() {
                return Ok(None);
            }
            let (bytes, rest) = input.split_at(input.len().min(self.left));
            *input = rest;
            self.left -= bytes.len();
            let last = self.left == 0;
            if last {
                self.reset();
            }
            return Ok(Some(Item::Data { kind, bytes, empty: false, last }));
        }
        if self.body.is_empty() && input.len() >= self.left {
            let (payload, rest) = input.split_at(self.left);
            *input = rest;
            self.reset();
            return Ok(Some(Item::Frame { kind, payload }));
        }
        let (part, rest) = input.split_at(input.len().min(self.left));
        self.body.extend_from_slice(part);
        *input = rest;
        self.left -= part.len();
        if self.left > 0 {
            return Ok(None);
        }
        self.reset();
        self.handed_on = true;
        Ok(Some(Item::Frame { kind, payload: &self.body }))
    }

    fn check_length(&self) -> Result<usize, WireError> {
        let length = u32::from_le_bytes([self.head[0], self.head[1], self.head[2], self.head[3]]);
        if length == 0 || length as usize > MAX_LENGTH {
            return Err(WireError::BadLength(length));
        }
        Ok(length as usize)
    }

    fn start_payload(&mut self) -> Result<Kind, WireError> {
        let length = self.check_length()?;
        let kind = Kind::from_byte(self.head[4])?;
        if kind.is_data() && length > MAX_DATA + 1 || kind == Kind::Ack && length != 1 + ACK_LENGTH {
            return Err(if kind == Kind::Ack { WireError::BadAck } else { WireError::BadLength(length as u32) });
        }
        self.left = length - 1;
        self.kind = Some(kind);
        Ok(kind)
    }

    fn reset(&mut self) {
        self.filled = 0;
        self.kind = None;
        self.left = 0;
    }
}

/// A payload that has to be a JSON object.
pub fn object<T: DeserializeOwned>(payload: &[u8]) -> Result<T, WireError> {
    if payload.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'{') {
        return Err(WireError::BadJson);
    }
    serde_json::from_slice(payload).map_err(|_| WireError::BadJson)
}

pub fn header(kind: Kind, payload: usize) -> [u8; HEADER] {
    let [a, b, c, d] = (payload as u32 + 1).to_le_bytes();
    [a, b, c, d, kind as u8]
}

pub fn push_bytes(out: &mut Vec<u8>, kind: Kind, payload: &[u8]) {
    out.extend_from_slice(&header(kind, payload.len()));
    out.extend_from_slice(payload);
}

pub fn push_json<T: Serialize>(out: &mut Vec<u8>, kind: Kind, message: &T) {
    let start = out.len();
    out.extend_from_slice(&header(kind, 0));
    if serde_json::to_writer(&mut *out, message).is_err() {
        out.truncate(start);
        return;
    }
    let head = header(kind, out.len() - start - HEADER);
    out[start..start + HEADER].copy_from_slice(&head);
}

const ACK_LENGTH: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    pub channel: u32,
    pub offsets: [u64; 2],
}

impl Ack {
    pub fn parse(payload: &[u8]) -> Result<Ack, WireError> {
        let (channel, rest) = payload.split_first_chunk::<4>().ok_or(WireError::BadAck)?;
        let (stdout, rest) = rest.split_first_chunk::<8>().ok_or(WireError::BadAck)?;
        let (stderr, rest) = rest.split_first_chunk::<8>().ok_or(WireError::BadAck)?;
        if !rest.is_empty() {
            return Err(WireError::BadAck);
        }
        Ok(Ack {
            channel: u32::from_le_bytes(*channel),
            offsets: [u64::from_le_bytes(*stdout), u64::from_le_bytes(*stderr)],
        })
    }

    pub fn payload(&self) -> [u8; ACK_LENGTH] {
        let mut out = [0; ACK_LENGTH];
        out[..4].copy_from_slice(&self.channel.to_le_bytes());
        out[4..12].copy_from_slice(&self.offsets[0].to_le_bytes());
        out[12..].copy_from_slice(&self.offsets[1].to_le_bytes());
        out
    }
}

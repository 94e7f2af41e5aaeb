//! The channel as a file operation sees it: blocking, one frame after another.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;

use super::error::FileError;
use crate::wire::fault::Fault;
use crate::wire::{Decoder, Item, Kind, WireError, header, object, push_bytes, push_json};

const READ: usize = 256 << 10;
/// How long a failed upload waits for the agent to take notice.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct FileChannel {
    pub fd: OwnedFd,
    /// Where the other side's frames come from, if not from `fd`.
    source: Option<OwnedFd>,
    decoder: Decoder,
    input: Vec<u8>,
}

impl FileChannel {
    pub fn new(fd: OwnedFd, decoder: Decoder, input: Vec<u8>) -> FileChannel {
        FileChannel { fd, source: None, decoder, input }
    }

    pub fn of_two(source: OwnedFd, fd: OwnedFd) -> FileChannel {
        FileChannel { fd, source: Some(source), decoder: Decoder::default(), input: Vec::new() }
    }

    pub fn into_rest(self) -> (Decoder, Vec<u8>) {
        (self.decoder, self.input)
    }

    pub fn result<T: Serialize>(&mut self, message: &T) -> Result<(), FileError> {
        let mut out = Vec::new();
        push_json(&mut out, Kind::Result, message);
        self.send(&out)
    }

    pub fn error(&mut self, fault: &Fault) -> bool {
        let mut out = Vec::new();
        push_json(&mut out, Kind::Error, fault);
        self.send(&out).is_ok()
    }

    pub fn end(&mut self) -> Result<(), FileError> {
        let mut out = Vec::new();
        push_bytes(&mut out, Kind::End, &[]);
        self.send(&out)
    }

    pub fn data(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.send(&header(Kind::Stdout, bytes.len()))?;
        self.send(bytes)
    }

    pub fn send(&mut self, mut bytes: &[u8]) -> Result<(), FileError> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.fd, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(_) => return Err(FileError::Connection),
            }
        }
        Ok(())
    }

    /// Hands the body of an upload on as it comes, until its end.
    pub fn body(&mut self, mut each: impl FnMut(&[u8]) -> Result<(), FileError>) -> Result<(), FileError> {
        let mut chunk = std::mem::take(&mut self.input);
        let mut length = chunk.len();
        loop {
            let mut input = &chunk[..length];
            loop {
                match self.decoder.next(&mut input) {
                    Ok(Some(Item::Data { kind: Kind::Stdin, empty: true, .. })) => {
                        self.input = input.to_vec();
                        return Ok(());
                    }
                    Ok(Some(Item::Data { kind: Kind::Stdin, bytes, .. })) => {
                        let taken = each(bytes);
                        if taken.is_err() {
                            self.input = input.to_vec();
                            return taken;
                        }
                    }
                    Ok(None) => break,
                    _ => return Err(FileError::Connection),
                }
            }
            if chunk.len() < READ {
                chunk = vec![0; READ];
            }
            length = self.receive(&mut chunk)?;
        }
    }

    /// The next request; `None` at the end. What comes of an upload's body after its failure is passed over.
    pub fn request<T: DeserializeOwned>(&mut self) -> Result<Option<T>, WireError> {
        let mut chunk = std::mem::take(&mut self.input);
        let mut length = chunk.len();
        loop {
            let mut input = &chunk[..length];
            loop {
                match self.decoder.next(&mut input)? {
                    Some(Item::Frame { kind: Kind::File, payload }) => {
                        let request = object(payload)?;
                        self.input = input.to_vec();
                        return Ok(Some(request));
                    }
                    Some(Item::Data { kind: Kind::Stdin, .. }) => {}
                    Some(_) => return Err(WireError::OutOfPlace),
                    None => break,
                }
            }
            if chunk.len() < READ {
                chunk = vec![0; READ];
            }
            length = match self.receive(&mut chunk) {
                Ok(length) => length,
                Err(_) => return Ok(None),
            };
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, FileError> {
        loop {
            match rustix::io::read(self.source.as_ref().unwrap_or(&self.fd), &mut *buffer) {
                Ok(0) => return Err(FileError::Connection),
                Ok(count) => return Ok(count),
                Err(Errno::INTR) => {}
                Err(_) => return Err(FileError::Connection),
            }
        }
    }

    /// Reads on without use until the agent closes: closing first could cost it the error just sent.
    pub fn await_close(&mut self) {
        use rustix::net::{Shutdown, shutdown, sockopt};
        let _ = shutdown(&self.fd, Shutdown::Write);
        let _ = sockopt::set_socket_timeout(&self.fd, sockopt::Timeout::Recv, Some(PATIENCE));
        let mut buffer = vec![0; READ];
        while self.receive(&mut buffer).is_ok() {}
    }
}

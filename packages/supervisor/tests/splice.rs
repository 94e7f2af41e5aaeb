//! The process that splices large bodies from a connection to a channel.

mod support;

use boxoffice_supervisor::sys::duplicate;
use boxoffice_supervisor::wire::{Decoder, Item, Kind};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::thread;

struct Splice {
    client: TcpStream,
    agent: TcpStream,
    sandbox: UnixStream,
    child: Child,
}

fn start_with(mode: &str, from: OwnedFd, to: OwnedFd, bytes: u64, patience_ms: u64) -> Child {
    let mut command = support::supervisor();
    command.args([mode, &bytes.to_string(), &patience_ms.to_string()]);
    // SAFETY: between fork and exec only dup2 is called. The numbers are out of the way of what it duplicates.
    unsafe {
        command.pre_exec(move || {
            duplicate(from.as_fd(), 103)?;
            duplicate(to.as_fd(), 104)?;
            duplicate(rustix::fd::BorrowedFd::borrow_raw(103), 3)?;
            duplicate(rustix::fd::BorrowedFd::borrow_raw(104), 4)?;
            Ok(())
        });
    }
    command.spawn().unwrap()
}

fn start(bytes: u64, patience_ms: u64) -> Splice {
    start_as("--splice-frames", bytes, patience_ms)
}

fn start_as(mode: &str, bytes: u64, patience_ms: u64) -> Splice {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (agent, _) = listener.accept().unwrap();
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let (sandbox, channel) = (UnixStream::from(ours), UnixStream::from(theirs));
    agent.set_nonblocking(true).unwrap();
    channel.set_nonblocking(true).unwrap();
    let child = start_with(mode, agent.try_clone().unwrap().into(), channel.into(), bytes, patience_ms);
    Splice { client, agent, sandbox, child }
}

impl Splice {
    fn code(&mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap()
    }

    /// What comes in frames until the other end is closed.
    fn received(&mut self) -> Vec<u8> {
        let (mut decoder, mut content, mut chunk) = (Decoder::default(), Vec::new(), vec![0; 100_000]);
        loop {
            let count = self.sandbox.read(&mut chunk).unwrap();
            if count == 0 {
                return content;
            }
            let mut input = &chunk[..count];
            while let Some(item) = decoder.next(&mut input).unwrap() {
                match item {
                    Item::Data { kind: Kind::Stdin, bytes, .. } => content.extend_from_slice(bytes),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|n| (n ^ n >> 9) as u8).collect()
}

#[test]
fn moves_as_many_bytes_as_it_is_told_and_no_more() {
    for count in [1usize, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 37_000_003] {
        let mut moving = start(count as u64, 60_000);
        let body = bytes(count + 10);
        let mut client = moving.client.try_clone().unwrap();
        let sent = body.clone();
        let writer = thread::spawn(move || client.write_all(&sent).unwrap());
        assert!(moving.received() == body[..count], "{count}");
        writer.join().unwrap();
        assert_eq!(moving.code(), 0);
        moving.agent.set_nonblocking(false).unwrap();
        let mut rest = [0; 10];
        moving.agent.read_exact(&mut rest).unwrap();
        assert_eq!(rest, body[count..]);
    }
}

#[test]
fn passes_bytes_as_they_are() {
    for count in [1usize, (1 << 20) + 1, 37_000_003] {
        let mut passing = start_as("--splice-bytes", count as u64, 60_000);
        let body = bytes(count + 10);
        let mut client = passing.client.try_clone().unwrap();
        let sent = body.clone();
        let writer = thread::spawn(move || client.write_all(&sent).unwrap());
        let mut got = Vec::new();
        passing.sandbox.read_to_end(&mut got).unwrap();
        assert!(got == body[..count], "{count}");
        writer.join().unwrap();
        assert_eq!(passing.code(), 0);
    }
}

#[test]
fn says_which_side_has_ended() {
    let mut moving = start(1000, 60_000);
    moving.client.write_all(&bytes(999)).unwrap();
    moving.client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(moving.code(), 4);

    let mut moving = start(1 << 30, 60_000);
    moving.sandbox.shutdown(Shutdown::Both).unwrap();
    moving.client.write_all(&bytes(1000)).unwrap();
    assert_eq!(moving.code(), 5);
}

#[test]
fn gives_up_where_nothing_moves() {
    let mut moving = start(1000, 50);
    moving.client.write_all(&bytes(999)).unwrap();
    assert_eq!(moving.code(), 6);

    // The sandbox does not read, so its buffers fill.
    let mut moving = start(1 << 30, 50);
    let mut client = moving.client.try_clone().unwrap();
    let writer = thread::spawn(move || client.write_all(&bytes(64 << 20)));
    assert_eq!(moving.code(), 6);
    drop(moving);
    assert!(writer.join().unwrap().is_err());
}

#[test]
fn urgent_data_ends_it_instead_of_keeping_it_busy() {
    let mut moving = start(1 << 30, 60_000);
    moving.client.write_all(&bytes(1000)).unwrap();
    rustix::net::send(&moving.client, b"!", SendFlags::OOB).unwrap();
    moving.client.write_all(&bytes(1000)).unwrap();
    assert_eq!(moving.code(), 4);
}

#[test]
fn touches_nothing_where_the_kernel_cannot() {
    // A directory can be read by nobody.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let directory = File::open("/").unwrap();
    let mut child = start_with("--splice-frames", directory.into(), theirs.into(), 10, 1000);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    // A process that another test is starting may hold the other end for a moment.
    ours.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let mut ours = ours;
    assert!(matches!(ours.read(&mut [0; 10]), Ok(0)), "no frame has been begun");
}

//! Channels that carry a connection to a port of the sandbox, on real sockets of the loopback.

mod support;

use boxoffice_supervisor::wire::Kind;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use support::{Agent, Conn};

const PIECE: usize = 100_000;

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn dial(agent: &mut Agent, message: &Value) -> Conn {
    let mut channel = agent.channel();
    channel.send(Kind::Dial, message);
    channel
}

/// A channel that is connected to what `listener` accepts.
fn connect(agent: &mut Agent, listener: &TcpListener, port: u16) -> (Conn, TcpStream) {
    let mut channel = dial(agent, &json!({ "port": port }));
    let (program, _) = listener.accept().unwrap();
    assert_eq!(channel.expect(Kind::Ready).json(), json!({"host": "127.0.0.1"}));
    (channel, program)
}

/// What comes until the empty frame that says that no more will.
fn output(channel: &mut Conn) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let frame = channel.expect(Kind::Stdout);
        if frame.payload.is_empty() {
            return all;
        }
        all.extend_from_slice(&frame.payload);
    }
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count as u32).map(|n| (n ^ n >> 11) as u8).collect()
}

#[test]
fn bytes_pass_both_ways_and_each_way_ends_by_itself() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    let (mut channel, mut program) = connect(&mut agent, &listener, port);
    channel.send_bytes(Kind::Stdin, b"ping");
    let mut got = [0; 4];
    program.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"ping");
    program.write_all(b"pong").unwrap();
    assert_eq!(channel.expect(Kind::Stdout).payload, b"pong");
    // The agent has said everything, and still hears.
    channel.send_bytes(Kind::Stdin, b"");
    let mut rest = Vec::new();
    program.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
    program.write_all(b"late").unwrap();
    drop(program);
    assert_eq!(output(&mut channel), b"late");
    channel.expect(Kind::End);
}

#[test]
fn a_program_that_has_said_everything_still_hears() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    let (mut channel, mut program) = connect(&mut agent, &listener, port);
    program.shutdown(Shutdown::Write).unwrap();
    assert_eq!(output(&mut channel), b"");
    channel.send_bytes(Kind::Stdin, b"late");
    channel.send_bytes(Kind::Stdin, b"");
    let mut got = Vec::new();
    program.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"late");
    channel.expect(Kind::End);
}

#[test]
fn a_channel_is_idle_after_its_connection_and_carries_the_next() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    let (mut channel, program) = connect(&mut agent, &listener, port);
    channel.send_bytes(Kind::Stdin, b"");
    drop(program);
    assert_eq!(output(&mut channel), b"");
    channel.expect(Kind::End);
    // Late bytes belong to nothing.
    channel.send_bytes(Kind::Stdin, b"late");
    channel.send(Kind::Dial, &json!({ "port": port }));
    let (mut program, _) = listener.accept().unwrap();
    channel.expect(Kind::Ready);
    channel.send_bytes(Kind::Stdin, b"next");
    let mut got = [0; 4];
    program.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"next");
}

#[test]
fn large_streams_pass_both_ways_at_once_unchanged() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    let (mut channel, mut program) = connect(&mut agent, &listener, port);
    let sent = pattern(40 << 20);
    let echo = thread::spawn(move || {
        let mut buffer = vec![0; 70_000];
        loop {
            let count = program.read(&mut buffer).unwrap();
            if count == 0 {
                return;
            }
            program.write_all(&buffer[..count]).unwrap();
        }
    });
    let mut writer = channel.stream.try_clone().unwrap();
    let bytes = sent.clone();
    let feed = thread::spawn(move || {
        let mut out = Vec::new();
        for piece in bytes.chunks(PIECE).chain([&[][..]]) {
            out.clear();
            boxoffice_supervisor::wire::push_bytes(&mut out, Kind::Stdin, piece);
            writer.write_all(&out).unwrap();
        }
    });
    assert!(output(&mut channel) == sent);
    channel.expect(Kind::End);
    feed.join().unwrap();
    echo.join().unwrap();
}

#[test]
fn neither_side_that_does_not_read_costs_memory() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    let (mut channel, mut program) = connect(&mut agent, &listener, port);
    let before = agent.resident_kib();
    channel.stream.set_nonblocking(true).unwrap();
    program.set_nonblocking(true).unwrap();
    let mut frame = Vec::new();
    boxoffice_supervisor::wire::push_bytes(&mut frame, Kind::Stdin, &pattern(1 << 20));
    // Both write until nothing is taken any more: the buffers of the kernel are full, and the supervisor waits.
    let (mut given, mut at) = (0usize, 0);
    agent.until("both are blocked", |agent| {
        let before = given;
        while let Ok(count) = channel.stream.write(&frame[at..]) {
            at = (at + count) % frame.len();
            given += count;
        }
        while let Ok(count) = program.write(&frame[..PIECE]) {
            given += count;
        }
        // A call passes through the loop of the supervisor, which has done meanwhile what it could.
        agent.call(json!({"op": "ping"})).unwrap();
        given == before
    });
    assert!(given < 32 << 20, "{given} bytes are in flight");
    assert!(agent.resident_kib() < before + 4096);
    assert_eq!(agent.sh("echo there").stdout, b"there\n");
}

#[test]
fn a_port_where_nobody_listens_is_refused_and_the_channel_goes_on() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    drop(listener);
    let mut channel = dial(&mut agent, &json!({ "port": port }));
    let error = channel.expect(Kind::Error).json();
    assert_eq!((&error["kind"], &error["errno"]), (&json!("refused"), &json!("ECONNREFUSED")));
    channel.send(Kind::Dial, &json!({"port": 0}));
    assert_eq!(channel.expect(Kind::Error).json()["kind"], "bad_request");
    agent.channels.push_front(channel);
    assert_eq!(agent.sh("echo there").stdout, b"there\n");
}

#[test]
fn a_port_of_ipv6_alone_is_found() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
    let port = listener.local_addr().unwrap().port();
    let mut agent = Agent::new();
    let mut channel = dial(&mut agent, &json!({ "port": port }));
    let (mut program, _) = listener.accept().unwrap();
    assert_eq!(channel.expect(Kind::Ready).json()["host"], "::1");
    program.write_all(b"here").unwrap();
    assert_eq!(channel.expect(Kind::Stdout).payload, b"here");
}

#[test]
fn a_program_that_breaks_off_is_told_from_one_that_ends() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    let (mut channel, program) = connect(&mut agent, &listener, port);
    rustix::net::sockopt::set_socket_linger(&program, Some(std::time::Duration::ZERO)).unwrap();
    drop(program);
    let error = channel.expect(Kind::Error).json();
    assert_eq!((&error["kind"], &error["errno"]), (&json!("reset"), &json!("ECONNRESET")));
}

#[test]
fn what_a_program_said_before_it_stopped_listening_arrives() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    let (mut channel, mut program) = connect(&mut agent, &listener, port);
    program.write_all(b"413 too large").unwrap();
    program.shutdown(Shutdown::Write).unwrap();
    // Closed with bytes unread, which resets the connection.
    channel.send_bytes(Kind::Stdin, &pattern(PIECE));
    program.peek(&mut [0]).unwrap();
    drop(program);
    channel.send_bytes(Kind::Stdin, &pattern(PIECE));
    assert_eq!(channel.expect(Kind::Stdout).payload, b"413 too large");
}

#[test]
fn a_program_sees_that_the_agent_has_broken_off() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    let (channel, mut program) = connect(&mut agent, &listener, port);
    drop(channel);
    let error = program.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    // The agent dies and comes back.
    let (_channel, mut program) = connect(&mut agent, &listener, port);
    agent.drop_links();
    drop(_channel);
    assert!(program.read(&mut [0; 10]).is_err());
    agent.welcome_back();
    assert_eq!(agent.sh("echo there").stdout, b"there\n");
}

#[test]
fn connections_have_a_limit_and_those_above_it_are_refused_at_once() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    let held: Vec<_> = (0..256).map(|_| connect(&mut agent, &listener, port)).collect();
    let before = agent.resident_kib();
    let mut channel = agent.channel();
    for _ in 0..10_000 {
        channel.send(Kind::Dial, &json!({ "port": port }));
        assert_eq!(channel.expect(Kind::Error).json()["kind"], "busy");
    }
    assert!(agent.resident_kib() < before + 4096);
    agent.channels.push_front(channel);
    drop(held);
    agent.until("another one is connected", |agent| {
        let mut channel = dial(agent, &json!({ "port": port }));
        channel.next().unwrap().kind == Kind::Ready as u8
    });
}

#[test]
fn a_port_that_takes_no_connection_is_given_up() {
    let mut agent = Agent::new();
    // Its backlog is full: the kernel drops what comes more.
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    let any = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
    rustix::net::bind(&socket, &any).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let port = TcpListener::from(socket.try_clone().unwrap()).local_addr().unwrap().port();
    let mut waiting = Vec::new();
    let kind = loop {
        let mut channel = dial(&mut agent, &json!({"port": port, "timeout_ms": 300}));
        let frame = channel.next().unwrap();
        if frame.kind == Kind::Error as u8 {
            break frame.json()["kind"].clone();
        }
        assert!(waiting.len() < 20, "the backlog has no end");
        waiting.push(channel);
    };
    assert_eq!(kind, "timed_out");
}

#[test]
fn listening_ports_are_told() {
    let mut agent = Agent::new();
    let (listener, port) = listen();
    let ports = |agent: &mut Agent| agent.call(json!({"op": "ports"})).unwrap()["ports"].clone();
    assert!(ports(&mut agent).as_array().unwrap().contains(&json!(port)));
    drop(listener);
    assert!(!ports(&mut agent).as_array().unwrap().contains(&json!(port)));
}

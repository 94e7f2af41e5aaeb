//! Which TCP ports programs of this network namespace listen on.

use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// The kernel names every socket in a line of about 150 bytes, and those that listen come first.
const READ: u64 = 1 << 20;
pub const MAX_PORTS: usize = 1024;

const LISTEN: &str = "0A";
/// Addresses as the kernel prints them: words of 32 bits in the order of the machine, which is little endian on all that we build for.
const LOCAL: [&str; 5] = [
    "00000000",
    "0100007F",
    "00000000000000000000000000000000",
    "00000000000000000000000001000000",
    // 127.0.0.1 as a socket of IPv6 has it.
    "0000000000000000FFFF00000100007F",
];

/// Ports of sockets that listen on 127.0.0.1, ::1 or on every address: those that `tunnel` reaches.
pub fn ports() -> Result<BTreeSet<u16>, Errno> {
    let mut found = BTreeSet::new();
    collect("/proc/self/net/tcp", &mut found)?;
    match collect("/proc/self/net/tcp6", &mut found) {
        // A kernel without IPv6.
        Err(Errno::NOENT) => {}
        other => other?,
    }
    Ok(found)
}

fn collect(path: &str, found: &mut BTreeSet<u16>) -> Result<(), Errno> {
    let file = File::open(path).map_err(errno)?;
    for line in BufReader::new(file.take(READ)).lines().skip(1) {
        match listens_on(&line.map_err(errno)?) {
            Line::Listens(Some(port)) if found.len() < MAX_PORTS => drop(found.insert(port)),
            Line::Listens(_) => {}
            Line::Other => break,
        }
    }
    Ok(())
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// On an address that is reached from here, or on another one.
    Listens(Option<u16>),
    Other,
}

/// `sl local_address rem_address st …`
fn listens_on(line: &str) -> Line {
    let mut fields = line.split_ascii_whitespace();
    let (Some(local), Some(LISTEN)) = (fields.nth(1), fields.nth(1)) else {
        return Line::Other;
    };
    let Some((address, port)) = local.split_once(':') else {
        return Line::Other;
    };
    Line::Listens(u16::from_str_radix(port, 16).ok().filter(|_| LOCAL.contains(&address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_tells_port_and_state() {
        let tail = "00000000:00000000 00:00000000 00000000  1000        0 1234 1 0000000000000000 100 0 0 10 0";
        let v4 = |local: &str, state: &str| listens_on(&format!("   0: {local} 00000000:0000 {state} {tail}"));
        assert_eq!(v4("0100007F:0BB8", "0A"), Line::Listens(Some(3000)));
        assert_eq!(v4("00000000:1435", "0A"), Line::Listens(Some(5173)));
        assert_eq!(v4("0B00007F:0035", "0A"), Line::Listens(None));
        assert_eq!(v4("0100007F:0BB8", "01"), Line::Other);
        let v6 = |address: &str| listens_on(&format!("   1: {address}:0050 {}:0000 0A {tail}", "0".repeat(32)));
        assert_eq!(v6("00000000000000000000000000000000"), Line::Listens(Some(80)));
        assert_eq!(v6("00000000000000000000000001000000"), Line::Listens(Some(80)));
        assert_eq!(v6("0000000000000000FFFF00000100007F"), Line::Listens(Some(80)));
        assert_eq!(v6("000080FE00000000FF005450B6AD1DFE"), Line::Listens(None));
        assert_eq!(listens_on(""), Line::Other);
        assert_eq!(listens_on("sl"), Line::Other);
    }

    #[test]
    fn a_listener_of_our_own_is_seen_until_it_closes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(ports().unwrap().contains(&port));
        drop(listener);
        assert!(!ports().unwrap().contains(&port));
    }
}

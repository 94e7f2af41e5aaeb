//! Finding and signalling everything that descends from a process: its descendants carry its tag, a value of the hard
//! limit RLIMIT_RTTIME that they inherit and cannot set. It has no effect on programs without a real-time policy.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;

use crate::sys;

/// Which processes are meant.
#[derive(Clone, Copy)]
pub enum Scope {
    Tag(u64),
    /// Every tag this supervisor gives.
    Tags {
        low: u64,
        high: u64,
    },
}

impl Scope {
    fn covers(self, limit: u64) -> bool {
        match self {
            Scope::Tag(tag) => limit == tag,
            Scope::Tags { low, high } => (low..=high).contains(&limit),
        }
    }
}

/// Hands out tags: downwards from a random start, so that two supervisors of one host do not meet.
pub struct Tags {
    high: u64,
    given: u64,
}

impl Tags {
    pub fn new(random: u64) -> Tags {
        // A supervisor inside another's sandbox has to stay below the tag it inherited.
        let ceiling = sys::rttime_limit(0).unwrap_or(u64::MAX).min(1 << 62);
        let half = (ceiling / 2).max(1);
        Tags { high: half + random % half, given: 0 }
    }

    pub fn give(&mut self) -> u64 {
        self.given += 1;
        self.high - self.given
    }

    pub fn all(&self) -> Scope {
        Scope::Tags { low: self.high - self.given, high: self.high }
    }
}

/// Signals all living processes in `scope` and counts them. Ids are held by pidfd while they are judged, because a
/// number in /proc may belong to another process a moment later.
pub fn signal(scope: Scope, number: i32) -> usize {
    each(scope, |pid| match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => {
            if carries(pid, scope) {
                let _ = sys::pidfd_signal(std::os::fd::AsFd::as_fd(&fd), number);
            }
        }
        Err(Errno::SRCH) => {}
        Err(_) => sys::signal_process(pid.as_raw_nonzero().get(), number),
    })
}

pub fn count(scope: Scope) -> usize {
    each(scope, |_| {})
}

fn each(scope: Scope, mut act: impl FnMut(Pid)) -> usize {
    let own = std::process::id() as i32;
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    let mut found = 0;
    for entry in entries.flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Some(pid) = Pid::from_raw(number).filter(|_| number > 1 && number != own) else {
            continue;
        };
        if carries(pid, scope) && is_alive(number) {
            found += 1;
            act(pid);
        }
    }
    found
}

fn carries(pid: Pid, scope: Scope) -> bool {
    let number = pid.as_raw_nonzero().get();
    match sys::rttime_limit(number) {
        Ok(limit) => scope.covers(limit),
        // A process of another user: its limits are public in /proc.
        Err(Errno::PERM | Errno::ACCESS) => limit_in_proc(number).is_some_and(|limit| scope.covers(limit)),
        Err(_) => false,
    }
}

fn limit_in_proc(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    parse_limits(&text)
}

fn parse_limits(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A zombie still has limits, but nothing of it lives.
fn is_alive(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/stat")).is_ok_and(|stat| !matches!(state(&stat), None | Some(b'Z' | b'X')))
}

fn state(stat: &[u8]) -> Option<u8> {
    // The name in brackets may itself contain brackets and spaces.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_hard_limit_and_the_state_of_odd_names() {
        let text = "Limit  Soft  Hard  Units\nMax realtime priority     0    0\nMax realtime timeout      unlimited            77  us\n";
        assert_eq!(parse_limits(text), Some(77));
        assert_eq!(parse_limits("Max realtime timeout      unlimited   unlimited   us\n"), None);
        assert_eq!(state(b"12 (a) Z b) S 1 2"), Some(b'S'));
        assert_eq!(state(b"12 (cat"), None);
    }

    #[test]
    fn tags_differ_and_lie_in_the_scope_of_all() {
        let mut tags = Tags::new(u64::MAX);
        let (a, b) = (tags.give(), tags.give());
        assert_ne!(a, b);
        assert!(tags.all().covers(a) && tags.all().covers(b));
        assert!(!tags.all().covers(u64::MAX));
    }
}

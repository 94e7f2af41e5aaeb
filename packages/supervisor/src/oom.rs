//! Whether the kernel ended something of this sandbox for its memory.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use std::path::PathBuf;

const DEFAULTS: [&str; 2] = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];

/// The counters of the cgroup, kept open: reading one again costs a single call.
pub struct OomCounter(Vec<OwnedFd>);

impl OomCounter {
    pub fn open(paths: &[PathBuf]) -> OomCounter {
        let defaults = DEFAULTS.iter().map(PathBuf::from);
        let paths = paths.iter().cloned().chain(defaults);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        OomCounter(paths.filter_map(|path| open(&path, flags, Mode::empty()).ok()).collect())
    }

    pub fn read(&self) -> u64 {
        let mut buffer = [0; 1024];
        let counts = self.0.iter().filter_map(|fd| {
            let count = rustix::io::pread(fd, &mut buffer, 0).ok()?;
            parse(&buffer[..count])
        });
        counts.sum()
    }
}

fn parse(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_both_cgroup_versions() {
        let v1 = b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let v2 = b"low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n";
        assert_eq!(super::parse(v1), Some(3));
        assert_eq!(super::parse(v2), Some(1));
        assert_eq!(super::parse(b"nothing"), None);
    }
}

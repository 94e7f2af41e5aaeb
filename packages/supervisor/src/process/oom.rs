//! What the kernel ends first for its memory, and whether it did.

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

/// Our own oom_score_adj, and a higher one for children: a memory hog goes before PID 1.
pub struct OomScore {
    file: OwnedFd,
    own: String,
    raised: String,
}

/// Children that are made while it lives have the higher score.
pub struct Raised<'a>(&'a OomScore);

impl OomScore {
    pub fn open() -> Option<OomScore> {
        let file = open("/proc/self/oom_score_adj", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut buffer = [0; 16];
        let count = rustix::io::pread(&file, &mut buffer, 0).ok()?;
        let own: i32 = std::str::from_utf8(&buffer[..count]).ok()?.trim().parse().ok()?;
        let raised = (own + 500).clamp(100, 1000);
        (own < raised).then(|| OomScore { file, own: own.to_string(), raised: raised.to_string() })
    }

    /// Inherited, because neither side can set it in time: until a child has executed its program its files in /proc are
    /// closed to everyone of its user, and then the program runs.
    pub fn raised(&self) -> Raised<'_> {
        let _ = rustix::io::pwrite(&self.file, self.raised.as_bytes(), 0);
        Raised(self)
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        let _ = rustix::io::pwrite(&self.0.file, self.0.own.as_bytes(), 0);
    }
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

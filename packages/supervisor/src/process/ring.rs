//! The last 1 MiB of one stream, addressed by absolute offset.

use std::io::{IoSlice, IoSliceMut};

pub const MAX: usize = 1 << 20;
const FIRST: usize = 4 << 10;

#[derive(Default)]
pub struct Ring {
    // Byte `offset` stands at `offset % memory.len()`.
    memory: Vec<u8>,
    oldest: u64,
    end: u64,
}

impl Ring {
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn memory_bytes(&self) -> usize {
        self.memory.len()
    }

    fn len(&self) -> usize {
        (self.end - self.oldest) as usize
    }

    /// Makes room for `want` bytes by growing; beyond `MAX` the oldest bytes will give way to a commit.
    /// Returns how many bytes can be written now.
    pub fn reserve(&mut self, want: usize) -> usize {
        let want = want.min(MAX);
        let needed = self.len() + want;
        if needed > self.memory.len() && self.memory.len() < MAX {
            let size = needed.max(FIRST).next_power_of_two().min(MAX);
            self.resize(size);
        }
        want.min(self.memory.len())
    }

    /// Where the next `room` bytes go: two slices where they wrap. `reserve` comes first, and whoever still needs the
    /// bytes that give way has to take them before this is filled.
    pub fn space(&mut self, room: usize) -> [IoSliceMut<'_>; 2] {
        let size = self.memory.len();
        let room = room.min(size);
        if size == 0 {
            return [IoSliceMut::new(&mut []), IoSliceMut::new(&mut [])];
        }
        let at = (self.end % size as u64) as usize;
        let (before, after) = self.memory.split_at_mut(at);
        let first = room.min(after.len());
        [IoSliceMut::new(&mut after[..first]), IoSliceMut::new(&mut before[..room - first])]
    }

    /// The offset that becomes the oldest once `count` more bytes are written.
    pub fn oldest_after(&self, count: usize) -> u64 {
        self.oldest.max((self.end + count as u64).saturating_sub(self.memory.len() as u64))
    }

    pub fn commit(&mut self, count: usize) {
        self.oldest = self.oldest_after(count);
        self.end += count as u64;
    }

    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.reserve(bytes.len());
            let (now, later) = bytes.split_at(room);
            let [first, second] = &mut self.space(room);
            let (a, b) = now.split_at(first.len());
            first.copy_from_slice(a);
            second.copy_from_slice(b);
            self.commit(room);
            bytes = later;
        }
    }

    /// The bytes from `offset` on, at most `limit`; empty where they are gone or not yet there.
    pub fn slices(&self, offset: u64, limit: usize) -> [&[u8]; 2] {
        if offset < self.oldest || offset >= self.end {
            return [&[], &[]];
        }
        let size = self.memory.len();
        let count = limit.min((self.end - offset) as usize);
        let at = (offset % size as u64) as usize;
        let first = count.min(size - at);
        [&self.memory[at..at + first], &self.memory[..count - first]]
    }

    pub fn io_slices(&self, offset: u64, limit: usize) -> [IoSlice<'_>; 2] {
        self.slices(offset, limit).map(IoSlice::new)
    }

    /// Called at the end of the stream: keeps no more memory than there are bytes.
    pub fn shrink(&mut self) {
        if self.len() < self.memory.len() {
            self.resize(self.len());
        }
    }

    /// Forgets the bytes, keeps the offsets.
    pub fn clear(&mut self) {
        self.oldest = self.end;
        self.memory = Vec::new();
    }

    fn resize(&mut self, size: usize) {
        if self.oldest == 0 && size >= self.end as usize && self.end as usize <= self.memory.len() {
            // Nothing has wrapped yet: the bytes already stand where they belong.
            self.memory.resize(size, 0);
            self.memory.shrink_to_fit();
            return;
        }
        let mut memory = vec![0; size];
        if size > 0 {
            let mut offset = self.oldest;
            for part in self.slices(self.oldest, self.len()) {
                for piece in split_at_wrap(part, (offset % size as u64) as usize, size) {
                    let at = (offset % size as u64) as usize;
                    memory[at..at + piece.len()].copy_from_slice(piece);
                    offset += piece.len() as u64;
                }
            }
        }
        self.memory = memory;
    }
}

fn split_at_wrap(part: &[u8], at: usize, size: usize) -> [&[u8]; 2] {
    let (a, b) = part.split_at(part.len().min(size - at));
    [a, b]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    fn push(ring: &mut Ring, count: usize) {
        let bytes: Vec<u8> = (ring.end()..ring.end() + count as u64).map(byte).collect();
        ring.push(&bytes);
    }

    fn check(ring: &Ring) {
        let kept: Vec<u8> = ring.slices(ring.oldest(), MAX).concat();
        let expected: Vec<u8> = (ring.oldest()..ring.end()).map(byte).collect();
        assert!(kept == expected);
    }

    #[test]
    fn every_length_of_push_leaves_the_last_bytes_in_order() {
        let mut ring = Ring::default();
        for count in [1, 0, 4095, 4096, 1, 70_000, 3, 500_000, MAX - 1, MAX, MAX + 12_345, 7] {
            push(&mut ring, count);
            check(&ring);
            assert!(ring.memory_bytes() <= MAX);
        }
        assert_eq!(ring.end() - ring.oldest(), MAX as u64);
    }

    #[test]
    fn grows_while_wrapped_and_shrinks_to_what_it_holds() {
        let mut ring = Ring::default();
        push(&mut ring, 100);
        assert_eq!(ring.memory_bytes(), 4096);
        ring.shrink();
        assert_eq!(ring.memory_bytes(), 100);
        check(&ring);
        push(&mut ring, 2 * MAX + 5);
        ring.shrink();
        check(&ring);
        push(&mut ring, 3);
        check(&ring);
        let end = ring.end();
        ring.clear();
        assert_eq!((ring.oldest(), ring.end(), ring.memory_bytes()), (end, end, 0));
        assert_eq!(ring.slices(0, 10).concat(), b"");
        push(&mut ring, 10);
        check(&ring);
    }

    #[test]
    fn slices_keep_to_offset_and_limit() {
        let mut ring = Ring::default();
        push(&mut ring, 1000);
        assert_eq!(ring.slices(990, 5).concat(), (990..995).map(byte).collect::<Vec<_>>());
        assert_eq!(ring.slices(1000, 5).concat(), b"");
        assert_eq!(ring.slices(2000, 5).concat(), b"");
    }
}

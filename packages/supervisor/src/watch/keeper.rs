//! What the thread of the watches keeps, and what it does for each event of the kernel.

use rustix::fd::OwnedFd;
use rustix::fs::inotify::ReadFlags;
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;
use std::collections::HashMap;

use super::directories::{Directories, Happened, Seat};
use super::outbox::{Change, Outbox};
use super::{MAX_WATCHES, Order};
use crate::files::{FileError, MAX_BYTES, MAX_PARTS, TEMPORARY, descend, identity, open_directory, parts};

pub struct Watch {
    pub order: Order,
    pub outbox: Outbox,
    /// Device and inode of its directory.
    top: (u64, u64),
}

pub struct Keeper {
    pub directories: Directories,
    pub watches: HashMap<u32, Watch>,
    next: u32,
    /// Of the last event that moved an upload's temporary file away.
    upload: Option<u32>,
}

impl Keeper {
    pub fn new() -> Result<Keeper, FileError> {
        Ok(Keeper { directories: Directories::new()?, watches: HashMap::new(), next: 0, upload: None })
    }

    pub fn begin(&mut self, mut order: Order) {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let top = self.check(&order);
        let top = match top {
            Ok(top) => top,
            Err(error) => return order.refuse(&error),
        };
        self.watches.insert(number, Watch { order, outbox: Outbox::default(), top });
        match self.follow(number, Vec::new(), false) {
            Ok(()) => {
                if let Some(watch) = self.watches.get_mut(&number) {
                    watch.outbox.begin();
                }
            }
            Err(error) => {
                self.directories.remove_below(number, b"");
                if let Some(mut watch) = self.watches.remove(&number) {
                    watch.order.refuse(&error);
                }
            }
        }
    }

    fn check(&self, order: &Order) -> Result<(u64, u64), FileError> {
        if self.watches.len() >= MAX_WATCHES {
            return Err(FileError::Busy("8 watches are open in this sandbox"));
        }
        Ok(identity(&open_directory(&order.root()?, &order.path)?)?)
    }

    /// Ends a watch: its directory is gone, or (with a reason) it cannot go on.
    fn end(&mut self, number: u32, error: Option<&FileError>) {
        self.directories.remove_below(number, b"");
        if let Some(watch) = self.watches.get_mut(&number) {
            let fault = error.map(|error| error.fault(&watch.order.path));
            watch.outbox.end(fault.as_ref());
        }
    }

    pub fn remove(&mut self, number: u32) -> Option<Watch> {
        self.directories.remove_below(number, b"");
        self.watches.remove(&number)
    }

    pub fn handle(&mut self, event: &Happened) {
        if event.mask.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.start_over();
        }
        let seats = if event.mask.contains(ReadFlags::IGNORED) {
            self.directories.forget(event.wd)
        } else {
            self.directories.seats(event.wd)
        };
        let of_itself = ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT;
        if event.mask.intersects(of_itself) {
            for seat in seats.iter().filter(|seat| seat.path.is_empty()) {
                self.end(seat.watch, None);
            }
            return;
        }
        let Some(name) = &event.name else { return };
        if name.starts_with(TEMPORARY.as_bytes()) {
            if event.mask.contains(ReadFlags::MOVED_FROM) {
                self.upload = Some(event.cookie);
            }
            return;
        }
        for seat in seats {
            self.change(&seat, event, name);
        }
    }

    fn change(&mut self, seat: &Seat, event: &Happened, name: &[u8]) {
        let Some(watch) = self.watches.get_mut(&seat.watch) else {
            return;
        };
        let path = joined(&seat.path, name);
        let is_directory = event.mask.contains(ReadFlags::ISDIR);
        let arrived = event.mask.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        if arrived && is_directory && watch.order.recursive {
            if let Err(error) = self.follow(seat.watch, path, true) {
                self.end(seat.watch, Some(&error));
            }
        } else if arrived {
            watch.outbox.change(Change::Create, &path, is_directory);
            // Nobody can tell whether there was a file before.
            if event.mask.contains(ReadFlags::MOVED_TO) && self.upload == Some(event.cookie) {
                watch.outbox.change(Change::Write, &path, false);
            }
        } else if event.mask.contains(ReadFlags::MODIFY) {
            watch.outbox.change(Change::Write, &path, is_directory);
        } else if event.mask.contains(ReadFlags::ATTRIB) {
            watch.outbox.change(Change::Chmod, &path, is_directory);
        } else if event.mask.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            let moved = event.mask.contains(ReadFlags::MOVED_FROM);
            watch.outbox.change(if moved { Change::Rename } else { Change::Remove }, &path, is_directory);
            // What comes to this path later is another directory.
            if is_directory && watch.order.recursive {
                self.directories.remove_below(seat.watch, &path);
            }
        }
    }

    /// Events are lost, so new directories may be as well.
    fn start_over(&mut self) {
        let numbers: Vec<u32> = self.watches.keys().copied().collect();
        for number in numbers {
            if let Some(watch) = self.watches.get_mut(&number) {
                watch.outbox.overflow();
            }
            self.directories.remove_below(number, b"");
            match self.follow(number, Vec::new(), false) {
                Ok(()) => {}
                Err(error @ FileError::Busy(_)) => self.end(number, Some(&error)),
                Err(_) => self.end(number, None),
            }
        }
    }

    /// Watches a directory and, for a recursive watch, those below it. `tell`: with events for it and all that is in it, because it
    /// was there before its watch.
    fn follow(&mut self, number: u32, path: Vec<u8>, tell: bool) -> Result<(), FileError> {
        let Some(watch) = self.watches.get_mut(&number) else {
            return Ok(());
        };
        let Some(top) = watch.open_top() else {
            return if tell { Ok(()) } else { Err(Errno::NOENT.into()) };
        };
        let mut rest = vec![path];
        while let Some(path) = rest.pop() {
            let opened = open_below(&top, &path);
            let added = match &opened {
                Ok(fd) => self.directories.add(fd, Seat { watch: number, path: path.clone() }),
                Err(errno) => Err((*errno).into()),
            };
            match &added {
                // It was found by the scan of another one, and told then.
                Ok(false) => continue,
                Ok(true) => {}
                Err(FileError::Busy(_)) => return added.map(|_| ()),
                Err(_) if path.is_empty() => return added.map(|_| ()),
                Err(FileError::System(Errno::NOENT)) => continue,
                // Its user may not read it.
                Err(_) => {}
            }
            if tell {
                watch.outbox.change(Change::Create, &path, true);
            }
            if let (Ok(fd), true, true) = (&opened, watch.order.recursive, added.is_ok()) {
                watch.scan(fd, &path, tell, &mut rest);
            }
        }
        Ok(())
    }
}

impl Watch {
    /// Its directory, if it is still there and the same.
    fn open_top(&self) -> Option<OwnedFd> {
        let fd = open_directory(&self.order.root().ok()?, &self.order.path).ok()?;
        (identity(&fd).ok()? == self.top).then_some(fd)
    }

    /// Finds the directories in one, and tells of everything else in it.
    fn scan(&mut self, fd: &OwnedFd, path: &[u8], tell: bool, directories: &mut Vec<Vec<u8>>) {
        let Ok(entries) = Dir::read_from(fd) else { return };
        let above = parts(path) + parts(self.order.path.as_bytes());
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || name.starts_with(TEMPORARY.as_bytes()) {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            let inner = joined(path, name);
            if kind != FileType::Directory {
                if tell {
                    self.outbox.change(Change::Create, &inner, false);
                }
            // No call could name what is deeper.
            } else if above + 1 < MAX_PARTS && self.order.path.len() + inner.len() < MAX_BYTES {
                directories.push(inner);
            }
        }
    }
}

fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

/// Part by part, so that no link leads elsewhere.
fn open_below(top: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let mut fd = descend(top, b".")?;
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        fd = descend(&fd, part)?;
    }
    Ok(fd)
}

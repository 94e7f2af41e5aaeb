//! Watches of directories: one thread and one inotify instance for all of a sandbox, as long as there are any.

mod directories;
mod keeper;
mod outbox;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::files::{FileChannel, FileError, Finished, Root, RootName};
use keeper::Keeper;

/// Of one sandbox.
const MAX_WATCHES: usize = 8;
/// Requests that the thread has not looked at.
const MAX_ORDERS: usize = 64;
const STACK: usize = 256 << 10;

/// Where the loop hears of the end of a channel's operation.
pub type Finish = Arc<dyn Fn(Finished) + Send + Sync>;

/// A request to watch a directory. Dropping it closes its channel.
pub struct Order {
    pub channel: u32,
    pub link: Option<FileChannel>,
    pub workspace: std::path::PathBuf,
    pub root: RootName,
    pub path: String,
    pub recursive: bool,
    pub finish: Finish,
}

impl Order {
    fn root(&self) -> Result<Root, FileError> {
        Root::named(self.root, self.workspace.clone())
    }

    fn refuse(&mut self, error: &FileError) {
        let fault = error.fault(&self.path);
        let told = self.link.as_mut().is_some_and(|link| link.error(&fault));
        if told {
            self.keep();
        }
    }

    /// The operation is over, and its channel is idle again.
    fn keep(&mut self) {
        if let Some(link) = self.link.take() {
            (self.finish)(Finished { channel: self.channel, rest: Some(link.into_rest()) });
        }
    }

    fn fd(&self) -> Option<&OwnedFd> {
        self.link.as_ref().map(|link| &link.fd)
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        if self.link.take().is_some() {
            (self.finish)(Finished { channel: self.channel, rest: None });
        }
    }
}

#[derive(Default)]
struct Inbox {
    running: bool,
    orders: Vec<Order>,
}

struct Shared {
    inbox: Mutex<Inbox>,
    bell: OwnedFd,
}

pub struct Watches(Arc<Shared>);

impl Watches {
    pub fn new() -> Result<Watches, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Watches(Arc::new(Shared { inbox: Mutex::default(), bell })))
    }

    /// False where no thread can be had.
    pub fn add(&self, mut order: Order) -> bool {
        let mut inbox = self.0.inbox();
        if inbox.orders.len() >= MAX_ORDERS {
            drop(inbox);
            order.refuse(&FileError::Busy("too many watches are asked for at once"));
            return true;
        }
        inbox.orders.push(order);
        if inbox.running {
            let _ = rustix::io::write(&self.0.bell, &1u64.to_ne_bytes());
            return true;
        }
        inbox.running = true;
        let shared = self.0.clone();
        if thread::Builder::new().stack_size(STACK).spawn(move || shared.run()).is_ok() {
            return true;
        }
        inbox.running = false;
        // The loop itself says why.
        for mut order in inbox.orders.drain(..) {
            drop(order.link.take());
        }
        false
    }
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until there is nothing to watch.
    fn run(&self) {
        loop {
            // A defect costs the watches; dropping them closes their channels.
            let _ = catch_unwind(AssertUnwindSafe(|| self.serve()));
            let mut inbox = self.inbox();
            if inbox.orders.is_empty() {
                inbox.running = false;
                return;
            }
        }
    }

    fn serve(&self) {
        let mut keeper = match Keeper::new() {
            Ok(keeper) => keeper,
            Err(error) => return self.take().iter_mut().for_each(|order| order.refuse(&error)),
        };
        loop {
            for order in self.take() {
                keeper.begin(order);
            }
            flush(&mut keeper);
            if keeper.watches.is_empty() {
                return;
            }
            if !self.wait(&mut keeper) {
                return;
            }
        }
    }

    fn take(&self) -> Vec<Order> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut self.inbox().orders)
    }

    fn wait(&self, keeper: &mut Keeper) -> bool {
        let numbers: Vec<u32> = keeper.watches.keys().copied().collect();
        let mut left = Vec::new();
        let changed = {
            let mut fds =
                vec![PollFd::new(&self.bell, PollFlags::IN), PollFd::new(keeper.directories.fd(), PollFlags::IN)];
            for watch in numbers.iter().filter_map(|number| keeper.watches.get(number)) {
                let Some(fd) = watch.order.fd() else { continue };
                let writes = if watch.outbox.is_waiting() { PollFlags::OUT } else { PollFlags::empty() };
                fds.push(PollFd::new(fd, PollFlags::IN | writes));
            }
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => return true,
                Err(_) => return false,
            }
            for (number, fd) in numbers.iter().zip(&fds[2..]) {
                if fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                    left.push(*number);
                }
            }
            fds[1].revents().contains(PollFlags::IN)
        };
        for number in left {
            if keeper.watches.get(&number).is_none_or(|watch| watch.order.fd().is_none_or(is_gone)) {
                keeper.remove(number);
            }
        }
        if changed {
            for event in keeper.directories.read() {
                keeper.handle(&event);
            }
        }
        true
    }
}

/// Nothing is to come on the channel of a watch but its end.
fn is_gone(fd: &OwnedFd) -> bool {
    !matches!(recv(fd, &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK), Err(Errno::AGAIN | Errno::INTR))
}

/// Sends what there is. Watches that are over leave, and so do those whose channel is gone.
fn flush(keeper: &mut Keeper) {
    let numbers: Vec<u32> = keeper.watches.keys().copied().collect();
    for number in numbers {
        let Some(watch) = keeper.watches.get_mut(&number) else {
            continue;
        };
        let gone = watch.order.link.as_ref().is_none_or(|link| watch.outbox.flush(&link.fd).is_err());
        let over = watch.outbox.is_over();
        if (gone || over)
            && let Some(mut watch) = keeper.remove(number)
            && !gone
        {
            watch.order.keep();
        }
    }
}

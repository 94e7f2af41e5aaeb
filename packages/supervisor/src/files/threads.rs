//! Where file operations run, and how the loop learns of their end.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::channel::FileChannel;
use super::request::Operation;
use super::{Request, perform};
use crate::watch::{Order, Watches};
use crate::wire::Decoder;

const STACK: usize = 128 << 10;

/// An operation is over.
pub struct Finished {
    pub channel: u32,
    /// Input that arrived behind it; `None` where the channel has to be closed.
    pub rest: Option<(Decoder, Vec<u8>)>,
}

struct Shared {
    finished: Mutex<Vec<Finished>>,
    bell: OwnedFd,
}

impl Shared {
    fn finish(&self, finished: Finished) {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).push(finished);
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

pub struct Threads {
    shared: Arc<Shared>,
    watches: Watches,
}

impl Threads {
    pub fn new() -> Result<Threads, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Threads { shared: Arc::new(Shared { finished: Mutex::new(Vec::new()), bell }), watches: Watches::new()? })
    }

    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    pub fn finished(&self) -> Vec<Finished> {
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        std::mem::take(&mut self.shared.finished.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `fd` is a descriptor of its own for the channel's socket, which blocks until the operation is over.
    pub fn start(
        &self,
        channel: u32,
        fd: OwnedFd,
        decoder: Decoder,
        input: Vec<u8>,
        request: Request,
        workspace: PathBuf,
    ) -> bool {
        let shared = self.shared.clone();
        if let Operation::Watch { path, recursive } = request.operation {
            let link = Some(FileChannel::new(fd, decoder, input));
            let finish = Arc::new(move |finished| shared.finish(finished));
            return self.watches.add(Order { channel, link, workspace, root: request.root, path, recursive, finish });
        }
        let work = move || {
            let mut link = FileChannel::new(fd, decoder, input);
            // A defect costs this channel, and the loop must hear of it like of any other end.
            let keep = catch_unwind(AssertUnwindSafe(|| perform(&mut link, request, workspace)));
            let rest = keep.unwrap_or(false).then(|| link.into_rest());
            shared.finish(Finished { channel, rest });
        };
        thread::Builder::new().stack_size(STACK).spawn(work).is_ok()
    }
}

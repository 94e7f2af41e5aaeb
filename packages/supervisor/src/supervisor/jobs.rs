//! Channels that a file operation uses.

use rustix::net::{Shutdown, shutdown};

use super::Supervisor;
use crate::channel::{Interest, Job};
use crate::files::{Finished, Request};
use crate::poll::Token;
use crate::wire::Decoder;
use crate::wire::fault::{Fault, Kind as FaultKind};

impl Supervisor {
    pub(super) fn begin_file(&mut self, number: u32, request: Request, decoder: Decoder, input: Vec<u8>) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let Some(fd) = &channel.fd else { return };
        let copy = match rustix::io::fcntl_dupfd_cloexec(fd, 3) {
            Ok(copy) if !channel.has_pending() && rustix::io::ioctl_fionbio(fd, false).is_ok() => copy,
            _ => return self.close_channel(number),
        };
        self.poll.remove(fd);
        channel.interest = Interest::default();
        channel.job = Job::File;
        if !self.threads.start(number, copy, decoder, input, request, self.config.workspace.clone()) {
            // Without a thread (the limit of processes) the channel's input is lost with it: said, then closed.
            channel.closing = true;
            channel.job = Job::Idle;
            self.refuse(number, &Fault::new(FaultKind::Busy, "no thread for a file operation"));
        }
    }

    pub(super) fn on_threads(&mut self) {
        for finished in self.threads.finished() {
            self.end_file(finished);
        }
    }

    fn end_file(&mut self, Finished { channel: number, rest }: Finished) {
        let Some((decoder, input)) = rest else {
            return self.close_channel(number);
        };
        let interest = Interest { read: true, write: false };
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let Some(fd) = &channel.fd else { return };
        let back = rustix::io::ioctl_fionbio(fd, true);
        if back.and_then(|()| self.poll.add(fd, Token::Channel(number), interest)).is_err() {
            return self.close_channel(number);
        }
        channel.interest = interest;
        channel.job = Job::Idle;
        channel.decoder = decoder;
        if !input.is_empty() && self.channel_input(number, &input).is_err() {
            self.close_channel(number);
        }
    }

    /// Before the end: uploads under way see their connection close and remove what they began.
    pub(super) fn abort_files(&self) -> usize {
        let mut count = 0;
        for channel in self.channels.values().filter(|channel| matches!(channel.job, Job::File)) {
            if let Some(fd) = &channel.fd {
                let _ = shutdown(fd, Shutdown::Both);
            }
            count += 1;
        }
        count
    }
}

//! File work on workspaces from outside of their sandboxes, for a program that has no sandbox at hand: requests on stdin, answers on
//! stdout, one after another, until the end of stdin.

use rustix::io::Errno;
use std::io::{stdin, stdout};
use std::os::fd::AsFd;

use super::channel::FileChannel;
use super::error::FileError;
use super::path::Root;
use super::request::Order;
use super::run;

pub fn serve() -> Result<(), Errno> {
    let own = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 3);
    let mut link = FileChannel::of_two(own(stdin().as_fd())?, own(stdout().as_fd())?);
    loop {
        let order: Order = match link.request() {
            Ok(Some(order)) => order,
            Ok(None) => return Ok(()),
            Err(_) => return Err(Errno::PROTO),
        };
        let name = order.operation.path().to_owned();
        let outcome = Root::from_outside(order.directory).and_then(|root| run(&mut link, &root, order.operation));
        match outcome {
            Ok(()) => {}
            Err(FileError::Connection) => return Err(Errno::PIPE),
            Err(error) if link.error(&error.fault(&name)) => {}
            Err(_) => return Ok(()),
        }
    }
}

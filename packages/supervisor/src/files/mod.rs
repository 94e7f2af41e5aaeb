//! File operations: each on a short-lived thread with blocking calls, so that a slow disk or client holds up nobody.

mod change;
mod channel;
mod error;
mod helper;
mod list;
mod path;
mod read;
mod request;
mod stat;
mod threads;
mod tree;
mod write;

pub use helper::serve;
pub use request::Request;
pub use threads::{Finished, Threads};

pub(crate) use channel::FileChannel;
pub(crate) use error::FileError;
pub(crate) use list::{descend, open_directory};
pub(crate) use path::{MAX_BYTES, MAX_PARTS, Root, parts};
pub(crate) use request::RootName;
pub(crate) use tree::identity;

use std::path::PathBuf;

use request::Operation;

/// Never listed.
pub(crate) const TEMPORARY: &str = ".boxoffice-upload-";

/// Answers one request on `link`. False where the channel has to be closed.
fn perform(link: &mut FileChannel, request: Request, workspace: PathBuf) -> bool {
    let is_upload = matches!(request.operation, Operation::Write { .. });
    let name = request.operation.path().to_owned();
    match Root::named(request.root, workspace).and_then(|root| run(link, &root, request.operation)) {
        Ok(()) => true,
        Err(FileError::Connection) => false,
        Err(error) => {
            let told = link.error(&error.fault(&name));
            if is_upload {
                link.await_close();
            }
            told && !is_upload
        }
    }
}

fn run(link: &mut FileChannel, root: &Root, operation: Operation) -> Result<(), FileError> {
    match operation {
        Operation::Read { path, offset, length } => read::read(link, root, &path, offset, length),
        Operation::Write { path, mode, overwrite, size, if_match, follow } => {
            write::write(link, root, &path, &write::Upload { mode, overwrite, size, if_match, follow })
        }
        Operation::Stat { path, follow } => {
            let stat = stat::of_path(root, &path, follow)?;
            link.result(&stat)
        }
        Operation::List { path, depth, limit, skip } => list::list(link, root, &path, depth, limit, skip.as_deref()),
        Operation::Mkdir { path, parents, mode } => {
            let created = change::mkdir(root, &path, parents, mode)?;
            link.result(&serde_json::json!({ "created": created }))
        }
        Operation::Move { from, to, overwrite } => done(link, change::rename(root, &from, &to, overwrite)),
        Operation::Remove { path, recursive } => done(link, change::remove(root, &path, recursive)),
        Operation::Symlink { path, target, replace } => done(link, change::symlink(root, &path, &target, replace)),
        // `Threads` has a thread for them; the helper of a program on the host has not.
        Operation::Watch { .. } => Err(FileError::BadRequest("cannot be watched here")),
        Operation::Usage {} => {
            let usage = tree::usage(root)?;
            link.result(&usage)
        }
    }
}

fn done(link: &mut FileChannel, outcome: Result<(), FileError>) -> Result<(), FileError> {
    outcome?;
    link.result(&serde_json::json!({}))
}

//! The `file` message.

use serde::Deserialize;
use std::path::PathBuf;

#[derive(Deserialize)]
pub struct Request {
    #[serde(default)]
    pub root: RootName,
    #[serde(flatten)]
    pub operation: Operation,
}

/// The same to the helper of a program on the host, which has one for all of its workspaces.
#[derive(Deserialize)]
pub struct Order {
    pub directory: PathBuf,
    #[serde(flatten)]
    pub operation: Operation,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootName {
    #[default]
    Workspace,
    Sandbox,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Operation {
    Read {
        path: String,
        offset: Option<u64>,
        length: Option<u64>,
    },
    Write {
        path: String,
        mode: Option<u32>,
        #[serde(default = "yes")]
        overwrite: bool,
        size: Option<u64>,
        if_match: Option<String>,
        #[serde(default = "yes")]
        follow: bool,
    },
    Stat {
        path: String,
        #[serde(default)]
        follow: bool,
    },
    List {
        #[serde(default)]
        path: String,
        depth: Option<u32>,
        limit: u64,
        skip: Option<String>,
    },
    Mkdir {
        path: String,
        #[serde(default)]
        parents: bool,
        mode: Option<u32>,
    },
    Move {
        from: String,
        to: String,
        #[serde(default)]
        overwrite: bool,
    },
    Remove {
        path: String,
        #[serde(default)]
        recursive: bool,
    },
    Symlink {
        path: String,
        target: String,
        #[serde(default)]
        replace: bool,
    },
    Watch {
        #[serde(default)]
        path: String,
        #[serde(default)]
        recursive: bool,
    },
    Usage {},
}

fn yes() -> bool {
    true
}

impl Operation {
    /// What a message about it names.
    pub fn path(&self) -> &str {
        match self {
            Operation::Read { path, .. }
            | Operation::Write { path, .. }
            | Operation::Stat { path, .. }
            | Operation::List { path, .. }
            | Operation::Mkdir { path, .. }
            | Operation::Move { from: path, .. }
            | Operation::Remove { path, .. }
            | Operation::Symlink { path, .. }
            | Operation::Watch { path, .. } => path,
            Operation::Usage {} => "workspace",
        }
    }
}

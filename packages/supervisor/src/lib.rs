//! The supervisor of one sandbox: starts, streams and kills its processes, and does its file work. See `WIRE.md`.
#![deny(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod base64;
pub mod channel;
pub mod config;
pub mod fault;
pub mod file_name;
pub mod files;
pub mod message;
pub mod oom;
pub mod poll;
pub mod prefork;
pub mod process;
pub mod pty;
pub mod ring;
pub mod seccomp;
pub mod signals;
pub mod spawn;
pub mod splice;
pub mod supervisor;
pub mod sys;
pub mod tag;
pub mod timers;
pub mod wire;

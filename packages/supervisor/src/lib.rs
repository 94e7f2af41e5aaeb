//! The supervisor of one sandbox: starts, streams and kills its processes, and does its file work. See `WIRE.md`.
#![deny(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod channel;
pub mod config;
pub mod files;
pub mod network;
pub mod poll;
pub mod prefork;
pub mod process;
pub mod seccomp;
pub mod splice;
pub mod supervisor;
pub mod sys;
pub mod timers;
mod watch;
pub mod wire;

//! TCP connections to programs of the sandbox, and which ports they listen on.

pub mod listening;
pub mod tunnel;

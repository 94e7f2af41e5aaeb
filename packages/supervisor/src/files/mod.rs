//! File operations.

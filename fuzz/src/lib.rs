//! What libFuzzer runs; see the README.

pub mod targets;

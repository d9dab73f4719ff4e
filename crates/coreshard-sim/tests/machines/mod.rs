//! Machines for tests.
#![allow(dead_code, reason = "not every test uses every machine")]

/// Four cores with the transfer latency of a Skylake.
pub(crate) const SKYLAKE: &str = include_str!("skylake.toml");

/// Two packages of two LLCs of two cores of two CPUs.
pub(crate) const TWO_SOCKETS: &str = include_str!("two-sockets.toml");

//! Machines for tests.
#![allow(dead_code, reason = "not every test uses every machine")]

/// Four cores with the transfer latency of a Skylake.
pub(crate) const SKYLAKE: &str = include_str!("skylake.toml");

/// Two packages of two LLCs of two cores of two CPUs.
pub(crate) const TWO_SOCKETS: &str = include_str!("two-sockets.toml");

/// Four cores of an Ice Lake.
pub(crate) const ICE_LAKE: &str = include_str!("icelake.toml");

/// Sixteen cores of a Graviton 1, which have no atomic instructions.
pub(crate) const GRAVITON_1: &str = include_str!("graviton1.toml");

/// Sixteen cores of a Graviton 2.
pub(crate) const GRAVITON_2: &str = include_str!("graviton2.toml");

/// Two packages of sixteen cores with a mesh.
pub(crate) const XEON_6130: &str = include_str!("xeon-6130-2s.toml");

/// Sixteen CPUs of a virtual machine on a Xeon.
pub(crate) const XEON_16_VCPU: &str = include_str!("xeon-16-vcpu.toml");

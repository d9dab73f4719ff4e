//! Queues beside other crates: one module for each, named after it and behind a feature of its name.
//!
//! They are not in the crate's root because `use coreshard::*` would then hide the crates themselves.

#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "tokio")]
pub mod tokio;
#[cfg(feature = "tower")]
pub mod tower;

//! Integration with other crates: one module for each, with the name of the crate and a feature of that name.
//!
//! The modules are not in the crate's root because `use coreshard::*` would then hide the crates.

#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "tokio")]
pub mod tokio;
#[cfg(feature = "tower")]
pub mod tower;

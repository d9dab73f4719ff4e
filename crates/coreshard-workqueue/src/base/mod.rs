//! Common parts: items, latches and events, errors, and the pools' variants.

pub(crate) mod bits;
pub(crate) mod budget;
pub(crate) mod by_value;
#[cfg(not(feature = "canaries"))]
pub(crate) mod canary;
#[cfg(feature = "canaries")]
pub mod canary;
pub(crate) mod completion;
#[cfg(all(test, loom))]
mod completion_loom_tests;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod item;
pub(crate) mod latch;
#[cfg(all(test, loom))]
mod latch_loom_tests;
pub(crate) mod returned;
pub(crate) mod sizes;
pub(crate) mod target;
pub(crate) mod variants;

// The pools and teams still use the module's former name.

//! The library as its users have it, with the features that the workspace turns on.

mod children;
mod configured;
mod container;
mod documentation;
mod features;
mod glob_import;
#[cfg(feature = "insight")]
mod insight;
mod join_all;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tokio")]
mod tokio;
#[cfg(feature = "tower")]
mod tower;

testing::watch!();

//! A workqueue: a name, attributes, and a lane to each pool.

mod builder;
mod lane;
mod limiter;
mod workqueue;

pub use builder::Builder;
pub(crate) use builder::Request;
pub(crate) use lane::{Entry, FLAG, Lane};
pub(crate) use workqueue::Shared;
pub use workqueue::Workqueue;

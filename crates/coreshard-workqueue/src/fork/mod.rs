//! Fork and join inside an item, and loops made of them. `README.md` beside this file tells the
//! protocol.

mod deque;
mod install;
mod job;
mod join;
#[cfg(all(test, loom))]
mod loom_tests;
mod spread;

pub(crate) use deque::{Deque, Owner, Popped, Pushed};
pub(crate) use install::{install, install_helping};
pub(crate) use job::{Header, Job, execute};
pub use join::join;
use join::join_told;
pub(crate) use spread::spread;

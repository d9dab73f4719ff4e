//! Fork and join inside an item, and loops built on them. `pool/README.md` describes the protocol.

mod elements;
mod join;
mod loops;
mod outside;

pub use elements::Elements;
pub(crate) use elements::{Chunks, Zip};
use join::LoopPiece;
pub use join::join;
pub(crate) use join::{apart, join_in};
pub(crate) use loops::{reduce, spread};
pub use outside::join_or_else;

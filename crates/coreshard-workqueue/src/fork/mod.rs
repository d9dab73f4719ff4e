//! Fork and join inside an item, and loops made of them. `pool/FORKS.md` tells the protocol.

mod join;
mod outside;
mod reduce;
mod spread;

pub use join::join;
use join::join_told;
pub use outside::join_or_else;
pub use reduce::Elements;
pub(crate) use reduce::{Chunks, Zip, reduce};
pub(crate) use spread::spread;

//! Fork and join inside an item, and loops made of them. `pool/FORKS.md` tells the protocol.

mod join;
mod spread;

pub use join::join;
use join::join_told;
pub(crate) use spread::spread;

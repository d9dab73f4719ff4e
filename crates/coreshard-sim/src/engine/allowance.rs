//! What the first thread allows the others, where a run is by hand.

use std::collections::VecDeque;

use crate::machine::Ps;

/// What the first thread allows.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    /// Items that may begin.
    pub(super) allowed: u64,
    /// Threads that stand before an item.
    pub(super) held: VecDeque<usize>,
    /// How far time goes.
    pub(super) until: Ps,
    /// How often the first thread has let others go first since it last did something.
    pub(super) looks: u32,
}

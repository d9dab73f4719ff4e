//! Priority inheritance: which threads wait for which lock.

use std::collections::BTreeMap;

use crate::memory::Place;

/// A lock that threads wait for.
pub(super) struct InheritingLock {
    pub(super) holder: usize,
    /// First come first.
    pub(super) waiters: Vec<usize>,
}

/// All locks that threads wait for.
#[derive(Default)]
pub(super) struct Inheritance {
    pub(super) locks: BTreeMap<Place, InheritingLock>,
    /// By thread that was lent a priority: its own.
    pub(super) own: BTreeMap<usize, u8>,
}

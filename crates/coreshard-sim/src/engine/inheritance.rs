//! Which locks lend priority to whom.

use std::collections::BTreeMap;

use crate::memory::Place;

/// A lock that threads wait for.
pub(super) struct InheritingLock {
    pub(super) holder: usize,
    /// First come first.
    pub(super) waiters: Vec<usize>,
}

/// The locks that somebody waits for, and the own priorities of threads that were lent another.
#[derive(Default)]
pub(super) struct Inheritance {
    pub(super) locks: BTreeMap<Place, InheritingLock>,
    pub(super) own: BTreeMap<usize, u8>,
}

//! How many forks lie between the first process and this one.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Written before the child has a second thread.
static FORKS: AtomicU32 = AtomicU32::new(0);

pub(super) fn current() -> u32 {
    FORKS.load(Relaxed)
}

/// In the child of a fork, on its only thread.
pub(super) fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

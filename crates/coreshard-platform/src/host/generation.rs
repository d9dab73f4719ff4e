//! How many forks lie between the first process and this one.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::atfork;

/// One more than that; 0 until somebody asks, from when on forks are heard of. Written before the child has a second thread.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// `None` where nobody has asked yet: see [`hear_of_forks`].
#[inline(always)]
pub(super) fn known() -> Option<u32> {
    GENERATION.load(Relaxed).checked_sub(1)
}

pub(super) fn current() -> u32 {
    hear_of_forks();
    GENERATION.load(Relaxed) - 1
}

/// No `Once`: a child that is forked while another thread is in one would wait for it for ever. Two threads that are here at a time have the
/// child count twice, and a fork in between finds nobody who knows a generation yet.
pub(super) fn hear_of_forks() {
    if GENERATION.load(Relaxed) == 0 {
        atfork::in_child(forked);
        GENERATION.store(1, Relaxed);
    }
}

/// In the child of a fork, on its only thread.
extern "C" fn forked() {
    GENERATION.fetch_add(1, Relaxed);
}

//! Numbers of sets and ports.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that no other set or port of the process ever has. Not the platform's: nothing is decided by
/// how large it is.
pub(super) fn next_number() -> NonZeroU64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NonZeroU64::new(NUMBERS.fetch_add(1, Relaxed)).expect("fewer than 2⁶⁴ sets and ports were made")
}

//! Deliberately planted bugs, to check that tests and searches find them.
//!
//! Without the feature `canaries`, which only tests enable, the compiler sees `planted` as constantly false
//! and removes all of this code.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "canaries"),
    allow(dead_code, unreachable_pub, reason = "only used with the feature")
)]
pub enum Canary {
    /// A worker parks without a last look for work: an item that arrives between that look and the listing of the worker
    /// wakes no worker.
    LostWakeup,
    /// A worker whose idle time has expired exits although it was chosen to be woken, and the item that it was chosen for is
    /// stranded.
    CullRace,
    /// The pods of the scope `smt` are laid out by CPU, so that the two CPUs of a core do not share
    /// a pool.
    SplitPair,
}

#[cfg(feature = "canaries")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants a bug in all runtimes of this process, in place of the previous one.
#[cfg(feature = "canaries")]
pub fn plant(canary: Option<Canary>) {
    let number = canary.map_or(0, |canary| canary as u8 + 1);
    PLANTED.store(number, std::sync::atomic::Ordering::SeqCst);
}

#[cfg(feature = "canaries")]
pub(crate) fn planted(canary: Canary) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == canary as u8 + 1
}

#[cfg(not(feature = "canaries"))]
#[inline(always)]
pub(crate) const fn planted(_canary: Canary) -> bool {
    false
}

//! Bugs that are planted on purpose, so that those who search for bugs can be seen to find some.
//!
//! Without the feature `canaries`, which nothing but tests turns on, `planted` is false in the
//! compiler's eyes, and no code is left of it.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "canaries"),
    allow(dead_code, unreachable_pub, reason = "nobody can plant one")
)]
pub enum Canary {
    /// A worker lies down without looking for work once more: an item that came in between its
    /// last look and its name's being listed wakes nobody.
    LostWakeup,
    /// A worker whose idle time is over leaves although it was chosen to be woken, and the item
    /// that it was chosen for is stranded.
    CullRace,
    /// The pods of the scope `smt` are laid out by CPU, so that the two CPUs of a core do not share
    /// a pool.
    SplitPair,
}

#[cfg(feature = "canaries")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants a bug in all runtimes of this process, instead of the one that was there.
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

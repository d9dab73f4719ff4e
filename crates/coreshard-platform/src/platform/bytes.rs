//! Atomics of one byte, and fences: what a structure needs in which each CPU writes a byte of its
//! own.

use crate::{AtomicInt, Platform};

/// A platform whose code may publish single bytes with plain stores, and order them with fences.
///
/// Apart from [`Platform`], since few structures need it: a byte that one CPU writes beside those of
/// others costs no locked instruction, but then only a fence can order it before a later load.
pub trait ByteAtomics: Platform {
    /// An 8-bit atomic.
    type AtomicU8: AtomicInt<u8>;

    /// Orders everything before it before everything after it, a store before a later load
    /// included, as [`std::sync::atomic::fence`] with `SeqCst` does.
    #[track_caller]
    fn fence();
}

//! Counts calls of the global allocator on request. A cell counts in a separate pass that is not timed;
//! outside it, the cost is one load of a word that is not written.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: super::Padded<AtomicU64> = super::Padded(AtomicU64::new(0));

/// An allocator that counts.
pub(crate) struct Counting<A>(pub(crate) A);

impl<A> Counting<A> {
    #[inline]
    fn count(&self) {
        if COUNTS.load(Relaxed) {
            ALLOCATIONS.0.fetch_add(1, Relaxed);
        }
    }
}

// SAFETY: every call is forwarded to an allocator unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count();
        // SAFETY: the caller's promise is handed on.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count();
        // SAFETY: the caller's promise is handed on.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.count();
        // SAFETY: the caller's promise is handed on.
        unsafe { self.0.realloc(pointer, layout, bytes) }
    }
}

/// Counts the allocations of all threads of the process while `body` runs. One call at a time.
pub(crate) fn allocations_during(body: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.0.load(Relaxed);
    COUNTS.store(true, Relaxed);
    body();
    COUNTS.store(false, Relaxed);
    ALLOCATIONS.0.load(Relaxed) - before
}

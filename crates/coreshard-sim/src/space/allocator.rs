//! The global allocator of programs that simulate.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::arena::{Arena, PAGE_BYTES, number_of, numbered};

thread_local! {
    /// The arena of the simulated code that runs on this host thread; null elsewhere, and inside the
    /// simulator itself.
    static ARENA: Cell<*mut Arena> = const { Cell::new(ptr::null_mut()) };
}

/// Allocates memory for simulated code from its simulation's arena, and for all other code from the system.
///
/// Use it as the global allocator of a program that simulates, so that a run's layout, and with it every
/// figure, is reproducible:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: coreshard_sim::SimAlloc = coreshard_sim::SimAlloc;
/// ```
///
/// Outside simulations it costs a comparison on each call.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimAlloc;

// SAFETY: memory comes from the system's allocator, or from an arena, whose blocks are disjoint and aligned.
// A block's address tells which of the two it is from.
unsafe impl GlobalAlloc for SimAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let arena = ARENA.get();
        if arena.is_null() {
            // SAFETY: the caller's guarantees are passed on.
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: the pointer is set only by the thread that runs the simulation, for as long as it lives,
        // and `allocate` does not recurse into this function.
        unsafe { (*arena).allocate(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if ARENA.get().is_null() {
            // SAFETY: the caller's guarantees are passed on.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as in `alloc`; the block has at least the written length.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(number) = number_of(block as usize) else {
            // SAFETY: the caller's guarantees are passed on; the block is not from an arena.
            return unsafe { System.dealloc(block, layout) };
        };
        let arena = numbered(number);
        if ARENA.get() == arena {
            // SAFETY: the block is from this arena, whose simulation runs on this very thread.
            unsafe { (*arena).release(block, layout) };
        } else {
            // SAFETY: the block held a reference, and is not used any more.
            unsafe { Arena::drop_reference(arena) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if ARENA.get().is_null() && number_of(block as usize).is_none() {
            // SAFETY: the caller's guarantees are passed on.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: the caller guarantees that size and alignment make a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: both blocks are live and at least as long as the copy, and the caller may free the old one.
        unsafe {
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Restores the previous choice of memory when dropped.
struct Restore(*mut Arena);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        ARENA.set(self.0);
    }
}

/// Runs simulated code: it allocates from `arena`.
///
/// # Safety
/// The arena must live, and belong to this thread, until `run` returns.
#[inline]
pub(crate) unsafe fn in_arena<R>(arena: *mut Arena, run: impl FnOnce() -> R) -> R {
    let _last = Restore(ARENA.replace(arena));
    run()
}

/// Runs the simulator's own code: it allocates from the system.
#[inline]
pub(crate) fn in_host<R>(run: impl FnOnce() -> R) -> R {
    let _last = Restore(ARENA.replace(ptr::null_mut()));
    run()
}

/// Frees node-local memory of an arena; see `NodeMemory::adopt`.
///
/// # Safety
/// As for [`coreshard_platform::ReleaseMemory`].
pub(crate) unsafe fn release_memory(start: NonNull<u8>, bytes: usize) {
    let layout = Layout::from_size_align(bytes, PAGE_BYTES).expect("it was allocated with this");
    // SAFETY: by this function's contract, this is the end of memory allocated with this layout.
    unsafe { SimAlloc.dealloc(start.as_ptr(), layout) };
}

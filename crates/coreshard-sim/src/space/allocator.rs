//! The global allocator of programs that simulate.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::arena::{Arena, PAGE_BYTES, number_of, numbered};

thread_local! {
    /// The arena of the simulated code that runs on this host thread; null elsewhere, and inside
    /// the simulator itself.
    static ARENA: Cell<*mut Arena> = const { Cell::new(ptr::null_mut()) };
}

/// Gives simulated code memory out of its simulation's arena, and everybody else the system's.
///
/// A program that simulates makes it its global allocator, so that a run's layout, and with it
/// every figure, is the same each time:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: coreshard_sim::SimAlloc = coreshard_sim::SimAlloc;
/// ```
///
/// Outside of simulations it costs a comparison on each call.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimAlloc;

// SAFETY: memory comes from the system's allocator, or from an arena, whose blocks are disjoint
// and aligned; which of the two a block is from is told by its address.
unsafe impl GlobalAlloc for SimAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let arena = ARENA.get();
        if arena.is_null() {
            // SAFETY: the caller's promises are passed on.
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: the pointer is set only by the thread that runs the simulation, for as long as
        // it lives, and `allocate` does not come back here.
        unsafe { (*arena).allocate(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if ARENA.get().is_null() {
            // SAFETY: the caller's promises are passed on.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as in `alloc`; the block is as long as is written.
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
            // SAFETY: the caller's promises are passed on; it is none of an arena's.
            return unsafe { System.dealloc(block, layout) };
        };
        let arena = numbered(number);
        if ARENA.get() == arena {
            // SAFETY: the block is of this arena, whose simulation runs on this very thread.
            unsafe { (*arena).release(block, layout) };
        } else {
            // SAFETY: the block was a reference, and is not used any more.
            unsafe { Arena::drop_reference(arena) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if ARENA.get().is_null() && number_of(block as usize).is_none() {
            // SAFETY: the caller's promises are passed on.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: the caller promises that size and alignment make a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: both blocks are live and at least as long as is copied, and the old one is the
        // caller's to give back.
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

/// Puts the last choice of memory back when dropped.
struct Restore(*mut Arena);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        ARENA.set(self.0);
    }
}

/// Runs simulated code: what it allocates comes from `arena`.
///
/// # Safety
/// The arena lives, and belongs to this thread, until `run` returns.
#[inline]
pub(crate) unsafe fn in_arena<R>(arena: *mut Arena, run: impl FnOnce() -> R) -> R {
    let _last = Restore(ARENA.replace(arena));
    run()
}

/// Runs the simulator's own code: what it allocates comes from the system.
#[inline]
pub(crate) fn in_host<R>(run: impl FnOnce() -> R) -> R {
    let _last = Restore(ARENA.replace(ptr::null_mut()));
    run()
}

/// Gives node-local memory of an arena back; see `NodeMemory::adopt`.
///
/// # Safety
/// As for [`coreshard_platform::ReleaseMemory`].
pub(crate) unsafe fn release_memory(start: NonNull<u8>, bytes: usize) {
    let layout = Layout::from_size_align(bytes, PAGE_BYTES).expect("it was allocated with this");
    // SAFETY: by the contract, this is the end of memory allocated with this layout.
    unsafe { SimAlloc.dealloc(start.as_ptr(), layout) };
}

//! The memory of a simulated program, arranged so that a run is the same at every load address.
//!
//! Each simulation has an *arena*: a range of addresses of fixed size. It contains the stacks of the virtual
//! threads, their node-local memory, and (with [`SimAlloc`] as the program's global allocator) all
//! allocations of simulated code. Line state, traces and reports identify memory by its distance from the
//! arena's start. The arena's allocator is deterministic, so equal runs have equal layouts, down to the
//! objects that happen to share a line.
//!
//! Memory outside the arena (statics, earlier allocations, and the heap without the allocator) is numbered
//! line by line in the order of first access, and keeps its place within the line. This is also independent
//! of load addresses. For the heap without [`SimAlloc`], it is as deterministic as the program's allocator.

mod allocator;
mod arena;
mod free_lists;

pub use allocator::SimAlloc;
pub(crate) use allocator::{in_arena, in_host, release_memory};
pub(crate) use arena::{ARENA_BYTES, Arena, PAGE_BYTES, STACK_BYTES, Stack, without_colour};

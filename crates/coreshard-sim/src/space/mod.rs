//! Where a simulated program's memory lies, so that a run is the same at every load address.
//!
//! Each simulation has an *arena*: a range of addresses of fixed size, in which lie the stacks of
//! its virtual threads, its node-local memory, and (with [`SimAlloc`] as the program's global
//! allocator) everything that its code allocates. Line state, traces and reports know memory by
//! its distance from the arena's start. The arena's allocator is deterministic, so equal runs have
//! equal layouts, down to which objects happen to share a line.
//!
//! What lies outside (statics; what was allocated before the run; the heap, without the
//! allocator) is numbered line by line in the order of first touch, and keeps its place within the
//! line. That too is independent of load addresses; for the heap without [`SimAlloc`] it is as
//! deterministic as the program's allocator.

mod allocator;
mod arena;
mod free_lists;

pub use allocator::SimAlloc;
pub(crate) use allocator::{in_arena, in_host, release_memory};
pub(crate) use arena::{ARENA_BYTES, Arena, PAGE_BYTES, STACK_BYTES, Stack, without_colour};

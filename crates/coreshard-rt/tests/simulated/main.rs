//! Real time on a simulated machine, and compile-time checks.

mod at_rest;
mod auto_traits;
mod ceilings;
mod deadlines;
mod inversion;

testing::watch!();

#[global_allocator]
static ALLOCATOR: coreshard_sim::SimAlloc = coreshard_sim::SimAlloc;

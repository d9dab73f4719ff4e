//! The simulator's tests, in one program: the queues' code on its machines is compiled once. `search`, which
//! plants bugs in it, and `many_simulations`, which counts the process's mappings, run in their own
//! processes.

use coreshard_sim::SimAlloc;

mod combinations;
#[path = "../machines/mod.rs"]
mod machines;
mod programs;

mod balance;
mod calibrate;
mod claims;
mod contend;
mod contention;
mod every_combination;
mod failing;
mod fairness;
mod faults;
mod held_locks;
mod homes;
mod ledger;
mod lines;
mod looks;
mod many_simulations;
mod memory;
mod preemption;
mod ramp;
mod runs;
mod search;
mod silent_device;
mod store_buffers;
mod stuck;
mod sweep;
mod watching;

testing::watch!();

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

//! A simulated many-core machine that implements Coreshard's platform trait.
//!
//! [`Sim`] implements [`Platform`](coreshard_platform::Platform), so the same code that runs on this machine
//! runs on any [`Machine`] that can be described: virtual threads on virtual CPUs, in virtual time, with
//! caches that hand lines to one another and a scheduler that sends interrupts. A [`Simulation`] is
//! deterministic: machine, seed and program determine the run.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::Ordering::Relaxed;
//!
//! use coreshard_platform::{AtomicInt, Platform, ThreadHandle, ThreadSpec};
//! use coreshard_sim::{Machine, Sim, Simulation};
//!
//! #[global_allocator]
//! static ALLOCATOR: coreshard_sim::SimAlloc = coreshard_sim::SimAlloc;
//!
//! let grace = Machine::named("grace")?;
//! let run = Simulation::new(&grace).seed(1).run(|| {
//!     let counter = Arc::new(<Sim as Platform>::AtomicU64::new(0));
//!     let threads: Vec<_> = (0..72)
//!         .map(|_| {
//!             let counter = Arc::clone(&counter);
//!             let body = move || (0..100).for_each(|_| drop(counter.fetch_add(1, Relaxed)));
//!             Sim::spawn(ThreadSpec::default(), Box::new(body)).unwrap()
//!         })
//!         .collect();
//!     threads.into_iter().for_each(ThreadHandle::join);
//!     counter.load(Relaxed)
//! })?;
//! assert_eq!(run.value, 7_200);
//! assert!(run.summary.virtual_ns > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Modules:
//!
//! 1. `machine`: topology and costs, read from a preset or a file that cites each number.
//! 2. `space`: the addresses of a simulated program, so that load addresses do not affect it.
//! 3. `memory`: cache coherence: lines, their owners and sharers, and the cost of an access.
//! 4. `engine`: coroutines, the order of events, the scheduler, futexes, fault injection.
//! 5. `platform`, `realtime`, `atomic`: the platform traits.
//! 6. `report`: the lines and fields that cost time; timelines.
//! 7. [`Caches`]: the memory system alone, for accesses of programs that are not simulated.
//! 8. [`search`]: many short runs with injected faults, and how to replay one.
//! 9. [`contend`]: a program's contention in a few lines, simulated and beside it a queueing model.
//!
//! The model omits the capacity of caches, memory bandwidth, instructions that access no simulated memory
//! (use [`Sim::compute`] for them), and memory orders weaker than x86's. The first simulation of a process
//! wraps its panic hook, so that reporting a panic does not allocate from the simulated program's memory.
//! While a simulated thread unwinds from a panic, `std::thread::panicking` also returns true in the others.

#![warn(missing_debug_implementations)]
#![doc(html_root_url = "https://docs.rs/coreshard-sim/0.1.0")]

mod atomic;
mod caches;
pub mod contend;
mod cpu_mask;
mod engine;
mod machine;
mod memory;
mod platform;
mod profile;
mod random;
mod realtime;
mod report;
pub mod search;
mod space;

pub use atomic::{SimAtomic, SimCell};
pub use caches::{CacheAccess, CacheOutcome, Caches, Placement, StepCosts};
pub use engine::{
    Call, CallCounts, FailedStarts, Failing, Faults, Lasts, ParseFailingError, Pulse, Run,
    Schedule, SimError, Simulation, Stuck, Summary, Switching, View, WaitingThread,
};
pub use machine::{MAX_CPUS, Machine, MachineError};
pub use memory::LineSource;
pub use platform::{Sim, SimThread};
pub use profile::{ParseProfileError, Profile};
pub use report::{LineReport, LineRow, LineSummary, Timeline};
pub use space::SimAlloc;

#[cfg(test)]
testing::watch!();

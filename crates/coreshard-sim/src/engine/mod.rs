//! The engine: virtual threads on virtual CPUs, in virtual time, on one host thread.
//!
//! 1. A virtual thread is a coroutine. It runs until it is not its CPU's turn any more, or it waits.
//! 2. The CPU with the smallest (time, random number, id) is next. A CPU whose time is still the
//!    smallest goes on without a switch; that is what the agenda's horizon is for.
//! 3. Whatever simulated code does to the world outside its thread happens at its CPU's turn. The
//!    time it takes is added afterwards. So all effects are in the order of virtual time.
//! 4. All state is in [`SimState`], which simulated code reaches by a thread-local
//!    pointer. No reference to it is held while a coroutine is suspended.
//! 5. Nothing in here depends on addresses, on the host's clock, or on the order of a hash table.
//!
//! Each file calls only files that stand before it:
//!
//! | file | owns |
//! |---|---|
//! | `settings`, `pulse` | what is asked of a run; whether it still goes on |
//! | `faults/` | what goes wrong on purpose: by chance, or by a call's number |
//! | `hardware/` | time, CPUs that spin, store buffers, the trace; the caches are in [`memory`](crate::memory) |
//! | `scheduler/` | run queues, idle CPUs, hotplug |
//! | `threads`, `wait_queues`, `waited_at`, `items` | what each thread does or waits for |
//! | `hand`, `inheritance` | runs by hand; locks that lend priority |
//! | `state` | the root, made of all these, and how simulated code reaches it |
//! | `kernel` | how the root has threads wait, and wakes, starts and ends them |
//! | `calls`, `inherit` | what simulated code calls |
//! | `view` | what is seen of a run from outside |
//! | `run`, `simulation` | the loop of events; how a simulation is set up, and what it has come to |

mod calls;
mod faults;
mod hand;
mod hardware;
mod inherit;
mod inheritance;
mod items;
mod kernel;
mod pulse;
mod run;
mod scheduler;
mod settings;
mod simulation;
mod state;
mod threads;
mod view;
mod wait_queues;
mod waited_at;

pub(crate) use calls::{
    access, buffer_store, charge, cpu_time_of, is_waiting, item_begins, item_is_over, join,
    let_run, modify, preemption_point, set_affinity, sleep, spawn, spin_hint, spin_in_queue,
    switch_point, wait, wake, watch, yield_now,
};
pub use faults::{
    Call, CallCounts, FailedStarts, Failing, Faults, Lasts, ParseFailingError, Schedule,
};
pub(crate) use inherit::{lock_inheriting, priority, set_priority, unlock_inheriting};
pub use pulse::Pulse;
pub use settings::Switching;
pub use simulation::{Run, Simulation, Summary};
pub(crate) use state::{SimState, current, expect, expect_sim, with, with_current};
pub use view::{SimError, Stuck, View, WaitingThread};

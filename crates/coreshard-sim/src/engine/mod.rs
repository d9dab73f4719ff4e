//! The engine: virtual threads on virtual CPUs, in virtual time, on one host thread.
//!
//! 1. A virtual thread is a coroutine. It runs until its CPU's turn ends, or it waits.
//! 2. The CPU with the smallest (time, random number, id) is next. A CPU whose time is still the smallest
//!    continues without a switch; the agenda's horizon exists for that.
//! 3. Every effect of simulated code outside its thread happens at its CPU's turn. The time it takes is added
//!    afterwards. So all effects are in the order of virtual time.
//! 4. All state is in [`SimState`], which simulated code reaches by a thread-local pointer. No reference to
//!    it is held while a coroutine is suspended.
//! 5. Nothing in here depends on addresses, on the host's clock, or on the order of a hash table.
//!
//! Each file calls only files listed before it:
//!
//! | file | owns |
//! |---|---|
//! | `settings`, `pulse` | the options of a run; whether it still makes progress |
//! | `faults/` | injected faults: random, or by a call's number |
//! | `hardware/` | time, CPUs that spin, store buffers, the trace; the caches are in [`memory`](crate::memory) |
//! | `scheduler/` | run queues, idle CPUs, hotplug |
//! | `progress` | finds runs that never end |
//! | `threads`, `wait_queues`, `waited_at`, `items` | the state of each thread, and the reason of its wait |
//! | `hand`, `inheritance` | runs by hand; locks that lend priority |
//! | `state` | the root, which contains all these, and how simulated code reaches it |
//! | `kernel` | the root's operations: waiting, waking, starting and ending threads |
//! | `calls`, `inherit` | the functions that simulated code calls |
//! | `view` | the view of a run from outside |
//! | `run`, `simulation` | the event loop; the setup and the result of a simulation |

mod calls;
mod faults;
mod hand;
mod hardware;
mod inherit;
mod inheritance;
mod items;
mod kernel;
mod progress;
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
    access, buffer_store, charge, compute, cpu_time_of, is_waiting, item_begins, item_is_over,
    join, let_run, modify, preemption_point, set_affinity, sleep, spawn, spin_hint, spin_in_queue,
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

//! The engine: virtual threads on virtual CPUs, in virtual time, on one host thread.
//!
//! 1. A virtual thread is a coroutine. It runs until it is not its CPU's turn any more, or it waits.
//! 2. The CPU with the smallest (time, random number, id) is next. A CPU whose time is still the
//!    smallest goes on without a switch; that is what [`Core::horizon`] is for.
//! 3. Whatever simulated code does to the world outside its thread happens at its CPU's turn. The
//!    time it takes is added afterwards. So all effects are in the order of virtual time.
//! 4. The machine's state is in [`Core`], which simulated code reaches by a thread-local pointer.
//!    No reference to it is held while a coroutine is suspended.
//! 5. Nothing in here depends on addresses, on the host's clock, or on the order of a hash table.

mod calls;
mod core;
mod events;
mod failing;
mod faults;
mod futex;
mod held_locks;
mod hotplug;
mod reading;
mod run;
mod scheduler;
mod simulation;
mod spin;
mod store_buffer;
mod stuck;
mod thread;
mod threads;
mod watch;

pub(crate) use self::core::{Core, Site, current};
pub(crate) use calls::{
    access, call_fails, charge, cpu_time_of, hands_over, is_waiting, join, lock_inheriting,
    preemption_point, priority, profile, set_affinity, set_priority, sleep, spawn, spin_hint,
    spin_in_queue, this_thread, unlock_inheriting, wait, wake, yield_now,
};
pub use failing::{Call, CallCounts, Failing, Lasts, ParseCallError, ParseFailingError};
pub use faults::{FailedStarts, Faults, Schedule};
pub(crate) use held_locks::{lock_is_freed, lock_is_taken};
pub(crate) use reading::{begin_reading, end_reading, try_grace_period};
pub use simulation::{Run, Simulation, Summary};
pub(crate) use store_buffer::{held_value, hold_store, let_own_stores_go};
pub use stuck::{SimError, Stuck, WaitingThread};
pub use watch::View;

//! The engine: virtual threads on virtual CPUs, in virtual time, on one host thread.
//!
//! 1. A virtual thread is a coroutine. It runs until it is not its CPU's turn any more, or it waits.
//! 2. The CPU with the smallest (time, random number, id) is next. A CPU whose time is still the
//!    smallest goes on without a switch; that is what `SimState::horizon` is for.
//! 3. Whatever simulated code does to the world outside its thread happens at its CPU's turn. The
//!    time it takes is added afterwards. So all effects are in the order of virtual time.
//! 4. All state is in [`SimState`](state::SimState), which simulated code reaches by a thread-local
//!    pointer. No reference to it is held while a coroutine is suspended.
//! 5. Nothing in here depends on addresses, on the host's clock, or on the order of a hash table.
//!
//! Files, from the bottom up:
//!
//! - what a simulation consists of, as plain data: `thread`, `cpu`, `spin_detector`, `looking`, `events`, `wait_queues`,
//!   `inheritance`, `store_buffers`, `item_counts`, `allowance`; what is to go wrong in it (`faults`, `failing`) and what draws that
//!   (`fault_injector`, `pct`, `call_failures`); what is asked of a run beside that (`mode`), and how it is seen that
//!   it goes on (`pulse`, `waited_at`);
//! - `state`, made of these, and `turn`: how simulated code reaches it, and suspends itself;
//! - what the machine does: `scheduler`, `noise`, `hotplug`, `spin`, `looks`, `line_waits`, `tso`, `held_locks`, `threads`, `failed_calls`; and `hand`, by which a
//!   program runs itself;
//! - `calls`, `items` and `reading`: what simulated code calls;
//! - `stuck` and `watch`: what is seen of a run from outside; `run`: one turn of a CPU; `simulation`: the
//!   loop of events.

mod allowance;
mod call_failures;
mod calls;
mod cpu;
mod events;
mod failed_calls;
mod failing;
mod fault_injector;
mod faults;
mod hand;
mod held_locks;
mod hotplug;
mod inheritance;
mod item_counts;
mod items;
mod line_waits;
mod looking;
mod looks;
mod mode;
mod noise;
mod pct;
mod pulse;
mod reading;
mod run;
mod scheduler;
mod share;
mod simulation;
mod spin;
mod spin_detector;
mod state;
mod store_buffers;
mod stuck;
mod thread;
mod threads;
mod tso;
mod turn;
mod wait_queues;
mod waited_at;
mod watch;

pub use call_failures::CallCounts;
pub(crate) use calls::{
    access, call_fails, charge, cpu_time_of, hands_over, idlers_may_spin, is_waiting, join,
    lock_inheriting, modify, preemption_point, priority, profile, set_affinity, set_priority,
    sleep, spawn, spin_hint, spin_in_queue, this_thread, unlock_inheriting, wait, wake, yield_now,
};
pub use failing::{Call, Failing, Lasts, ParseCallError, ParseFailingError};
pub use faults::{FailedStarts, Faults, Schedule};
pub(crate) use hand::{end_by_hand, let_run, time_ns};
pub(crate) use held_locks::{lock_is_freed, lock_is_taken, stores_run_ahead};
pub(crate) use items::{
    item_begins, item_is_over, item_is_queued, item_is_taken, item_panicked, queued_items,
    switch_point, take_unheard_panics,
};
pub(crate) use looks::watch;
pub use mode::Switching;
pub use pulse::Pulse;
pub(crate) use reading::{begin_reading, end_reading, try_grace_period};
pub use simulation::{Run, Simulation, Summary};
pub(crate) use state::current;
pub use stuck::{SimError, Stuck, WaitingThread};
pub(crate) use tso::{buffer_store, drain_own_stores, forwarded_value};
pub(crate) use turn::expect_sim;
pub use watch::View;

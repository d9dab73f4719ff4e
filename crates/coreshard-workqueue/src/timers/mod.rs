//! Everything of a runtime that waits for its time, in one structure.
//!
//! One thread, the timekeeper, sleeps until the earliest deadline; it is started with the first
//! delay, and sleeps without a time while nothing waits. Who adds an entry that is now the
//! earliest wakes it; a cancel does not, so the timekeeper may wake up for nothing, once.
//!
//! Rules:
//!
//! 1. Entries, and whether the timekeeper runs, are under the lock. No code of a user, and no
//!    other lock, is taken under it; an entry that is refused comes back and is dropped after it.
//! 2. What is due is taken out under the lock and fired after it, by the timekeeper. Firing puts
//!    an item into a pool, and never waits for one.
//! 3. The timekeeper calls and drops nothing of a user's. It wakes the tasks of this crate, which comes
//!    to a push; other executors' wakers, and what would be dropped, go to `callbacks`.

mod due;
mod heap;
mod keeper;
mod sleep;
mod timeout;

pub(crate) use due::{Due, Owed, Timed};
pub(crate) use heap::Key;
pub(crate) use keeper::{TimerError, Timers};
pub(crate) use sleep::sleep;
#[cfg(feature = "hyper")]
pub(crate) use sleep::sleep_clamped;
pub use sleep::{Sleep, SleepError};
pub(crate) use timeout::timeout;
pub use timeout::{Elapsed, Timeout};

//! All timers of a runtime, in one structure.
//!
//! One thread, the timekeeper, sleeps until the earliest deadline. It is started with the first delay, and sleeps without a
//! limit while nothing waits. A thread that adds an entry with the earliest deadline wakes it; a cancel does not, so the
//! timekeeper may wake up once for nothing.
//!
//! Rules:
//!
//! 1. Entries, and whether the timekeeper runs, are under the lock. No user code runs and no other lock is taken under it; a
//!    rejected entry is returned and dropped after the unlock.
//! 2. Due entries are removed under the lock and fired after the unlock, by the timekeeper. Firing puts
//!    an item into a pool, and never waits for one.
//! 3. The timekeeper neither calls nor drops user code. It wakes the tasks of this crate, which amounts
//!    to a push. Other executors' wakers, and values to be dropped, go to `callbacks`.

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

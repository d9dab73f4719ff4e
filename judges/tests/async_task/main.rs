//! The tests of async-task, asked of `Workqueue::spawn` and `Task`.
//!
//! The names and assertions are from async-task (<https://github.com/smol-rs/async-task>, Apache-2.0 or MIT):
//! `tests/{basic,cancel,join,panic,ready,waker_panic,waker_pending,waker_ready}.rs`. The text is ours. There a test
//! holds the runnable and runs it; here a frozen queue does, see [`stage`]. The count of future drops is the same.
//! Instead of calls of the schedule function, the tests count polls of the queue.

mod basic;
mod cancel;
mod join;
mod panic;
mod ready;
mod stage;
mod waker_panic;
mod waker_pending;
mod waker_ready;

testing::watch!();

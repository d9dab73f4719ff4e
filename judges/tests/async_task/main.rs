//! The tests of async-task, asked of `Workqueue::spawn` and `Task`.
//!
//! The names and what they assert are from async-task (<https://github.com/smol-rs/async-task>,
//! Apache-2.0 or MIT): `tests/{basic,cancel,join,panic,ready,waker_panic,waker_pending,waker_ready}.rs`. The
//! text is ours. There a test holds the runnable and says when it runs; here a frozen queue does, see
//! [`stage`]. What the future's drop counts is the same; what the schedule function counts there, the
//! queue's count of polls does.

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

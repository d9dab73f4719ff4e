//! tokio's tests of its runtime, tasks and timers, asked of Coreshard.
//!
//! The names and assertions are from tokio (<https://github.com/tokio-rs/tokio>, MIT):
//! `tokio/tests/{rt_common,rt_threaded,rt_basic,rt_handle,rt_spawn_blocking,task_*,join_handle_panic,time_*}.rs`. The
//! text is ours. A runtime there is a queue here; `block_on` polls on the test's own thread; `block_in_place` is
//! `blocking`, `spawn_blocking` is `submit`; `abort` is the drop of a task, or `cancel`. The clock cannot be paused:
//! times are short, and a test asserts that nothing happens early.

mod blocking;
mod join_set;
mod rt_basic;
mod rt_common;
mod rt_threaded;
mod task;
mod time;

testing::watch!();

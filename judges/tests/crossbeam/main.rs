//! crossbeam's tests of scoped threads, deques and channels, asked of Coreshard.
//!
//! The names and what they assert are from crossbeam (<https://github.com/crossbeam-rs/crossbeam>, MIT or
//! Apache-2.0): `crossbeam-utils/tests/{thread,wait_group}.rs`,
//! `crossbeam-deque/tests/{injector,lifo,fifo,steal}.rs`, `crossbeam-channel/tests/{golang,thread_locals,tick,
//! after}.rs`; the last but two are after Go's `test/chan` (BSD). The text is ours. A scoped thread there is an
//! item of a scope here; a deque is what a queue's workers take from; a goroutine is a task, and a
//! channel what the tests themselves bring along.

mod deque;
mod golang;
mod thread;
mod ticks;

testing::watch!();

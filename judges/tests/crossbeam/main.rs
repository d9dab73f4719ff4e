//! crossbeam's tests of scoped threads, deques and channels, asked of Coreshard.
//!
//! The names and assertions are from crossbeam (<https://github.com/crossbeam-rs/crossbeam>, MIT or Apache-2.0):
//! `crossbeam-utils/tests/{thread,wait_group}.rs`, `crossbeam-deque/tests/{injector,lifo,fifo,steal}.rs`,
//! `crossbeam-channel/tests/{golang,thread_locals,tick,after}.rs`; all but the last two of these are after Go's
//! `test/chan` (BSD). The text is ours. A scoped thread there is an item of a scope here, a deque is the source of a
//! queue's workers, and a goroutine is a task. The tests bring their own channels.

mod deque;
mod golang;
mod thread;
mod ticks;

testing::watch!();

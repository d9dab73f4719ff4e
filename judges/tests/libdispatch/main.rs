//! libdispatch's tests, asked of Coreshard.
//!
//! The names and assertions are from libdispatch (<https://github.com/apple/swift-corelibs-libdispatch>, Apache-2.0):
//! `tests/dispatch_*.c`. The text is ours. A serial queue there is an ordered queue here, a concurrent one any other; a
//! group is a scope, or a drain; `dispatch_sync` is `install`, `dispatch_apply` is `for_each_range`, a suspended queue
//! a frozen one, `dispatch_after` a delayed `Work`, a timer source a `Periodic`. If a C test is one `main` with many
//! assertions, each assertion is a separate test here.

mod apply;
mod concur;
mod group;
mod queues;
mod timers;

testing::watch!();

//! Work that nobody waits for.

use crate::current;

/// Has `func` run in the current pool, else in the global one, some time: the last that a thread spawned first, if no other
/// thread takes it.
///
/// What it throws goes to the pool's [`panic_handler`](crate::ThreadPoolBuilder::panic_handler); without one the process aborts.
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    current::with_current(|team| team.spawn(func));
}

/// As [`spawn()`], in the order of such calls on this thread.
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    current::with_current(|team| team.spawn_fifo(func));
}

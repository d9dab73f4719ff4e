//! An item that lets others go first.

use std::sync::Arc;

use coreshard_platform::Platform;

use super::blocking::blocking;
use super::context::with_context;

/// Called now and then inside an item that computes for long: lets others go first that wait for its worker. True if
/// some did.
///
/// An item cannot be put back into its queue, and no other one is run on top of it, which might need what this one
/// holds. So the worker's *place* is given away: if an item or a forked job waits in its pool, the worker counts as
/// blocked, another one of the pool is woken or started in its place, and this thread yields its CPU to it
/// (sched_yield(2)). From then on both run, and the kernel shares the CPUs out between them, until this item is over:
/// then its worker lies down, if the pool has more than it may run. However often an item yields, it has one
/// stand-in. This is what the pool's monitor does for an item that computes for 10 ms, sooner and without its being
/// told as a CPU hog.
///
/// Not while it holds a lock that other items take: they come at once then, and wait for it, and each that is found to
/// wait gets a stand-in, too.
///
/// Where nothing waits it costs the pool's lock once. On a thread that is no worker it yields the CPU, and is false.
/// Inside a future, [`yield_now`](crate::yield_now) is better: a future can be put back.
///
/// # Examples
/// ```
/// let queue = coreshard::workqueue()?.name("primes").build()?;
/// let sum = queue.submit(|| {
///     (0..100_u64).map(|part| {
///         coreshard::yield_item();
///         (0..1_000).map(|number| part * number).sum::<u64>()
///     }).sum::<u64>()
/// })?;
/// assert_eq!(sum.join()?, 2_472_525_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn yield_item<P: Platform>() -> bool {
    let Some(pool) = with_context::<P, _>(|context| Arc::clone(&context.pool)) else {
        P::yield_now();
        return false;
    };
    let others_wait = {
        let mut state = pool.lock();
        state.has_work(&pool)
    };
    if others_wait {
        blocking::<P, _>(P::yield_now);
    }
    others_wait
}

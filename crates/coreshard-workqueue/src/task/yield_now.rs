//! Futures that yield to other items.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use coreshard_platform::{Host, Platform};

use crate::base::budget;

/// Returns a future that completes at the task's next poll: everything that waited before in its pod's pool at this injector
/// runs first.
///
/// # Examples
/// ```
/// # use futures_lite::future::block_on;
///
/// let queue = coreshard::workqueue()?.name("requests").build()?;
/// let long = queue.spawn(async {
///     for part in 0..10 {
///         println!("part {part}");
///         coreshard::yield_now().await; // others of the pod go first
///     }
/// })?;
/// block_on(long);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// See [`yield_now`].
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Yields if the task has done much work in this poll: completes at once 128 times, and then as [`yield_now`] does. Use it in a
/// loop that awaits none of Coreshard's futures, or only futures that never wait.
///
/// In one poll of a task, Coreshard's own futures ([`Sleep`](crate::Sleep), [`JoinHandle`](crate::JoinHandle),
/// [`Task`](crate::Task), [`JoinSet`](crate::JoinSet), [`QueueAsync`](crate::QueueAsync),
/// [`ReserveAsync`](crate::ReserveAsync), [`WaitForCancellation`](crate::WaitForCancellation)) yield results 128 times. The
/// next one is pending, the task goes behind all waiting items, and the count starts again. This call counts as one of them. A
/// [`Timeout`](crate::Timeout) always checks its deadline. Under another executor, and in an item, nothing is counted, and this
/// completes at once.
///
/// The idea comes from tokio (`tokio::task::coop`).
///
/// # Examples
/// ```
/// # use futures_lite::future::block_on;
/// let queue = coreshard::workqueue()?.name("sums").build()?;
/// let sum = queue.spawn(async {
///     let mut sum = 0_u64;
///     for number in 0..10_000 {
///         sum += number;
///         coreshard::consume_budget().await;
///     }
///     sum
/// })?;
/// assert_eq!(block_on(sum), 49_995_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn consume_budget<P: Platform>() -> ConsumeBudget<P> {
    ConsumeBudget { _platform: PhantomData }
}

/// See [`consume_budget`].
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct ConsumeBudget<P = Host> {
    _platform: PhantomData<fn() -> P>,
}

impl<P: Platform> Future for ConsumeBudget<P> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        budget::spending::<P, _>(context, |_| Poll::Ready(()))
    }
}

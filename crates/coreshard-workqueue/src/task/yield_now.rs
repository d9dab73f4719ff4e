//! Letting others go first.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Ends once the task was polled again: everything that waited in its pod's pool at this injector
/// before is taken first.
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

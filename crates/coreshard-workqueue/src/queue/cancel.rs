//! Taking back a submitted item that nobody has begun.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Host, Platform};

use super::handle::{JoinHandle, OwnedItem};
use crate::insight::trouble::say;

impl<P: Platform, T> JoinHandle<T, P> {
    /// Takes the item back, if nobody has begun it: then it never runs on the queue, and comes back to be run
    /// here, or dropped.
    ///
    /// Its place in the queue stays until a worker comes by, which finds it empty: until then the item counts
    /// as in flight, for [`flush`](crate::Workqueue::flush) and the statistics, and takes up its room in a queue
    /// with a [`capacity`](crate::Builder::capacity); in a queue with a limit it waits for a turn, which it gives
    /// back at once.
    ///
    /// ```
    /// let queue = coreshard::workqueue()?.name("guesses").ordered().build()?;
    /// let (open, opened) = std::sync::mpsc::channel::<()>();
    /// let first = queue.submit(move || _ = opened.recv())?;
    /// let second = queue.submit(|| "second")?;
    /// let taken = second.cancel().expect("it is behind the first, which waits");
    /// assert_eq!(taken.run(), "second");
    /// drop(open);
    /// first.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The handle, if the item has begun, or is over: [`join`](Self::join) tells what comes of it.
    pub fn cancel(mut self) -> Result<CancelledItem<T, P>, Self> {
        if !self.item.claimable().cancel() {
            return Err(self);
        }
        self.forget_waker();
        Ok(CancelledItem { item: Some(Arc::clone(&self.item)) })
    }
}

/// An item that was taken back before anybody had begun it: [`run`](Self::run) it here, or drop it, and what it
/// holds with it.
#[must_use = "dropping it drops the item, which never runs then"]
pub struct CancelledItem<T, P: Platform = Host> {
    item: Option<Arc<dyn OwnedItem<P, T> + Send + Sync>>,
}

impl<P: Platform, T> CancelledItem<T, P> {
    /// Calls the item's closure, on this thread: not as an item of the queue.
    ///
    /// # Panics
    /// With what the closure throws.
    pub fn run(mut self) -> T {
        let item = self.item.take().expect("it is run once");
        // SAFETY: it was cancelled, and this is its one use.
        unsafe { item.call_cancelled() }.unwrap_or_else(|thrown| thrown.resume())
    }
}

impl<P: Platform, T> Drop for CancelledItem<T, P> {
    /// Here, and not where a worker comes by the item's place.
    fn drop(&mut self) {
        let Some(item) = self.item.take() else { return };
        // SAFETY: it was cancelled, and this is its one use.
        let dropped = unsafe { item.discard() };
        if let Err(thrown) = user::resume_unless_unwinding(dropped) {
            report(&thrown);
        }
    }
}

fn report(thrown: &Thrown) {
    let panic = thrown.message().unwrap_or_default();
    say(|| tracing::error!(panic, "a cancelled item panicked as it was dropped"));
}

impl<P: Platform, T> fmt::Debug for CancelledItem<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelledItem").finish_non_exhaustive()
    }
}

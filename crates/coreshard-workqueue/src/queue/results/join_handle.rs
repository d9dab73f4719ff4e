//! The handle of a submitted item, which joins, awaits or cancels it.
#![allow(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use coreshard_platform::user;
use coreshard_platform::{Host, Platform};

use super::deadlock::Wait;
use super::panics::Panic;
use super::submitted::{
    OwnedItem, Submitted, SubmittedPlace, ended, wait_for, wait_until_over, whole_at,
};
use crate::base::budget;
use crate::base::error::{Forked, Refused, RefusedReason, WouldDeadlock};
use crate::insight::Label;
use crate::insight::diagnostic::say_panic;
use crate::pool::is_inside;
use crate::queue::link::SubmitPermit;

/// The right to the result of an item: [`join`](Self::join) it, await it (it is a future, under any executor), or
/// [`cancel`](Self::cancel) it.
///
/// Dropping the handle does not stop the item; its panic, if any, then goes to the queue's panic handler.
///
/// ```
/// let queue = coreshard::workqueue()?.name("sums").build()?;
/// let sum = queue.submit(|| (1..=10).sum::<u32>())?;
/// let task = queue.spawn(async move { sum.await.map(|sum| sum + 1) })?;
/// let waited = queue.submit(|| 1)?.join()?;
/// # let waker = std::task::Waker::noop();
/// # let mut context = std::task::Context::from_waker(&waker);
/// # let mut task = std::pin::pin!(task);
/// # let done = loop {
/// #     if let std::task::Poll::Ready(done) = Future::poll(task.as_mut(), &mut context) { break done }
/// # };
/// # assert_eq!((done?, waited), (56, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "without its handle, an item's result is lost; `queue` needs none"]
pub struct JoinHandle<T, P: Platform = Host> {
    item: Arc<dyn OwnedItem<P, T> + Send + Sync>,
    /// True if a waker was left with the item's completion.
    is_polled: bool,
}

impl<P: Platform, T> JoinHandle<T, P> {
    /// Returns true inside the item itself, on any thread: it finishes only after the caller returns.
    fn is_own(&self) -> bool {
        !self.is_finished() && is_inside::<P>(whole_at(self.item.over()))
    }

    /// Returns the error if the item could never finish while the caller waits.
    fn deadlock(&self, wait: Wait) -> Option<WouldDeadlock> {
        if self.is_own() {
            return Some(WouldDeadlock::own(self.item.claimable().queue_name()));
        }
        (wait == Wait::Never).then(|| WouldDeadlock::behind(self.item.claimable().queue_name()))
    }

    /// Returns true once the item has finished: then [`join`](Self::join) does not wait.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("sums").build()?;
    /// let sum = queue.submit(|| (1..=10).sum::<u32>())?;
    /// queue.flush()?;
    /// assert!(sum.is_finished());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_finished(&self) -> bool {
        self.item.over().is_open()
    }

    /// Checks whether [`join`](Self::join) would reject a wait here, for a caller that waits for the item by other means.
    ///
    /// # Errors
    /// Returns [`WouldDeadlock`] as `join` does.
    ///
    /// # Examples
    /// ```
    /// use coreshard::WouldDeadlock;
    ///
    /// let queue = coreshard::workqueue()?.name("log").ordered().build()?;
    /// let log = queue.clone();
    /// let first = queue.submit(move || {
    ///     let behind = log.submit(|| ()).unwrap();
    ///     behind.check_join().is_err()
    /// })?;
    /// assert!(first.check_join().is_ok(), "this thread is inside no item");
    /// assert!(first.join()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_join(&self) -> Result<(), WouldDeadlock> {
        self.deadlock(self.item.claimable().wait()).map_or(Ok(()), Err)
    }

    /// Waits until the item has finished.
    ///
    /// ```
    /// let queue = coreshard::workqueue()?.name("sums").build()?;
    /// assert_eq!(queue.submit(|| 6 * 7)?.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Inside an item of a queue with the same attributes, this call itself runs the awaited item, if that has not begun. An
    /// item of a queue with a limit is run only inside another item of that queue, which lends its turn. Otherwise another
    /// worker takes this worker's place during the wait.
    ///
    /// # Errors
    /// Returns the item's panic, if it panicked. Otherwise:
    ///
    /// - [`Forked`], if the item belongs to the process that this one was forked from: it never finishes here.
    /// - [`WouldDeadlock`], if it is the caller's own item, or one that waits for the caller. Also if it is behind the caller's
    ///   own item in a queue that runs one at a time: it then runs when its turn comes, without a waiter.
    /// - [`Dropped`](crate::Dropped), if the queue was shut down before the item had begun
    ///   ([`shutdown_now`](crate::Workqueue::shutdown_now)) and the returned item was dropped.
    ///
    /// [`Panic::into_payload`] returns these values.
    ///
    /// # Panics
    /// Panics if the handle has already completed as a future.
    pub fn join(mut self) -> Result<T, Panic> {
        self.forget_waker();
        let wait = self.item.claimable().wait();
        if let Some(deadlock) = self.deadlock(wait) {
            return Err(Panic::of(deadlock));
        }
        ended(wait_for(&*self.item, wait))
    }

    /// Waits until the item has finished, or for `timeout`; after a timeout the handle is returned and the item continues.
    ///
    /// Unlike [`join`](Self::join), this call never runs the item itself, which could take longer. On a worker, another worker
    /// takes this one's place during the wait. So an item of a queue with a limit that only the caller's own turn could run
    /// does not finish before the timeout: then `join` it, or [`cancel`](Self::cancel) it.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = coreshard::workqueue()?.name("slow").build()?;
    /// let mut slow = queue.submit(|| std::thread::sleep(Duration::from_millis(30)))?;
    /// let outcome = loop {
    ///     match slow.join_timeout(Duration::from_millis(10)) {
    ///         Ok(outcome) => break outcome,
    ///         Err(handle) => slow = handle, // not over: it is waited for again
    ///     }
    /// };
    /// outcome?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the handle when the timeout has elapsed. `Ok` holds the result of [`join`](Self::join), which is returned at
    /// once if the item could never finish while the caller waits.
    ///
    /// # Panics
    /// Panics as `join` does.
    pub fn join_timeout(mut self, timeout: Duration) -> Result<Result<T, Panic>, Self> {
        self.forget_waker();
        if let Some(deadlock) = self.deadlock(self.item.claimable().wait()) {
            return Ok(Err(Panic::of(deadlock)));
        }
        match wait_until_over(&*self.item, timeout) {
            Some(outcome) => Ok(ended(outcome)),
            None => Err(self),
        }
    }

    /// Cancels the item if it has not begun. It then never runs on the queue, and is returned to be run here or dropped.
    ///
    /// Its place in the queue remains until a worker reaches it and finds it empty. Until then the item counts as in flight for
    /// [`flush`](crate::Workqueue::flush) and the statistics, and occupies room in a queue with a
    /// [`capacity`](crate::Builder::capacity). In a queue with a limit it waits for a turn, which it gives back at once.
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
    /// Returns the handle if the item has begun or finished: [`join`](Self::join) returns its result.
    pub fn cancel(mut self) -> Result<CancelledItem<T, P>, Self> {
        if !self.item.claimable().cancel() {
            return Err(self);
        }
        self.forget_waker();
        Ok(CancelledItem { item: Some(Arc::clone(&self.item)) })
    }

    /// Takes the handle's waker back, if it was polled.
    #[inline(always)]
    fn forget_waker(&mut self) {
        if self.is_polled {
            self.take_waker_back();
        }
    }

    #[cold]
    #[inline(never)]
    fn take_waker_back(&mut self) {
        self.is_polled = false;
        // SAFETY: an item has one handle.
        unsafe { self.item.completion().forget() };
    }
}

impl<P: Platform, T> fmt::Debug for JoinHandle<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}

#[inline]
#[track_caller]
pub(crate) fn submit<P, F, T>(
    entered: Result<SubmitPermit<'_, P>, RefusedReason>,
    work: F,
) -> Result<JoinHandle<T, P>, Refused<F>>
where
    P: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let entry = match entered {
        Ok(entry) => entry,
        Err(reason) => return Err(Refused::new(work, reason)),
    };
    let item = Submitted::new(&entry, work);
    entry.send_as(Label::item::<F>, SubmittedPlace(Arc::clone(&item)));
    Ok(JoinHandle { item, is_polled: false })
}

impl<P: Platform, T> Drop for JoinHandle<T, P> {
    /// Takes the waker back: it may keep much memory alive, and the item may run for long.
    #[inline(always)]
    fn drop(&mut self) {
        self.forget_waker();
    }
}

impl<P: Platform, T> Future for JoinHandle<T, P> {
    type Output = Result<T, Panic>;

    /// Waits as [`JoinHandle::join`] does, but never runs the item itself, and so never detects a wait that cannot end.
    ///
    /// # Panics
    /// Panics if it is polled after it has completed.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = &mut *self;
        if handle.item.over().is_orphaned() {
            return Poll::Ready(Err(Panic::of(Forked)));
        }
        if budget::proceed::<P>(context).is_pending() {
            return Poll::Pending;
        }
        // Set before the call: cloning the waker runs user code, which may panic after a waker was stored.
        handle.is_polled = true;
        // SAFETY: an item has one handle, which takes its waker back when it is dropped, and the process was not forked.
        if !unsafe { handle.item.completion().poll(context) } {
            return Poll::Pending;
        }
        budget::spend::<P>();
        // SAFETY: the latch was seen to be open. The result is taken once; a second call panics.
        Poll::Ready(unsafe { handle.item.take() }.map_err(Panic::thrown))
    }
}

/// An item that was cancelled before it began: [`run`](Self::run) it here, or drop it together with its contents.
#[must_use = "dropping it drops the item, which never runs then"]
pub struct CancelledItem<T, P: Platform = Host> {
    item: Option<Arc<dyn OwnedItem<P, T> + Send + Sync>>,
}

impl<P: Platform, T> CancelledItem<T, P> {
    /// Calls the item's closure on this thread, not as an item of the queue.
    ///
    /// # Panics
    /// Panics with the closure's panic.
    pub fn run(mut self) -> T {
        let item = self.item.take().expect("it is run once");
        // SAFETY: it was cancelled, and this is its one use.
        unsafe { item.call_cancelled() }.unwrap_or_else(|thrown| thrown.resume())
    }
}

impl<P: Platform, T> Drop for CancelledItem<T, P> {
    /// Drops the closure here, not when a worker reaches the item's place.
    fn drop(&mut self) {
        let Some(item) = self.item.take() else { return };
        // SAFETY: it was cancelled, and this is its one use.
        let dropped = unsafe { item.discard() };
        let outcome = user::resume_unless_unwinding(dropped);
        say_panic(outcome, "a cancelled item panicked as it was dropped");
    }
}

impl<P: Platform, T> fmt::Debug for CancelledItem<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelledItem").finish_non_exhaustive()
    }
}

//! The handle of a submitted item: it joins the item, awaits it, or takes it back.
#![allow(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use coreshard_platform::user;
use coreshard_platform::{Host, Platform};

use super::claimable::Wait;
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

/// The right to the result of an item: [`join`](Self::join) it, await it (it is a future, under any
/// executor), or [`cancel`](Self::cancel) it.
///
/// Dropping it lets the item run all the same; the queue's panic handler is told then what the item throws,
/// or has thrown.
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
    /// A waker was left with the item's completion.
    is_polled: bool,
}

impl<P: Platform, T> JoinHandle<T, P> {
    /// True inside the very item, on whichever thread, which is over only after the caller.
    fn is_own(&self) -> bool {
        !self.is_finished() && is_inside::<P>(whole_at(self.item.over()))
    }

    /// What to say where the item could never be over while the caller waits.
    fn deadlock(&self, wait: Wait) -> Option<WouldDeadlock> {
        if self.is_own() {
            return Some(WouldDeadlock::own(self.item.claimable().queue_name()));
        }
        (wait == Wait::Never).then(|| WouldDeadlock::behind(self.item.claimable().queue_name()))
    }

    /// True once the item is over: then [`join`](Self::join) does not wait.
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

    /// Checks whether [`join`](Self::join) would refuse to wait here. For a caller that waits for the item's end by means of its own.
    ///
    /// # Errors
    /// [`WouldDeadlock`], as `join`.
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

    /// Waits until the item is over.
    ///
    /// ```
    /// let queue = coreshard::workqueue()?.name("sums").build()?;
    /// assert_eq!(queue.submit(|| 6 * 7)?.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Inside an item of a queue with the same attributes, an item that nobody has begun is run at
    /// once, by this call; but that of a queue with a limit only inside another one of that queue,
    /// which lends it its turn. Otherwise another worker takes this one's place meanwhile.
    ///
    /// # Errors
    /// What the item threw, if it panicked. [`Forked`], if it is an item of the process that this
    /// one was forked from: it never ends here. [`WouldDeadlock`], if it is the caller's own item, or one that
    /// waits for the caller; or if it is behind the caller's own in a queue that runs one at a time: then it runs when its turn has
    /// come, unawaited.
    /// [`Dropped`](crate::Dropped), if the queue was shut down before the item had begun
    /// ([`shutdown_now`](crate::Workqueue::shutdown_now)), and whoever did so dropped it.
    /// [`Panic::into_payload`] holds them.
    ///
    /// # Panics
    /// If the handle was awaited to its end before.
    pub fn join(mut self) -> Result<T, Panic> {
        self.forget_waker();
        let wait = self.item.claimable().wait();
        if let Some(deadlock) = self.deadlock(wait) {
            return Err(Panic::of(deadlock));
        }
        ended(wait_for(&*self.item, wait))
    }

    /// Waits until the item is over, or for `timeout`: then the handle comes back, and the item goes on.
    ///
    /// Unlike [`join`](Self::join), this call never runs the item itself, which could take longer; on a worker,
    /// another one takes this one's place meanwhile. So an item of a queue with a limit that only the caller's
    /// own turn could run is not over when the time is: `join` it, then, or [`cancel`](Self::cancel) it.
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
    /// The handle, when the time is over. What is inside of `Ok` is what [`join`](Self::join) returns, at once
    /// where the item could never be over while the caller waits.
    ///
    /// # Panics
    /// As `join`.
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

    /// The handle is no future any more, or is none at the moment.
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
    /// What a waker left here would wake may be large, and the item take long.
    #[inline(always)]
    fn drop(&mut self) {
        self.forget_waker();
    }
}

impl<P: Platform, T> Future for JoinHandle<T, P> {
    type Output = Result<T, Panic>;

    /// As [`JoinHandle::join`], but it never runs the item itself, and so never finds that it would wait for
    /// ever.
    ///
    /// # Panics
    /// If it was polled to its end before.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = &mut *self;
        if handle.item.over().is_orphaned() {
            return Poll::Ready(Err(Panic::of(Forked)));
        }
        if budget::proceed::<P>(context).is_pending() {
            return Poll::Pending;
        }
        // Before the call: its clone of the waker is a user's, and may panic after one was left.
        handle.is_polled = true;
        // SAFETY: an item has one handle, which takes its waker back as it is dropped, and the process was not
        // forked.
        if !unsafe { handle.item.completion().poll(context) } {
            return Poll::Pending;
        }
        budget::spend::<P>();
        // SAFETY: the latch was seen to be open. It is taken once: else this panics.
        Poll::Ready(unsafe { handle.item.take() }.map_err(Panic::thrown))
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
        let outcome = user::resume_unless_unwinding(dropped);
        say_panic(outcome, "a cancelled item panicked as it was dropped");
    }
}

impl<P: Platform, T> fmt::Debug for CancelledItem<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelledItem").finish_non_exhaustive()
    }
}

//! Bringing items to a queue that may be full: at once or not at all, or when there is room. Room alone, for an item
//! that comes later, is in `reservation`.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use coreshard_platform::user::User;
use coreshard_platform::{Host, Platform};

use super::capacity::{WaitingProducer, WhenFull};
use super::handle::{self, JoinHandle};
use super::workqueue::Workqueue;
use crate::base::budget;
use crate::base::error::{Refused, RefusedReason};
use crate::base::target::Target;

impl<P: Platform> Workqueue<P> {
    /// As [`queue`](Self::queue), but never waits: where as many items wait as the queue's
    /// [`capacity`](crate::Builder::capacity) is, or producers wait for room, `work` comes back. In a queue without a capacity it
    /// is the same as `queue`.
    ///
    /// # Errors
    /// Hands `work` back, by the reason [`Full`](RefusedReason::Full) if the queue is full; else as `queue`.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::{RefusedReason, Runtime};
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// let queue = runtime.workqueue().name("requests").capacity(2).build()?;
    /// queue.freeze()?; // nothing begins
    /// queue.try_queue(|| ())?;
    /// queue.try_queue(|| ())?;
    /// let refused = queue.try_queue(|| ()).unwrap_err();
    /// assert_eq!(refused.reason(), RefusedReason::Full);
    /// queue.thaw()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("try_send", "load shedding"))]
    #[track_caller]
    pub fn try_queue<F>(&self, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.shared().enter_here(WhenFull::Refuse) {
            Ok(entry) => {
                entry.send(work);
                Ok(())
            }
            Err(reason) => Err(Refused::new(work, reason)),
        }
    }

    /// As [`submit`](Self::submit), but never waits for room; see [`try_queue`](Self::try_queue).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// let queue = runtime.workqueue().capacity(8).build()?;
    /// assert_eq!(queue.try_submit(|| 6 * 7)?.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn try_submit<F, T>(&self, work: F) -> Result<JoinHandle<T, P>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.shared().enter_here(WhenFull::Refuse) {
            Ok(entry) => Ok(handle::submit(entry, work)),
            Err(reason) => Err(Refused::new(work, reason)),
        }
    }

    /// A future that queues `work` as soon as there is room, and ends then. It waits among the producers that
    /// wait, threads and futures alike, first come, first served; its place there is that of its first poll.
    ///
    /// Until it has ended nothing is queued: a future that is dropped before leaves the queue as it was, and
    /// drops `work`. [`QueueAsync::into_item`] has it back instead.
    ///
    /// # Errors
    /// It ends with `work` where the queue takes none: it is shut down, or being drained, before there was room.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// let queue = runtime.workqueue().name("pages").capacity(16).build()?;
    /// let reader = runtime.workqueue().name("reader").build()?;
    /// let pages = queue.clone();
    /// let task = reader.spawn(async move {
    ///     for page in 0..100 {
    ///         // Never more than 16 pages wait to be rendered.
    ///         pages.queue_async(move || drop(page)).await.expect("the queue is open");
    ///     }
    /// })?;
    /// while !task.is_finished() {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "backpressure")]
    pub fn queue_async<F>(&self, work: F) -> QueueAsync<'_, F, P>
    where
        F: FnOnce() + Send + 'static,
    {
        QueueAsync { queue: self, work: Some(User::new(work)), waiting: None }
    }
}

/// Queues an item when there is room; see [`Workqueue::queue_async`]. It wakes under any executor.
#[must_use = "a future does nothing until it is awaited"]
pub struct QueueAsync<'queue, F, P: Platform = Host> {
    queue: &'queue Workqueue<P>,
    /// Until it is queued.
    work: Option<User<F>>,
    waiting: Option<WaitingProducer<P>>,
}

impl<P: Platform, F> QueueAsync<'_, F, P> {
    /// The closure, which is not queued then; `None` if it was queued, or came back with an error.
    pub fn into_item(mut self) -> Option<F> {
        self.work.take().map(User::into_code)
    }
}

// The closure is moved, and never pinned.
impl<P: Platform, F> Unpin for QueueAsync<'_, F, P> {}

impl<P, F> Future for QueueAsync<'_, F, P>
where
    P: Platform,
    F: FnOnce() + Send + 'static,
{
    type Output = Result<(), Refused<F>>;

    /// # Panics
    /// After it has ended.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        budget::spending::<P, _>(context, |context| self.poll_entry(context))
    }
}

impl<P, F> QueueAsync<'_, F, P>
where
    P: Platform,
    F: FnOnce() + Send + 'static,
{
    fn poll_entry(&mut self, context: &Context<'_>) -> Poll<Result<(), Refused<F>>> {
        let this = &mut *self;
        let shared = this.queue.shared();
        let entry = match &this.waiting {
            Some(waiting) => match waiting.poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(outcome) => {
                    this.waiting = None;
                    outcome.and_then(|()| shared.enter_permitted(Target::Here))
                }
            },
            None => match shared.enter_here(WhenFull::Try) {
                Err(RefusedReason::Full) => match shared.wait_in_line() {
                    Some(Ok(waiting)) => {
                        this.waiting = Some(waiting);
                        return self.poll_entry(context);
                    }
                    Some(Err(reason)) => Err(reason),
                    None => unreachable!("a queue without a capacity is never full"),
                },
                entry => entry,
            },
        };
        let work = this.work.take().expect("a future is not polled after it has ended").into_code();
        Poll::Ready(match entry {
            Ok(entry) => {
                entry.send(work);
                Ok(())
            }
            Err(reason) => Err(Refused::new(work, reason)),
        })
    }
}

impl<P: Platform, F> fmt::Debug for QueueAsync<'_, F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueAsync")
            .field("queue", &self.queue.name())
            .field("is_waiting", &self.waiting.is_some())
            .finish_non_exhaustive()
    }
}

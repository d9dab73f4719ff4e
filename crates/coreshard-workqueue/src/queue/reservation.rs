//! Reserved room in a bounded queue, and futures that queue an item when there is room.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use coreshard_platform::user::User;
use coreshard_platform::{Host, Platform};
use coreshard_topology::CpuId;

use super::last_handle::LastHandle;
use super::link::{SubmitPermit, WaitingProducer, WhenFull};
use super::results::{JoinHandle, submit};
use super::shared::{Origin, Shared};
use crate::base::budget;
use crate::base::error::{Refused, RefusedReason};
use crate::base::target::Target;

/// Waits for a permit behind the producers that came before; joins them at the first poll.
fn poll_room<P: Platform>(
    waiting: &mut Option<WaitingProducer<P>>,
    shared: &Shared<P>,
    context: &Context<'_>,
) -> Poll<Result<(), RefusedReason>> {
    let in_line = match waiting {
        Some(waiting) => waiting,
        None => {
            let capacity = shared.core.capacity.as_ref();
            let capacity = capacity.expect("a queue without a capacity is never full");
            waiting.insert(shared.generations.wait_in_line(capacity)?)
        }
    };
    let outcome = ready!(in_line.poll(context));
    *waiting = None;
    Poll::Ready(outcome)
}

/// Room for one item in a queue, reserved for its holder; see [`Workqueue::try_reserve`](crate::Workqueue::try_reserve) and
/// [`Workqueue::reserve_async`](crate::Workqueue::reserve_async). In a queue without a capacity it is only a handle.
///
/// It counts as a waiting item ([`QueueStats::capacity_used`](crate::QueueStats)) until it is used or dropped; dropping it
/// passes the room on. It is not an item: shutdowns and drains do not wait for it, and work queued through it afterwards is
/// returned.
#[must_use = "dropping it gives the room on to others"]
pub struct Reservation<P: Platform = Host> {
    queue: Arc<LastHandle<P>>,
    /// False once it was used.
    is_held: bool,
}

impl<P: Platform> Reservation<P> {
    /// The caller has taken a permit if the queue has a capacity.
    pub(super) fn new(queue: Arc<LastHandle<P>>) -> Self {
        Self { queue, is_held: true }
    }

    /// Queues `work` without waiting; see [`Workqueue::queue`](crate::Workqueue::queue).
    ///
    /// # Errors
    /// Returns `work` if the queue rejects it; never because it is full.
    #[track_caller]
    pub fn queue<F>(mut self, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        SubmitPermit::send_entered(self.enter(), work)
    }

    /// Queues `work` in the pod of `cpu` without waiting; see [`Workqueue::queue_on`](crate::Workqueue::queue_on).
    ///
    /// # Errors
    /// Returns `work` if `cpu` does not belong to the queue, or if the queue rejects it; never because it is full.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    /// use coreshard::CpuId;
    ///
    /// let queue = coreshard::workqueue()?.name("interrupts").capacity(64).build()?;
    /// let cpu = coreshard::runtime()?.usable().first().unwrap_or(CpuId(0));
    /// block_on(queue.reserve_async())?.queue_on(cpu, || println!("near its device"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn queue_on<F>(mut self, cpu: CpuId, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        SubmitPermit::send_entered(self.enter_at(Target::Cpu(cpu)), work)
    }

    /// Submits `work` without waiting; see [`Workqueue::submit`](crate::Workqueue::submit).
    ///
    /// # Errors
    /// Fails as [`queue`](Self::queue) does.
    #[track_caller]
    pub fn submit<F, T>(mut self, work: F) -> Result<JoinHandle<T, P>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        submit(self.enter(), work)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<P>> {
        &self.queue.shared
    }

    /// Counts in the item that uses this room.
    pub(crate) fn enter(&mut self) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        self.enter_at(Target::Here)
    }

    /// Counts the item in at `target`.
    fn enter_at(&mut self, target: Target) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        self.is_held = false;
        let shared = &self.queue.shared;
        match &shared.core.capacity {
            Some(_) if shared.is_forked() => Err(RefusedReason::Forked),
            Some(_) => shared.generations.enter_permitted(target, Origin::Outside),
            None => shared.generations.enter(target, WhenFull::Wait),
        }
    }
}

impl<P: Platform> Drop for Reservation<P> {
    fn drop(&mut self) {
        // A forked process has no producers to let in, and the lock may be held forever.
        if self.is_held
            && !self.shared().is_forked()
            && let Some(capacity) = &self.shared().core.capacity
        {
            capacity.give_back();
        }
    }
}

impl<P: Platform> fmt::Debug for Reservation<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("queue", &self.queue.shared.name())
            .finish_non_exhaustive()
    }
}

/// A future that completes when there is room; see [`Workqueue::reserve_async`](crate::Workqueue::reserve_async). It works
/// under any executor.
#[must_use = "a future does nothing until it is awaited"]
pub struct ReserveAsync<P: Platform = Host> {
    queue: Arc<LastHandle<P>>,
    waiting: Option<WaitingProducer<P>>,
}

impl<P: Platform> ReserveAsync<P> {
    pub(super) fn new(queue: Arc<LastHandle<P>>) -> Self {
        Self { queue, waiting: None }
    }

    fn poll_reservation(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Result<Reservation<P>, RefusedReason>> {
        let shared = &self.queue.shared;
        let is_first = self.waiting.is_none();
        if is_first && shared.core.capacity.as_ref().is_none_or(|capacity| capacity.try_take()) {
            return Poll::Ready(Ok(Reservation::new(Arc::clone(&self.queue))));
        }
        let room = poll_room(&mut self.waiting, shared, context);
        room.map_ok(|()| Reservation::new(Arc::clone(&self.queue)))
    }
}

impl<P: Platform> Future for ReserveAsync<P> {
    type Output = Result<Reservation<P>, RefusedReason>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        budget::spending::<P, _>(context, |context| self.poll_reservation(context))
    }
}

impl<P: Platform> fmt::Debug for ReserveAsync<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReserveAsync")
            .field("queue", &self.queue.shared.name())
            .field("is_waiting", &self.waiting.is_some())
            .finish_non_exhaustive()
    }
}

/// A future that queues an item when there is room; see [`Workqueue::queue_async`](crate::Workqueue::queue_async). It works
/// under any executor.
#[must_use = "a future does nothing until it is awaited"]
pub struct QueueAsync<'queue, F, P: Platform = Host> {
    queue: &'queue Shared<P>,
    /// Present until it is queued.
    work: Option<User<F>>,
    waiting: Option<WaitingProducer<P>>,
}

impl<'queue, P: Platform, F> QueueAsync<'queue, F, P> {
    pub(super) fn new(queue: &'queue Shared<P>, work: F) -> Self {
        Self { queue, work: Some(User::new(work)), waiting: None }
    }

    /// Returns the closure, which is then not queued; `None` if it was queued or was returned with an error.
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
    /// Panics if it is polled after it has completed.
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
        let Self { queue, work, waiting } = self;
        let is_first = waiting.is_none();
        let here = if is_first {
            queue.generations.enter_here(WhenFull::Try)
        } else {
            Err(RefusedReason::Full)
        };
        let entry = match here {
            Err(RefusedReason::Full) => ready!(poll_room(waiting, queue, context))
                .and_then(|()| queue.generations.enter_permitted(Target::Here, Origin::Outside)),
            entry => entry,
        };
        let work = work.take().expect("a future is not polled after it has ended").into_code();
        Poll::Ready(SubmitPermit::send_entered(entry, work))
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

//! Room in a queue that may be full: for an item that is queued when there is room, or for one that comes later.

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

/// Waits for a permit among the producers that came before; joins them with the first poll.
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

/// Room for one item in a queue, which others do not have; see [`Workqueue::try_reserve`](crate::Workqueue::try_reserve) and
/// [`Workqueue::reserve_async`](crate::Workqueue::reserve_async). In a queue without a capacity it is just a handle.
///
/// It counts as an item that waits ([`QueueStats::capacity_used`](crate::QueueStats)) until it is used or dropped, which gives the
/// room on. But it is no item: a shutdown and a drain do not wait for it, and what is brought after them comes back.
#[must_use = "dropping it gives the room on to others"]
pub struct Reservation<P: Platform = Host> {
    queue: Arc<LastHandle<P>>,
    /// False once it was used.
    is_held: bool,
}

impl<P: Platform> Reservation<P> {
    /// The caller has taken a permit, where there are some.
    pub(super) fn new(queue: Arc<LastHandle<P>>) -> Self {
        Self { queue, is_held: true }
    }

    /// Queues `work`, without a wait; see [`Workqueue::queue`](crate::Workqueue::queue).
    ///
    /// # Errors
    /// Hands `work` back if the queue takes none; never since it is full.
    #[track_caller]
    pub fn queue<F>(mut self, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        SubmitPermit::send_entered(self.enter(), work)
    }

    /// Queues `work` in the pod of `cpu`, without a wait; see [`Workqueue::queue_on`](crate::Workqueue::queue_on).
    ///
    /// # Errors
    /// Hands `work` back if `cpu` is none of the queue's, or the queue takes none; never since it is full.
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

    /// Submits `work`, without a wait; see [`Workqueue::submit`](crate::Workqueue::submit).
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
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

    /// Counts an item in that has this room.
    pub(crate) fn enter(&mut self) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        self.enter_at(Target::Here)
    }

    /// The same, at a place.
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
        // In a forked process nobody is there to be let in, and the lock may be held for ever.
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

/// Ends when there is room; see [`Workqueue::reserve_async`](crate::Workqueue::reserve_async). It wakes under any executor.
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

/// Queues an item when there is room; see [`Workqueue::queue_async`](crate::Workqueue::queue_async). It wakes under any executor.
#[must_use = "a future does nothing until it is awaited"]
pub struct QueueAsync<'queue, F, P: Platform = Host> {
    queue: &'queue Shared<P>,
    /// Until it is queued.
    work: Option<User<F>>,
    waiting: Option<WaitingProducer<P>>,
}

impl<'queue, P: Platform, F> QueueAsync<'queue, F, P> {
    pub(super) fn new(queue: &'queue Shared<P>, work: F) -> Self {
        Self { queue, work: Some(User::new(work)), waiting: None }
    }

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

//! Room in a queue, for an item that comes later.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use coreshard_platform::{Host, Platform};
use coreshard_topology::CpuId;

use super::capacity::{Capacity, WaitingProducer, WhenFull};
use super::handle::{self, JoinHandle};
use super::pool_link::Entry;
use super::shared::Shared;
use super::workqueue::Workqueue;
use crate::base::budget;
use crate::base::error::{Refused, RefusedReason};
use crate::base::target::Target;

impl<P: Platform> Workqueue<P> {
    /// Room for one item, if there is some now.
    ///
    /// # Errors
    /// [`Full`](RefusedReason::Full), if as many items wait as the queue's [`capacity`](crate::Builder::capacity) is, or
    /// producers wait for room.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("pictures").capacity(1).build()?;
    /// let room = queue.try_reserve()?;
    /// assert!(queue.try_reserve().is_err());       // and `try_queue` hands its item back
    /// let picture = vec![0_u8; 1 << 20];            // made when it is known that there is room for it
    /// assert_eq!(room.submit(move || picture.len())?.join()?, 1 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_reserve(&self) -> Result<Reservation<P>, RefusedReason> {
        let capacity = self.shared().capacity();
        if let Some(capacity) = capacity
            && !capacity.try_take()
        {
            return Err(capacity.refuse_one(WhenFull::Refuse));
        }
        Ok(Reservation::new(self))
    }

    /// A future that ends as soon as there is room for one item, with that room. It waits among the producers that
    /// wait, first come, first served; dropping it gives its place up.
    ///
    /// # Errors
    /// It ends with the reason where the queue takes none: it is shut down, or being drained, before there was room.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    /// let queue = coreshard::workqueue()?.name("requests").capacity(64).build()?;
    /// let room = block_on(queue.reserve_async())?;
    /// room.queue(|| println!("the queue was not full"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve_async(&self) -> ReserveAsync<P> {
        ReserveAsync { queue: self.clone(), waiting: None }
    }
}

/// Room for one item in a queue, which others do not have; see [`Workqueue::try_reserve`] and
/// [`Workqueue::reserve_async`]. In a queue without a capacity it is just a handle.
///
/// It counts as an item that waits ([`QueueStats::capacity_used`](crate::QueueStats)) until it is used or dropped, which gives the
/// room on. But it is no item: a shutdown and a drain do not wait for it, and what is brought after them comes back.
#[must_use = "dropping it gives the room on to others"]
pub struct Reservation<P: Platform = Host> {
    queue: Workqueue<P>,
    /// False once it was used.
    is_held: bool,
}

impl<P: Platform> Reservation<P> {
    /// The caller has taken a permit, where there are some.
    fn new(queue: &Workqueue<P>) -> Self {
        Self { queue: queue.clone(), is_held: true }
    }

    /// Queues `work`, without a wait; see [`Workqueue::queue`].
    ///
    /// # Errors
    /// Hands `work` back if the queue takes none; never since it is full.
    #[track_caller]
    pub fn queue<F>(mut self, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.enter() {
            Ok(entry) => {
                entry.send(work);
                Ok(())
            }
            Err(reason) => Err(Refused::new(work, reason)),
        }
    }

    /// Queues `work` in the pod of `cpu`, without a wait; see [`Workqueue::queue_on`].
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
        match self.enter_at(Target::Cpu(cpu)) {
            Ok(entry) => {
                entry.send(work);
                Ok(())
            }
            Err(reason) => Err(Refused::new(work, reason)),
        }
    }

    /// Submits `work`, without a wait; see [`Workqueue::submit`].
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    #[track_caller]
    pub fn submit<F, T>(mut self, work: F) -> Result<JoinHandle<T, P>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.enter() {
            Ok(entry) => Ok(handle::submit(entry, work)),
            Err(reason) => Err(Refused::new(work, reason)),
        }
    }

    pub(crate) fn shared(&self) -> &std::sync::Arc<Shared<P>> {
        self.queue.shared()
    }

    /// Counts an item in that has this room.
    pub(crate) fn enter(&mut self) -> Result<Entry<'_, P>, RefusedReason> {
        self.enter_at(Target::Here)
    }

    /// The same, at a place.
    fn enter_at(&mut self, target: Target) -> Result<Entry<'_, P>, RefusedReason> {
        self.is_held = false;
        let shared = self.queue.shared();
        match shared.capacity() {
            Some(_) if shared.is_forked() => Err(RefusedReason::Forked),
            Some(_) => shared.enter_permitted(target),
            None => self.queue.enter(target),
        }
    }
}

impl<P: Platform> Drop for Reservation<P> {
    fn drop(&mut self) {
        // In a forked process nobody is there to be let in, and the lock may be held for ever.
        if self.is_held
            && !self.shared().is_forked()
            && let Some(capacity) = self.shared().capacity()
        {
            Capacity::give_back(capacity);
        }
    }
}

impl<P: Platform> fmt::Debug for Reservation<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("queue", &self.queue.name()).finish_non_exhaustive()
    }
}

/// Ends when there is room; see [`Workqueue::reserve_async`]. It wakes under any executor.
#[must_use = "a future does nothing until it is awaited"]
pub struct ReserveAsync<P: Platform = Host> {
    queue: Workqueue<P>,
    waiting: Option<WaitingProducer<P>>,
}

impl<P: Platform> ReserveAsync<P> {
    fn poll_room(&mut self, context: &Context<'_>) -> Poll<Result<Reservation<P>, RefusedReason>> {
        if self.waiting.is_none() {
            let shared = self.queue.shared();
            if shared.capacity().is_none_or(|capacity| capacity.try_take()) {
                return Poll::Ready(Ok(Reservation::new(&self.queue)));
            }
            match shared.wait_in_line() {
                Some(Ok(waiting)) => self.waiting = Some(waiting),
                Some(Err(reason)) => return Poll::Ready(Err(reason)),
                None => unreachable!("a queue without a capacity is never full"),
            }
        }
        let Some(waiting) = &self.waiting else { unreachable!("it was put there") };
        let Poll::Ready(granted) = waiting.poll(context) else { return Poll::Pending };
        self.waiting = None;
        Poll::Ready(granted.map(|()| Reservation::new(&self.queue)))
    }
}

impl<P: Platform> Future for ReserveAsync<P> {
    type Output = Result<Reservation<P>, RefusedReason>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        budget::spending::<P, _>(context, |context| self.poll_room(context))
    }
}

impl<P: Platform> fmt::Debug for ReserveAsync<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReserveAsync")
            .field("queue", &self.queue.name())
            .field("is_waiting", &self.waiting.is_some())
            .finish_non_exhaustive()
    }
}

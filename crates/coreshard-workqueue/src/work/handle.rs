//! The methods of [`Work`]: queue it, wait for it, and cancel it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Platform, Time};
use coreshard_topology::{CpuId, NodeId};

use super::delayed::Delayed;
use super::error::{WorkError, WorkErrorKind};
use super::state::{Claimed, NotClaimed, Number};
use super::token::Token;
use super::way::{self, Way};
use super::work_core::{Armed, Work, WorkCore};
use crate::base::error::RefusedReason;
use crate::base::target::Target;
use crate::pool::{runs_work, wait_in_turns};
use crate::queue::Workqueue;
use crate::timers::Due;

impl<P: Platform> Work<P> {
    /// Creates an item that calls `function` with a handle to itself. It is not queued yet.
    ///
    /// # Examples
    /// ```
    /// let mut runs = 0;
    /// let work = coreshard::Work::new(move |work: &coreshard::Work| {
    ///     runs += 1; // its own, from run to run
    ///     println!("run {runs} of {}", work.function());
    /// });
    /// assert!(!work.is_pending());
    /// ```
    #[doc(alias("INIT_WORK", "INIT_DELAYED_WORK"))]
    #[track_caller]
    pub fn new<F>(function: F) -> Self
    where
        F: FnMut(&Self) + Send + 'static,
    {
        Self { core: Arc::new(WorkCore::new(function)) }
    }

    /// Queues it in the pod of the CPU that the caller runs on. Returns false if it was already pending: the upcoming run then
    /// sees everything that the caller did before.
    ///
    /// # Errors
    /// Fails if the item is disabled, or the queue is closed.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("write-back").build()?;
    /// let write_back = coreshard::Work::new(|_| println!("dirty pages are written"));
    /// queue.freeze()?;
    /// assert!(write_back.queue(&queue)?);
    /// assert!(!write_back.queue(&queue)?, "it is pending, and will see what was done before");
    /// queue.thaw()?;
    /// write_back.flush()?;
    /// assert!(write_back.queue(&queue)?, "once more");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "queue_work")]
    #[inline]
    pub fn queue(&self, queue: &Workqueue<P>) -> Result<bool, WorkError> {
        self.queue_to(queue, Target::Here, Duration::ZERO)
    }

    /// Queues it like [`queue`](Self::queue), in the pod of `cpu`.
    ///
    /// # Errors
    /// Fails as [`queue`](Self::queue) does, and if `cpu` does not belong to the queue.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("counters").build()?;
    /// let fold = coreshard::Work::new(|_| println!("the CPU's counters are folded"));
    /// let cpu = coreshard::runtime()?.usable().iter().next().expect("there is one");
    /// assert!(fold.queue_on(&queue, cpu)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "queue_work_on")]
    pub fn queue_on(&self, queue: &Workqueue<P>, cpu: CpuId) -> Result<bool, WorkError> {
        self.queue_to(queue, Target::Cpu(cpu), Duration::ZERO)
    }

    /// Queues it like [`queue`](Self::queue), in a pod on `node`.
    ///
    /// # Errors
    /// Fails as [`queue`](Self::queue) does, and if none of the queue's pods lies on `node`.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("index").build()?;
    /// let compact = coreshard::Work::new(|_| println!("the node's part is compacted"));
    /// if let Err(error) = compact.queue_on_node(&queue, coreshard::NodeId(0)) {
    ///     println!("{error}"); // where no CPU of that node is usable
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "queue_work_node")]
    pub fn queue_on_node(&self, queue: &Workqueue<P>, node: NodeId) -> Result<bool, WorkError> {
        self.queue_to(queue, Target::Node(node), Duration::ZERO)
    }

    /// Queues it when `delay` has elapsed; at once if the delay is zero. The item is pending meanwhile, and the queue is kept
    /// alive. The queue's `flush` and `drain` do not wait for it until it is due.
    ///
    /// # Errors
    /// Fails if the item is disabled, the delay exceeds the clock's range, or no timekeeper thread can be started. If the queue
    /// is shut down when the item becomes due, the queueing is cancelled, with a warning through `tracing`.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = coreshard::workqueue()?.name("write-back").build()?;
    /// let write_back = coreshard::Work::new(|_| println!("dirty pages are written"));
    /// assert!(write_back.queue_after(&queue, Duration::from_secs(60))?);
    /// assert!(!write_back.queue(&queue)?, "it is pending already");
    /// assert!(write_back.flush()?, "it was brought forward, and is over");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("queue_delayed_work", "delay"))]
    pub fn queue_after(&self, queue: &Workqueue<P>, delay: Duration) -> Result<bool, WorkError> {
        self.queue_to(queue, Target::Here, delay)
    }

    /// Queues it for `target` when `delay` has elapsed: the general form of the methods above. If the queue no longer has that
    /// CPU or node by then, because CPUs were removed or its scope was changed, the item goes to another of its pods.
    ///
    /// # Errors
    /// Fails now as those methods do, including if `target` does not belong to the queue, although the delay has not elapsed.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use coreshard::{Target, Work};
    ///
    /// let queue = coreshard::workqueue()?.name("counters").build()?;
    /// let fold = Work::new(|_| println!("the CPU's counters are folded"));
    /// let cpu = coreshard::runtime()?.usable().iter().next().expect("there is one");
    /// assert!(fold.queue_to(&queue, Target::Cpu(cpu), Duration::from_millis(1))?);
    /// fold.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn queue_to(
        &self,
        queue: &Workqueue<P>,
        target: Target,
        delay: Duration,
    ) -> Result<bool, WorkError> {
        let deadline = way::deadline(queue, delay).map_err(|kind| self.error(kind))?;
        self.queue_at(queue, target, deadline)
    }

    /// Queues it when `delay` has elapsed, even if it is pending: a queueing that has not begun is replaced. Returns true if
    /// there was one.
    ///
    /// # Errors
    /// Fails as [`queue_after`](Self::queue_after) does. A pending queueing then stays as it is.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// // A lease is renewed: its end is put off again and again.
    /// let queue = coreshard::workqueue()?.name("leases").build()?;
    /// let expire = coreshard::Work::new(|_| println!("the lease is over"));
    /// assert!(!expire.modify_delay(&queue, Duration::from_secs(60))?);
    /// assert!(expire.modify_delay(&queue, Duration::from_secs(60))?, "it was pending");
    /// assert!(expire.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("mod_delayed_work", "debounce"))]
    pub fn modify_delay(&self, queue: &Workqueue<P>, delay: Duration) -> Result<bool, WorkError> {
        self.modify_to(queue, Target::Here, delay)
    }

    /// Queues it like [`modify_delay`](Self::modify_delay), for `target`.
    ///
    /// # Errors
    /// Fails as [`queue_to`](Self::queue_to) does.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use coreshard::{Target, Work};
    ///
    /// let queue = coreshard::workqueue()?.name("leases").build()?;
    /// let expire = Work::new(|_| println!("the lease is over"));
    /// let cpu = coreshard::runtime()?.usable().iter().next().expect("there is one");
    /// expire.modify_to(&queue, Target::Cpu(cpu), Duration::from_secs(60))?;
    /// assert!(expire.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn modify_to(
        &self,
        queue: &Workqueue<P>,
        target: Target,
        delay: Duration,
    ) -> Result<bool, WorkError> {
        let named = |kind| self.error(kind);
        let deadline = way::deadline(queue, delay).map_err(named)?;
        let way = Way::find(queue, target, deadline).map_err(named)?;
        match self.core.state.reclaim(deadline.is_some()) {
            Ok(claimed) => {
                let was_pending = self.core.finish_tombstone(claimed.replaced);
                self.bring_in(claimed, queue, target, way).map(|()| was_pending)
            }
            Err(not) => {
                way.abandon();
                self.not_claimed(not)
            }
        }
    }

    /// Waits until the latest queueing has finished or was cancelled. A delayed queueing becomes due at once. Inside an item,
    /// another worker takes this worker's place during the wait. Returns false if there was nothing to wait for.
    ///
    /// # Errors
    /// Fails if it is called by the item itself, or by an item of an ordered queue that this one waits in: the wait could never
    /// end.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("write-back").build()?;
    /// let write_back = coreshard::Work::new(|_| println!("dirty pages are written"));
    /// assert!(!write_back.flush()?, "there is nothing to wait for");
    /// write_back.queue(&queue)?;
    /// write_back.flush()?;
    /// assert!(!write_back.is_pending() && !write_back.is_running());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("flush_work", "flush_delayed_work"))]
    pub fn flush(&self) -> Result<bool, WorkError> {
        let Some(number) = self.core.state.unfinished() else { return Ok(false) };
        self.refuse_forked()?;
        self.refuse_inside_itself()?;
        if self.core.state.is_delayed()
            && let Some(due) = self.core.disarm(number)
        {
            due.take().map(Delayed::<P, Token<P>>::queue_now);
        }
        if self.core.state.is_pending() && way::is_behind_caller::<P>(self.core.limiter()) {
            return Err(self.error(WorkErrorKind::BehindCaller));
        }
        let core = &*self.core;
        wait_in_turns::<P>(None, |until| {
            core.over.wait_until(until, || core.state.await_number(number))
        });
        Ok(true)
    }

    /// Cancels a queueing that has not begun. Returns true if there was one. A run that has begun is neither stopped nor waited
    /// for.
    ///
    /// A cancelled queueing that was sent to the pool stays there as a tombstone until a worker reaches it: it holds 32 bytes
    /// and a handle to the item, and counts as waiting. So repeated queueing and cancelling on a queue that no worker reaches,
    /// such as a frozen one, uses memory each time. A delayed queueing leaves nothing behind.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = coreshard::workqueue()?.name("timeouts").build()?;
    /// let late = coreshard::Work::new(|_| println!("no answer came"));
    /// late.queue_after(&queue, Duration::from_secs(60))?;
    /// assert!(late.cancel(), "the answer is there");
    /// assert!(!late.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "cancel_work")]
    pub fn cancel(&self) -> bool {
        self.core.finish_tombstone(self.core.state.cancel(None))
    }

    /// Cancels it like [`cancel`](Self::cancel), and waits until it is not running. It cannot be queued meanwhile, not even by
    /// itself.
    ///
    /// # Errors
    /// Fails if it is called by the item itself; nothing is cancelled then.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("poll").build()?;
    /// let again = queue.clone();
    /// let poll = coreshard::Work::new(move |poll: &coreshard::Work| drop(poll.queue(&again)));
    /// poll.queue(&queue)?;
    /// poll.cancel_and_wait()?;
    /// assert!(!poll.is_pending() && !poll.is_running());
    /// # drop(poll);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("cancel_work_sync", "cancel_delayed_work_sync"))]
    pub fn cancel_and_wait(&self) -> Result<bool, WorkError> {
        let was_pending = self.disable_and_wait()?;
        self.enable()?;
        Ok(was_pending)
    }

    /// Cancels it, and rejects further queueings until it was enabled as often as disabled. Returns true if it was pending. It
    /// does not wait for a run that has begun.
    ///
    /// # Errors
    /// Fails if it is disabled more than 16 million times.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("poll").build()?;
    /// let poll = coreshard::Work::new(|_| println!("the device is polled"));
    /// poll.disable()?;
    /// assert!(poll.queue(&queue).is_err());
    /// assert!(poll.enable()?);
    /// assert!(poll.queue(&queue)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "disable_work")]
    pub fn disable(&self) -> Result<bool, WorkError> {
        let tombstone = self.core.state.disable();
        tombstone
            .map(|tombstone| self.core.finish_tombstone(tombstone))
            .map_err(|kind| self.error(kind))
    }

    /// Disables it like [`disable`](Self::disable), and waits until it is not running.
    ///
    /// # Errors
    /// Fails as [`disable`](Self::disable) does, and if it is called by the item itself; nothing is changed then.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("poll").build()?;
    /// let poll = coreshard::Work::new(|_| println!("the device is polled"));
    /// poll.queue(&queue)?;
    /// poll.disable_and_wait()?;
    /// assert!(!poll.is_running()); // from here on the device may be reset
    /// poll.enable()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "disable_work_sync")]
    pub fn disable_and_wait(&self) -> Result<bool, WorkError> {
        self.refuse_inside_itself()?;
        if self.is_running() {
            self.refuse_forked()?;
        }
        let was_pending = self.disable()?;
        let core = &*self.core;
        if core.state.is_running() {
            wait_in_turns::<P>(None, |until| {
                core.over.wait_until(until, || core.state.await_idle())
            });
        }
        Ok(was_pending)
    }

    /// Reverts one `disable`. Returns true if the item can be queued again.
    ///
    /// # Errors
    /// Fails if it is not disabled.
    ///
    /// # Examples
    /// ```
    /// let poll = coreshard::Work::new(|_| println!("the device is polled"));
    /// poll.disable()?;
    /// poll.disable()?;
    /// assert!(!poll.enable()?, "it was disabled twice");
    /// assert!(poll.enable()?);
    /// assert!(poll.enable().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "enable_work")]
    pub fn enable(&self) -> Result<bool, WorkError> {
        self.core.state.enable().map_err(|kind| self.error(kind))
    }

    /// Returns true if it is queued or delayed, and has not begun.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("poll").build()?;
    /// let poll = coreshard::Work::new(|_| println!("the device is polled"));
    /// poll.queue_after(&queue, std::time::Duration::from_secs(60))?;
    /// assert!(poll.is_pending());
    /// assert!(poll.cancel() && !poll.is_pending());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "work_pending")]
    pub fn is_pending(&self) -> bool {
        self.core.state.is_pending()
    }

    /// Returns true if a worker is inside its function.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("poll").build()?;
    /// let poll = coreshard::Work::new(|poll: &coreshard::Work| assert!(poll.is_running()));
    /// poll.queue(&queue)?;
    /// poll.flush()?;
    /// assert!(!poll.is_running());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "work_busy")]
    pub fn is_running(&self) -> bool {
        self.core.state.is_running()
    }

    /// Returns how often it is disabled.
    ///
    /// # Examples
    /// ```
    /// let poll = coreshard::Work::new(|_| println!("the device is polled"));
    /// poll.disable()?;
    /// poll.disable()?;
    /// assert_eq!(poll.disable_depth(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn disable_depth(&self) -> u32 {
        self.core.state.disables()
    }

    /// Returns the type name of its function, as shown in reports.
    ///
    /// # Examples
    /// ```
    /// fn poll_device(_work: &coreshard::Work) {}
    ///
    /// assert!(coreshard::Work::new(poll_device).function().ends_with("poll_device"));
    /// ```
    pub fn function(&self) -> &'static str {
        self.core.function
    }

    pub(super) fn error(&self, kind: WorkErrorKind) -> WorkError {
        WorkError::new(self.core.function, kind)
    }

    #[cold]
    fn refuse_forked(&self) -> Result<(), WorkError> {
        if P::process_generation() != self.core.process_generation {
            return Err(self.error(WorkErrorKind::Refused(RefusedReason::Forked)));
        }
        Ok(())
    }

    fn refuse_inside_itself(&self) -> Result<(), WorkError> {
        if runs_work::<P>(Arc::as_ptr(&self.core).cast()) {
            return Err(self.error(WorkErrorKind::InsideItself));
        }
        Ok(())
    }

    /// Queues it for `target` at `deadline`, or at once; returns false if it was pending.
    #[inline]
    pub(super) fn queue_at(
        &self,
        queue: &Workqueue<P>,
        target: Target,
        deadline: Option<Time>,
    ) -> Result<bool, WorkError> {
        if let Err(not) = self.core.state.can_be_claimed() {
            return self.not_claimed(not);
        }
        let way = Way::find(queue, target, deadline).map_err(|kind| self.error(kind))?;
        match self.core.state.claim(deadline.is_some()) {
            Ok(claimed) => self.bring_in(claimed, queue, target, way).map(|()| true),
            Err(not) => {
                way.abandon();
                self.not_claimed(not)
            }
        }
    }

    fn not_claimed(&self, not: NotClaimed) -> Result<bool, WorkError> {
        match not {
            NotClaimed::Pending => self.refuse_forked().map(|()| false),
            NotClaimed::Disabled => Err(self.error(WorkErrorKind::Disabled)),
        }
    }

    /// Passes a claimed queueing to the timers, or to its queue.
    #[inline]
    fn bring_in(
        &self,
        claimed: Claimed,
        queue: &Workqueue<P>,
        target: Target,
        way: Way<'_, P>,
    ) -> Result<(), WorkError> {
        match way {
            Way::Queue(entry) => {
                Token::dispatch(Arc::clone(&self.core), claimed, entry);
                Ok(())
            }
            Way::Timers(deadline) => self.arm(claimed.number, queue, target, deadline),
        }
    }

    /// Passes a claimed queueing to the timers.
    #[cold]
    fn arm(
        &self,
        number: Number,
        queue: &Workqueue<P>,
        target: Target,
        deadline: Time,
    ) -> Result<(), WorkError> {
        let queueing = Token { core: Arc::clone(&self.core), number };
        let delayed = Delayed::new(queueing, queue.clone(), target);
        let mut slot = self.core.slot.lock();
        if !self.core.state.is_delayed_as(number) {
            // Cancelled or replaced since it was claimed; the thread that did so found nothing here.
            return Ok(());
        }
        match queue.timers().add(deadline, Due::new(delayed)) {
            Ok(key) => {
                let armed = Armed { timers: Arc::clone(queue.timers()), key, number };
                let before = slot.armed.replace(armed);
                drop(slot);
                // An entry of an earlier queueing, which is a tombstone by now: its canceller is on the way.
                drop(before.and_then(|armed| armed.timers.remove(armed.key)));
                Ok(())
            }
            Err((error, due)) => {
                drop(slot);
                self.core.finish_tombstone(self.core.state.cancel(Some(number)));
                drop(due);
                Err(self.error(WorkErrorKind::Timer(error)))
            }
        }
    }
}

impl<P: Platform> Clone for Work<P> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core) }
    }
}

impl<P: Platform> fmt::Debug for Work<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("function", &self.core.function)
            .field("is_pending", &self.is_pending())
            .field("is_running", &self.is_running())
            .field("disable_depth", &self.disable_depth())
            .finish()
    }
}

//! The handle that programs hold.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Host, Platform};
use coreshard_topology::{CpuId, NodeId};

use super::capacity::WhenFull;
use super::change::Change;
use super::claimable::{Wait, Waiter};
use super::handle::{self, JoinHandle};
use super::here::handle_here;
use super::install::{install, install_helping};
use super::pool_link::Entry;
use super::shared::{Closed, Shared};
use super::task_ref::TaskRef;
use crate::base::error::{
    BuildError, Refused, RefusedReason, ShutdownTimeout, WaitError, WouldDeadlock,
};
use crate::base::target::Target;
use crate::callbacks::Callback;
use crate::fork::spread;
use crate::insight::stats::QueueStats;
use crate::insight::trouble::say;
use crate::pool::SpawnPlace;
use crate::timers::{self, Sleep, SleepError, Timers};

/// A queue of work items, run by the pools of its affinity scope.
///
/// Clones are handles to the same queue. When the last one is dropped, everything that was
/// accepted is run to its end first; the drop waits for that, and for the end of the workers that no
/// other queue needs (but for a drop inside one of the queue's own items, which leaves the waiting to a
/// thread of its own).
pub struct Workqueue<P: Platform = Host> {
    handle: Arc<LastHandle<P>>,
}

struct LastHandle<P: Platform> {
    shared: Arc<Shared<P>>,
}

impl<P: Platform> Workqueue<P> {
    pub(crate) fn from_shared(shared: Arc<Shared<P>>) -> Self {
        let handle = Arc::new(LastHandle { shared });
        let known: Weak<LastHandle<P>> = Arc::downgrade(&handle);
        handle.shared.set_handle(known);
        Self { handle }
    }

    /// A handle to the queue whose item this thread is inside of, if there is one.
    pub(crate) fn here() -> Option<Self> {
        handle_here::<P, LastHandle<P>>().map(|handle| Self { handle })
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared<P>> {
        &self.handle.shared
    }

    /// A name for the queue while it lives.
    pub(crate) fn id(&self) -> u64 {
        self.shared().core.queue_id()
    }

    /// The queue's name.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("mail").build()?;
    /// assert_eq!(queue.name(), "mail");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(&self) -> &str {
        self.shared().name()
    }

    /// How many items may wait to begin ([`Builder::capacity`](crate::Builder::capacity)); `None` without a bound.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("requests").capacity(64).build()?;
    /// assert_eq!(queue.capacity(), Some(64));
    /// queue.change().capacity(128).apply()?;
    /// assert_eq!(queue.capacity(), Some(128));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        self.shared().capacity()?.permits(self.is_forked())
    }

    /// A future that ends after `duration`, by the timers of the queue's runtime; see
    /// [`Runtime::sleep`](crate::Runtime::sleep).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    /// let queue = coreshard::workqueue()?.name("polite").build()?;
    /// block_on(queue.sleep(std::time::Duration::from_millis(1))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sleep(&self, duration: Duration) -> Result<Sleep<P>, SleepError> {
        timers::sleep(self.timers(), duration)
    }

    /// Queues `work` in the pod of the CPU that the caller runs on. Allocates nothing if `work`
    /// holds at most 16 bytes (8 in a queue with a capacity).
    ///
    /// Never waits, but for room in a full queue that has a [`capacity`](crate::Builder::capacity);
    /// [`try_queue`](Self::try_queue) does not, and [`queue_async`](Self::queue_async) is a future.
    ///
    /// # Errors
    /// Hands `work` back if the queue takes none: it is shut down, or being drained, also while the caller
    /// waits for room. Or if the caller would wait for ever for that
    /// ([`WouldDeadlock`](RefusedReason::WouldDeadlock)).
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("mail").build()?;
    /// queue.queue(|| println!("sent by a worker near this CPU"))?;
    /// // What is refused comes back, and can be run here.
    /// queue.shutdown(std::time::Duration::from_secs(60))?;
    /// let refused = queue.queue(|| println!("sent by the caller")).unwrap_err();
    /// assert_eq!(refused.reason(), coreshard::RefusedReason::ShutDown);
    /// refused.into_item()();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("spawn_fifo", "schedule_work"))]
    #[inline]
    #[track_caller]
    pub fn queue<F>(&self, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.shared().enter_here(WhenFull::Wait) {
            Ok(entry) => {
                entry.send(work);
                Ok(())
            }
            Err(reason) => Err(Refused::new(work, reason)),
        }
    }

    /// Queues `work` in the pod that `cpu` belongs to.
    ///
    /// # Errors
    /// Hands `work` back if `cpu` is none of the queue's, or the queue takes none.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("counters").build()?;
    /// for cpu in &coreshard::runtime()?.usable() {
    ///     queue.queue_on(cpu, move || println!("in the pod of CPU {cpu}"))?;
    /// }
    /// assert!(queue.queue_on(coreshard::CpuId(60_000), || ()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn queue_on<F>(&self, cpu: CpuId, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.queue_to(Target::Cpu(cpu), work)
    }

    /// Queues `work` in a pod on `node`: the caller's own pod if it lies there, else the node's
    /// pods take turns by the caller's CPU.
    ///
    /// # Errors
    /// Hands `work` back if none of the queue's pods lies on `node`, or the queue takes none.
    ///
    /// # Examples
    /// ```
    /// use coreshard::{NodeId, RefusedReason};
    ///
    /// let queue = coreshard::workqueue()?.name("index").scope(coreshard::Scope::Numa).build()?;
    /// // The item finds its data where it was allocated.
    /// match queue.queue_on_node(NodeId(0), || println!("on the first node")) {
    ///     Ok(()) => {}
    ///     Err(refused) if refused.reason() != RefusedReason::ShutDown => refused.into_item()(),
    ///     Err(refused) => return Err(refused.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn queue_on_node<F>(&self, node: NodeId, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.queue_to(Target::Node(node), work)
    }

    fn queue_to<F>(&self, target: Target, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.shared().enter(target, WhenFull::Wait) {
            Ok(entry) => {
                entry.send(work);
                Ok(())
            }
            Err(reason) => Err(Refused::new(work, reason)),
        }
    }

    /// Queues `work` and returns a handle to its result. One allocation, for the result.
    ///
    /// # Errors
    /// Hands `work` back if the queue takes none, as [`queue`](Self::queue) does.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("sums").build()?;
    /// let sum = queue.submit(|| (1..=10).sum::<u32>())?;
    /// assert_eq!(sum.join()?, 55);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "spawn_blocking")]
    #[track_caller]
    #[inline]
    pub fn submit<F, T>(&self, work: F) -> Result<JoinHandle<T, P>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.shared().enter_here(WhenFull::Wait) {
            Ok(entry) => Ok(handle::submit(entry, work)),
            Err(reason) => Err(Refused::new(work, reason)),
        }
    }

    /// Runs `work` on one of the queue's workers and waits for its result: there,
    /// [`join`](crate::join) finds others to help.
    ///
    /// Inside an item of this queue, on one of its workers, `work` is a part of that item, and called
    /// at once. Anywhere else it is an item like any other, which the queue's limit, order and state hold
    /// for. Allocates nothing, but where it is called inside an item of another queue of the same
    /// attributes: there it waits as [`JoinHandle::join`] does.
    ///
    /// # Errors
    /// If the queue is shut down; or if it is called elsewhere for an item of this queue, which runs one at
    /// a time: it could not begin before that item is over. `work` is dropped then, uncalled.
    ///
    /// # Panics
    /// With what `work` threw.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("sums").build()?;
    /// let numbers = vec![1_u64; 1_000];
    /// // It borrows, and forks on the queue's workers.
    /// let sum = queue.install(|| {
    ///     let (left, right) = numbers.split_at(500);
    ///     let (left, right) = coreshard::join(|| left.iter().sum::<u64>(), || right.iter().sum::<u64>());
    ///     left + right
    /// })?;
    /// assert_eq!(sum, 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("ThreadPool::install", "block_in_place"))]
    #[track_caller]
    pub fn install<F, R>(&self, work: F) -> Result<R, Refused>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        let waiter = self.shared().waiter();
        if waiter.as_ref().is_some_and(|waiter| self.shared().is_part_of_item(waiter)) {
            return Ok(work());
        }
        let entry = self.enter(Target::Here)?;
        match waiter.map_or(Wait::Sleep, |waiter| waiter.wait_for(&entry)) {
            Wait::Help => Ok(install_helping::<P, _, _>(entry, work)),
            Wait::Sleep => Ok(install::<P, _, _>(entry, work)),
            Wait::Never => {
                entry.abandon();
                Err(RefusedReason::WouldDeadlock.into())
            }
        }
    }

    /// Calls `body` with each element of `elements`, on as many of the queue's workers as find
    /// time, and waits for all of them. Who is late is relieved by those who are done.
    ///
    /// # Errors
    /// Where [`install`](Self::install) has one: `body` is dropped then, uncalled.
    ///
    /// # Panics
    /// With what the first call of `body` to panic threw. Other elements may be done or not.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("pixels").build()?;
    /// let mut pixels = vec![1_u8; 10_000];
    /// queue.for_each_mut(&mut pixels, |pixel| *pixel = 255 - *pixel)?;
    /// assert!(pixels.iter().all(|pixel| *pixel == 254));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("par_iter_mut", "parallel for"))]
    pub fn for_each_mut<T, F>(&self, elements: &mut [T], body: F) -> Result<(), Refused>
    where
        T: Send,
        F: Fn(&mut T) + Sync + Send,
    {
        let workers = self.shared().worker_limit();
        let each = |piece: &mut [T]| piece.iter_mut().for_each(&body);
        self.install(|| spread::<P, _>(elements, workers, &each))
    }

    /// Calls `body` with ranges that cover `numbers` and do not overlap, on as many of the queue's
    /// workers as find time, and waits for all of them. How long the ranges are depends on who
    /// finds time.
    ///
    /// # Errors
    /// Where [`install`](Self::install) has one: `body` is dropped then, uncalled.
    ///
    /// # Panics
    /// With what the first call of `body` to panic threw. Other ranges may be done or not.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// let queue = coreshard::workqueue()?.name("rows").build()?;
    /// let rows = AtomicUsize::new(0);
    /// queue.for_each_range(0..480, |range| _ = rows.fetch_add(range.len(), Relaxed))?;
    /// assert_eq!(rows.into_inner(), 480);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "into_par_iter")]
    pub fn for_each_range<F>(&self, numbers: Range<usize>, body: F) -> Result<(), Refused>
    where
        F: Fn(Range<usize>) + Sync + Send,
    {
        let workers = self.shared().worker_limit();
        self.install(|| spread::<P, _>(numbers, workers, &body))
    }

    /// Counts an item in; whoever sends it answers for what it borrows.
    #[inline(always)]
    pub(crate) fn enter(&self, target: Target) -> Result<Entry<'_, P>, RefusedReason> {
        match target {
            Target::Here => self.shared().enter_here(WhenFull::Wait),
            target => self.shared().enter(target, WhenFull::Wait),
        }
    }

    /// As [`Self::enter`], without a wait, and though the queue may be full.
    #[inline(always)]
    pub(crate) fn enter_beyond(&self, target: Target) -> Result<Entry<'_, P>, RefusedReason> {
        match target {
            Target::Here => self.shared().enter_here(WhenFull::Exceed),
            target => self.shared().enter(target, WhenFull::Exceed),
        }
    }

    /// As [`Self::enter_beyond`], for what was accepted before: where the queue has left its target meanwhile, it goes to another.
    pub(crate) fn enter_accepted(&self, target: Target) -> Result<Entry<'_, P>, RefusedReason> {
        match self.enter_beyond(target) {
            Err(RefusedReason::NoSuchCpu(_) | RefusedReason::NoSuchNode(_)) => {
                self.enter_beyond(Target::Here)
            }
            entered => entered,
        }
    }

    /// For what is to come later: an error where the queue has no such target now.
    pub(crate) fn check_target(&self, target: Target) -> Result<(), RefusedReason> {
        if target == Target::Here {
            return Ok(());
        }
        match self.enter_beyond(target) {
            Ok(entry) => {
                entry.abandon();
                Ok(())
            }
            Err(reason @ (RefusedReason::NoSuchCpu(_) | RefusedReason::NoSuchNode(_))) => {
                Err(reason)
            }
            // It may take it then.
            Err(_) => Ok(()),
        }
    }

    /// The worker on this thread, if there is one, as one that waits for items of this queue.
    pub(crate) fn waiter(&self) -> Option<Waiter> {
        self.shared().waiter()
    }

    /// Where items can be spawned that are parts of an item of this queue, if `waiter` is inside one.
    pub(crate) fn spawn_place(&self, waiter: &Waiter) -> Option<SpawnPlace> {
        self.shared().spawn_place(waiter)
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.shared().is_forked()
    }

    /// A panic that no handle will tell of.
    pub(crate) fn on_panic(&self, thrown: Thrown) {
        self.shared().on_panic(thrown);
    }

    pub(crate) fn timers(&self) -> &Arc<Timers<P>> {
        self.shared().timers()
    }

    /// Lets go of this handle, without waiting; gives it back if it is the last, whose drop waits.
    pub(crate) fn release(self) -> Option<Self> {
        Arc::into_inner(self.handle).map(|last| Self { handle: Arc::new(last) })
    }

    /// Waits until nothing that was accepted is left, including what items of this queue queue
    /// meanwhile: nobody else can, until it returns.
    ///
    /// # Errors
    /// Where an item of this queue calls it: it would wait for itself.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("mail").build()?;
    /// let again = queue.clone();
    /// queue.queue(move || again.queue(|| println!("its own items may queue more")).unwrap())?;
    /// queue.drain()?;
    /// assert_eq!(queue.stats().in_flight(), 0);
    /// queue.queue(|| println!("it is open again"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "drain_workqueue")]
    pub fn drain(&self) -> Result<(), WouldDeadlock> {
        self.shared().drain(None).map(|_drained| ())
    }

    /// As [`drain`](Self::drain), but for no longer than `timeout`. The queue is open again in any case.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = coreshard::workqueue()?.name("mail").build()?;
    /// let (open, opened) = std::sync::mpsc::channel::<()>();
    /// queue.queue(move || _ = opened.recv())?;
    /// let error = queue.drain_timeout(Duration::from_millis(5)).unwrap_err();
    /// assert!(error.is_timeout() && error.in_flight() == 1);
    /// drop(open);
    /// queue.drain_timeout(Duration::from_secs(60))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the time is over; or where an item of this queue calls it.
    pub fn drain_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        let drained = self.shared().drain(Some(P::now() + timeout))?;
        self.unless_time_is_over(drained)
    }

    fn unless_time_is_over(&self, reached: bool) -> Result<(), WaitError> {
        if reached { Ok(()) } else { Err(WaitError::time_over(self.shared().in_flight())) }
    }

    /// Waits until all that was queued before the call is over. What is queued meanwhile is not
    /// waited for; neither is a delayed item whose time has not come.
    ///
    /// # Errors
    /// Where an item of this queue calls it: it would wait for itself.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    /// static SENT: AtomicBool = AtomicBool::new(false);
    ///
    /// let queue = coreshard::workqueue()?.name("mail").build()?;
    /// queue.queue(|| SENT.store(true, SeqCst))?;
    /// queue.flush()?;
    /// assert!(SENT.load(SeqCst));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("flush_workqueue", "barrier"))]
    pub fn flush(&self) -> Result<(), WouldDeadlock> {
        self.shared().flush(None).map(|_flushed| ())
    }

    /// As [`flush`](Self::flush), but for no longer than `timeout`. Nothing is refused meanwhile, nor after.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = coreshard::workqueue()?.name("mail").build()?;
    /// queue.queue(|| println!("sent"))?;
    /// queue.flush_timeout(Duration::from_secs(60))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the time is over; or where an item of this queue calls it.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        let flushed = self.shared().flush(Some(P::now() + timeout))?;
        self.unless_time_is_over(flushed)
    }

    /// Lets no further item begin, until [`thaw`](Self::thaw). Items that the pools have already
    /// go on; what is queued meanwhile waits, in order. A frozen queue whose last handle is
    /// dropped is thawed, so that nothing is lost.
    ///
    /// # Errors
    /// Where the queue's pools serve as many queues as they can.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("journal").build()?;
    /// queue.freeze()?;
    /// let entry = queue.submit(|| "written")?;
    /// assert!(queue.stats().is_frozen && !entry.is_finished());
    /// queue.thaw()?;
    /// assert_eq!(entry.join()?, "written");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("freeze_workqueues_begin", "pause"))]
    pub fn freeze(&self) -> Result<(), BuildError> {
        self.shared().freeze()
    }

    /// Lets the items go that waited since [`freeze`](Self::freeze), and all that come.
    ///
    /// # Errors
    /// As there; then the queue is still frozen.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("journal").build()?;
    /// queue.freeze()?;
    /// queue.queue(|| println!("after the snapshot"))?;
    /// queue.thaw()?;
    /// queue.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("thaw_workqueues", "resume"))]
    pub fn thaw(&self) -> Result<(), BuildError> {
        self.shared().thaw()
    }

    /// Changes what the queue is while it is used: name what is to change, then
    /// [`apply`](Change::apply).
    ///
    /// # Examples
    /// ```
    /// use coreshard::Scope;
    ///
    /// let queue = coreshard::workqueue()?.name("mail").max_active(4).build()?;
    /// queue.change().scope(Scope::Numa).max_active(16).apply()?;
    /// assert_eq!(queue.stats().scope, Scope::Numa);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("apply_workqueue_attrs", "workqueue_set_max_active"))]
    pub fn change(&self) -> Change<P> {
        Change::new(Arc::clone(self.shared()))
    }

    /// Takes no more work, and waits until all that was accepted is over, or for `timeout`.
    ///
    /// # Errors
    /// Where work is left when the time is over, as it is if the queue is frozen. It goes on, and
    /// the call may be made again. In a process that was forked from the queue's, at once
    /// ([`ShutdownTimeout::is_forked`]): nothing ends there.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = coreshard::workqueue()?.name("mail").build()?;
    /// queue.queue(|| println!("sent, since it was accepted"))?;
    /// queue.shutdown(Duration::from_secs(60))?;
    /// assert!(queue.queue(|| ()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("destroy_workqueue", "graceful shutdown"))]
    pub fn shutdown(&self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        self.shared().close(Closed::ShutDown);
        self.shared().wait_empty(Some(P::now() + timeout))
    }

    /// What the queue and its pools have done so far.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("mail").build()?;
    /// queue.queue(|| println!("sent"))?;
    /// queue.flush()?;
    /// let stats = queue.stats();
    /// assert_eq!((stats.queued, stats.run, stats.in_flight()), (1, 1, 0));
    /// println!("{} workers in {} pools", stats.total().workers, stats.pools.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> QueueStats {
        self.shared().stats()
    }
}

impl<P: Platform> Clone for Workqueue<P> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

impl<P: Platform> fmt::Debug for Workqueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workqueue")
            .field("name", &self.name())
            .field("in_flight", &self.shared().in_flight())
            .finish_non_exhaustive()
    }
}

impl<P: Platform> Drop for LastHandle<P> {
    #[inline(never)]
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // Nobody is there to run what is left, or to be waited for.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.shared.close(Closed::ShutDown);
        self.shared.thaw_for_good();
        TaskRef::keep_queue(&self.shared);
        if !self.shared.waits_for_caller() {
            self.shared.end();
            return;
        }
        // One of the queue's own items held the last handle, and cannot wait for itself.
        let timers = Arc::clone(self.shared.timers());
        let queue = Arc::clone(&self.shared);
        timers.call(Callback::new(move || {
            user::call(|| {
                queue.end();
                drop(queue);
            })
        }));
        if let Err(error) = timers.start_keeper() {
            let name = self.shared.name();
            say(|| tracing::warn!(queue = %name, %error, "the end of a queue waits for a thread"));
            self.shared.keep_timers_going();
        }
    }
}

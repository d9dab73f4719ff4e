//! A workqueue: a name, attributes, and a pool link to each pool. `README.md` beside this file explains how a queue changes
//! while it is in use.

mod backlog;
mod change;
mod foreign;
mod generations;
mod last_handle;
mod link;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod machine;
mod parallel;
mod reservation;
mod results;
mod shared;
mod task_ref;
mod waiting_tasks;

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::user::Thrown;
use coreshard_platform::{Host, Platform};
use coreshard_topology::{CpuId, NodeId};

use self::last_handle::LastHandle;
use self::machine::Queue;
use self::results::submit;
use crate::base::error::{
    BuildError, Refused, RefusedReason, ShutdownTimeout, WaitError, WouldDeadlock,
};
use crate::base::target::Target;
use crate::insight::stats::QueueStats;
use crate::timers::{self, Sleep, SleepError, Timers};

pub use backlog::{Backlog, BacklogItem};
pub use change::Change;
pub use foreign::ForeignFunction;
pub(crate) use link::{PoolLink, SubmitPermit, WhenFull, core_here, runs_item_of};
pub use reservation::{QueueAsync, Reservation, ReserveAsync};
pub(crate) use results::Unclaimed;
pub use results::{CancelledItem, JoinHandle, Panic, ScopePanics, ScopedJoinHandle, WorkScope};
pub(crate) use shared::{Origin, Shared};
pub(crate) use task_ref::TaskRef;
#[cfg(all(test, loom))]
pub(crate) use waiting_tasks::{ListedAt, WaitingTasks};
pub(crate) use waiting_tasks::{WaitingTable, WaitingTask};

/// A queue of work items, run by the pools of its affinity scope.
///
/// Clones are handles to the same queue. Dropping the last handle blocks until every accepted item has finished and the workers
/// that no other queue needs have exited. If one of the queue's own items drops the last handle, a separate thread does this
/// waiting.
pub struct Workqueue<P: Platform = Host> {
    handle: Arc<LastHandle<P>>,
}

impl<P: Platform> Workqueue<P> {
    pub(crate) fn from_shared(shared: Arc<Shared<P>>) -> Self {
        Self { handle: LastHandle::new(shared) }
    }

    /// Returns a handle to the queue whose item this thread is running, if any.
    pub(crate) fn here() -> Option<Self> {
        let handle = core_here::<P>()?.handle.get()?.upgrade()?;
        handle.downcast().ok().map(|handle| Self { handle })
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared<P>> {
        &self.handle.shared
    }

    /// Returns an identifier that is unique while the queue lives.
    pub(crate) fn id(&self) -> u64 {
        self.shared().core.queue_id()
    }

    /// Returns the queue's name.
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

    /// Returns how many items may wait to begin ([`Builder::capacity`](crate::Builder::capacity)), or `None` if the queue is
    /// unbounded.
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
        self.shared().core.capacity.as_ref()?.permits(self.is_forked())
    }

    /// Returns a future that completes after `duration`, driven by the timers of the queue's runtime; see
    /// [`Runtime::sleep`](crate::Runtime::sleep).
    ///
    /// # Errors
    /// Fails as [`Runtime::sleep`](crate::Runtime::sleep) does.
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

    /// Queues `work` in the pod of the CPU that the caller runs on. Allocates nothing if `work` holds at most 16 bytes (8 in a
    /// queue with a capacity).
    ///
    /// Blocks only if the queue has a [`capacity`](crate::Builder::capacity) and is full. [`try_queue`](Self::try_queue) never
    /// blocks, and [`queue_async`](Self::queue_async) returns a future.
    ///
    /// # Errors
    /// Returns `work` if the queue rejects it because it is shut down or being drained, including while the caller waits for
    /// room. Also returns it if waiting for room would never end ([`WouldDeadlock`](RefusedReason::WouldDeadlock)).
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
        SubmitPermit::send_entered(self.shared().generations.enter_here(WhenFull::Wait), work)
    }

    /// Queues `work` in the pod that `cpu` belongs to.
    ///
    /// # Errors
    /// Returns `work` if `cpu` does not belong to the queue, or if the queue rejects it.
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

    /// Queues `work` in a pod on `node`: the caller's own pod if it lies on that node, otherwise one of the node's pods, chosen
    /// by the caller's CPU.
    ///
    /// # Errors
    /// Returns `work` if none of the queue's pods lies on `node`, or if the queue rejects it.
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
        SubmitPermit::send_entered(self.shared().generations.enter(target, WhenFull::Wait), work)
    }

    /// Queues `work` and returns a handle to its result. Makes one allocation, for the result.
    ///
    /// # Errors
    /// Returns `work` if the queue rejects it, as [`queue`](Self::queue) does.
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
        submit(self.shared().generations.enter_here(WhenFull::Wait), work)
    }

    /// Queues `work` like [`queue`](Self::queue), but never blocks: `work` is returned if the queue's
    /// [`capacity`](crate::Builder::capacity) is used up or producers already wait for room. In a queue without a capacity it
    /// is the same as `queue`.
    ///
    /// # Errors
    /// Returns `work` with the reason [`Full`](RefusedReason::Full) if the queue is full; otherwise as `queue`.
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
        SubmitPermit::send_entered(self.shared().generations.enter_here(WhenFull::Refuse), work)
    }

    /// Submits `work` like [`submit`](Self::submit), but never waits for room; see [`try_queue`](Self::try_queue).
    ///
    /// # Errors
    /// Fails as [`try_queue`](Self::try_queue) does.
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
        submit(self.shared().generations.enter_here(WhenFull::Refuse), work)
    }

    /// Returns a future that queues `work` as soon as there is room. Waiting threads and futures share one line, first come,
    /// first served. The future joins it at its first poll.
    ///
    /// Nothing is queued until the future completes. Dropping it earlier leaves the queue unchanged and drops `work`;
    /// [`QueueAsync::into_item`] recovers it instead.
    ///
    /// # Errors
    /// Completes with `work` if the queue is shut down or drained before there was room.
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
        QueueAsync::new(self.shared(), work)
    }

    /// Reserves room for one item, if there is any now.
    ///
    /// # Errors
    /// Returns [`Full`](RefusedReason::Full) if the queue's [`capacity`](crate::Builder::capacity) is used up or producers
    /// already wait for room.
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
        let capacity = &self.shared().core.capacity;
        if let Some(capacity) = capacity
            && !capacity.try_take()
        {
            return Err(capacity.refuse_one(WhenFull::Refuse));
        }
        Ok(Reservation::new(Arc::clone(&self.handle)))
    }

    /// Returns a future that completes with room for one item. It waits in line with the other producers, first come, first
    /// served. Dropping it gives up its place.
    ///
    /// # Errors
    /// Completes with the reason if the queue is shut down or drained before there was room.
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
        ReserveAsync::new(Arc::clone(&self.handle))
    }

    /// Queues a call of a function of another language, with 16 bytes, for `target`. Allocates nothing, unless the queue
    /// measures or bounds its items.
    ///
    /// The function is always called, even if the queue is shut down at once, since nothing else can release what the bytes
    /// hold.
    ///
    /// # Errors
    /// Fails as [`queue`](Self::queue) does, but without waiting for room. On an error the caller keeps ownership of the bytes.
    ///
    /// # Safety
    /// The function may be called with these bytes, on any thread.
    ///
    /// # Examples
    /// ```
    /// use std::mem::MaybeUninit;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use coreshard::{ForeignFunction, Target};
    ///
    /// static SUM: AtomicU64 = AtomicU64::new(0);
    /// unsafe extern "C-unwind" fn add(words: *mut [MaybeUninit<u64>; 2]) {
    ///     let [one, other] = unsafe { (*words).map(|word| word.assume_init()) };
    ///     SUM.fetch_add(one + other, Relaxed);
    /// }
    ///
    /// let add = ForeignFunction::leak(add, "add");
    /// let queue = coreshard::workqueue()?.name("sums").build()?;
    /// unsafe { queue.queue_foreign(Target::Here, add, [20, 22].map(MaybeUninit::new))? };
    /// queue.flush()?;
    /// assert_eq!((SUM.load(Relaxed), add.name()), (42, "add"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    #[allow(unsafe_code)]
    pub unsafe fn queue_foreign(
        &self,
        target: Target,
        function: &'static ForeignFunction,
        words: [MaybeUninit<u64>; 2],
    ) -> Result<(), RefusedReason> {
        let entry = self.enter_beyond(target)?;
        foreign::send(entry, function, words);
        Ok(())
    }

    /// Counts an item in. The caller that sends it is responsible for the item's borrows.
    #[inline(always)]
    pub(crate) fn enter(&self, target: Target) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        self.shared().generations.enter(target, WhenFull::Wait)
    }

    /// Counts an item in like [`Self::enter`], without waiting, even if the queue is full.
    #[inline(always)]
    pub(crate) fn enter_beyond(
        &self,
        target: Target,
    ) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        self.shared().generations.enter(target, WhenFull::Exceed)
    }

    /// Counts in an item that was accepted earlier, like [`Self::enter_beyond`]. If the queue no longer serves its target, it
    /// goes to another one.
    pub(crate) fn enter_accepted(
        &self,
        target: Target,
    ) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        match self.enter_beyond(target) {
            Err(RefusedReason::NoSuchCpu(_) | RefusedReason::NoSuchNode(_)) => {
                self.enter_beyond(Target::Here)
            }
            entered => entered,
        }
    }

    /// Checks a target for an item that will be queued later: an error if the queue does not serve it now.
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
            // The queue may accept the item by then.
            Err(_) => Ok(()),
        }
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.shared().is_forked()
    }

    /// Reports a panic that no handle will report.
    pub(crate) fn on_panic(&self, thrown: Thrown) {
        self.shared().core.on_panic(thrown);
    }

    pub(crate) fn timers(&self) -> &Arc<Timers<P>> {
        self.shared().timers()
    }

    /// Releases this handle without waiting. Returns it if it is the last one, whose drop would wait.
    pub(crate) fn release(self) -> Option<Self> {
        Arc::into_inner(self.handle).map(|last| Self { handle: Arc::new(last) })
    }

    /// Waits until every accepted item has finished, including items that this queue's own items queue meanwhile. Other callers
    /// are rejected until it returns.
    ///
    /// # Errors
    /// Fails if an item of this queue calls it, since it would wait for itself.
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

    /// Drains the queue like [`drain`](Self::drain), but waits at most `timeout`. The queue accepts items again in either case.
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
    /// Fails when the timeout has elapsed, or if an item of this queue calls it.
    pub fn drain_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        let drained = self.shared().drain(Some(P::now() + timeout))?;
        self.unless_time_is_over(drained)
    }

    fn unless_time_is_over(&self, reached: bool) -> Result<(), WaitError> {
        if reached {
            Ok(())
        } else {
            Err(WaitError::time_over(self.shared().generations.in_flight()))
        }
    }

    /// Waits until every item that was queued before the call has finished. It does not wait for items queued meanwhile, nor
    /// for delayed items that are not yet due.
    ///
    /// # Errors
    /// Fails if an item of this queue calls it, since it would wait for itself.
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

    /// Flushes the queue like [`flush`](Self::flush), but waits at most `timeout`. The queue accepts items throughout.
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
    /// Fails when the timeout has elapsed, or if an item of this queue calls it.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        let flushed = self.shared().flush(Some(P::now() + timeout))?;
        self.unless_time_is_over(flushed)
    }

    /// Lets no further item begin until [`thaw`](Self::thaw). Items that are already in the pools still run; items queued
    /// meanwhile wait, in order. Dropping the last handle of a frozen queue thaws it, so that no item is lost.
    ///
    /// # Errors
    /// Fails if the queue's pools already serve as many queues as they can.
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
        self.shared().set_frozen(true)
    }

    /// Releases the items that have waited since [`freeze`](Self::freeze), and lets later ones pass.
    ///
    /// # Errors
    /// Fails as [`freeze`](Self::freeze) does; the queue is then still frozen.
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
        self.shared().set_frozen(false)
    }

    /// Starts a change of the queue's attributes while it is in use: name the attributes to change, then call
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

    /// Closes the queue, and waits until every accepted item has finished, or for `timeout`.
    ///
    /// # Errors
    /// Fails if work is left when the timeout elapses, which is always so if the queue is frozen. The remaining work continues,
    /// and the call may be repeated. In a process forked from the queue's process, it fails at once
    /// ([`ShutdownTimeout::is_forked`]), since nothing finishes there.
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
        self.shared().shut_down();
        self.shared().wait_empty(Some(P::now() + timeout))
    }

    /// Shuts the queue down at once: it accepts no more work, begins nothing more and drops its futures. Waits until the items
    /// that have begun finish, or for `timeout`. Returns the items that had not begun.
    ///
    /// | not yet begun | effect |
    /// |---|---|
    /// | items of [`queue`](Self::queue), [`submit`](Self::submit) | returned, to be run here or dropped. The handle of a submitted item yields its result, or [`Dropped`](crate::Dropped) |
    /// | a [`Work`](crate::Work), including one that waits for its time | its queueing is cancelled |
    /// | a future, including one that waits or sleeps | dropped. Its [`Task`](crate::Task) reports that the queue has ended ([`TaskError::is_queue_gone`](crate::TaskError::is_queue_gone)) |
    /// | items of a scope, `install` or a loop whose caller waits for them | run, as parts of an item that has begun |
    ///
    /// Items that are still running when the timeout elapses continue, and items that wait behind them are set aside as before.
    /// Submitted items among those are then dropped, since their handles report it: [`Dropped`](crate::Dropped). The others are
    /// kept for another call, which returns what was set aside since. Items that no call collects are dropped with the queue's
    /// last handle. Inside one of the queue's own items this call does not wait.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = coreshard::workqueue()?.name("mails").ordered().build()?;
    /// let (open, opened) = std::sync::mpsc::channel::<()>();
    /// # let (begun, begins) = std::sync::mpsc::channel();
    /// queue.queue(move || {
    ///     # begun.send(()).unwrap();
    ///     _ = opened.recv()
    /// })?;
    /// # begins.recv()?;
    /// for mail in 0..3 {
    ///     queue.queue(move || println!("mail {mail} is sent"))?;
    /// }
    /// let backlog = queue.shutdown_now(Duration::from_millis(5));
    /// assert_eq!((backlog.len(), backlog.in_flight()), (3, 1));
    /// drop(open);
    /// // Sent here after all; dropping one would be to give it up.
    /// backlog.for_each(|mail| mail.run());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("shutdownNow", "SIGTERM"))]
    pub fn shutdown_now(&self, timeout: Duration) -> Backlog {
        let shared = self.shared();
        shared.stop();
        Backlog::of(shared.collect(P::now() + timeout))
    }

    /// Returns statistics of the queue and its pools so far.
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
            .field("in_flight", &self.shared().generations.in_flight())
            .finish_non_exhaustive()
    }
}

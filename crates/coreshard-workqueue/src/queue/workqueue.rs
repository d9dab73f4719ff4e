//! The handle that programs hold.

use std::fmt;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Platform, ThreadSpec, Time};
use coreshard_topology::{CpuId, NodeId};

use super::lane::{Core, Entry, Lane};
use super::limiter::Limiter;
use crate::error::{Refused, RefusedReason, ShutdownTimeout, WouldDeadlock};
use crate::event::Event;
use crate::fork::{install, spread};
use crate::handle::{self, JoinHandle};
use crate::insight::{Insight, Times};
use crate::pool::{Seat, blocking, runs_item_of};
use crate::queue::builder::Request;
use crate::runtime::PoolSet;
use crate::scope::{self, WorkScope};
use crate::stats::QueueStats;
use crate::task::{self, Guests, Task};
use crate::timers::Timers;
use crate::work::Target;

/// A queue of work items, run by the pools of its affinity scope.
///
/// Clones are handles to the same queue. When the last one is dropped, everything that was
/// accepted is run to its end first; the drop waits for that (but for a drop inside one of the
/// queue's own items, which leaves the waiting to a thread of its own).
pub struct Workqueue<P: Platform> {
    handle: Arc<Handle<P>>,
}

struct Handle<P: Platform> {
    shared: Arc<Shared<P>>,
    /// The last drop leaves the waiting to another thread.
    leaves_waiting: bool,
}

/// The queue itself. It is freed when no handle is left and all its items are over.
pub(crate) struct Shared<P: Platform> {
    core: Arc<Core<P>>,
    /// By pod.
    lanes: Box<[Lane<P>]>,
    set: Arc<PoolSet<P>>,
    event: Arc<Event<P>>,
    pub(crate) guests: Guests<P>,
}

impl<P: Platform> Shared<P> {
    /// `None` where a pool serves as many queues as it can.
    pub(crate) fn new(
        request: Request,
        set: Arc<PoolSet<P>>,
        event: Arc<Event<P>>,
        timers: Arc<Timers<P>>,
    ) -> Option<Self> {
        let core = Arc::new(Core {
            name: request.name,
            panic_handler: request.panic_handler,
            limiter: request.max_active.map(Limiter::new),
            timers,
            insight: Insight::new(request.insight, set.cpus()),
        });
        let lanes: Box<[Lane<P>]> = set
            .pools()
            .map(|pool| Lane::new(Arc::clone(pool), Arc::clone(&core)))
            .collect::<Option<_>>()?;
        lanes.iter().for_each(Lane::settle);
        let guests = Guests::new(lanes.len());
        Some(Self { core, lanes, set, event, guests })
    }

    /// The lane and the door of the CPU that the caller runs on.
    #[inline]
    fn lane_here(&self) -> (&Lane<P>, usize) {
        let (pod, door) = self.set.route_here();
        (&self.lanes[pod], door)
    }

    /// Counts an item in at the pod of `cpu`, by the caller's own door if it is there, too.
    #[inline]
    pub(crate) fn enter_near(&self, cpu: CpuId) -> Option<Entry<'_, P>> {
        let (here, door) = self.set.route_here();
        let (pod, door) = match self.set.route_to(cpu) {
            Some(there) if there.0 != here => there,
            _ => (here, door),
        };
        self.lanes[pod].enter(door)
    }

    /// Items that were accepted and are not over. Exact at some moment during the call: `done` is
    /// read first, so an item that moves meanwhile can only make the answer larger.
    fn in_flight(&self) -> u64 {
        let done: u64 = self.lanes.iter().map(Lane::done).sum();
        let queued: u64 = self.lanes.iter().map(Lane::queued).sum();
        queued.saturating_sub(done)
    }

    pub(crate) fn stats(&self) -> QueueStats {
        // First, since it brings the queue's CPU time up to date.
        let pools = self.set.pools().map(|pool| pool.stats()).collect();
        // `run` before `queued`, so that it is never more.
        let run = self.lanes.iter().map(Lane::done).sum();
        let queued = self.lanes.iter().map(Lane::queued).sum();
        let insight = &self.core.insight;
        QueueStats {
            name: self.core.name.clone(),
            scope: self.set.scope(),
            queued,
            run,
            tally: insight.tally.read(),
            times: insight.times.as_ref().map(Times::read),
            pools,
        }
    }

    fn owns(&self, lane: &Lane<P>) -> bool {
        self.lanes.iter().any(|own| ptr::eq(own, lane))
    }

    pub(crate) fn close(&self) {
        self.lanes.iter().for_each(Lane::close);
    }

    /// Waits until nothing is in flight, or until `deadline`.
    pub(crate) fn wait_empty(&self, deadline: Option<Time>) -> Result<(), ShutdownTimeout> {
        let empty = || {
            // Before the counts are read: a worker that counts later sees the flag.
            self.lanes.iter().for_each(Lane::watch);
            self.in_flight() == 0
        };
        let reached =
            self.in_flight() == 0 || blocking::<P, _>(|| self.event.wait_until(deadline, empty));
        self.lanes.iter().for_each(Lane::unwatch);
        // Another waiter may have relied on the flags that were just taken down: it looks again.
        self.event.notify();
        if reached { Ok(()) } else { Err(ShutdownTimeout { in_flight: self.in_flight() }) }
    }
}

impl<P: Platform> Workqueue<P> {
    pub(crate) fn from_shared(shared: Arc<Shared<P>>) -> Self {
        Self { handle: Arc::new(Handle { shared, leaves_waiting: false }) }
    }

    fn shared(&self) -> &Shared<P> {
        &self.handle.shared
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.shared().core.name
    }

    /// Queues `work` in the pod of the CPU that the caller runs on. Allocates nothing if `work`
    /// holds at most 16 bytes.
    ///
    /// # Errors
    /// Hands `work` back if the queue is shut down.
    #[inline]
    #[track_caller]
    pub fn queue<F>(&self, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let (lane, door) = self.shared().lane_here();
        lane.queue(door, work).map_err(|work| Refused::new(work, RefusedReason::ShutDown))
    }

    /// Queues `work` in the pod that `cpu` belongs to.
    ///
    /// # Errors
    /// Hands `work` back if `cpu` is none of the queue's, or the queue is shut down.
    #[track_caller]
    pub fn queue_on<F>(&self, cpu: CpuId, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.shared().set.route_to(cpu) {
            Some((pod, door)) => self.shared().lanes[pod]
                .queue(door, work)
                .map_err(|work| Refused::new(work, RefusedReason::ShutDown)),
            None => Err(Refused::new(work, RefusedReason::NoSuchCpu(cpu))),
        }
    }

    /// Queues `work` in a pod on `node`: the caller's own pod if it lies there, else the node's
    /// pods take turns by the caller's CPU.
    ///
    /// # Errors
    /// Hands `work` back if none of the queue's pods lies on `node`, or the queue is shut down.
    #[track_caller]
    pub fn queue_on_node<F>(&self, node: NodeId, work: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.shared().set.route_to_node(node) {
            Some((pod, door)) => self.shared().lanes[pod]
                .queue(door, work)
                .map_err(|work| Refused::new(work, RefusedReason::ShutDown)),
            None => Err(Refused::new(work, RefusedReason::NoSuchNode(node))),
        }
    }

    /// Queues `work` and returns a handle to its result. One allocation, for the result.
    ///
    /// # Errors
    /// Hands `work` back if the queue is shut down.
    #[track_caller]
    pub fn submit<F, T>(&self, work: F) -> Result<JoinHandle<P, T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (lane, door) = self.shared().lane_here();
        handle::submit(lane, door, work).map_err(|work| Refused::new(work, RefusedReason::ShutDown))
    }

    /// Runs a future on the queue's workers, in the pod of the CPU that the caller runs on. One
    /// allocation, for the task.
    ///
    /// Each poll is an item of the queue. A future that waits is in no queue: `drain`, `shutdown`
    /// and the drop of the last handle do not wait for it; when it is woken after that, it is
    /// dropped.
    ///
    /// # Errors
    /// Hands `future` back if the queue is shut down.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<Task<F::Output>, Refused<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        task::spawn(&self.handle.shared, future)
    }

    /// Calls `body` with a scope through which it can queue work that borrows from outside, and
    /// waits until all of it is over.
    ///
    /// # Panics
    /// With what `body` threw, or else with what the first of the scope's items threw, after all
    /// of them are over.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope WorkScope<'scope, 'env, P>) -> R,
    ) -> R {
        scope::run(self, body)
    }

    /// Runs `work` on one of the queue's workers and waits for its result: there,
    /// [`join`](crate::join) finds others to help. On such a worker already, `work` is called at
    /// once. Allocates nothing.
    ///
    /// # Errors
    /// Hands `work` back if the queue is shut down.
    ///
    /// # Panics
    /// With what `work` threw.
    #[track_caller]
    pub fn install<F, R>(&self, work: F) -> Result<R, Refused<F>>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        if Seat::<P>::here().is_some_and(|seat| self.shared().set.has(seat)) {
            return Ok(work());
        }
        match self.enter(Target::Here) {
            Ok(entry) => Ok(install::<P, _, _>(entry, work)),
            Err(reason) => Err(Refused::new(work, reason)),
        }
    }

    /// Calls `body` with each element of `elements`, on as many of the queue's workers as find
    /// time, and waits for all of them. Who is late is relieved by those who are done.
    ///
    /// # Errors
    /// Hands `body` back, uncalled, if the queue is shut down.
    ///
    /// # Panics
    /// With what the first call of `body` to panic threw. Other elements may be done or not.
    pub fn for_each_mut<T, F>(&self, elements: &mut [T], body: F) -> Result<(), Refused<F>>
    where
        T: Send,
        F: Fn(&mut T) + Sync + Send,
    {
        let workers = self.shared().set.worker_limit();
        let each = |piece: &mut [T]| piece.iter_mut().for_each(&body);
        let run = || spread::<P, _>(elements, workers, &each);
        match self.install(run).map_err(|refused| refused.reason()) {
            Ok(()) => Ok(()),
            Err(reason) => Err(Refused::new(body, reason)),
        }
    }

    /// Calls `body` with ranges that cover `numbers` and do not overlap, on as many of the queue's
    /// workers as find time, and waits for all of them. How long the ranges are depends on who
    /// finds time.
    ///
    /// # Errors
    /// Hands `body` back, uncalled, if the queue is shut down.
    ///
    /// # Panics
    /// With what the first call of `body` to panic threw. Other ranges may be done or not.
    pub fn for_each_range<F>(&self, numbers: Range<usize>, body: F) -> Result<(), Refused<F>>
    where
        F: Fn(Range<usize>) + Sync + Send,
    {
        let workers = self.shared().set.worker_limit();
        match self
            .install(|| spread::<P, _>(numbers, workers, &body))
            .map_err(|refused| refused.reason())
        {
            Ok(()) => Ok(()),
            Err(reason) => Err(Refused::new(body, reason)),
        }
    }

    /// Counts an item in; whoever sends it answers for what it borrows.
    #[inline]
    pub(crate) fn enter(&self, target: Target) -> Result<Entry<'_, P>, RefusedReason> {
        let shared = self.shared();
        let (lane, door) = match target {
            Target::Here => shared.lane_here(),
            Target::Cpu(cpu) => {
                let route = shared.set.route_to(cpu).ok_or(RefusedReason::NoSuchCpu(cpu))?;
                (&shared.lanes[route.0], route.1)
            }
            Target::Node(node) => {
                let route = shared.set.route_to_node(node);
                let route = route.ok_or(RefusedReason::NoSuchNode(node))?;
                (&shared.lanes[route.0], route.1)
            }
        };
        lane.enter(door).ok_or(RefusedReason::ShutDown)
    }

    pub(crate) fn timers(&self) -> &Arc<Timers<P>> {
        &self.shared().core.timers
    }

    /// Lets go of this handle; if it was the last, without waiting.
    pub(crate) fn release(self) {
        if let Some(mut handle) = Arc::into_inner(self.handle) {
            handle.leaves_waiting = true;
        }
    }

    /// Waits until nothing that was accepted is left, including what items queue meanwhile.
    ///
    /// # Errors
    /// Where an item of this queue calls it: it would wait for itself.
    pub fn drain(&self) -> Result<(), WouldDeadlock> {
        let shared = self.shared();
        if runs_item_of::<P>(|lane| shared.owns(lane)) {
            return Err(WouldDeadlock { queue: self.name().to_owned() });
        }
        shared.wait_empty(None).expect("a wait without a deadline does not time out");
        Ok(())
    }

    /// Takes no more work, and waits until all that was accepted is over, or for `timeout`.
    ///
    /// # Errors
    /// Where work is left when the time is over. It goes on, and the call may be made again.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        self.shared().close();
        self.shared().wait_empty(Some(P::now() + timeout))
    }

    /// What the queue and its pools have done so far.
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

impl<P: Platform> Drop for Handle<P> {
    fn drop(&mut self) {
        self.shared.close();
        Guests::leave(&self.shared);
        if !self.leaves_waiting && !runs_item_of::<P>(|lane| self.shared.owns(lane)) {
            self.shared.wait_empty(None).expect("a wait without a deadline does not time out");
            return;
        }
        // One of the queue's own items held the last handle, and cannot wait for itself; or the
        // timekeeper did, for whom others wait.
        let shared = Arc::clone(&self.shared);
        let spec = ThreadSpec { name: "cs-reaper".to_owned(), ..ThreadSpec::default() };
        let reap = move || {
            shared.wait_empty(None).expect("a wait without a deadline does not time out");
        };
        if let Err(error) = P::spawn(spec, Box::new(reap)) {
            tracing::error!(
                queue = %self.shared.core.name, %error,
                "a queue that was dropped inside its own item is never freed"
            );
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

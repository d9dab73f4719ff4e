//! The queue behind its handles.
#![allow(unsafe_code)]

use std::sync::{Arc, OnceLock, Weak};

use coreshard_platform::user;
use coreshard_platform::{ForkHook, Lock, Platform, Reading, Time, fields};
use coreshard_topology::CpuId;

use super::generations::Generations;
pub(crate) use super::generations::Origin;
use super::link::{
    Capacity, CountedIn, PanicReport, PoolLink, QueueCore, SetAside, SubmitPermit, WhenFull,
    runs_item_of,
};
use super::machine::{Collected, Machine, Queue};
use super::waiting_tasks::TaskCounts;
use crate::base::error::{
    BuildError, BuildErrorKind, RefusedReason, ShutdownTimeout, WouldDeadlock,
};
use crate::config::request::{MaxActive, Request};
use crate::insight::stats::QueueStats;
use crate::insight::{Insight, Times};
use crate::pool::{Lease, Retiring, is_waited_for_by};
use crate::timers::Timers;

/// Freed when no handle is left and all items have finished.
pub(crate) struct Shared<P: Platform> {
    pub(crate) core: Arc<QueueCore<P>>,
    pub(super) generations: Generations<P>,
    machine: Arc<Machine<P>>,
    /// The attributes in force, as requested. Locked during a change, so that there is one change at a time.
    request: Lock<P, Request>,
    pub(crate) task_counts: TaskCounts<P>,
}
fields!(Shared<P: Platform> { core, generations, machine, request, task_counts });

impl<P: Platform> Shared<P> {
    /// Returns `None` if a pool serves as many queues as it can.
    pub(crate) fn new(
        request: Request,
        lease: Lease<P>,
        machine: Arc<Machine<P>>,
    ) -> Option<Arc<Self>> {
        let core = Arc::new(QueueCore {
            name: request.name.clone(),
            panics: PanicReport::new(request.panic_handler.clone(), request.panic_policy),
            is_ordered: request.max_active == MaxActive::Ordered,
            is_serial: request.is_serial,
            capacity: request.capacity.map(Capacity::new),
            timers: Arc::clone(&machine.timers),
            queue: OnceLock::new(),
            backlog: Lock::new(SetAside::default()),
            handle: OnceLock::new(),
            machine: Arc::downgrade(&machine),
            insight: Insight::new(request.insight, lease.set().routes().len()),
        });
        let generations = Generations::new(lease, &core, request.max_active)?;
        let request = Lock::new(request);
        let task_counts = TaskCounts::new(generations.set().pools().count());
        let shared = Arc::new(Self { core, generations, machine, request, task_counts });
        P::describe(Arc::as_ptr(&shared));
        shared.generations.describe();
        let hook: Weak<Self> = Arc::downgrade(&shared);
        let _ = shared.core.queue.set(Weak::<Self>::clone(&hook));
        P::on_fork(hook);
        Some(shared)
    }

    pub(crate) fn name(&self) -> &str {
        &self.core.name
    }

    pub(crate) fn timers(&self) -> &Arc<Timers<P>> {
        &self.core.timers
    }

    /// Counts an item in at the pod of `cpu`, using the caller's own injector if the caller is in the same pod. An item of an
    /// existing task is accepted even while the queue is drained.
    #[inline]
    pub(crate) fn enter_near(
        &self,
        cpu: CpuId,
        origin: Origin,
        when_full: WhenFull,
    ) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        self.generations.enter_near(cpu, origin, when_full)
    }

    /// Returns how many workers may run at once.
    pub(super) fn worker_limit(&self) -> usize {
        self.generations.current(&Reading::begin()).set.worker_limit()
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.generations.is_forked()
    }

    /// Closes the queue after its last handle was dropped, and releases frozen items, since nothing can thaw them.
    pub(super) fn close_for_good(&self) {
        self.shut_down();
        self.generations.thaw_limits();
    }

    /// Ends a queue whose last handle was dropped: waits for the last item, and then for the workers that no other queue needs.
    /// If tasks of the queue still wait for something, its memory remains; those tasks are dropped once they are woken.
    pub(super) fn end(&self) {
        self.wait_empty(None).expect("a wait without a deadline does not time out");
        self.generations.let_go();
        self.core.discard_backlog();
    }

    fn refuse_inside(&self, what: &'static str) -> Result<(), WouldDeadlock> {
        if self.is_forked() {
            return Err(WouldDeadlock::forked(self.name(), what));
        }
        if self.waits_for_caller() {
            return Err(WouldDeadlock::inside(self.name(), what));
        }
        Ok(())
    }

    /// Returns true if an item of the queue cannot finish before the caller returns: the caller runs inside it, or inside a
    /// reusable item that was queued here in the meantime.
    pub(super) fn waits_for_caller(&self) -> bool {
        runs_item_of::<P>(|link| Arc::ptr_eq(&self.core, &link.core))
            || is_waited_for_by::<P>(self.core.queue_id())
    }

    /// Returns false if the deadline came first; the queue then accepts items again.
    pub(super) fn drain(&self, deadline: Option<Time>) -> Result<bool, WouldDeadlock> {
        self.refuse_inside("drained")?;
        self.generations.begin_drain();
        let drained = self.wait_empty(deadline);
        self.generations.end_drain();
        Ok(drained.is_ok())
    }

    /// Returns false if the deadline came first.
    pub(super) fn flush(&self, deadline: Option<Time>) -> Result<bool, WouldDeadlock> {
        self.refuse_inside("flushed")?;
        Ok(self.generations.flush(deadline, &self.machine.event))
    }

    pub(super) fn set_frozen(self: &Arc<Self>, is_frozen: bool) -> Result<(), BuildError> {
        self.change_by(|_| {
            let Some(lease) = self.generations.lease() else { return Ok(()) };
            self.generations.change(lease, |limits| limits.set_frozen(is_frozen))
        })
    }

    fn change_by(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Request) -> Result<(), BuildErrorKind>,
    ) -> Result<(), BuildError> {
        let changed = if self.is_forked() {
            Err(BuildErrorKind::Forked)
        } else {
            change(&mut self.request.lock())
        };
        changed.map_err(|kind| BuildError::new(format!("workqueue {:?}", self.name()), kind))?;
        // Workers that only past items needed exit now, or when these items have finished.
        if self.generations.reap() {
            let queue: Weak<Self> = Arc::downgrade(self);
            self.machine.monitor.retire(queue);
        }
        Ok(())
    }

    /// Changes the queue's attributes. Items that were queued before stay in their pools and run there; later items use the new
    /// attributes.
    pub(crate) fn change(
        self: &Arc<Self>,
        edit: impl FnOnce(&mut Request),
    ) -> Result<(), BuildError> {
        self.change_by(|request| {
            let mut wanted = request.clone();
            edit(&mut wanted);
            if self.core.is_ordered != (wanted.max_active == MaxActive::Ordered) {
                return Err(BuildErrorKind::OrderedLimit);
            }
            if self.core.capacity.is_some() != wanted.capacity.is_some() {
                return Err(BuildErrorKind::CapacityFixed);
            }
            if wanted.mask != request.mask {
                self.machine.check_mask(wanted.mask.as_ref())?;
            }
            let attributes = self.machine.attributes(&wanted)?;
            // If the queue has ended, there is nothing left to change.
            let Some(current) = self.generations.lease() else { return Ok(()) };
            let lease = if *current.set().attributes == attributes {
                current
            } else {
                self.generations.give_back(current);
                self.machine.lease(attributes, &wanted)?
            };
            self.generations.change(lease, |limits| limits.set_asked(wanted.max_active))?;
            if let (Some(capacity), Some(permits)) = (&self.core.capacity, wanted.capacity) {
                capacity.set(permits);
            }
            *request = wanted;
            Ok(())
        })
    }

    /// Has the monitor start the timekeeper as soon as a thread is available.
    pub(super) fn keep_timers_going(&self) {
        let timers: Weak<Timers<P>> = Arc::downgrade(self.timers());
        self.machine.monitor.retire(timers);
    }
}

impl<P: Platform> ForkHook for Shared<P> {
    fn forked(&self) {
        self.generations.close_in_fork();
    }
}

impl<P: Platform> Queue for Shared<P> {
    fn follow_cpus(self: Arc<Self>) -> Result<(), BuildError> {
        self.change(|_| ())
    }

    fn shut_down(&self) {
        self.generations.close(RefusedReason::ShutDown);
    }

    fn close_after_panic(&self) {
        self.generations.close(RefusedReason::Panicked);
    }

    fn stop(&self) {
        if self.is_forked() {
            return;
        }
        self.core.backlog.lock().collectors += 1;
        for (mut item, CountedIn(link)) in self.generations.stop() {
            // SAFETY: this is its only use.
            match user::call(|| unsafe { item.set_aside() }) {
                Ok(returned) => self.core.backlog.lock().items.extend(returned),
                Err(thrown) => self.core.on_panic(thrown),
            }
            // SAFETY: the pool link that counted it in lives until it is counted as finished, which happens here. A link's head
            // is the start of a pool link.
            if unsafe { PoolLink::<P>::finish(link.cast(), 1) } {
                self.machine.event.notify();
            }
        }
        self.task_counts.drop_waiting();
        self.timers().revoke(self.core.queue_id());
    }

    fn collect(&self, deadline: Time) -> Collected {
        if self.is_forked() {
            return (Vec::new(), self.generations.in_flight());
        }
        let deadline = if self.waits_for_caller() { P::now() } else { deadline };
        let in_flight =
            self.wait_empty(Some(deadline)).map_or_else(|left| left.in_flight(), |()| 0);
        (self.core.backlog.lock().collect(), in_flight)
    }

    fn wait_empty(&self, deadline: Option<Time>) -> Result<(), ShutdownTimeout> {
        if self.is_forked() {
            return Err(ShutdownTimeout::forked(self.generations.in_flight()));
        }
        if self.generations.wait_for_all(deadline, &self.machine.event) {
            Ok(())
        } else {
            Err(ShutdownTimeout::new(self.generations.in_flight()))
        }
    }

    fn stats(&self) -> QueueStats {
        if self.is_forked() {
            let reading = Reading::begin();
            let current = self.generations.current(&reading);
            let counts = (current.queued(), current.done());
            let scope = current.set.attributes.scope;
            return QueueStats::plain(self.name(), scope, counts, Vec::new());
        }
        // First, since it brings the queue's CPU time up to date.
        let set = self.generations.set();
        let pools = set.pools().map(|pool| pool.stats()).collect();
        let counts = self.generations.counts();
        let mut stats = QueueStats::plain(self.name(), set.attributes.scope, counts, pools);
        let (active, waiting, is_frozen) = self.generations.turns();
        (stats.active, stats.waiting, stats.is_frozen) = (active as u64, waiting as u64, is_frozen);
        if let Some(capacity) = &self.core.capacity {
            let counts = capacity.counts();
            stats.capacity = Some(counts.permits);
            stats.capacity_used = counts.taken;
            stats.waiting_producers = counts.waiting;
            stats.refused = counts.refused;
        }
        stats.tally = self.core.insight.tally.read();
        stats.times = self.core.insight.times.as_ref().map(Times::read);
        stats
    }
}

impl<P: Platform> Retiring for Shared<P> {
    fn reap(&self) -> bool {
        self.generations.reap()
    }
}

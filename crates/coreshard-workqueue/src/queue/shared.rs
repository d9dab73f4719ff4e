//! The queue itself, behind its handles.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use coreshard_platform::user::Thrown;
use coreshard_platform::{ForkHook, Lock, Platform, Reading, Time, fields};
use coreshard_topology::CpuId;

use super::capacity::{Capacity, CapacityCounts, WaitingProducer, WhenFull};
use super::claimable::Waiter;
use super::generation::Admission;
pub(crate) use super::generations::{Closed, Origin};
use super::generations::{Generations, NoRoom};
use super::panics::Unclaimed;
use super::pool_link::{Entry, PoolLink, runs_item_of};
use super::queue_core::{ClosesOnPanic, QueueCore};
use super::set_aside::SetAside;
use super::task_counts::TaskCounts;
use crate::base::error::{
    BuildError, BuildErrorKind, RefusedReason, ShutdownTimeout, WouldDeadlock,
};
use crate::base::event::Event;
use crate::base::target::Target;
use crate::insight::stats::QueueStats;
use crate::insight::{Insight, Times};
use crate::pool::{CurrentWorker, Inside, Retiring, SpawnPlace, is_waited_for_by};
use crate::pool::{Lease, PoolSet};
use crate::queue::machine::{Collected, Machine, Queue};
use crate::spec::request::{MaxActive, Request};
use crate::timers::Timers;

/// It is freed when no handle is left and all its items are over.
pub(crate) struct Shared<P: Platform> {
    pub(super) core: Arc<QueueCore<P>>,
    pub(super) generations: Generations<P>,
    pub(super) event: Arc<Event<P>>,
    machine: Arc<Machine<P>>,
    /// What was asked for, and is in force. Held through a change, so that there is one at a time.
    request: Lock<P, Request>,
    pub(crate) task_counts: TaskCounts<P>,
}
fields!(Shared<P: Platform> { core, generations, event, machine, request, task_counts });

impl<P: Platform> Shared<P> {
    /// `None` where a pool serves as many queues as it can.
    pub(crate) fn new(
        request: Request,
        lease: Lease<P>,
        machine: Arc<Machine<P>>,
    ) -> Option<Arc<Self>> {
        let core = Arc::new(QueueCore {
            name: request.name.clone(),
            panic_handler: request.panic_handler.clone(),
            panic_policy: request.panic_policy,
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
        let event = Arc::clone(&machine.event);
        let request = Lock::new(request);
        let task_counts = TaskCounts::new(generations.set().pools().count());
        let shared = Arc::new(Self { core, generations, event, machine, request, task_counts });
        P::describe(Arc::as_ptr(&shared));
        shared.generations.describe();
        let hook: Weak<Self> = Arc::downgrade(&shared);
        let _ = shared.core.queue.set(Weak::<Self>::clone(&hook));
        P::on_fork(hook);
        Some(shared)
    }

    /// Says what the queue's handles share; each has one reference.
    pub(super) fn set_handle(&self, handle: Weak<dyn Any + Send + Sync>) {
        let set = self.core.handle.set(handle);
        debug_assert!(set.is_ok(), "it has its first handle");
    }

    pub(crate) fn name(&self) -> &str {
        &self.core.name
    }

    /// What was thrown, for whoever claims it; else for the panic handler.
    pub(crate) fn unclaimed(&self, thrown: Thrown) -> Unclaimed<P> {
        Unclaimed::of(&self.core, thrown)
    }

    /// A panic that no handle will tell of.
    pub(crate) fn on_panic(&self, thrown: Thrown) {
        self.core.on_panic(thrown);
    }

    pub(crate) fn timers(&self) -> &Arc<Timers<P>> {
        &self.core.timers
    }

    #[inline(always)]
    pub(super) fn enter_here(&self, when_full: WhenFull) -> Result<Entry<'_, P>, RefusedReason> {
        self.generations.enter_here(when_full)
    }

    /// Counts an item in at the pod of `cpu`, by the caller's own injector if it is there, too. One of
    /// a task that exists already is taken while the queue is drained, too.
    #[inline]
    pub(crate) fn enter_near(
        &self,
        cpu: CpuId,
        origin: Origin,
        when_full: WhenFull,
    ) -> Result<Entry<'_, P>, RefusedReason> {
        self.generations.enter_near(cpu, origin, when_full)
    }

    /// The worker on this thread, if there is one, as one that waits for items of this queue.
    pub(super) fn waiter(&self) -> Option<Waiter> {
        Waiter::here::<P>(self.core.queue_id())
    }

    /// Where items can be spawned that are parts of an item of this queue: inside one, where nothing holds
    /// back what the queue is given now.
    pub(super) fn spawn_place(&self, waiter: &Waiter) -> Option<SpawnPlace> {
        let place = waiter.spawns()?;
        let reading = Reading::begin();
        let now = self.generations.current(&reading);
        let worker = CurrentWorker::<P>::here()?;
        (now.admission == Admission::Free && now.set.has(worker)).then_some(place)
    }

    /// True if what that worker does is a part of an item of this queue, on one of its workers.
    pub(super) fn is_part_of_item(&self, waiter: &Waiter) -> bool {
        match waiter.place {
            Inside::Here => true,
            Inside::Elsewhere => CurrentWorker::<P>::here()
                .is_some_and(|worker| self.generations.current(&Reading::begin()).set.has(worker)),
            Inside::No => false,
        }
    }

    /// The pools of the current generation.
    pub(super) fn set(&self) -> Arc<PoolSet<P>> {
        self.generations.set()
    }

    /// True if the caller is inside an item of the queue that has one of its turns.
    pub(super) fn holds_turn(&self) -> bool {
        runs_item_of::<P>(|link| self.owns(link) && link.takes_turns() && !link.only_freezes())
    }

    /// Workers that may run at once.
    pub(super) fn worker_limit(&self) -> usize {
        self.generations.current(&Reading::begin()).set.worker_limit()
    }

    pub(super) fn enter(
        &self,
        target: Target,
        when_full: WhenFull,
    ) -> Result<Entry<'_, P>, RefusedReason> {
        self.generations.enter(target, when_full)
    }

    /// The queue's permits, if it has a capacity.
    pub(super) fn capacity(&self) -> Option<&Arc<Capacity<P>>> {
        self.core.capacity.as_ref()
    }

    /// Joins the producers that wait for a permit; `None` for a queue without a capacity.
    pub(super) fn wait_in_line(&self) -> Option<Result<WaitingProducer<P>, RefusedReason>> {
        self.core.capacity.as_ref().map(|capacity| self.generations.wait_in_line(capacity))
    }

    /// Counts an item in that has a permit, or gives that back.
    pub(super) fn enter_permitted(&self, target: Target) -> Result<Entry<'_, P>, RefusedReason> {
        self.generations.enter_permitted(target, Origin::Outside)
    }

    /// True if `link` is one of this queue's.
    pub(super) fn owns(&self, link: &PoolLink<P>) -> bool {
        Arc::ptr_eq(&self.core, &link.core)
    }

    pub(crate) fn close(&self, closed: Closed) {
        self.generations.close(closed);
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.generations.is_forked()
    }

    /// Lets what waits frozen go, for a queue that nobody can thaw any more.
    pub(super) fn thaw_for_good(&self) {
        self.generations.thaw_limits();
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.generations.in_flight()
    }

    /// The end of a queue whose last handle is gone: waits for the last item, and then for the
    /// workers that nobody else needs. Nothing is left but memory, where tasks of the queue still wait for
    /// something: those are dropped once they are woken.
    pub(crate) fn end(&self) {
        self.wait_empty(None).expect("a wait without a deadline does not time out");
        self.generations.let_go();
        self.discard_backlog();
    }

    /// Waits until nothing is in flight, or until `deadline`.
    pub(crate) fn wait_empty(&self, deadline: Option<Time>) -> Result<(), ShutdownTimeout> {
        if self.is_forked() {
            return Err(ShutdownTimeout::forked(self.in_flight()));
        }
        if self.generations.wait_for_all(deadline, &self.event) {
            Ok(())
        } else {
            Err(ShutdownTimeout::new(self.in_flight()))
        }
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

    /// True if an item of the queue cannot be over before the caller is back: the caller is inside it, or
    /// inside a reusable one that was queued here meanwhile.
    pub(super) fn waits_for_caller(&self) -> bool {
        runs_item_of::<P>(|link| self.owns(link)) || is_waited_for_by::<P>(self.core.queue_id())
    }

    /// Without a deadline it is true. False if that came first: then the queue takes all again.
    pub(super) fn drain(&self, deadline: Option<Time>) -> Result<bool, WouldDeadlock> {
        self.refuse_inside("drained")?;
        self.generations.begin_drain();
        let drained = self.wait_empty(deadline);
        self.generations.end_drain();
        Ok(drained.is_ok())
    }

    /// Without a deadline it is true. False if that came first.
    pub(super) fn flush(&self, deadline: Option<Time>) -> Result<bool, WouldDeadlock> {
        self.refuse_inside("flushed")?;
        Ok(match self.generations.cut(&self.core) {
            Ok(None) => true,
            Ok(Some(awaited)) => self.generations.wait_for(&awaited, deadline, &self.event),
            // No links to tell old from new by: waits for the new ones too.
            Err(NoRoom) => self.wait_empty(deadline).is_ok(),
        })
    }

    pub(super) fn freeze(self: &Arc<Self>) -> Result<(), BuildError> {
        self.set_frozen(true)
    }

    pub(super) fn thaw(self: &Arc<Self>) -> Result<(), BuildError> {
        self.set_frozen(false)
    }

    fn set_frozen(self: &Arc<Self>, is_frozen: bool) -> Result<(), BuildError> {
        self.refuse_forked()?;
        let _one_at_a_time = self.request.lock();
        let Some(lease) = self.generations.lease() else { return Ok(()) };
        self.generations
            .change(lease, &self.core, |limits| limits.set_frozen(is_frozen))
            .map_err(|NoRoom| self.error(BuildErrorKind::TooManyQueues))?;
        self.reap_soon();
        Ok(())
    }

    /// Changes what the queue is. Items that were queued before stay where they are, and run
    /// there; those that come after find the queue as it is then.
    pub(crate) fn change(
        self: &Arc<Self>,
        edit: impl FnOnce(&mut Request),
    ) -> Result<(), BuildError> {
        self.refuse_forked()?;
        let mut request = self.request.lock();
        let mut wanted = request.clone();
        edit(&mut wanted);
        if self.core.is_ordered != (wanted.max_active == MaxActive::Ordered) {
            return Err(self.error(BuildErrorKind::OrderedLimit));
        }
        if self.core.capacity.is_some() != wanted.capacity.is_some() {
            return Err(self.error(BuildErrorKind::CapacityFixed));
        }
        if wanted.mask != request.mask {
            let checked = self.machine.check_mask(wanted.mask.as_ref());
            checked.map_err(|kind| self.error(kind))?;
        }
        let attributes = self.machine.attributes(&wanted).map_err(|kind| self.error(kind))?;
        // Where the queue is gone, nothing is left to change.
        let Some(current) = self.generations.lease() else { return Ok(()) };
        let lease = if *current.set().attributes == attributes {
            current
        } else {
            self.generations.give_back(current);
            self.machine.lease(attributes, &wanted).map_err(|kind| self.error(kind))?
        };
        let asked = wanted.max_active;
        self.generations
            .change(lease, &self.core, |limits| limits.set_asked(asked))
            .map_err(|NoRoom| self.error(BuildErrorKind::TooManyQueues))?;
        if let (Some(capacity), Some(permits)) = (&self.core.capacity, wanted.capacity) {
            capacity.set(permits);
        }
        *request = wanted;
        drop(request);
        self.reap_soon();
        Ok(())
    }

    /// Lets workers go that only past items needed, now or when these are over.
    fn reap_soon(self: &Arc<Self>) {
        if self.generations.reap() {
            let queue: Weak<Self> = Arc::downgrade(self);
            self.machine.monitor.retire(queue);
        }
    }

    /// Has the timekeeper started by the monitor, which tries until it can be.
    pub(super) fn keep_timers_going(&self) {
        let timers: Weak<Timers<P>> = Arc::downgrade(self.timers());
        self.machine.monitor.retire(timers);
    }

    fn refuse_forked(&self) -> Result<(), BuildError> {
        if self.is_forked() { Err(self.error(BuildErrorKind::Forked)) } else { Ok(()) }
    }

    fn error(&self, kind: BuildErrorKind) -> BuildError {
        BuildError::new(format!("workqueue {:?}", self.name()), kind)
    }

    pub(crate) fn stats(&self) -> QueueStats {
        if self.is_forked() {
            let reading = Reading::begin();
            let current = self.generations.current(&reading);
            let counts = (current.queued(), current.done());
            return QueueStats::plain(
                self.name(),
                current.set.attributes.scope,
                counts,
                Vec::new(),
            );
        }
        // First, since it brings the queue's CPU time up to date.
        let set = self.generations.set();
        let pools = set.pools().map(|pool| pool.stats()).collect();
        let insight = &self.core.insight;
        let (queued, run) = self.generations.counts();
        let (active, waiting, is_frozen) = self.generations.turns();
        let counts = self.core.capacity.as_ref().map(|capacity| capacity.counts());
        let of_capacity = |count: fn(&CapacityCounts) -> u64| counts.as_ref().map_or(0, count);
        QueueStats {
            name: self.name().to_owned(),
            scope: set.attributes.scope,
            queued,
            run,
            active: active as u64,
            waiting: waiting as u64,
            is_frozen,
            capacity: counts.as_ref().map(|counts| counts.permits),
            capacity_used: of_capacity(|counts| counts.taken),
            waiting_producers: of_capacity(|counts| counts.waiting),
            refused: of_capacity(|counts| counts.refused),
            tally: insight.tally.read(),
            times: insight.times.as_ref().map(Times::read),
            pools,
        }
    }
}

impl<P: Platform> ForkHook for Shared<P> {
    fn forked(&self) {
        self.generations.close_in_fork();
    }
}

impl<P: Platform> ClosesOnPanic for Shared<P> {
    fn close_after_panic(&self) {
        self.close(Closed::Panicked);
    }
}

impl<P: Platform> Queue for Shared<P> {
    fn follow_cpus(self: Arc<Self>) -> Result<(), BuildError> {
        self.change(|_| ())
    }

    fn shut_down(&self) {
        self.close(Closed::ShutDown);
    }

    fn stop(&self) {
        Self::stop(self);
    }

    fn collect(&self, deadline: Time) -> Collected {
        Self::collect(self, deadline)
    }

    fn wait_empty(&self, deadline: Option<Time>) -> Result<(), ShutdownTimeout> {
        Self::wait_empty(self, deadline)
    }

    fn stats(&self) -> QueueStats {
        Self::stats(self)
    }
}

impl<P: Platform> Retiring for Shared<P> {
    fn reap(&self) -> bool {
        self.generations.reap()
    }
}

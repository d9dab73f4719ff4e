//! A pool: its lock, how items arrive, and how its workers are woken.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Lock, LockGuard, Padded, Platform, Time, fields};

use super::batching::{WakeCost, WakeMeter};
use super::idle_workers::Kick;
use super::link::LinkTag;
use super::placement::{BusyCpus, FreeCpus};
use super::shared::MonitorHandle;
use super::shared::{PoolSettings, PoolShared};
use super::slots::Injectors;
use super::spin::OutsideWaits;
use super::state::State;
use super::waiting_items::Worklist;
use crate::base::error::message_of;
use crate::base::event::Event;
use crate::base::item::{Item, ItemParts};
use crate::base::latch::Latch;
use crate::base::variants::{Intake, Wake};
use crate::config::attributes::{Attributes, Place};
use crate::insight::Tally;
use crate::insight::diagnostic::say;
use crate::insight::stats::PoolStats;
use crate::intake::{self, ToWake};

/// The other pools of a set, the nearest first.
pub(crate) type Neighbours<P> = Arc<[Arc<Pool<P>>]>;

/// The workers of one pod.
pub(crate) struct Pool<P: Platform> {
    shared: PoolShared<P>,
    /// The other pools of the set, until the set ends. They also list this one among theirs.
    neighbours: Lock<P, Option<Neighbours<P>>>,
    /// How long threads outside spin for the end of their jobs.
    outside: OutsideWaits<P>,
    /// Wake-ups that took a system call, and their cost.
    meter: Padded<WakeMeter<P>>,
    pub(super) state: Padded<Lock<P, State<P>>>,
}
fields!(Pool<P: Platform> { shared, neighbours, outside, meter, state });

impl<P: Platform> std::ops::Deref for Pool<P> {
    type Target = PoolShared<P>;
    fn deref(&self) -> &PoolShared<P> {
        &self.shared
    }
}

impl<P: Platform> Pool<P> {
    /// Makes a pool without a worker.
    pub(crate) fn unmanned(
        place: Place,
        attributes: Arc<Attributes>,
        settings: PoolSettings,
        event: Arc<Event<P>>,
        monitor: &Arc<MonitorHandle<P>>,
    ) -> Arc<Self> {
        let (intake, worklist) = match attributes.intake {
            Intake::Locked => (None, Worklist::Locked(Default::default())),
            Intake::LockFree => {
                // A team runs jobs, and no items: of the intake it needs only the wake word.
                let is_team = attributes.team.is_some();
                let (node, injectors) =
                    if is_team { (None, 1) } else { (place.node, place.cpus.len()) };
                let (intake, takers) = Injectors::new(node, injectors);
                (Some(intake), Worklist::LockFree(takers))
            }
        };
        let state = State::new(worklist, monitor.worker_count());
        let monitor = Arc::clone(monitor);
        let pool = Arc::new(Self {
            shared: PoolShared::new(place, attributes, settings, event, monitor, intake),
            neighbours: Lock::new(None),
            outside: OutsideWaits::new(),
            meter: Padded::new(WakeMeter::new()),
            state: Padded::new(Lock::new(state)),
        });
        P::describe(Arc::as_ptr(&pool));
        P::describe(&raw const pool.shared);
        P::describe(Arc::as_ptr(&pool.event));
        P::describe(Arc::as_ptr(&pool.monitor));
        pool.state.describe();
        pool.lock_state().describe_cold();
        pool.intake.iter().for_each(Injectors::describe);
        pool
    }

    /// Identifies the workers that may run one another's items: the workers of the pool if its set is strict, else of the
    /// whole set.
    pub(crate) fn crew(&self) -> usize {
        if self.attributes.strict { std::ptr::from_ref(self).addr() } else { self.set() }
    }

    /// Identifies the pools of the same set.
    pub(crate) fn set(&self) -> usize {
        Arc::as_ptr(&self.attributes).addr()
    }

    /// The other pools of the set; `None` before the set is complete, and after it has ended.
    pub(super) fn neighbours(&self) -> Option<Neighbours<P>> {
        self.neighbours.lock().clone()
    }

    /// Sets the other pools of the set, or removes them. Returns the previous ones.
    pub(super) fn set_neighbours(
        &self,
        neighbours: Option<Neighbours<P>>,
    ) -> Option<Neighbours<P>> {
        std::mem::replace(&mut *self.neighbours.lock(), neighbours)
    }

    #[inline]
    pub(super) fn lock_state(&self) -> PoolGuard<'_, P> {
        self.locked(self.state.lock())
    }

    /// As [`lock_state`](Self::lock_state), if the lock is free.
    #[inline]
    pub(super) fn try_lock_state(&self) -> Option<PoolGuard<'_, P>> {
        self.state.try_lock().map(|state| self.locked(state))
    }

    #[inline]
    fn locked<'pool>(&'pool self, mut state: LockGuard<'pool, P, State<P>>) -> PoolGuard<'pool, P> {
        let since = self.settings.measure_lock.then(P::now);
        state.notice_woken(self);
        PoolGuard { state, since, pool: self }
    }

    /// Enqueues an accepted item of the pool link with this tag at an injector, and wakes a worker if needed.
    #[inline(always)]
    pub(crate) fn push(&self, injector: usize, item: Item, link: LinkTag) {
        match &self.intake {
            Some(intake) => match intake.push(injector, item, link.0) {
                None => {}
                Some(ToWake::Worker(worker)) => self.wake(worker),
                Some(ToWake::Guest) => self.call_guest(),
            },
            None => self.push_locked(item.into_parts(), link),
        }
    }

    /// Called by the producer of a burst that has woken all of the pool's runners-up: wakes a sleeper of a neighbour as a guest.
    #[cold]
    #[inline(never)]
    fn call_guest(&self) {
        if self.shares_workers()
            && let Some(neighbours) = self.neighbours()
        {
            // First: the woken worker looks for a pool that wants guests.
            self.guests.want_another();
            let _ = neighbours.iter().any(|pool| pool.call_another(None));
        }
    }

    /// As [`Self::push`], not inlined: for callers that can afford the call, so that the hot ones have `push` inline.
    #[inline(never)]
    pub(crate) fn push_indirectly(&self, injector: usize, item: Item, link: LinkTag) {
        self.push(injector, item, link);
    }

    /// In parts, which travel in registers: otherwise the item would be on the stack with the other intake as well.
    #[inline(never)]
    fn push_locked(&self, parts: ItemParts, link: LinkTag) {
        let item = Item::from_parts(parts);
        let mut state = self.lock_state();
        state.queued += 1;
        match &mut state.worklist {
            Worklist::Locked(list) => {
                list.push_back((item, link));
                P::touch_write(&raw const list[list.len() - 1]);
            }
            Worklist::LockFree(_) => unreachable!("the locked intake has no lock-free queue"),
        }
        let kick = state.choose_kick(self);
        self.unlock_and_kick(state, kick);
    }

    /// Injectors of the intake; 1 if it is locked.
    pub(crate) fn injectors(&self) -> usize {
        self.intake.as_ref().map_or(1, Injectors::len)
    }

    /// Takes one counter per injector for a pool link, at zero, on cache lines that producers fetch anyway. `None`
    /// if all are in use, or the intake has no such line.
    pub(crate) fn take_counters(&self) -> Option<usize> {
        let intake = self.intake.as_ref()?;
        let mut state = self.lock_state();
        let at = state.cold().free_counters.trailing_zeros() as usize;
        if at >= intake::TAIL_COUNTERS {
            return None;
        }
        state.cold_mut().free_counters &= !(1 << at);
        (0..intake.len()).for_each(|injector| {
            intake.counter(injector, at).into_iter().for_each(|counter| counter.store(0, Relaxed))
        });
        Some(at)
    }

    /// Returns counters of [`Self::take_counters`].
    pub(crate) fn return_counters(&self, at: usize) {
        self.lock_state().cold_mut().free_counters |= 1 << at;
    }

    /// The counter at an injector that [`Self::take_counters`] returned; `None` for any other.
    #[inline]
    pub(crate) fn counter(&self, injector: usize, at: usize) -> Option<&P::AtomicU64> {
        self.intake.as_ref()?.counter(injector, at)
    }

    /// Charges CPU time of items of the pool link with this tag to `tally` from here on.
    pub(crate) fn open_tally(&self, link: LinkTag, tally: &Arc<Tally<P>>) {
        self.accounts.open_tally(link, tally);
    }

    /// Stops that: the pool link ends.
    pub(crate) fn close_tally(&self, link: LinkTag) {
        self.accounts.close_tally(link, &self.slots);
    }

    /// Waits until `done` is open, on a thread that is not one of the pool's workers. Returns false in a process that was
    /// forked since: there it stays closed.
    pub(crate) fn wait_outside(&self, done: &Latch<P>) -> bool {
        if self.settings.may_spin { self.outside.wait(done) } else { done.wait() }
    }

    /// Releases the lock and wakes the chosen worker, in the order of the pool's wake variant.
    #[inline]
    pub(super) fn unlock_and_kick(&self, state: PoolGuard<'_, P>, kick: Option<Kick>) {
        let Some(kick) = kick else { return };
        match self.attributes.wake {
            // A reactor is user code: it is called under no lock.
            Wake::UnderLock if self.attributes.hooks.reactor.is_none() => {
                self.wake_kicked(kick);
                drop(state);
            }
            Wake::UnderLock | Wake::AfterUnlock | Wake::Coalesced => {
                drop(state);
                self.wake_kicked(kick);
            }
        }
    }

    pub(super) fn wake_kicked(&self, Kick { worker, steer_to }: Kick) {
        // It cannot exit before it was woken, so the thread id is still valid.
        match steer_to {
            Some(cpus) => self.steer(worker, cpus, || self.wake(worker)),
            None => self.wake(worker),
        }
    }

    /// Calls `act` while the worker, which is not running, is confined to these CPUs.
    pub(super) fn steer(&self, worker: usize, to: FreeCpus, act: impl FnOnce()) {
        let thread = self.slots.get(worker).thread_id();
        let narrowed = P::set_affinity_of(thread, to.cpus(&self.place));
        act();
        // At once: it is on the right CPU, and from there the kernel may move it.
        if narrowed && !P::set_affinity_of(thread, self.place.roam.iter()) {
            // Not here: the lock may be held, and the subscriber is user code.
            let pod = self.place.pod;
            self.monitor.later(move || {
                tracing::warn!(%pod, worker, "a worker may not run in all of its pod");
            });
        }
    }

    pub(super) fn wake(&self, worker: usize) {
        let slot = self.slots.get(worker);
        let since_ns = P::rough_ns();
        slot.set_called_at(since_ns);
        if slot.parker.unpark_or(|| self.wake_in_reactor()) {
            self.meter.woke(P::rough_ns().saturating_sub(since_ns));
        }
    }

    /// Records the cost of the wake-up of this worker.
    pub(super) fn learn_wake_cost(&self, worker: usize) {
        let called_at_ns = self.slots.get(worker).take_called_at();
        if called_at_ns != 0 {
            self.meter.came(P::rough_ns().saturating_sub(called_at_ns));
        }
    }

    /// The cost of waking a worker.
    pub(crate) fn wake_cost(&self) -> WakeCost {
        self.meter.cost()
    }

    /// Calls the reactor after a worker that waits in it was given a permit.
    #[cold]
    fn wake_in_reactor(&self) {
        let woken = self.attributes.hooks.reactor.as_ref().map(|reactor| reactor.wake());
        if let Some(Err(thrown)) = woken {
            let panic = message_of(thrown.payload());
            say(|| tracing::error!(panic, "a reactor's wake-up panicked"));
        }
    }

    /// As [`call_anybody`](Self::call_anybody), for work that a thread outside has just injected: that thread continues, or
    /// spins until the work has finished.
    pub(super) fn call_beside_here(&self) {
        let own = self.place.injector_here::<P>();
        self.call_beside(Some(BusyCpus { own, producer: None }));
    }

    /// Wakes as many sleepers as a loop that a thread outside has just injected is likely worth.
    pub(crate) fn call_for_loop(&self) {
        let most = self.meter.loop_workers();
        if most == 0 || !self.calls_several() {
            return;
        }
        let own = self.place.injector_here::<P>();
        let busy = Some(BusyCpus { own, producer: None });
        let neighbours = self.neighbours();
        let others = neighbours.as_deref().unwrap_or_default();
        let limit = self.place.limit + others.iter().map(|pool| pool.place.limit).sum::<usize>();
        // The first worker has the item and wakes one itself, and the caller's CPU is not free yet: a worker that is woken
        // while all CPUs are busy may wait long behind another.
        let most = (most as usize - 1).min(limit.saturating_sub(3));
        let called = (0..most).take_while(|_| self.call_another(busy)).count();
        Self::call_several_of(others, most - called);
    }

    /// Wakes up to `most` sleepers of these pools, the first pool's first.
    pub(super) fn call_several_of(pools: &[Arc<Self>], most: usize) {
        let mut left = most;
        for pool in pools {
            while left > 0 && pool.call_another(None) {
                left -= 1;
            }
        }
    }

    /// Records how many workers a loop turned out to be worth.
    pub(crate) fn learn_loop(&self, workers: u32) {
        self.meter.learn_loop(workers);
    }

    /// Wakes a sleeper of this pool or of another.
    pub(super) fn call_anybody(&self) {
        self.call_beside(None);
    }

    fn call_beside(&self, busy: Option<BusyCpus>) {
        if !self.call_thief(busy)
            && let Some(neighbours) = self.neighbours()
        {
            neighbours.iter().any(|pool| pool.call_thief(None));
        }
    }

    /// Wakes a sleeper of this pool, if one more may run, off the `busy` CPUs.
    pub(super) fn call_thief(&self, busy: Option<BusyCpus>) -> bool {
        if self.thieves.are_refused() {
            return false;
        }
        let Some(intake) = &self.intake else { return self.choose_thief(busy) };
        if let Some(worker) = intake.designated().and_then(|_| intake.recall()) {
            let steer_to = self.keep_off(busy, worker);
            self.wake_kicked(Kick { worker, steer_to });
            return true;
        }
        intake.has_unposted() && self.choose_thief(busy)
    }

    /// As [`Self::call_thief`], even if another one is on its way: so the number of woken workers doubles with each wake-up
    /// instead of growing by one.
    pub(super) fn call_another(&self, busy: Option<BusyCpus>) -> bool {
        self.call_thief(busy) || self.thieves.has_more_sleepers() && self.choose_another_thief(busy)
    }

    #[cold]
    fn choose_another_thief(&self, busy: Option<BusyCpus>) -> bool {
        self.choose_under_lock(busy, |state| {
            let may_run = state.active_soon() < state.limit(self) && state.may_steal(self, 1);
            let choose = || state.idle.choose_unnamed(self.intake.as_ref());
            let kick = may_run.then(choose).flatten();
            if kick.is_none() {
                self.thieves.set_has_more_sleepers(false);
            }
            kick
        })
    }

    /// As [`Self::call_thief`], under the lock: a sleeper may be named on no word.
    #[cold]
    fn choose_thief(&self, busy: Option<BusyCpus>) -> bool {
        self.choose_under_lock(busy, |state| {
            let kick = if state.may_steal(self, 1) { state.choose_kick(self) } else { None };
            if kick.is_none() || !state.idle.has_listed() {
                // No sleeper is listed, or no more may run: the next that parks posts itself.
                self.intake.iter().for_each(|intake| intake.set_unposted(false));
            }
            kick
        })
    }

    /// Wakes the worker that `choose` chooses, off the busy CPUs. Returns false if there is none.
    fn choose_under_lock(
        &self,
        busy: Option<BusyCpus>,
        choose: impl FnOnce(&mut State<P>) -> Option<Kick>,
    ) -> bool {
        let mut state = self.lock_state();
        let mut kick = choose(&mut state);
        if let Some(kick) = &mut kick {
            kick.steer_to = self.keep_off(busy, kick.worker);
        }
        let called = kick.is_some();
        self.unlock_and_kick(state, kick);
        called
    }

    /// Returns the CPUs for a thief that is about to be woken, or `None` to leave the choice to the kernel.
    ///
    /// The kernel leaves it on its last CPU if no thread runs there. Otherwise it may move it to its caller's CPU. There it
    /// waits for the end of a time slice: in a virtual machine even if it has slept on an idle CPU, see `placement`. So it is
    /// kept off that CPU if this is likely: its own CPU is busy, or others were moved recently.
    fn keep_off(&self, busy: Option<BusyCpus>, worker: usize) -> Option<FreeCpus> {
        let busy = busy?;
        let slot = self.slots.get(worker);
        // Relaxed, here and below: the values affect only the thief's CPU, not its work.
        let slept_at = slot.slept_at.load(Relaxed) as usize;
        if !self.thieves.were_drawn() && slept_at != busy.own && Some(slept_at) != busy.producer {
            slot.called_from.store(busy.own as u32 + 1, Relaxed);
            return None;
        }
        FreeCpus::beside(busy, self.place.cpus.len())
    }

    /// Called when a worker wakes up: it may have been moved to its caller's CPU.
    pub(super) fn notice_drawn(&self, worker: usize) {
        let called_from = &self.slots.get(worker).called_from;
        let from = called_from.load(Relaxed) as usize;
        if from > 0 {
            called_from.store(0, Relaxed);
            if from - 1 == self.place.injector_here::<P>() {
                self.thieves.set_drawn();
            }
        }
    }

    /// The pool's statistics.
    pub(crate) fn stats(&self) -> PoolStats {
        let cpu_time = self.accounts.charge(&self.slots);
        let state = self.lock_state();
        let counters = &state.cold().counters;
        let queued = match (&self.intake, &state.worklist) {
            (Some(intake), Worklist::LockFree(takers)) => intake.pushed(takers),
            _ => state.queued,
        };
        let (kicks, coalesced_kicks) = state.idle.kicks();
        PoolStats {
            id: self.id,
            scope: self.attributes.scope,
            pod: self.place.pod,
            cpus: self.place.cpus.clone(),
            node: self.place.node,
            worker_limit: self.place.limit,
            workers: state.roster.alive(),
            idle_workers: state.idle.count(),
            blocked_workers: state.roster.blocked(),
            queued,
            run: self.ran(),
            kicks,
            coalesced_kicks,
            wakeups: self.meter.count(),
            repatriated: counters.repatriated,
            stolen: counters.stolen,
            guests: counters.guests,
            presumed_blocked: counters.presumed_blocked,
            hand_overs: counters.hand_overs,
            cpu_time,
            cpu_hogs: counters.cpu_hogs,
            rescues: counters.rescues,
            refused_workers: counters.refused_workers,
            failed_worker_starts: counters.failed_worker_starts,
            lock_holds: counters.lock_holds,
            lock_hold_ns: counters.lock_hold_ns,
            lock_hold_max_ns: counters.lock_hold_max_ns,
            intake_bytes: self.intake.as_ref().map_or(0, Injectors::held_bytes),
        }
    }
}

impl<P: Platform> Drop for Pool<P> {
    fn drop(&mut self) {
        // The monitor exits with the last pool.
        self.monitor.wake();
    }
}

/// The pool's lock, held; measures for how long if measuring is enabled.
pub(super) struct PoolGuard<'pool, P: Platform> {
    state: LockGuard<'pool, P, State<P>>,
    since: Option<Time>,
    pool: &'pool Pool<P>,
}

impl<P: Platform> std::ops::Deref for PoolGuard<'_, P> {
    type Target = State<P>;
    fn deref(&self) -> &State<P> {
        &self.state
    }
}

impl<P: Platform> std::ops::DerefMut for PoolGuard<'_, P> {
    fn deref_mut(&mut self) -> &mut State<P> {
        &mut self.state
    }
}

impl<P: Platform> PoolGuard<'_, P> {
    /// Panics if the pool is left with a broken invariant: a bug in Coreshard.
    #[cold]
    fn check(&self) {
        if let Some(rule) = self.state.broken_rule()
            && !std::thread::panicking()
        {
            let (pod, books) = (self.pool.place.pod, self.state.books());
            panic!("the pool of pod {pod} is left with a rule broken: {rule} ({books})");
        }
    }
}

impl<P: Platform> Drop for PoolGuard<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if P::checks_rules() {
            self.check();
        }
        if let Some(since) = self.since {
            let held_ns = P::now().ns_since(since);
            let counters = &mut self.state.cold_mut().counters;
            counters.lock_holds += 1;
            counters.lock_hold_ns += held_ns;
            counters.lock_hold_max_ns = counters.lock_hold_max_ns.max(held_ns);
        }
    }
}

//! A pool's fields, its lock, and its workers' slots. The protection of the fields:
//!
//! - `I:` set when the pool is made, then only read.
//! - `L:` under the pool's lock.
//! - `A:` atomic, see the field.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::{
    AtomicInt, AtomicPointer, Lock, LockGuard, Padded, Platform, Time, WatchLength, fields,
};

use super::accounts::Accounts;
use super::jobs::JobList;
use super::links::LinkTable;
use super::monitor_handle::MonitorHandle;
use super::placement::FreeCpus;
use super::sizes::{Injectors, MAX_WORKERS, Range};
use super::slot::WorkerSlot;
use super::state::{Kick, State, Worklist};
use crate::base::event::Event;
use crate::base::rungs::{Intake, Wake};
use crate::insight::stats::PoolId;
use crate::spec::attributes::{Attributes, Place};

/// The other pools of a set, the nearest first.
pub(crate) type Neighbours<P> = Arc<[Arc<Pool<P>>]>;

/// The workers of one pod.
pub(crate) struct Pool<P: Platform> {
    /// I: names the pool in the process.
    pub(crate) id: PoolId,
    /// I:
    pub(crate) place: Place,
    /// I:
    pub(crate) attributes: Arc<Attributes>,
    /// I: tells drainers that a pool link they watch has moved.
    pub(crate) event: Arc<Event<P>>,
    /// I: is told when there is work, and sees who waits inside an item.
    pub(super) monitor: Arc<MonitorHandle<P>>,
    /// I: whether lock-hold times are measured.
    pub(super) measure_lock: bool,
    /// I: nanoseconds without work after which a worker goes, but for the last.
    pub(super) idle_timeout: std::time::Duration,
    /// I: whether waiting for work on a CPU can end before the CPU is given up.
    pub(super) may_spin: bool,
    /// I:
    pub(super) most_workers: usize,
    /// I: see [`PoolSettings`].
    pub(super) trusts_at_once: bool,
    /// I (the injectors have their own rules): the lock-free intake, if that is the rung.
    pub(super) queue: Option<Injectors<P>>,
    /// A: set once each, under the lock, before the index is used.
    slots: Box<[SlotPlace<P>]>,
    /// A: indices below have a slot. Written under the lock.
    pub(super) slot_count: P::AtomicU32,
    /// A: claims that were opened to thieves and not yet seen to be used up. Those who look for
    /// open claims look at this first: there is one word, and as many ranges as workers.
    pub(super) open_claims: Padded<P::AtomicU32>,
    /// I: it is a team's.
    pub(super) is_team: bool,
    /// A: of a team: jobs that came from outside; one or more lists.
    pub(super) injected: Box<[Padded<JobList<P>>]>,
    /// A: 1 once jobs were in a list of one of its workers.
    pub(super) uses_lists: P::AtomicU32,
    /// A: of a team: 1 once it is to end, and nobody watches for what comes; Relaxed.
    pub(super) is_ending: P::AtomicU32,
    /// A: of a team: workers that wait for another team, and do what comes from outside meanwhile.
    pub(super) open_waits: P::AtomicU32,
    /// A: [`WatchLength`] of those outside; Relaxed.
    pub(super) outside_watch: P::AtomicU32,
    /// A: [`Crowd`](super::crowd::Crowd) of those outside; Relaxed.
    pub(super) outside_crowd: P::AtomicU32,
    /// A: of a team: jobs in the mail of all workers.
    pub(super) mailed: Padded<P::AtomicU32>,
    /// A: workers that have shared forked jobs since they last rested. Thieves look at this first.
    pub(super) forking: Padded<P::AtomicU32>,
    /// A: 1 while a worker that steals is on its way to the lock, since an item may wait.
    pub(super) lookouts: Padded<P::AtomicU32>,
    /// A: thieves to be steered away from who wakes them, since the kernel drew one there.
    pub(super) drawn: Padded<P::AtomicU32>,
    /// A: 1 while the hogs and those who stand in for them leave no CPU to another thief; Relaxed.
    pub(super) refuses_thieves: P::AtomicU32,
    /// A: 1 if workers may sleep beside the designated waiter; Relaxed: a hint for who calls several.
    pub(super) has_more_sleepers: Padded<P::AtomicU32>,
    /// Its own lock: the other pools of the set, which also have this one among theirs, until the
    /// set goes.
    pub(super) neighbours: Lock<P, Option<Neighbours<P>>>,
    /// A: 1 while a worker watches for work before it sleeps.
    pub(super) watchers: Padded<P::AtomicU32>,
    /// A: the links of the queues that this pool serves, by tag.
    pub(crate) links: LinkTable<P>,
    /// A: items that workers have run.
    pub(super) ran: Padded<P::AtomicU64>,
    /// A: system calls that wake-ups took.
    pub(super) wakeups: Padded<P::AtomicU64>,
    /// A: 1 if a busy worker is to look into the reactor soon.
    pub(super) look_is_due: P::AtomicU32,
    /// Its own lock: see there.
    pub(super) accounts: Accounts<P>,
    pub(super) state: Padded<Lock<P, State<P>>>,
}
fields!(Pool<P: Platform> {
    id, place, attributes, event, monitor, measure_lock, idle_timeout, may_spin, most_workers, trusts_at_once,
    queue, slots, slot_count, open_claims, is_team, injected, uses_lists, is_ending, open_waits, outside_watch, outside_crowd, mailed, forking, lookouts, drawn, refuses_thieves, has_more_sleepers, neighbours, watchers, links, ran, wakeups,
    look_is_due, accounts, state,
});

/// CPUs whose jobs from outside come into one list, of a team.
const CPUS_TO_A_LIST: usize = 16;

/// How pools of a runtime behave; see `RuntimeBuilder`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSettings {
    pub(crate) measure_lock: bool,
    pub(crate) idle_timeout: std::time::Duration,
    pub(crate) may_spin: bool,
    /// Workers that a pool may have, at most [`MAX_WORKERS`].
    pub(crate) most_workers: usize,
    /// Workers believe from the start that items are short: for models, which have no time to learn it.
    pub(crate) trusts_at_once: bool,
}

impl PoolSettings {
    /// Workers that sleep at once, and time-outs that may run out at any moment.
    #[cfg(all(test, loom))]
    pub(crate) fn for_models() -> Self {
        let idle_timeout = std::time::Duration::from_secs(1);
        let trusts_at_once = false;
        Self {
            measure_lock: false,
            idle_timeout,
            may_spin: false,
            most_workers: MAX_WORKERS,
            trusts_at_once,
        }
    }
}

impl<P: Platform> Pool<P> {
    /// True if the pool was not stopped.
    #[cfg(all(test, loom))]
    pub(crate) fn is_running(&self) -> bool {
        !self.lock().stopping
    }

    /// A pool without a worker.
    pub(crate) fn unmanned(
        place: Place,
        attributes: Arc<Attributes>,
        settings: PoolSettings,
        event: Arc<Event<P>>,
        monitor: &Arc<MonitorHandle<P>>,
    ) -> Arc<Self> {
        let is_team = attributes.team.is_some();
        let (queue, entry) = match attributes.intake {
            Intake::Locked => (None, Worklist::Locked(Default::default())),
            Intake::LockFree => {
                // A team is given jobs, and no items: of all this it needs the wake word.
                let (node, injectors) =
                    if is_team { (None, 1) } else { (place.node, place.cpus.len()) };
                let (queue, takers) = Injectors::new(node, injectors);
                (Some(queue), Worklist::LockFree(takers))
            }
        };
        let injected = if is_team { place.cpus.len().div_ceil(CPUS_TO_A_LIST) } else { 0 };
        let pool = Arc::new(Self {
            id: PoolId::next(),
            place,
            attributes,
            event,
            monitor: Arc::clone(monitor),
            measure_lock: settings.measure_lock,
            idle_timeout: settings.idle_timeout,
            may_spin: settings.may_spin,
            most_workers: settings.most_workers,
            trusts_at_once: settings.trusts_at_once,
            queue,
            slots: (0..MAX_WORKERS).map(|_| SlotPlace::empty()).collect(),
            slot_count: P::AtomicU32::new(0),
            open_claims: Padded::new(P::AtomicU32::new(0)),
            is_team,
            injected: (0..injected).map(|_| Padded::new(JobList::new())).collect(),
            uses_lists: P::AtomicU32::new(0),
            is_ending: P::AtomicU32::new(0),
            open_waits: P::AtomicU32::new(0),
            outside_watch: P::AtomicU32::new(WatchLength::NEW.to_bits()),
            outside_crowd: P::AtomicU32::new(0),
            mailed: Padded::new(P::AtomicU32::new(0)),
            forking: Padded::new(P::AtomicU32::new(0)),
            lookouts: Padded::new(P::AtomicU32::new(0)),
            drawn: Padded::new(P::AtomicU32::new(0)),
            refuses_thieves: P::AtomicU32::new(0),
            has_more_sleepers: Padded::new(P::AtomicU32::new(0)),
            neighbours: Lock::new(None),
            watchers: Padded::new(P::AtomicU32::new(0)),
            links: LinkTable::new(),
            ran: Padded::new(P::AtomicU64::new(0)),
            wakeups: Padded::new(P::AtomicU64::new(0)),
            look_is_due: P::AtomicU32::new(0),
            accounts: Accounts::new(),
            state: Padded::new(Lock::new(State::new(entry, Arc::clone(&monitor.worker_count)))),
        });
        P::describe(Arc::as_ptr(&pool));
        P::describe(Arc::as_ptr(&pool.event));
        P::describe(Arc::as_ptr(&pool.monitor));
        pool.state.describe();
        pool.lock().describe_cold();
        pool.queue.iter().for_each(Injectors::describe);
        pool
    }

    /// Frees the lock and wakes the chosen worker, in the order of the pool's rung.
    #[inline]
    pub(super) fn unlock_and_kick(&self, state: PoolGuard<'_, P>, kick: Option<Kick>) {
        let Some(kick) = kick else { return };
        match self.attributes.wake {
            // A reactor is a user's: it is called under no lock.
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
        // It cannot end before it was woken, so the thread is its own.
        match steer_to {
            Some(injectors) => self.steer(worker, injectors, || self.wake(worker)),
            None => self.wake(worker),
        }
    }

    /// Calls `act` while the worker, which is not running, may be placed at these injectors only.
    pub(super) fn steer(&self, worker: usize, injectors: FreeCpus, act: impl FnOnce()) {
        let thread = self.slot(worker).thread_id();
        let narrowed = P::set_affinity_of(thread, injectors.cpus(&self.place));
        act();
        // At once: it is where it should be, and from there the kernel may do as it likes.
        if narrowed && !P::set_affinity_of(thread, self.place.roam.iter()) {
            // Not here: the lock may be held, and whoever listens is a user's.
            let pod = self.place.pod;
            self.monitor.later(move || {
                tracing::warn!(%pod, worker, "a worker may not run in all of its pod");
            });
        }
    }

    pub(super) fn wake(&self, worker: usize) {
        if self.slot(worker).parker.unpark_or(|| self.wake_in_reactor()) {
            self.wakeups.fetch_add(1, Relaxed);
        }
    }

    #[inline]
    #[allow(unsafe_code)]
    pub(super) fn slot(&self, index: usize) -> &WorkerSlot<P> {
        let slot = self.slots[index].slot.load(Acquire);
        assert!(!slot.is_null(), "worker {index} has a slot before anybody knows it");
        // SAFETY: slots are made by `ensure_slot`, never replaced, and freed with the pool.
        unsafe { &*slot }
    }

    /// Called under the lock, before the index is handed out.
    pub(super) fn ensure_slot(&self, index: usize) {
        let place = &self.slots[index];
        if place.slot.load(Relaxed).is_null() {
            P::describe(&raw const *place);
            let slot = Box::into_raw(Box::new(WorkerSlot::new()));
            P::describe(slot.cast_const());
            // Release pairs with the Acquire of `slot`.
            place.slot.store(slot, Release);
            let count = u32::try_from(index + 1).expect("fewer workers than 2³²");
            if self.slot_count.load(Relaxed) < count {
                self.slot_count.store(count, Release);
            }
        }
    }

    /// The slots of all workers there ever were.
    pub(super) fn each_slot(&self) -> impl Iterator<Item = (usize, &WorkerSlot<P>)> {
        (0..self.slot_count.load(Acquire) as usize).map(|at| (at, self.slot(at)))
    }

    /// The ranges of all workers, for thieves and for those who look whether work is left.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (usize, &Range<P>)> {
        self.each_slot().flat_map(|(at, slot)| slot.ranges.iter().map(move |range| (at, range)))
    }

    /// True if a claim has items that a thief could take.
    pub(super) fn has_open_items(&self) -> bool {
        self.open_claims.load(Acquire) > 0 && self.ranges().any(|(_, range)| range.has_items())
    }

    #[inline]
    pub(super) fn lock(&self) -> PoolGuard<'_, P> {
        self.locked(self.state.lock())
    }

    /// As [`lock`](Self::lock), if it is free.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<PoolGuard<'_, P>> {
        self.state.try_lock().map(|state| self.locked(state))
    }

    #[inline]
    fn locked<'pool>(&'pool self, mut state: LockGuard<'pool, P, State<P>>) -> PoolGuard<'pool, P> {
        let since = self.measure_lock.then(P::now);
        if state.designated.is_some() || state.runner_ups != 0 {
            state.notice_woken(self);
        }
        PoolGuard { state, since, pool: self }
    }

    /// True if workers may leave those who sleep alone while their items are short: not where a rescuer promises progress,
    /// nor in a team.
    pub(super) fn may_vouch(&self) -> bool {
        !self.is_team && self.attributes.rescuer.is_none()
    }

    /// Names those workers that may run one another's items: of the pool where its set is strict, of
    /// all the set else.
    pub(crate) fn crew(&self) -> usize {
        if self.attributes.strict { std::ptr::from_ref(self).addr() } else { self.set() }
    }

    /// Names the pools of the same set.
    pub(crate) fn set(&self) -> usize {
        Arc::as_ptr(&self.attributes).addr()
    }
}

impl<P: Platform> Drop for Pool<P> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // It goes with the last pool.
        self.monitor.wake();
        for SlotPlace { slot } in &self.slots {
            let slot = slot.load(Relaxed);
            if !slot.is_null() {
                // SAFETY: made by `Box::into_raw` in `ensure_slot`; the last reference to the
                // pool is gone, so nobody looks at it any more.
                drop(unsafe { Box::from_raw(slot) });
            }
        }
    }
}

/// Where a worker's slot is found by its index; null before it has one.
struct SlotPlace<P: Platform> {
    slot: P::AtomicPtr<WorkerSlot<P>>,
}
fields!(SlotPlace<P: Platform> { slot });

impl<P: Platform> SlotPlace<P> {
    fn empty() -> Self {
        Self { slot: P::AtomicPtr::new(std::ptr::null_mut()) }
    }
}

/// The pool's lock, held; measures how long where that is asked for.
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
    /// Panics where the pool is left with a rule broken: a bug of ours.
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

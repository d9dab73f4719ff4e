//! A pool: the workers of one pod, their intake, and who sleeps. `README.md` beside this file
//! tells the protocol; the protection of the fields:
//!
//! - `I:` set when the pool is made, then only read.
//! - `L:` under the pool's lock.
//! - `A:` atomic, see the field.

mod accounts;
mod blocking;
mod check;
mod deque;
#[cfg(all(test, loom))]
mod deque_loom_tests;
mod forks;
mod idle;
mod job;
mod kick;
mod link;
mod links;
#[cfg(all(test, loom))]
mod loom_tests;
mod monitor;
mod placement;
mod rescuer;
mod running;
mod scan;
mod set;
mod state;
mod worker;
mod worker_count;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::{
    AtomicInt, AtomicPointer, Lock, LockGuard, Padded, Parker, Platform, SpawnError, ThreadId,
    Time, fields,
};

use crate::base::event::Event;
use crate::base::item::{Item, ItemKind, Name};
use crate::base::rungs::Intake;
use crate::insight::stats::{PoolId, PoolStats};
use crate::intake;
use crate::spec::attributes::{Attributes, Place};
use accounts::Accounts;
use deque::Deque;
use forks::Neighbours;
use kick::Kick;
pub(crate) use link::{LinkHead, QueueSide};
pub(crate) use links::{LinkTable, LinkTag};
pub(crate) use monitor::{Follower, Monitor, Retiring};
use placement::FreeCpus;
use state::{State, Worklist};

pub use blocking::blocking;
pub(crate) use blocking::blocking_if_relieved;
pub(crate) use deque::{Popped, Pushed};
pub(crate) use forks::CurrentWorker;
pub(crate) use job::{Header, Job, execute};
pub(crate) use running::{
    Frame, Inside, innermost, inside, inside_forker, inside_item, inside_work, is_waited_for_by,
    report_here, runs_work,
};
pub(crate) use set::{Lease, PoolSet, Route};

/// Items in a segment of a pool's intake: 4 KiB of slots.
#[cfg(not(loom))]
const SEGMENT_ITEMS: usize = 128;
#[cfg(loom)]
const SEGMENT_ITEMS: usize = 2;

/// Workers a pool may have when all but its limit are blocked.
#[cfg(not(loom))]
pub(crate) const MAX_WORKERS: usize = 512;
#[cfg(loom)]
pub(crate) const MAX_WORKERS: usize = 3;

type Injectors<P> = intake::Injectors<P, Item, SEGMENT_ITEMS>;
type SegmentQueue<P> = intake::SegmentQueue<P, Item, SEGMENT_ITEMS>;
type Takers<P> = intake::Takers<P, Item, SEGMENT_ITEMS>;
type Range<P> = intake::Range<P, Item, SEGMENT_ITEMS>;
type Segment<P> = intake::Segment<P, Item, SEGMENT_ITEMS>;
type Watches<P> = intake::Watches<P, Item, SEGMENT_ITEMS>;
type Claim<P> = intake::Claim<P, Item, SEGMENT_ITEMS>;

/// Where an item's kind and the count of items are in a slot's `begun`: addresses of user space
/// have 48 bits.
const KIND_SHIFT: u32 = 16;
const ITEM_COUNT: u64 = (1 << KIND_SHIFT) - 1;

/// A worker's words that others touch. Made with the first worker that takes the index, freed
/// with the pool, so an index is always good to wake.
struct WorkerSlot<P: Platform> {
    /// A: where the worker sleeps; whoever chose it wakes it.
    parker: Padded<Parker<P>>,
    /// A: what it has claimed, see `intake::Range`.
    range: Padded<Range<P>>,
    /// A: jobs that it has forked, see `deque`.
    deque: Deque<P, Header<P>>,
    /// A: one more than the tag of the pool link of the item that the worker had last, 0 before its
    /// first; written by the worker alone.
    link: Padded<P::AtomicU32>,
    /// A: what the worker has begun last; written by the worker alone. The address of the item's
    /// kind in the upper 48 bits, and the number of items it has begun in the lower 16.
    begun: Padded<P::AtomicU64>,
    /// A: the name of the reusable item's function that the worker is inside of; null for none.
    function: P::AtomicPtr<Name>,
    /// A: the worker's thread, for its CPU time; 0 before it runs.
    thread: P::AtomicU32,
}
fields!(WorkerSlot<P: Platform> { parker, range, deque, link, begun, function, thread });

impl<P: Platform> WorkerSlot<P> {
    /// The worker begins an item. Only it writes the word: no locked instruction.
    #[inline]
    fn begin(&self, kind: &'static ItemKind) {
        let address = std::ptr::from_ref(kind).expose_provenance() as u64;
        let count = self.begun.load(Relaxed).wrapping_add(1) & ITEM_COUNT;
        self.begun.store(address << KIND_SHIFT | count, Relaxed);
    }

    /// The worker begins something else inside the same item.
    #[inline]
    fn begin_inside(&self) {
        let begun = self.begun.load(Relaxed);
        self.begun.store(begun & !ITEM_COUNT | begun.wrapping_add(1) & ITEM_COUNT, Relaxed);
    }

    /// The type name of the function that the worker has begun last.
    #[allow(unsafe_code)]
    fn function(&self) -> &'static str {
        let name = self.function.load(Acquire);
        // SAFETY: null, or from a `&'static Name` in `set_function`.
        if let Some(name) = unsafe { name.as_ref() } {
            return name.get();
        }
        let address = (self.begun.load(Relaxed) >> KIND_SHIFT) as usize;
        let kind = std::ptr::with_exposed_provenance::<ItemKind>(address);
        // SAFETY: null, or exposed by `begin` from a `&'static Kind`.
        unsafe { kind.as_ref() }.map_or("(nothing yet)", |kind| kind.name.get())
    }

    /// Says which reusable item's function the worker is inside of; returns which it was.
    fn set_function(&self, name: *const Name) -> *const Name {
        self.function.swap(name.cast_mut(), Release).cast_const()
    }

    fn thread_id(&self) -> ThreadId {
        ThreadId(self.thread.load(Acquire))
    }

    fn cpu_time(&self) -> Option<std::time::Duration> {
        let thread = self.thread_id();
        if thread == ThreadId(0) { None } else { P::cpu_time_of(thread) }
    }
}

/// The workers of one pod.
pub(crate) struct Pool<P: Platform> {
    /// I: names the pool in the process.
    id: PoolId,
    /// I:
    pub(crate) place: Place,
    /// I:
    pub(crate) attributes: Arc<Attributes>,
    /// I: tells drainers that a pool link they watch has moved.
    pub(crate) event: Arc<Event<P>>,
    /// I: is told when there is work, and sees who waits inside an item.
    monitor: Arc<Monitor<P>>,
    /// I: whether lock-hold times are measured.
    measure_lock: bool,
    /// I: nanoseconds without work after which a worker goes, but for the last.
    idle_timeout: std::time::Duration,
    /// I: whether waiting for work on a CPU can end before the CPU is given up.
    may_spin: bool,
    /// I:
    most_workers: usize,
    /// I (the injectors have their own rules): the lock-free intake, if that is the rung.
    queue: Option<Injectors<P>>,
    /// A: set once each, under the lock, before the index is used.
    slots: Box<[P::AtomicPtr<WorkerSlot<P>>]>,
    /// A: indices below have a slot. Written under the lock.
    slot_count: P::AtomicU32,
    /// A: claims that were opened to thieves and not yet seen to be used up. Those who look for
    /// open claims look at this first: there is one word, and as many ranges as workers.
    open_claims: Padded<P::AtomicU32>,
    /// A: workers that have shared forked jobs since they last rested. Thieves look at this first.
    forking: Padded<P::AtomicU32>,
    /// Its own lock: the other pools of the set, which also have this one among theirs, until the
    /// set goes.
    neighbours: Lock<P, Option<Neighbours<P>>>,
    /// A: 1 while a worker watches for work before it sleeps.
    watchers: Padded<P::AtomicU32>,
    /// A: the links of the queues that this pool serves, by tag.
    pub(crate) links: LinkTable<P>,
    /// A: items that workers have run.
    ran: Padded<P::AtomicU64>,
    /// A: futex calls that wake-ups took.
    wakeups: Padded<P::AtomicU64>,
    /// Its own lock: see there.
    accounts: Accounts<P>,
    state: Padded<Lock<P, State<P>>>,
}
fields!(Pool<P: Platform> {
    id, place, attributes, event, monitor, measure_lock, idle_timeout, may_spin, most_workers,
    queue, slots, slot_count, open_claims, forking, neighbours, watchers, links, ran, wakeups,
    accounts, state,
});

/// How pools of a runtime behave; see `RuntimeBuilder`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSettings {
    pub(crate) measure_lock: bool,
    pub(crate) idle_timeout: std::time::Duration,
    pub(crate) may_spin: bool,
    /// Workers that a pool may have, at most [`MAX_WORKERS`].
    pub(crate) most_workers: usize,
}

impl PoolSettings {
    /// Workers that sleep at once, and time-outs that may run out at any moment.
    #[cfg(all(test, loom))]
    pub(crate) fn for_models() -> Self {
        let idle_timeout = std::time::Duration::from_secs(1);
        Self { measure_lock: false, idle_timeout, may_spin: false, most_workers: MAX_WORKERS }
    }
}

impl<P: Platform> Pool<P> {
    /// True if the pool was not stopped.
    #[cfg(all(test, loom))]
    pub(crate) fn is_running(&self) -> bool {
        !self.lock().stopping
    }

    /// A pool with its first worker, which is running when this returns, and with a monitor.
    pub(crate) fn start(
        place: Place,
        attributes: Arc<Attributes>,
        settings: PoolSettings,
        event: Arc<Event<P>>,
        monitor: &Arc<Monitor<P>>,
    ) -> Result<Arc<Self>, SpawnError> {
        let pool = Self::unmanned(place, attributes, settings, event, monitor);
        monitor.watch(&pool)?;
        pool.man()?;
        Ok(pool)
    }

    /// A pool without a worker.
    pub(crate) fn unmanned(
        place: Place,
        attributes: Arc<Attributes>,
        settings: PoolSettings,
        event: Arc<Event<P>>,
        monitor: &Arc<Monitor<P>>,
    ) -> Arc<Self> {
        let (queue, entry) = match attributes.intake {
            Intake::Locked => (None, Worklist::Locked(Default::default())),
            Intake::LockFree => {
                let (queue, takers) = Injectors::new(place.node, place.cpus.len());
                (Some(queue), Worklist::LockFree(takers))
            }
        };
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
            queue,
            slots: (0..MAX_WORKERS).map(|_| P::AtomicPtr::new(std::ptr::null_mut())).collect(),
            slot_count: P::AtomicU32::new(0),
            open_claims: Padded::new(P::AtomicU32::new(0)),
            forking: Padded::new(P::AtomicU32::new(0)),
            neighbours: Lock::new(None),
            watchers: Padded::new(P::AtomicU32::new(0)),
            links: LinkTable::new(),
            ran: Padded::new(P::AtomicU64::new(0)),
            wakeups: Padded::new(P::AtomicU64::new(0)),
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

    /// After [`Self::stop`]: has a worker again, which is running when this returns.
    pub(crate) fn restart(self: &Arc<Self>) -> Result<(), SpawnError> {
        self.man()
    }

    /// Starts a worker, and the rescuer, if the pool is to have one.
    fn man(self: &Arc<Self>) -> Result<(), SpawnError> {
        let (worker, rescuer) = {
            let mut state = self.lock();
            let mut rescuer = state.reserve_rescuer(self);
            let worker = state.reserve_worker(self);
            state.stopping = worker.is_none();
            match worker {
                Some(_) => state.starting += 1 + u16::from(rescuer.is_some()),
                None => rescuer.take().into_iter().for_each(|at| state.put_handle(at, None)),
            }
            (worker, rescuer)
        };
        let Some(worker) = worker else {
            return Err(SpawnError::refused(
                format!("worker of pod {}", self.place.pod),
                std::io::Error::other(
                    "the runtime has as many workers as it may have; allow it more with \
                     max_workers, or drop a queue",
                ),
            ));
        };
        let (mut started, mut wanted) = self.start_worker(worker);
        match rescuer {
            Some(rescuer) if started.is_ok() => {
                // Nothing is wanted meanwhile: this one is still to come.
                (started, wanted) = self.start_worker(rescuer);
            }
            Some(rescuer) => {
                let mut state = self.lock();
                state.put_handle(rescuer, None);
                state.starting -= 1;
            }
            None => {}
        }
        if let Some(wanted) = wanted {
            self.start_spare(wanted);
        }
        if started.is_err() {
            self.tell_to_go();
        }
        started
    }

    /// Brings an accepted item of the pool link with this tag in, by the injector of the caller's CPU, and wakes a worker if one should be.
    #[inline(always)]
    pub(crate) fn push(&self, injector: usize, item: Item, link: LinkTag) {
        match &self.queue {
            Some(queue) => {
                if let Some(worker) = queue.push(injector, item, link.0) {
                    self.wake(worker);
                }
            }
            None => self.push_locked(item, link),
        }
    }

    /// As [`Self::push`], for callers to whom a call more or less is nothing: so that those to whom
    /// it is something have it inline.
    #[inline(never)]
    pub(crate) fn push_indirectly(&self, injector: usize, item: Item, link: LinkTag) {
        self.push(injector, item, link);
    }

    /// Injectors of the intake; 1 on the locked rung.
    pub(crate) fn injectors(&self) -> usize {
        self.queue.as_ref().map_or(1, Injectors::len)
    }

    /// A counter an injector for a pool link, at zero, on the lines that producers fetch anyway; `None`
    /// where all are taken, or the rung has no such line.
    pub(crate) fn take_counters(&self) -> Option<usize> {
        let queue = self.queue.as_ref()?;
        let mut state = self.lock();
        let at = state.cold().free_counters.trailing_zeros() as usize;
        if at >= intake::TAIL_COUNTERS {
            return None;
        }
        state.cold_mut().free_counters &= !(1 << at);
        (0..queue.len()).for_each(|injector| {
            queue.counter(injector, at).into_iter().for_each(|counter| counter.store(0, Relaxed))
        });
        Some(at)
    }

    /// Takes back what [`Self::take_counters`] gave.
    pub(crate) fn return_counters(&self, at: usize) {
        self.lock().cold_mut().free_counters |= 1 << at;
    }

    /// The counter at an injector that [`Self::take_counters`] gave; `None` for any other.
    #[inline]
    pub(crate) fn counter(&self, injector: usize, at: usize) -> Option<&P::AtomicU64> {
        self.queue.as_ref()?.counter(injector, at)
    }

    fn push_locked(&self, item: Item, link: LinkTag) {
        let mut state = self.lock();
        state.queued += 1;
        match &mut state.worklist {
            Worklist::Locked(list) => list.push_back((item, link)),
            Worklist::LockFree(_) => unreachable!("the locked rung has no lock-free queue"),
        }
        let kick = state.choose_kick(self);
        self.unlock_and_kick(state, kick);
    }

    /// Frees the lock and wakes the chosen worker, in the order of the pool's rung.
    fn unlock_and_kick(&self, state: PoolGuard<'_, P>, kick: Option<Kick>) {
        let Some(kick) = kick else { return };
        match self.attributes.wake {
            crate::base::rungs::Wake::UnderLock => {
                self.wake_kicked(kick);
                drop(state);
            }
            crate::base::rungs::Wake::AfterUnlock | crate::base::rungs::Wake::Coalesced => {
                drop(state);
                self.wake_kicked(kick);
            }
        }
    }

    fn wake_kicked(&self, Kick { worker, steer_to }: Kick) {
        // It cannot end before it was woken, so the thread is its own.
        match steer_to {
            Some(injectors) => self.steer(worker, injectors, || self.wake(worker)),
            None => self.wake(worker),
        }
    }

    /// Calls `act` while the worker, which is not running, may be placed at these injectors only.
    fn steer(&self, worker: usize, injectors: FreeCpus, act: impl FnOnce()) {
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

    fn wake(&self, worker: usize) {
        if self.slot(worker).parker.unpark() {
            self.wakeups.fetch_add(1, Relaxed);
        }
    }

    #[allow(unsafe_code)]
    fn slot(&self, index: usize) -> &WorkerSlot<P> {
        let slot = self.slots[index].load(Acquire);
        assert!(!slot.is_null(), "worker {index} has a slot before anybody knows it");
        // SAFETY: slots are made by `ensure_slot`, never replaced, and freed with the pool.
        unsafe { &*slot }
    }

    /// Called under the lock, before the index is handed out.
    fn ensure_slot(&self, index: usize) {
        if self.slots[index].load(Relaxed).is_null() {
            let slot = WorkerSlot {
                parker: Padded::new(Parker::new()),
                range: Padded::new(Range::new()),
                deque: Deque::new(),
                link: Padded::new(P::AtomicU32::new(0)),
                begun: Padded::new(P::AtomicU64::new(0)),
                function: P::AtomicPtr::new(std::ptr::null_mut()),
                thread: P::AtomicU32::new(0),
            };
            let slot = Box::into_raw(Box::new(slot));
            P::describe(slot.cast_const());
            // Release pairs with the Acquire of `slot`.
            self.slots[index].store(slot, Release);
            let count = u32::try_from(index + 1).expect("fewer workers than 2³²");
            if self.slot_count.load(Relaxed) < count {
                self.slot_count.store(count, Release);
            }
        }
    }

    /// The slots of all workers there ever were.
    fn each_slot(&self) -> impl Iterator<Item = (usize, &WorkerSlot<P>)> {
        (0..self.slot_count.load(Acquire) as usize).map(|at| (at, self.slot(at)))
    }

    /// The ranges of all workers, for thieves and for those who look whether work is left.
    fn ranges(&self) -> impl Iterator<Item = (usize, &Range<P>)> {
        self.each_slot().map(|(at, slot)| (at, &*slot.range))
    }

    /// True if a claim has items that a thief could take.
    fn has_open_items(&self) -> bool {
        self.open_claims.load(Acquire) > 0 && self.ranges().any(|(_, range)| range.has_items())
    }

    fn lock(&self) -> PoolGuard<'_, P> {
        let mut state = self.state.lock();
        let since = self.measure_lock.then(P::now);
        if state.designated.is_some() {
            state.notice_designated(self);
        }
        PoolGuard { state, since, pool: self }
    }

    /// True once the workers were told to go, and all are gone.
    fn is_gone(&self) -> bool {
        let state = self.lock();
        state.stopping && state.starting == 0 && state.alive == 0 && state.has_no_rescuer()
    }

    /// Tells the workers to go when there is nothing left to do.
    pub(crate) fn tell_to_go(&self) {
        let mut state = self.lock();
        state.stopping = true;
        let mut sleepers = state.all_sleepers(self);
        sleepers.extend(state.dismiss_rescuer());
        drop(state);
        for worker in sleepers {
            self.wake(worker);
        }
    }

    /// After [`Self::tell_to_go`]: waits until all are gone; a worker that calls this does not wait for itself.
    fn wait_until_gone(&self) {
        if self.lock().starting > 0 {
            // Whoever starts a worker leaves its thread to be waited for.
            self.event.wait_until(None, || self.lock().starting == 0);
        }
        let threads = self.lock().take_threads(worker::index_in(self));
        for thread in threads {
            coreshard_platform::ThreadHandle::join(thread);
        }
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

    pub(crate) fn stats(&self) -> PoolStats {
        let cpu_time = self.charge();
        let state = self.lock();
        let counters = &state.cold().counters;
        let queued = self.queue.as_ref().map_or(state.queued, Injectors::pushed);
        PoolStats {
            id: self.id,
            scope: self.attributes.scope,
            pod: self.place.pod,
            cpus: self.place.cpus.clone(),
            node: self.place.node,
            worker_limit: self.place.limit,
            workers: state.alive,
            idle_workers: state.idle_count(),
            blocked_workers: state.blocked,
            queued,
            run: self.ran.load(Relaxed),
            kicks: state.kicks,
            coalesced_kicks: state.coalesced_kicks,
            wakeups: self.wakeups.load(Relaxed),
            repatriated: counters.repatriated,
            stolen: counters.stolen,
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
            intake_bytes: self.queue.as_ref().map_or(0, Injectors::held_bytes),
        }
    }
}

impl<P: Platform> Drop for Pool<P> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // It goes with the last pool.
        self.monitor.wake();
        for slot in &self.slots {
            let slot = slot.load(Relaxed);
            if !slot.is_null() {
                // SAFETY: made by `Box::into_raw` in `ensure_slot`; the last reference to the
                // pool is gone, so nobody looks at it any more.
                drop(unsafe { Box::from_raw(slot) });
            }
        }
    }
}

/// The pool's lock, held; measures how long where that is asked for.
struct PoolGuard<'pool, P: Platform> {
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

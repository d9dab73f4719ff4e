//! Which of a queue's generations takes what is queued. `README.md` beside this file tells the
//! protocol.

mod enter;
mod generation;

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::{AtomicInt, AtomicPointer, Lock, Platform, Reading, Time, fields};

use self::generation::Generation;
use super::link::{Capacity, CountedIn, Limits, PoolLink, QueueCore};
use crate::base::error::{BuildErrorKind, RefusedReason};
use crate::base::event::Event;
use crate::base::item::Item;
use crate::config::request::MaxActive;
use crate::pool::{Lease, PoolSet, wait_in_turns};

pub(crate) use self::enter::Origin;
pub(crate) use self::generation::Admission;

/// Generations of the past that a queue keeps though they are empty, the last that were current, to be
/// current again: what `freeze`, `flush` and a change back need is there.
const KEPT_EMPTY: usize = 4;

/// A queue's generations. One of the past is freed after a grace period, so a producer may hold on to it
/// for as long as it is inside a section: it finds that closed, and comes again.
///
/// What producers hold on to, they only ever see through shared references: a generation is not
/// written to once it is made, but for its links' atomics. What changes of it is in [`Kept`], under the
/// lock.
pub(crate) struct Generations<P: Platform> {
    /// Read by every producer; written under the lock. It leads to one of `all`.
    current: P::AtomicPtr<Generation<P>>,
    /// 1 in the child of a fork: the lock may be held there by a thread that is no more.
    forked: P::AtomicU32,
    /// The queue's, if it has one: then each entry holds a permit.
    capacity: Option<Arc<Capacity<P>>>,
    inner: Lock<P, Inner<P>>,
}
fields!(Generations<P: Platform> { current, forked, capacity, inner });

/// All of it `L:`.
struct Inner<P: Platform> {
    /// Those that were current last stand last.
    all: Vec<Kept<P>>,
    /// Out of `all`; producers may still hold on to them.
    removed: Vec<Arc<Generation<P>>>,
    /// Their workers were told to go, and may still be there.
    leaving: Vec<Arc<PoolSet<P>>>,
    /// What those that are out of `all` have counted.
    past: Counts,
    /// How often a generation was made.
    made: u64,
    limits: Limits<P>,
    /// Why it takes nothing more, for good.
    closed: Option<RefusedReason>,
    /// Callers inside `drain`.
    drainers: usize,
    /// The queue is closed and empty, and has no workers any more.
    gone: bool,
}
fields!(Inner<P: Platform> { all, removed, leaving, past, made, limits, closed, drainers, gone });

/// Items of a generation, or of several.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    queued: u64,
    done: u64,
    relayed: u64,
}

/// A generation, and what of it changes.
struct Kept<P: Platform> {
    generation: Arc<Generation<P>>,
    /// Keeps the pools' workers while there are items.
    lease: Option<Lease<P>>,
    /// Callers that wait for its last item.
    waiters: usize,
}

impl<P: Platform> Generations<P> {
    pub(crate) fn new(lease: Lease<P>, core: &Arc<QueueCore<P>>, asked: MaxActive) -> Option<Self> {
        let mut limits = Limits::new(asked, PoolLink::SEND);
        let generation = Generation::new(lease.set(), core, &mut limits)?;
        share_among_nodes(&mut limits, &generation.set);
        generation.open();
        let current = P::AtomicPtr::new(Arc::as_ptr(&generation).cast_mut());
        let first = Kept { generation, lease: Some(lease), waiters: 0 };
        let inner = Inner {
            all: vec![first],
            removed: Vec::new(),
            leaving: Vec::new(),
            past: Counts::default(),
            made: 1,
            limits,
            closed: None,
            drainers: 0,
            gone: false,
        };
        let capacity = core.capacity.clone();
        Some(Self { current, forked: P::AtomicU32::new(0), capacity, inner: Lock::new(inner) })
    }

    /// The current generation, which stays while `reading` goes on.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn current<'a>(&'a self, _reading: &'a Reading<P>) -> &'a Generation<P> {
        // Acquire pairs with the Release in `publish`. SAFETY: it is one of `all`, or was when the section
        // had begun: it is let go of with the generations, or after a grace period from then on. Nobody ever
        // has an exclusive reference to one.
        unsafe { &*self.current.load(Acquire) }
    }

    /// As [`Self::current`], for as long as the caller holds the lock: it stays the current one.
    #[allow(unsafe_code)]
    fn current_of<'a>(&self, _inner: &'a Inner<P>) -> &'a Generation<P> {
        // SAFETY: only under the lock another one becomes current, and this one is not let go of before.
        unsafe { &*self.current.load(Acquire) }
    }

    /// Names the fields, where they have come to their final place.
    pub(crate) fn describe(&self) {
        P::describe(&raw const *self);
        self.inner.describe();
    }

    /// The pools of the current generation.
    pub(crate) fn set(&self) -> Arc<PoolSet<P>> {
        Arc::clone(&self.current(&Reading::begin()).set)
    }

    /// Changes the limits, and makes a generation on the lease's pools current. Items that came
    /// before stay where they are.
    pub(crate) fn change(
        &self,
        lease: Lease<P>,
        limits: impl FnOnce(&mut Limits<P>),
    ) -> Result<(), BuildErrorKind> {
        let mut lease = Some(lease);
        let changed = self.change_to(&mut lease, limits);
        if let Some(lease) = lease {
            self.give_back(lease);
        }
        changed
    }

    /// The lease is taken if it is needed.
    fn change_to(
        &self,
        lease: &mut Option<Lease<P>>,
        limits: impl FnOnce(&mut Limits<P>),
    ) -> Result<(), BuildErrorKind> {
        let mut inner = self.inner.lock();
        if inner.gone {
            return Ok(());
        }
        let before = (inner.limits.asked(), inner.limits.is_frozen());
        limits(&mut inner.limits);
        let Some(next) = inner.prepare(lease, None) else {
            inner.limits.set_asked(before.0);
            inner.limits.set_frozen(before.1);
            return Err(BuildErrorKind::TooManyQueues);
        };
        inner.publish(self, &next);
        Ok(())
    }

    /// Ends a lease that may be the last: then the queue's end waits for those who go, as for all that the queue has had.
    pub(crate) fn give_back(&self, lease: Lease<P>) {
        let mut inner = self.inner.lock();
        let leaving = lease.end();
        if !inner.gone {
            inner.leaving.extend(leaving);
            return;
        }
        drop(inner);
        leaving.iter().for_each(|set| set.wait_until_gone());
    }

    /// The lease of the current generation's pools, to be [given back](Self::give_back); `None` once the queue is gone.
    pub(crate) fn lease(&self) -> Option<Lease<P>> {
        let inner = self.inner.lock();
        inner.kept(self.current_of(&inner)).lease.clone()
    }

    /// Lets all workers go, and waits for them: the queue is closed, and nothing is in flight. Nothing comes any more,
    /// though tasks that it has had may be there for long, and with them its memory.
    pub(crate) fn let_go(&self) {
        let (leases, mut leaving): (Vec<_>, _) = {
            let mut inner = self.inner.lock();
            debug_assert!(inner.closed.is_some(), "nobody can queue");
            inner.gone = true;
            let leases = inner.all.iter_mut().filter_map(|kept| kept.lease.take()).collect();
            (leases, std::mem::take(&mut inner.leaving))
        };
        // All are told before one is waited for: what they do last may take long, or need the others.
        leaving.extend(leases.into_iter().filter_map(Lease::end));
        leaving.iter().for_each(|set| set.wait_until_gone());
    }

    pub(crate) fn close(&self, closed: RefusedReason) {
        if self.is_forked() {
            // It was closed when the process was; the lock may be held by nobody who is here.
            return;
        }
        let mut inner = self.inner.lock();
        let closed = *inner.closed.get_or_insert(closed);
        self.current_of(&inner).close();
        drop(inner);
        if let Some(capacity) = &self.capacity {
            capacity.close(closed);
        }
    }

    /// Closes it; what has not begun is set aside from here on. What waits for its turn comes back: each is one to
    /// be counted as over. What is frozen and runs in any case goes.
    pub(crate) fn stop(&self) -> Vec<(Item, CountedIn<P>)> {
        let mut inner = self.inner.lock();
        let closed = *inner.closed.get_or_insert(RefusedReason::ShutDown);
        self.current_of(&inner).close();
        let links = inner.generations().flat_map(|generation| &generation.links);
        links.for_each(PoolLink::stop);
        let waiting = inner.limits.take_waiting();
        inner.limits.set_frozen(false);
        drop(inner);
        if let Some(capacity) = &self.capacity {
            capacity.close(closed);
        }
        waiting
    }

    /// In the child of a fork: without the lock.
    pub(crate) fn close_in_fork(&self) {
        self.forked.store(1, Release);
        self.current(&Reading::begin()).close();
    }

    /// True in the child of a fork: nobody is there to run anything.
    pub(crate) fn is_forked(&self) -> bool {
        self.forked.load(Acquire) != 0
    }

    /// Until [`Self::end_drain`], items of the queue itself alone can queue further ones.
    pub(crate) fn begin_drain(&self) {
        let mut inner = self.inner.lock();
        inner.drainers += 1;
        self.current_of(&inner).close();
        drop(inner);
        if let Some(capacity) = &self.capacity {
            capacity.begin_drain();
        }
    }

    pub(crate) fn end_drain(&self) {
        if let Some(capacity) = &self.capacity {
            capacity.end_drain();
        }
        let mut inner = self.inner.lock();
        inner.drainers -= 1;
        if inner.takes_all() {
            self.current_of(&inner).open();
        }
    }

    /// Waits until all that was accepted before is over, or the deadline has come: then false. What comes later is
    /// counted elsewhere.
    pub(crate) fn flush(&self, deadline: Option<Time>, event: &Event<P>) -> bool {
        // Without room for further links, the new items cannot be told from the old ones: it waits for both.
        let Some(left) = self.cut() else { return self.wait_for_all(deadline, event) };
        let reached = left.is_empty() || wait_empty(event, deadline, &left);
        let mut inner = self.inner.lock();
        for generation in &left {
            inner.kept_mut(Arc::as_ptr(generation)).waiters -= 1;
        }
        reached
    }

    /// Closes the generations that have items for good, and returns them. They stay until the caller is counted out of
    /// their waiters.
    fn cut(&self) -> Option<Vec<Arc<Generation<P>>>> {
        let mut inner = self.inner.lock();
        let left: Vec<_> =
            inner.generations().filter(|generation| generation.in_flight() > 0).cloned().collect();
        // Asked once: what is waited for takes nothing from here on, though it may be empty by now.
        let current = ptr::from_ref(self.current_of(&inner));
        if left.iter().any(|generation| ptr::eq(&**generation, current)) {
            let mut lease = inner.kept(current).lease.clone();
            let next = inner.prepare(&mut lease, Some(current))?;
            inner.publish(self, &next);
        }
        for generation in &left {
            inner.kept_mut(Arc::as_ptr(generation)).waiters += 1;
        }
        Some(left)
    }

    /// Waits until nothing is in flight, or until `deadline`. True if nothing is.
    pub(crate) fn wait_for_all(&self, deadline: Option<Time>, event: &Event<P>) -> bool {
        // A generation that is made meanwhile is empty, or looked at in the next round.
        loop {
            let (all, made): (Vec<_>, _) = {
                let inner = self.inner.lock();
                (inner.generations().cloned().collect(), inner.made)
            };
            if !wait_empty(event, deadline, &all) {
                return false;
            }
            if self.inner.lock().made == made {
                return true;
            }
        }
    }

    /// Lets what waits frozen go.
    pub(crate) fn thaw_limits(&self) {
        self.inner.lock().limits.set_frozen(false);
    }

    /// Items that were queued and that are over, of all generations.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let inner = self.inner.lock();
        let mut counts = inner.past;
        inner.generations().for_each(|generation| counts.add(generation));
        (counts.queued.saturating_sub(counts.relayed), counts.done.saturating_sub(counts.relayed))
    }

    pub(crate) fn in_flight(&self) -> u64 {
        if self.is_forked() {
            return self.current(&Reading::begin()).in_flight();
        }
        self.inner.lock().generations().map(|generation| generation.in_flight()).sum()
    }

    /// Items with a turn and without, where the queue has a limit; and whether it is frozen.
    pub(crate) fn turns(&self) -> (usize, usize, bool) {
        let inner = self.inner.lock();
        let (active, waiting) = inner.limits.counts();
        (active, waiting, inner.limits.is_frozen())
    }

    /// Lets the workers of past generations go whose last item is over, and what nobody needs any more.
    /// True if some workers are still needed. Nobody waits for those that go: what a user does on them may
    /// never end.
    pub(crate) fn reap(&self) -> bool {
        let (left, removed, _gone) = {
            let mut inner = self.inner.lock();
            let current = ptr::from_ref(self.current_of(&inner));
            let (leases, left) = inner.reap(current);
            inner.remove_empty(current);
            let gone: Vec<_> = inner.leaving.extract_if(.., |set| !set.is_leaving()).collect();
            // Under the same lock: the queue's end waits for all who were told to go.
            inner.leaving.extend(leases.into_iter().filter_map(Lease::end));
            (left, std::mem::take(&mut inner.removed), gone)
        };
        if !removed.is_empty() && !P::try_grace_period() {
            // Some producer may still hold on to one: another time.
            self.inner.lock().removed.extend(removed);
        }
        left
    }
}

impl Counts {
    /// `done` first, so that it is never more than `queued`; what is counted twice is counted as such
    /// before.
    fn add<P: Platform>(&mut self, generation: &Generation<P>) {
        self.done += generation.done();
        self.relayed += generation.relayed();
        self.queued += generation.queued();
    }
}

impl<P: Platform> Inner<P> {
    fn takes_all(&self) -> bool {
        self.closed.is_none() && self.drainers == 0
    }

    fn generations(&self) -> impl Iterator<Item = &Arc<Generation<P>>> {
        self.all.iter().map(|kept| &kept.generation)
    }

    fn kept(&self, generation: *const Generation<P>) -> &Kept<P> {
        let kept = self.all.iter().find(|kept| ptr::eq(&*kept.generation, generation));
        kept.expect("what is current or waited for stays")
    }

    fn kept_mut(&mut self, generation: *const Generation<P>) -> &mut Kept<P> {
        let kept = self.all.iter_mut().find(|kept| ptr::eq(&*kept.generation, generation));
        kept.expect("what is current or waited for stays")
    }

    /// A generation on the lease's pools: one from the past that nobody waits for, or a new one.
    /// Where `but` is given it is another than that, and empty. The lease is taken if it is needed.
    fn prepare(
        &mut self,
        lease: &mut Option<Lease<P>>,
        but: Option<*const Generation<P>>,
    ) -> Option<Arc<Generation<P>>> {
        let set = Arc::clone(lease.as_ref().expect("a queue that goes on has workers").set());
        let admission = Admission::of(&self.limits);
        let known = self.all.iter_mut().find(|kept| {
            let generation = &*kept.generation;
            Arc::ptr_eq(&generation.set, &set)
                && generation.admission == admission
                && kept.waiters == 0
                && but.is_none_or(|but| !ptr::eq(generation, but) && generation.in_flight() == 0)
        });
        let next = match known {
            Some(kept) => {
                if kept.lease.is_none() {
                    kept.lease = lease.take();
                }
                Arc::clone(&kept.generation)
            }
            None => {
                let core = &self.all[0].generation.links[0].core;
                let made = Generation::new(&set, core, &mut self.limits)?;
                let (generation, lease) = (Arc::clone(&made), lease.take());
                self.all.push(Kept { generation, lease, waiters: 0 });
                self.made += 1;
                made
            }
        };
        share_among_nodes(&mut self.limits, &set);
        Some(next)
    }

    /// Makes `next` current and closes the one before it.
    fn publish(&mut self, generations: &Generations<P>, next: &Arc<Generation<P>>) {
        let before = Arc::clone(&self.kept(generations.current_of(self)).generation);
        if Arc::ptr_eq(&before, next) {
            return;
        }
        // Opened first: who finds the old one closed finds this one open.
        if self.takes_all() {
            next.open();
        }
        // Release: who reads the pointer sees the generation.
        generations.current.store(Arc::as_ptr(next).cast_mut(), Release);
        before.close();
        // Stable: the others keep their order.
        self.all.sort_by_key(|kept| Arc::ptr_eq(&kept.generation, next));
    }

    fn reap(&mut self, current: *const Generation<P>) -> (Vec<Lease<P>>, bool) {
        let mut left = false;
        let mut leases = Vec::new();
        for kept in &mut self.all {
            if ptr::eq(&*kept.generation, current) {
                continue;
            }
            // Closed, so once it is empty it stays so.
            if kept.generation.in_flight() > 0 {
                left |= kept.lease.is_some();
                continue;
            }
            leases.extend(kept.lease.take());
        }
        (leases, left)
    }

    /// Takes out what is empty, closed and past, but for the last of it. Nothing can come any more, and
    /// nobody but a producer that is on its way back looks at it.
    fn remove_empty(&mut self, current: *const Generation<P>) {
        let is_empty = |kept: &Kept<P>| {
            let generation = &*kept.generation;
            let is_past = !ptr::eq(generation, current) && kept.waiters == 0;
            is_past && kept.lease.is_none() && generation.in_flight() == 0
        };
        let mut most = self.all.iter().filter(|kept| is_empty(kept)).count();
        most = most.saturating_sub(KEPT_EMPTY);
        let empty: Vec<_> = self
            .all
            .extract_if(.., |kept| {
                let is_out = most > 0 && is_empty(kept);
                most -= usize::from(is_out);
                is_out
            })
            .collect();
        for kept in empty {
            self.past.add(&kept.generation);
            self.removed.push(kept.generation);
        }
    }
}

/// Says to the limits how many CPUs of each node a set uses.
fn share_among_nodes<P: Platform>(limits: &mut Limits<P>, set: &PoolSet<P>) {
    limits.set_cpus(|node| {
        let on_node = set.pods.iter().filter(|pod| pod.node == Some(node));
        on_node.map(|pod| pod.cpus.len()).sum()
    });
}

/// Waits until these generations are empty, or until `deadline`.
fn wait_empty<P: Platform>(
    event: &Event<P>,
    deadline: Option<Time>,
    generations: &[Arc<Generation<P>>],
) -> bool {
    let in_flight = || {
        // All `done` first: an item that queues another and ends is not missed.
        let done: u64 = generations.iter().map(|generation| generation.done()).sum();
        let queued: u64 = generations.iter().map(|generation| generation.queued()).sum();
        queued.saturating_sub(done)
    };
    let mut empty = || {
        // Before the counts are read: a worker that counts later sees the flag.
        generations.iter().for_each(|generation| generation.watch());
        in_flight() == 0
    };
    let reached = in_flight() == 0
        || wait_in_turns::<P>(deadline, |until| event.wait_until(until, &mut empty));
    generations.iter().for_each(|generation| generation.unwatch());
    // Another waiter may have relied on the flags that were just taken down: it looks again.
    event.notify();
    reached
}

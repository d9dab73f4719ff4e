//! Selects the generation that accepts a queue's items. `README.md` beside this file describes the protocol.

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

/// How many past generations a queue keeps although they are empty: the ones that were current last, so that `freeze`, `flush`
/// and a change back can make them current again.
const KEPT_EMPTY: usize = 4;

/// A queue's generations. A past generation is freed after a grace period, so a producer may use it for as long as it is inside
/// a section: it finds the generation closed, and retries.
///
/// Producers only access generations through shared references: a generation is not written after its creation, except for its
/// links' atomics. Its mutable state is in [`Kept`], under the lock.
pub(crate) struct Generations<P: Platform> {
    /// Read by every producer; written under the lock. It points to one of `all`.
    current: P::AtomicPtr<Generation<P>>,
    /// 1 in the child of a fork: there, the lock may be held by a thread that does not exist.
    forked: P::AtomicU32,
    /// The queue's capacity, if it has one: then each item that enters holds a permit.
    capacity: Option<Arc<Capacity<P>>>,
    inner: Lock<P, Inner<P>>,
}
fields!(Generations<P: Platform> { current, forked, capacity, inner });

/// All fields `L:`.
struct Inner<P: Platform> {
    /// In the order of their last time as the current one.
    all: Vec<Kept<P>>,
    /// Removed from `all`; producers may still use them.
    removed: Vec<Arc<Generation<P>>>,
    /// Sets whose workers were told to exit, and may not have done so yet.
    leaving: Vec<Arc<PoolSet<P>>>,
    /// The counts of the generations that were removed from `all`.
    past: Counts,
    /// How many generations were created.
    made: u64,
    limits: Limits<P>,
    /// Why the queue accepts no more items, for good.
    closed: Option<RefusedReason>,
    /// Callers inside `drain`.
    drainers: usize,
    /// The queue is closed and empty, and has no workers any more.
    gone: bool,
}
fields!(Inner<P: Platform> { all, removed, leaving, past, made, limits, closed, drainers, gone });

/// Items of one generation, or of several.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    queued: u64,
    done: u64,
    relayed: u64,
}

/// A generation with its mutable state.
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

    /// Returns the current generation, which lives while `reading` is held.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn current<'a>(&'a self, _reading: &'a Reading<P>) -> &'a Generation<P> {
        // Acquire pairs with the Release in `publish`. SAFETY: it is one of `all`, or was when the section began: it is freed
        // with the generations, or after a grace period that starts later. No thread ever has an exclusive reference to one.
        unsafe { &*self.current.load(Acquire) }
    }

    /// Returns the current generation, as [`Self::current`] does, for as long as the caller holds the lock: it stays current.
    #[allow(unsafe_code)]
    fn current_of<'a>(&self, _inner: &'a Inner<P>) -> &'a Generation<P> {
        // SAFETY: only a holder of the lock makes another one current, and this one is not freed before that.
        unsafe { &*self.current.load(Acquire) }
    }

    /// Labels the fields, once they are at their final address.
    pub(crate) fn describe(&self) {
        P::describe(&raw const *self);
        self.inner.describe();
    }

    /// Returns the pools of the current generation.
    pub(crate) fn set(&self) -> Arc<PoolSet<P>> {
        Arc::clone(&self.current(&Reading::begin()).set)
    }

    /// Changes the limits, and makes a generation on the lease's pools current. Earlier items stay in their pools.
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

    /// Takes the lease out of `lease` if it needs it.
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

    /// Ends a lease that may be the last: the queue's end then waits for the exiting workers, as for all workers that the queue
    /// has had.
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

    /// Returns the lease of the current generation's pools, to be [given back](Self::give_back); `None` once the queue has
    /// ended.
    pub(crate) fn lease(&self) -> Option<Lease<P>> {
        let inner = self.inner.lock();
        inner.kept(self.current_of(&inner)).lease.clone()
    }

    /// Releases all workers, and waits for them to exit: the queue is closed, and nothing is in flight. No items come any more,
    /// but tasks of the queue may exist for long, and keep its memory.
    pub(crate) fn let_go(&self) {
        let (leases, mut leaving): (Vec<_>, _) = {
            let mut inner = self.inner.lock();
            debug_assert!(inner.closed.is_some(), "no item can be queued");
            inner.gone = true;
            let leases = inner.all.iter_mut().filter_map(|kept| kept.lease.take()).collect();
            (leases, std::mem::take(&mut inner.leaving))
        };
        // All are told before any is waited for: their exit hooks may take long, or need other workers.
        leaving.extend(leases.into_iter().filter_map(Lease::end));
        leaving.iter().for_each(|set| set.wait_until_gone());
    }

    pub(crate) fn close(&self, closed: RefusedReason) {
        if self.is_forked() {
            // The queue closed with the parent process; the lock may be held by a thread that does not exist here.
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

    /// Closes the queue, so that items which have not begun are set aside from here on. Returns the items that waited for their
    /// turn; the caller counts each as finished. Frozen items that run in any case are released.
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

    /// Closes the queue in the child of a fork, without the lock.
    pub(crate) fn close_in_fork(&self) {
        self.forked.store(1, Release);
        self.current(&Reading::begin()).close();
    }

    /// Returns true in the child of a fork, which has no workers.
    pub(crate) fn is_forked(&self) -> bool {
        self.forked.load(Acquire) != 0
    }

    /// Lets only items of the queue itself queue further ones, until [`Self::end_drain`].
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

    /// Waits until everything that was accepted before has finished, or returns false at the deadline. Later items are counted
    /// elsewhere.
    pub(crate) fn flush(&self, deadline: Option<Time>, event: &Event<P>) -> bool {
        // Without room for further links, the new items cannot be separated from the old ones: it waits for both.
        let Some(left) = self.cut() else { return self.wait_for_all(deadline, event) };
        let reached = left.is_empty() || wait_empty(event, deadline, &left);
        let mut inner = self.inner.lock();
        for generation in &left {
            inner.kept_mut(Arc::as_ptr(generation)).waiters -= 1;
        }
        reached
    }

    /// Closes the generations that have items for good, and returns them. They are kept until the caller is removed from their
    /// waiters.
    fn cut(&self) -> Option<Vec<Arc<Generation<P>>>> {
        let mut inner = self.inner.lock();
        let left: Vec<_> =
            inner.generations().filter(|generation| generation.in_flight() > 0).cloned().collect();
        // Checked once: the awaited generations accept no items from here on, though they may be empty by now.
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

    /// Waits until nothing is in flight, or until `deadline`. Returns true if nothing is.
    pub(crate) fn wait_for_all(&self, deadline: Option<Time>, event: &Event<P>) -> bool {
        // A generation that is created meanwhile is empty, or checked in the next round.
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

    /// Releases frozen items.
    pub(crate) fn thaw_limits(&self) {
        self.inner.lock().limits.set_frozen(false);
    }

    /// Returns how many items were queued and how many have finished, over all generations.
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

    /// Returns the numbers of items with a turn and without, if the queue has a limit, and whether it is frozen.
    pub(crate) fn turns(&self) -> (usize, usize, bool) {
        let inner = self.inner.lock();
        let (active, waiting) = inner.limits.counts();
        (active, waiting, inner.limits.is_frozen())
    }

    /// Releases the workers of past generations whose last item has finished, and frees unused generations. Returns true if
    /// some workers are still needed. It does not wait for exiting workers, since user code on them may never end.
    pub(crate) fn reap(&self) -> bool {
        let (left, removed, _gone) = {
            let mut inner = self.inner.lock();
            let current = ptr::from_ref(self.current_of(&inner));
            let (leases, left) = inner.reap(current);
            inner.remove_empty(current);
            let gone: Vec<_> = inner.leaving.extract_if(.., |set| !set.is_leaving()).collect();
            // Under the same lock: the queue's end waits for all workers that were told to exit.
            inner.leaving.extend(leases.into_iter().filter_map(Lease::end));
            (left, std::mem::take(&mut inner.removed), gone)
        };
        if !removed.is_empty() && !P::try_grace_period() {
            // A producer may still use one: retry another time.
            self.inner.lock().removed.extend(removed);
        }
        left
    }
}

impl Counts {
    /// Reads `done` first, so that it never exceeds `queued`; items counted twice are counted as such before.
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
        kept.expect("a generation that is current or waited for is kept")
    }

    fn kept_mut(&mut self, generation: *const Generation<P>) -> &mut Kept<P> {
        let kept = self.all.iter_mut().find(|kept| ptr::eq(&*kept.generation, generation));
        kept.expect("a generation that is current or waited for is kept")
    }

    /// Returns a generation on the lease's pools: a past one without waiters, or a new one. If `but` is given, it is another
    /// one than that, and empty. Takes the lease out of `lease` if it needs it.
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

    /// Makes `next` current and closes the previous one.
    fn publish(&mut self, generations: &Generations<P>, next: &Arc<Generation<P>>) {
        let before = Arc::clone(&self.kept(generations.current_of(self)).generation);
        if Arc::ptr_eq(&before, next) {
            return;
        }
        // Opened first: a producer that finds the old one closed finds this one open.
        if self.takes_all() {
            next.open();
        }
        // Release: a thread that reads the pointer sees the generation.
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
            // Closed, so it stays empty once it is empty.
            if kept.generation.in_flight() > 0 {
                left |= kept.lease.is_some();
                continue;
            }
            leases.extend(kept.lease.take());
        }
        (leases, left)
    }

    /// Removes generations that are empty, closed and past, except the most recent ones. No items can enter them any more, and
    /// only producers that are about to retry may still access them.
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

/// Passes to the limits how many CPUs of each node a set uses.
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
        // All `done` first, so that an item which queues another and ends is not missed.
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
    // Another waiter may have relied on the flags that were just cleared, so it must check again.
    event.notify();
    reached
}

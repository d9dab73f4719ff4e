//! How an item enters a queue: it is counted in at the current generation, possibly with a permit.

use std::ptr::NonNull;
use std::sync::Arc;

use coreshard_platform::{Platform, Reading};
use coreshard_topology::CpuId;

use super::generation::Generation;
use super::{Generations, Inner};
use crate::base::error::RefusedReason;
use crate::base::target::Target;
use crate::pool::{CurrentWorker, blocking_if_relieved};
use crate::queue::link::{
    CLOSED, Capacity, GATED, PoolLink, SubmitPermit, WaitingProducer, WhenFull, holds_turn_of,
    runs_item_of,
};

/// The origin of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Any caller: rejected while the queue is drained, unless it is an item of the queue.
    Outside,
    /// A task of the queue that was woken: rejected only by a closed queue.
    WokenTask,
}

/// The destination of an item, and the terms on which it enters.
#[derive(Clone, Copy, Debug)]
struct SubmitRequest {
    target: Target,
    origin: Origin,
    when_full: WhenFull,
}

/// How often a producer checks for a permit before it sleeps.
const LOOKS: u32 = 200;

impl<P: Platform> Generations<P> {
    /// Counts an item in at the caller's pod, if the queue accepts items.
    #[inline(always)]
    pub(crate) fn enter_here(
        &self,
        when_full: WhenFull,
    ) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        self.enter_by(Target::Here, Origin::Outside, when_full, |now| Ok(now.route_here()))
    }

    /// Counts an item in at the pod of `cpu`, using the caller's own injector if the caller is in the same pod.
    #[inline]
    pub(crate) fn enter_near(
        &self,
        cpu: CpuId,
        origin: Origin,
        when_full: WhenFull,
    ) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        self.enter_by(Target::Here, origin, when_full, |now| {
            let here = now.route_here();
            let there = now.set.route_to(cpu).filter(|there| there.0 != here.0);
            Ok(there.unwrap_or(here))
        })
    }

    /// Counts an item in, if the queue accepts items.
    #[inline(always)]
    pub(crate) fn enter(
        &self,
        target: Target,
        when_full: WhenFull,
    ) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        match target {
            Target::Here => self.enter_here(when_full),
            target => self.enter_at(target, when_full),
        }
    }

    fn enter_at(
        &self,
        target: Target,
        when_full: WhenFull,
    ) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        self.enter_by(target, Origin::Outside, when_full, |now| now.route(target))
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    fn enter_by(
        &self,
        target: Target,
        origin: Origin,
        when_full: WhenFull,
        route: impl FnOnce(&Generation<P>) -> Result<(usize, usize), RefusedReason>,
    ) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        let reading = Reading::begin();
        let current = self.current(&reading);
        let (pod, injector) = route(current)?;
        let link = &current.links[pod];
        let before = link.count_in(injector);
        let link = NonNull::from(link);
        if before & CLOSED != 0 {
            // Created here, so that an open link costs no store for it.
            let wanted = SubmitRequest { target, origin, when_full };
            return self.enter_closed(link, injector, reading, before, wanted);
        }
        // SAFETY: a link found in a section lives while the section lasts.
        Ok(unsafe { SubmitPermit::new(link, injector, reading) })
    }

    /// Handles a closed pool link that has counted the item: the link accepts items with a permit, or none at all.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code)]
    fn enter_closed<'queue>(
        &'queue self,
        link: NonNull<PoolLink<P>>,
        injector: usize,
        reading: Reading<P>,
        before: u64,
        wanted: SubmitRequest,
    ) -> Result<SubmitPermit<'queue, P>, RefusedReason> {
        let capacity = self.capacity.as_ref().filter(|_| before & GATED != 0);
        if capacity.is_some_and(|capacity| capacity.let_in(wanted.when_full)) {
            // SAFETY: found in the section that is still open.
            return Ok(unsafe { SubmitPermit::new(link, injector, reading) });
        }
        // SAFETY: as above.
        unsafe { link.as_ref() }.take_count_back(injector);
        drop(reading);
        match capacity {
            Some(capacity) if wanted.when_full != WhenFull::Wait => {
                Err(capacity.refuse_one(wanted.when_full))
            }
            _ => self.enter_slowly(wanted),
        }
    }

    /// Handles a past generation, and a queue that is closed, drained or full.
    #[cold]
    #[inline(never)]
    fn enter_slowly(&self, wanted: SubmitRequest) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        if self.is_forked() {
            return Err(RefusedReason::Forked);
        }
        let SubmitRequest { target, origin, when_full } = wanted;
        let Some(capacity) = &self.capacity else { return self.enter_locked(target, origin) };
        if !capacity.let_in(when_full) {
            if when_full != WhenFull::Wait {
                self.takes(&self.inner.lock(), origin)?;
                return Err(capacity.refuse_one(when_full));
            }
            self.wait_for_permit(capacity)?;
        }
        self.enter_permitted(target, origin)
    }

    /// Counts in an item that has a permit, or gives the permit back.
    pub(crate) fn enter_permitted(
        &self,
        target: Target,
        origin: Origin,
    ) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        let entered = self.enter_locked(target, origin);
        if entered.is_err()
            && let Some(capacity) = &self.capacity
        {
            capacity.give_back();
        }
        entered
    }

    /// Joins the producers that wait for a permit.
    pub(crate) fn wait_in_line(
        &self,
        capacity: &Arc<Capacity<P>>,
    ) -> Result<WaitingProducer<P>, RefusedReason> {
        if self.is_forked() {
            return Err(RefusedReason::Forked);
        }
        let queue = self.queue_id();
        capacity.wait_in_line(runs_item_of::<P>(|link| link.queue_id() == queue))
    }

    /// Sleeps until the caller has a permit. The caller's worker gives its place away meanwhile. Fails if no worker can take
    /// that place, or if the caller holds a turn that items before it may need: it would wait for itself.
    fn wait_for_permit(&self, capacity: &Arc<Capacity<P>>) -> Result<(), RefusedReason> {
        let waiting = self.wait_in_line(capacity)?;
        let _seen = P::watch(LOOKS, || waiting.is_over());
        if let Some(outcome) = waiting.outcome() {
            return outcome;
        }
        let is_relieved = !holds_turn_of::<P>(self.queue_id()) && {
            let is_own = |worker| self.current(&Reading::begin()).set.has(worker);
            if CurrentWorker::<P>::here().is_some_and(is_own) {
                blocking_if_relieved::<P, _>(|| waiting.sleep_here()).is_some()
            } else {
                waiting.sleep();
                true
            }
        };
        match waiting.outcome() {
            Some(outcome) => outcome,
            None if is_relieved => unreachable!("it has slept until the outcome was set"),
            None => Err(RefusedReason::WouldDeadlock),
        }
    }

    fn queue_id(&self) -> u64 {
        self.current(&Reading::begin()).links[0].queue_id()
    }

    /// Checks whether the queue accepts an item at all.
    fn takes(&self, inner: &Inner<P>, origin: Origin) -> Result<(), RefusedReason> {
        if let Some(closed) = inner.closed {
            return Err(closed);
        }
        if inner.drainers > 0 && origin == Origin::Outside {
            let queue = self.current_of(inner).links[0].queue_id();
            if !runs_item_of::<P>(|link| link.queue_id() == queue) {
                return Err(RefusedReason::Draining);
            }
        }
        Ok(())
    }

    /// Counts an item in, if the queue accepts items.
    #[allow(unsafe_code)]
    pub(crate) fn enter_locked(
        &self,
        target: Target,
        origin: Origin,
    ) -> Result<SubmitPermit<'_, P>, RefusedReason> {
        let reading = Reading::begin();
        let inner = self.inner.lock();
        self.takes(&inner, origin)?;
        let current = self.current_of(&inner);
        // Under the lock it stays current, so its workers exist.
        let (pod, injector) = current.route(target)?;
        let link = &current.links[pod];
        link.count_in(injector);
        // SAFETY: as in `enter_by`; it is not removed before the lock is released.
        Ok(unsafe { SubmitPermit::new(NonNull::from(link), injector, reading) })
    }
}

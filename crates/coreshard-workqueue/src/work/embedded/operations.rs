//! What one does with an item in memory of one's own.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{LockGuard, Platform, Time};

use super::delayed::DelayedEmbedded;
use super::item::{DELAYED, EmbeddedWork, Fields, FunctionName, PENDING, QueueingTicket, READY};
use super::stripe::{Afterwards, RunWaiter, Stripe, StripeState};
use super::token::dispatch;
use super::works::EmbeddedWorks;
use crate::base::error::RefusedReason;
use crate::base::target::Target;
use crate::pool::{runs_work, wait_in_turns};
use crate::queue::{Entry, Workqueue, runs_item_of};
use crate::timers::{Due, TimerError, Timers};
use crate::work::error::{WorkError, WorkErrorKind};
use crate::work::state::MAX_DISABLES;

type Place = NonNull<EmbeddedWork>;

impl<P: Platform> EmbeddedWorks<P> {
    /// As [`Work::queue`](crate::Work::queue): queues it in the pod of the CPU that the caller runs on; false if it was
    /// pending.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    #[inline(always)]
    pub unsafe fn queue(
        &'static self,
        work: NonNull<EmbeddedWork>,
        queue: &Workqueue<P>,
    ) -> Result<bool, WorkError> {
        self.refuse_forked(work)?;
        // SAFETY: by this function's contract.
        unsafe { self.send(work, queue, Target::Here) }
    }

    /// As [`queue`](Self::queue), without a word of why not: `None` where it is not queued and not pending. Not looked at is
    /// whether these are of this process, which the caller has seen to.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    #[inline(always)]
    pub unsafe fn try_queue(
        &'static self,
        work: NonNull<EmbeddedWork>,
        queue: &Workqueue<P>,
    ) -> Option<bool> {
        let stripe = self.stripe(work);
        let mut state = stripe.lock();
        // SAFETY: by this function's contract, as in `send`.
        let item = unsafe { EmbeddedWork::fields(work) };
        if !item.is_free() {
            return if item.is_pending_in(self.pending) { Some(false) } else { None };
        }
        let ticket = state.draw(work, item.ticket)?;
        let entry = queue.enter_beyond(Target::Here).ok()?;
        self.bring(stripe, state, work, item, entry, ticket);
        Some(true)
    }

    /// Sets up what a static initializer has made, and gives it a name for reports; one that is set up stays as it is. Until
    /// then it cannot be queued at once ([`NotSetUp`](crate::WorkErrorReason::NotSetUp)).
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    pub unsafe fn set_up(&'static self, work: NonNull<EmbeddedWork>, name: FunctionName) {
        let _state = self.stripe(work).lock();
        // SAFETY: by this function's contract.
        let item = unsafe { EmbeddedWork::fields(work) };
        if !item.is(READY) {
            // SAFETY: as above.
            unsafe { work.as_ref() }.set_name(name);
            item.flags |= READY;
        }
    }

    /// Queues it now.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    #[inline(always)]
    unsafe fn send(
        &'static self,
        work: Place,
        queue: &Workqueue<P>,
        target: Target,
    ) -> Result<bool, WorkError> {
        let stripe = self.stripe(work);
        let mut state = stripe.lock();
        // SAFETY: by this function's contract, until it is sent: the lock is freed no sooner.
        let item = unsafe { EmbeddedWork::fields(work) };
        if !item.is_free() {
            // A disabled one is never pending.
            let kind = match self.is_pending_here(work, item)? {
                true => return Ok(false),
                false if item.disables == 0 => WorkErrorKind::NotSetUp,
                false => WorkErrorKind::Disabled,
            };
            return Err(error(work, kind));
        }
        let ticket = draw(&mut state, work, item)?;
        let entry = match queue.enter_beyond(target) {
            Ok(entry) => entry,
            Err(reason) => return Err(error(work, WorkErrorKind::Refused(reason))),
        };
        self.bring(stripe, state, work, item, entry, ticket);
        Ok(true)
    }

    /// As [`Work::queue_to`](crate::Work::queue_to): queues it for `target` when `delay` is over; false if it was
    /// pending.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    pub unsafe fn queue_to(
        &'static self,
        work: NonNull<EmbeddedWork>,
        queue: &Workqueue<P>,
        target: Target,
        delay: Duration,
    ) -> Result<bool, WorkError> {
        // SAFETY: by this function's contract.
        let Some(deadline) = unsafe { self.deadline(work, queue, delay) }? else {
            // SAFETY: as above.
            return unsafe { self.send(work, queue, target) };
        };
        let stripe = self.stripe(work);
        let mut state = stripe.lock();
        // SAFETY: by this function's contract, under the lock.
        let item = unsafe { EmbeddedWork::fields(work) };
        if self.is_pending_here(work, item)? {
            return Ok(false);
        }
        if item.disables != 0 {
            return Err(error(work, WorkErrorKind::Disabled));
        }
        check_target(work, queue, target)?;
        let ticket = draw(&mut state, work, item)?;
        self.arm(state, work, queue, target, deadline, ticket).map(|()| true)
    }

    /// As [`Work::modify_to`](crate::Work::modify_to): a queueing that has not begun is replaced; true if there
    /// was one.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    pub unsafe fn modify_to(
        &'static self,
        work: NonNull<EmbeddedWork>,
        queue: &Workqueue<P>,
        target: Target,
        delay: Duration,
    ) -> Result<bool, WorkError> {
        let stripe = self.stripe(work);
        // SAFETY: by this function's contract.
        let deadline = unsafe { self.deadline(work, queue, delay) }?;
        let mut state = stripe.lock();
        // SAFETY: by this function's contract.
        let item = unsafe { EmbeddedWork::fields(work) };
        if item.disables != 0 {
            return Err(error(work, WorkErrorKind::Disabled));
        }
        // A queueing that is pending stays as it is if the queue takes no other.
        let ticket = draw(&mut state, work, item)?;
        let way = match deadline {
            None => Ok(queue
                .enter_beyond(target)
                .map_err(|reason| error(work, WorkErrorKind::Refused(reason)))?),
            Some(deadline) => {
                check_target(work, queue, target)?;
                Err(deadline)
            }
        };
        let was_pending = item.is(PENDING);
        let mut afterwards = Afterwards::nothing();
        if was_pending {
            afterwards = self.make_void(&mut state, item);
        }
        let queued = match way {
            Ok(entry) => {
                item.flags |= self.pending;
                item.ticket = ticket;
                dispatch(stripe, state, work, item, entry);
                Ok(())
            }
            Err(deadline) => self.arm(state, work, queue, target, deadline, ticket),
        };
        afterwards.see_to_it();
        queued.map(|()| was_pending)
    }

    /// As [`Work::flush`](crate::Work::flush): waits until the latest queueing is over; false if there was nothing to wait for.
    /// The item may be freed by its own function meanwhile.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says; when it has begun to wait, the item may be gone.
    pub unsafe fn flush(&'static self, work: NonNull<EmbeddedWork>) -> Result<bool, WorkError> {
        let stripe = self.stripe(work);
        self.refuse_forked(work)?;
        let waiter = RunWaiter::new();
        let mut state = stripe.lock();
        // SAFETY: by this function's contract.
        let item = unsafe { EmbeddedWork::fields(work) };
        // SAFETY: as above.
        let name = unsafe { work.as_ref() }.name();
        let ticket = match state.run_of(work) {
            _ if self.is_pending_here(work, item)? => item.ticket,
            Some(run) => run.ticket,
            None => return Ok(false),
        };
        if is_inside_of::<P>(work) {
            return Err(WorkError::new(name.get(), WorkErrorKind::InsideItself));
        }
        if item.is(PENDING) && !item.is(DELAYED) && is_behind_caller::<P>(item.limiter) {
            return Err(WorkError::new(name.get(), WorkErrorKind::BehindCaller));
        }
        let due = item.is(DELAYED).then(|| take_due::<P>(item)).flatten();
        state.await_end(ticket, &waiter);
        drop(state);
        // It is brought forward, and may be over and gone from here on.
        let limiter = due.map_or(0, DelayedEmbedded::queue_now);
        if is_behind_caller::<P>(limiter) && stripe.lock().take_off(&waiter) {
            return Err(WorkError::new(name.get(), WorkErrorKind::BehindCaller));
        }
        wait_in_turns::<P>(None, |until| waiter.wait_until(until));
        Ok(true)
    }

    /// As [`Work::cancel`](crate::Work::cancel): makes a queueing that has not begun void; true if there was one.
    /// What a pool has of it does not name the item's memory any more, which may be freed if it does not run.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    pub unsafe fn cancel(&'static self, work: NonNull<EmbeddedWork>) -> bool {
        if !self.is_of_this_process() {
            return false;
        }
        let mut state = self.stripe(work).lock();
        // SAFETY: by this function's contract.
        let item = unsafe { EmbeddedWork::fields(work) };
        if !item.is(PENDING) {
            return false;
        }
        let afterwards = self.make_void(&mut state, item);
        drop(state);
        afterwards.see_to_it();
        true
    }

    /// As [`Work::cancel_and_wait`](crate::Work::cancel_and_wait): cancels it, and waits until it does not run.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    pub unsafe fn cancel_and_wait(
        &'static self,
        work: NonNull<EmbeddedWork>,
    ) -> Result<bool, WorkError> {
        // SAFETY: by this function's contract.
        let was_pending = unsafe { self.disable_and_wait(work) }?;
        // SAFETY: as above.
        unsafe { self.enable(work) }?;
        Ok(was_pending)
    }

    /// As [`Work::disable`](crate::Work::disable): cancels it, and lets nobody queue it; true if it was pending.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    pub unsafe fn disable(&'static self, work: NonNull<EmbeddedWork>) -> Result<bool, WorkError> {
        // SAFETY: by this function's contract.
        unsafe { self.disable_with(work, None) }
    }

    /// As [`disable`](Self::disable), and waits until it does not run.
    ///
    /// # Errors
    /// As [`Work::disable_and_wait`](crate::Work::disable_and_wait).
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    pub unsafe fn disable_and_wait(
        &'static self,
        work: NonNull<EmbeddedWork>,
    ) -> Result<bool, WorkError> {
        if is_inside_of::<P>(work) {
            // SAFETY: by this function's contract.
            return Err(error(work, WorkErrorKind::InsideItself));
        }
        let waiter = RunWaiter::new();
        // SAFETY: by this function's contract; the waiter stays here until it is off the list.
        let was_pending = unsafe { self.disable_with(work, Some(&waiter)) }?;
        wait_in_turns::<P>(None, |until| waiter.wait_until(until));
        Ok(was_pending)
    }

    /// # Safety
    /// As [`EmbeddedWorks`] says; and the waiter is waited for where it is.
    unsafe fn disable_with(
        &'static self,
        work: Place,
        waiter: Option<&RunWaiter<P>>,
    ) -> Result<bool, WorkError> {
        self.refuse_forked(work)?;
        let mut state = self.stripe(work).lock();
        // SAFETY: by this function's contract.
        let item = unsafe { EmbeddedWork::fields(work) };
        if item.disables == MAX_DISABLES {
            return Err(error(work, WorkErrorKind::TooManyDisables));
        }
        item.disables += 1;
        let was_pending = item.is(PENDING);
        let mut afterwards = Afterwards::nothing();
        if was_pending {
            afterwards = self.make_void(&mut state, item);
        }
        if let Some(waiter) = waiter {
            match state.run_of(work).map(|run| run.ticket) {
                Some(running) => state.await_end(running, waiter),
                None => waiter.is_over_already(),
            }
        }
        drop(state);
        afterwards.see_to_it();
        Ok(was_pending)
    }

    /// As [`Work::enable`](crate::Work::enable): takes one `disable` back; true if it can be queued again.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    pub unsafe fn enable(&'static self, work: NonNull<EmbeddedWork>) -> Result<bool, WorkError> {
        self.refuse_forked(work)?;
        let _state = self.stripe(work).lock();
        // SAFETY: by this function's contract.
        let item = unsafe { EmbeddedWork::fields(work) };
        if item.disables == 0 {
            return Err(error(work, WorkErrorKind::NotDisabled));
        }
        item.disables -= 1;
        Ok(item.disables == 0)
    }

    /// As [`Work::is_pending`](crate::Work::is_pending). Memory that holds something else by now is taken for an item
    /// that is pending only if the address of that is in it.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    pub unsafe fn is_pending(&'static self, work: NonNull<EmbeddedWork>) -> bool {
        if !self.is_of_this_process() {
            return false;
        }
        let _state = self.stripe(work).lock();
        // SAFETY: by this function's contract.
        let item = unsafe { EmbeddedWork::fields(work) };
        item.is_pending_in(self.pending) && item.ticket.is_of(work)
    }

    /// As [`Work::is_running`](crate::Work::is_running). The item need not be there.
    pub fn is_running(&'static self, work: NonNull<EmbeddedWork>) -> bool {
        self.is_of_this_process() && self.stripe(work).lock().run_of(work).is_some()
    }

    /// The moment `delay` from now; none for a delay of nothing.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] says.
    #[inline(always)]
    unsafe fn deadline(
        &self,
        work: Place,
        queue: &Workqueue<P>,
        delay: Duration,
    ) -> Result<Option<Time>, WorkError> {
        self.refuse_forked(work)?;
        if delay.is_zero() {
            return Ok(None);
        }
        // SAFETY: by this function's contract.
        unsafe { Self::far_deadline(work, queue, delay) }.map(Some)
    }

    /// # Safety
    /// As [`EmbeddedWorks`] says.
    #[cold]
    unsafe fn far_deadline(
        work: Place,
        queue: &Workqueue<P>,
        delay: Duration,
    ) -> Result<Time, WorkError> {
        // SAFETY: by this function's contract.
        let fails = |kind| error(work, kind);
        if queue.is_forked() {
            return Err(fails(WorkErrorKind::Refused(RefusedReason::Forked)));
        }
        let deadline = Timers::<P>::deadline(delay)
            .map_err(|longest| fails(WorkErrorKind::BeyondClock { delay, longest }))?;
        let keeper = |error| fails(WorkErrorKind::Timer(TimerError::Keeper(error)));
        queue.timers().start_keeper().map_err(keeper)?;
        Ok(deadline)
    }

    #[inline(always)]
    fn refuse_forked(&self, work: Place) -> Result<(), WorkError> {
        if self.is_of_this_process() { Ok(()) } else { Err(forked(work)) }
    }

    /// True if the item is pending. An error where it was in the process that this one was forked from: it never runs here.
    fn is_pending_here(&self, work: Place, item: &Fields) -> Result<bool, WorkError> {
        match item.is(PENDING) {
            pending if !pending || item.is_pending_in(self.pending) => Ok(pending),
            _ => Err(error(work, WorkErrorKind::PendingAtFork)),
        }
    }

    /// Makes the queueing that is pending void.
    fn make_void(&self, state: &mut StripeState<P>, item: &mut Fields) -> Afterwards<P> {
        if item.is_pending_in(self.pending) {
            return state.make_void(item);
        }
        item.forget_queueing();
        Afterwards::nothing()
    }

    /// A free item begins a queueing that was counted in.
    #[inline(always)]
    fn bring(
        &self,
        stripe: &'static Stripe<P>,
        state: LockGuard<'_, P, StripeState<P>>,
        work: Place,
        item: &mut Fields,
        entry: Entry<'_, P>,
        ticket: QueueingTicket,
    ) {
        item.flags = self.queued;
        item.ticket = ticket;
        dispatch(stripe, state, work, item, entry);
    }

    /// Leaves a queueing with the timers.
    #[cold]
    fn arm(
        &'static self,
        state: LockGuard<'_, P, StripeState<P>>,
        work: Place,
        queue: &Workqueue<P>,
        target: Target,
        deadline: Time,
        ticket: QueueingTicket,
    ) -> Result<(), WorkError> {
        // SAFETY: the caller has the lock, and the item is there by its contract.
        let item = unsafe { EmbeddedWork::fields(work) };
        let stripe = self.stripe(work);
        let due = Due::new(DelayedEmbedded::new(stripe, ticket, queue.clone(), target));
        match queue.timers().add(deadline, due) {
            Ok(key) => {
                item.flags |= self.pending;
                item.ticket = ticket;
                item.arm(Arc::clone(queue.timers()), key);
                Ok(())
            }
            Err((refused, due)) => {
                let refused = error(work, WorkErrorKind::Timer(refused));
                drop(state);
                drop(due);
                Err(refused)
            }
        }
    }
}

fn check_target<P: Platform>(
    work: Place,
    queue: &Workqueue<P>,
    target: Target,
) -> Result<(), WorkError> {
    queue.check_target(target).map_err(|reason| error(work, WorkErrorKind::Refused(reason)))
}

/// The ticket of one more queueing.
#[inline(always)]
fn draw<P: Platform>(
    state: &mut StripeState<P>,
    work: Place,
    item: &Fields,
) -> Result<QueueingTicket, WorkError> {
    let ticket = state.draw(work, item.ticket);
    ticket.ok_or_else(|| error(work, WorkErrorKind::TooManyCancelled))
}

#[cold]
fn forked(work: Place) -> WorkError {
    // SAFETY: every caller's caller says that the item is there.
    error(work, WorkErrorKind::Refused(RefusedReason::Forked))
}

/// Called where the item is there, by the contract of the caller's caller.
#[cold]
fn error(work: Place, kind: WorkErrorKind) -> WorkError {
    // SAFETY: as just said; its name may be read without a lock.
    WorkError::new(unsafe { work.as_ref() }.name().get(), kind)
}

/// True if this thread is inside the item's function.
fn is_inside_of<P: Platform>(work: Place) -> bool {
    runs_work::<P>(work.as_ptr().cast_const().cast())
}

/// True if this thread runs the item whose end what passes this limiter waits for, one at a time.
fn is_behind_caller<P: Platform>(limiter: u64) -> bool {
    limiter != 0 && runs_item_of::<P>(|link| link.has_only_turn_of(limiter))
}

/// Takes the entry of a delayed item out of the timers, if it was not fired; the item is still delayed.
fn take_due<P: Platform>(item: &mut Fields) -> Option<DelayedEmbedded<P>> {
    let (timers, key) = item.take_armed::<P>()?;
    let due = timers.remove(key).and_then(Due::take);
    item.arm(timers, key);
    due
}

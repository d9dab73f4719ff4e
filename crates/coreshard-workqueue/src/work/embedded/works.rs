//! All embedded items of a process, and the operations on them: the functions of [`EmbeddedWorks`].
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Host, LockGuard, Padded, Platform};

use super::item::{
    DELAYED, EmbeddedWork, Fields, FunctionName, PENDING, QueueingTicket, READY, pending_in,
};
use super::stripe::{Afterwards, RunWaiter, Stripe, StripeState};
use super::token::{EmbeddedToken, dispatch};
use crate::base::error::RefusedReason;
use crate::base::target::Target;
use crate::pool::{runs_work, wait_in_turns};
use crate::queue::{SubmitPermit, Workqueue};
use crate::timers::Due;
use crate::work::delayed::Delayed;
use crate::work::error::{MAX_DISABLES, WorkError, WorkErrorKind};
use crate::work::way::{self, Way};

type Place = NonNull<EmbeddedWork>;

/// The operations on [`EmbeddedWork`]s. All items of a process must use the same one of these, since an item may be queued on
/// any queue of any runtime.
///
/// The functions correspond to the methods of [`Work`](crate::Work), but the caller manages the memory:
///
/// # Safety
/// Each function needs an item that was made by [`EmbeddedWork::new`], or by a static initializer as described there. The item
/// must lie below 2⁴⁸, which holds for all memory of a program that does not request other memory. It must not move or be freed
/// while it is pending, nor during the call. While it runs it may be freed by its own function, or by a thread that knows that
/// nothing in this program will access it any more.
///
/// # Examples
/// ```
/// use std::ptr::NonNull;
/// use std::time::Duration;
/// use coreshard::{EmbeddedWork, EmbeddedWorks, Target};
///
/// unsafe extern "C-unwind" fn free_it(work: NonNull<EmbeddedWork>) {
///     // The function may free its item.
///     drop(unsafe { Box::from_raw(work.as_ptr()) });
/// }
///
/// let works = EmbeddedWorks::leak(64);
/// let queue = coreshard::workqueue()?.name("write-back").build()?;
/// let work = NonNull::from(Box::leak(Box::new(EmbeddedWork::new(free_it, std::ptr::null()))));
/// assert!(unsafe { works.queue_to(work, &queue, Target::Here, Duration::ZERO) }?);
/// queue.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EmbeddedWorks<P: Platform = Host> {
    stripes: Box<[Padded<Stripe<P>>]>,
    /// One less than the number of stripes.
    mask: usize,
    /// In a process that was forked since, locks may be held by threads that do not exist there.
    process_generation: u32,
    /// The flags of an item that is pending in this process.
    pub(super) pending: u32,
    /// The flags of an item that is queued without a delay.
    pub(super) queued: u32,
}

impl<P: Platform> EmbeddedWorks<P> {
    /// The most locks that [`leak`](Self::leak) makes.
    pub const MAX_STRIPES: usize = 1 << 20;

    /// Creates an instance that is never freed, with `stripes` locks, rounded up to a power of two. Items are spread over the
    /// locks by their addresses: choose many times the number of CPUs, so that two threads seldom use the same one.
    ///
    /// # Panics
    /// Panics if `stripes` is above [`MAX_STRIPES`](Self::MAX_STRIPES).
    pub fn leak(stripes: usize) -> &'static Self {
        assert!(
            stripes <= Self::MAX_STRIPES,
            "invalid number of stripes {stripes}: expected at most {}",
            Self::MAX_STRIPES
        );
        let stripes = stripes.next_power_of_two();
        let mask = stripes - 1;
        let stripes = (0..stripes).map(|_| Padded::new(Stripe::new())).collect();
        let process_generation = P::process_generation();
        let pending = pending_in(process_generation);
        let queued = READY | pending;
        Box::leak(Box::new(Self { stripes, mask, process_generation, pending, queued }))
    }

    /// Returns true in the process that it was created in; create another one in a process that was forked since. An item that
    /// was pending at the fork never runs there: it can be queued again after it was cancelled or created anew.
    pub fn is_of_this_process(&self) -> bool {
        P::process_generation() == self.process_generation
    }

    /// Queues the item in the pod of the CPU that the caller runs on, as [`Work::queue`](crate::Work::queue) does; returns
    /// false if it was pending.
    ///
    /// # Errors
    /// Fails as [`Work::queue`](crate::Work::queue) does.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
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

    /// Queues the item like [`queue`](Self::queue), without a reason on failure: `None` if it was neither queued nor pending.
    /// The caller has checked that the item and the queue belong to this process.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
    #[inline(always)]
    pub unsafe fn try_queue(
        &'static self,
        work: NonNull<EmbeddedWork>,
        queue: &Workqueue<P>,
    ) -> Option<bool> {
        // SAFETY: by this function's contract.
        let (stripe, mut state, item) = unsafe { self.lock(work) };
        if !item.is_free() {
            return if item.is_pending_in(self.pending) { Some(false) } else { None };
        }
        let ticket = state.draw(work, item.ticket)?;
        let entry = queue.enter_beyond(Target::Here).ok()?;
        self.bring(stripe, state, work, item, entry, ticket);
        Some(true)
    }

    /// Sets up an item made by a static initializer, and gives it a name for reports; an item that is set up is unchanged.
    /// Until then it cannot be queued without a delay ([`NotSetUp`](crate::WorkErrorReason::NotSetUp)).
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
    pub unsafe fn set_up(&'static self, work: NonNull<EmbeddedWork>, name: FunctionName) {
        // SAFETY: by this function's contract.
        let (_, _state, item) = unsafe { self.lock(work) };
        if !item.is(READY) {
            // SAFETY: as above.
            unsafe { work.as_ref() }.set_name(name);
            item.flags |= READY;
        }
    }

    /// Queues it now.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
    #[inline(always)]
    unsafe fn send(
        &'static self,
        work: Place,
        queue: &Workqueue<P>,
        target: Target,
    ) -> Result<bool, WorkError> {
        // SAFETY: by this function's contract, until it is sent: the lock is not released before.
        let (stripe, mut state, item) = unsafe { self.lock(work) };
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

    /// Queues the item for `target` when `delay` has elapsed, as [`Work::queue_to`](crate::Work::queue_to) does; returns false
    /// if it was pending.
    ///
    /// # Errors
    /// Fails as [`Work::queue_to`](crate::Work::queue_to) does.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
    pub unsafe fn queue_to(
        &'static self,
        work: NonNull<EmbeddedWork>,
        queue: &Workqueue<P>,
        target: Target,
        delay: Duration,
    ) -> Result<bool, WorkError> {
        self.refuse_forked(work)?;
        if delay.is_zero() {
            // SAFETY: by this function's contract.
            return unsafe { self.send(work, queue, target) };
        }
        // SAFETY: as above.
        unsafe { self.queue_slowly(work, queue, target, delay, false) }
            .map(|was_pending| !was_pending)
    }

    /// Replaces a queueing that has not begun, as [`Work::modify_to`](crate::Work::modify_to) does; returns true if there was
    /// one.
    ///
    /// # Errors
    /// Fails as [`Work::modify_to`](crate::Work::modify_to) does.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
    pub unsafe fn modify_to(
        &'static self,
        work: NonNull<EmbeddedWork>,
        queue: &Workqueue<P>,
        target: Target,
        delay: Duration,
    ) -> Result<bool, WorkError> {
        self.refuse_forked(work)?;
        // SAFETY: by this function's contract.
        unsafe { self.queue_slowly(work, queue, target, delay, true) }
    }

    /// Queues it, with or without a delay; returns true if it was pending. The earlier queueing then stays, unless this one
    /// replaces it.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
    unsafe fn queue_slowly(
        &'static self,
        work: Place,
        queue: &Workqueue<P>,
        target: Target,
        delay: Duration,
        replaces: bool,
    ) -> Result<bool, WorkError> {
        let named = |kind| error(work, kind);
        let deadline = way::deadline(queue, delay).map_err(named)?;
        // SAFETY: by this function's contract.
        let (stripe, mut state, item) = unsafe { self.lock(work) };
        if !replaces && self.is_pending_here(work, item)? {
            return Ok(true);
        }
        if item.disables != 0 {
            return Err(error(work, WorkErrorKind::Disabled));
        }
        // A pending queueing stays as it is if the queue rejects the new one.
        let ticket = draw(&mut state, work, item)?;
        let way = Way::find(queue, target, deadline).map_err(named)?;
        let was_pending = item.is(PENDING);
        let mut afterwards = Afterwards::nothing();
        if was_pending {
            afterwards = self.make_tombstone(&mut state, item);
        }
        let refused = match way {
            Way::Queue(entry) => {
                item.flags |= self.pending;
                item.ticket = ticket;
                dispatch(stripe, state, work, item, entry);
                None
            }
            Way::Timers(deadline) => {
                let queueing = EmbeddedToken { stripe, ticket };
                let delayed = Delayed::new(queueing, queue.clone(), target);
                let added = queue.timers().add(deadline, Due::new(delayed));
                if let Ok(key) = added {
                    item.flags |= self.pending;
                    item.ticket = ticket;
                    item.arm(Arc::clone(queue.timers()), key);
                }
                drop(state);
                added.err()
            }
        };
        afterwards.see_to_it();
        let Some((refused, due)) = refused else { return Ok(was_pending) };
        drop(due);
        Err(error(work, WorkErrorKind::Timer(refused)))
    }

    /// Waits until the latest queueing has finished, as [`Work::flush`](crate::Work::flush) does; returns false if there was
    /// nothing to wait for. The item may be freed by its own function meanwhile.
    ///
    /// # Errors
    /// Fails as [`Work::flush`](crate::Work::flush) does.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires; once the wait has begun, the item may be freed.
    pub unsafe fn flush(&'static self, work: NonNull<EmbeddedWork>) -> Result<bool, WorkError> {
        self.refuse_forked(work)?;
        let waiter = RunWaiter::new();
        // SAFETY: by this function's contract.
        let (stripe, mut state, item) = unsafe { self.lock(work) };
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
        if item.is(PENDING) && !item.is(DELAYED) && way::is_behind_caller::<P>(item.limiter) {
            return Err(WorkError::new(name.get(), WorkErrorKind::BehindCaller));
        }
        let due = item.is(DELAYED).then(|| take_due::<P>(item)).flatten();
        state.await_end(ticket, &waiter);
        drop(state);
        // It becomes due, and may finish and be freed from here on.
        let limiter = due.map_or(0, Delayed::queue_now);
        if way::is_behind_caller::<P>(limiter) && stripe.lock().take_off(&waiter) {
            return Err(WorkError::new(name.get(), WorkErrorKind::BehindCaller));
        }
        wait_in_turns::<P>(None, |until| waiter.wait_until(until));
        Ok(true)
    }

    /// Cancels a queueing that has not begun, as [`Work::cancel`](crate::Work::cancel) does; returns true if there was one. The
    /// tombstone in the pool no longer refers to the item's memory, which may be freed if the item is not running.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
    pub unsafe fn cancel(&'static self, work: NonNull<EmbeddedWork>) -> bool {
        if !self.is_of_this_process() {
            return false;
        }
        // SAFETY: by this function's contract.
        let (_, mut state, item) = unsafe { self.lock(work) };
        if !item.is(PENDING) {
            return false;
        }
        let afterwards = self.make_tombstone(&mut state, item);
        drop(state);
        afterwards.see_to_it();
        true
    }

    /// Cancels it, and waits until it is not running, as [`Work::cancel_and_wait`](crate::Work::cancel_and_wait) does.
    ///
    /// # Errors
    /// Fails as [`Work::cancel_and_wait`](crate::Work::cancel_and_wait) does.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
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

    /// Cancels it and rejects further queueings, as [`Work::disable`](crate::Work::disable) does; returns true if it was
    /// pending.
    ///
    /// # Errors
    /// Fails as [`Work::disable`](crate::Work::disable) does.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
    pub unsafe fn disable(&'static self, work: NonNull<EmbeddedWork>) -> Result<bool, WorkError> {
        // SAFETY: by this function's contract.
        unsafe { self.disable_with(work, None) }
    }

    /// Disables it like [`disable`](Self::disable), and waits until it is not running.
    ///
    /// # Errors
    /// Fails as [`Work::disable_and_wait`](crate::Work::disable_and_wait) does.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
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
    /// As [`EmbeddedWorks`] requires; the caller waits for the waiter without moving it.
    unsafe fn disable_with(
        &'static self,
        work: Place,
        waiter: Option<&RunWaiter<P>>,
    ) -> Result<bool, WorkError> {
        self.refuse_forked(work)?;
        // SAFETY: by this function's contract.
        let (_, mut state, item) = unsafe { self.lock(work) };
        if item.disables == MAX_DISABLES {
            return Err(error(work, WorkErrorKind::TooManyDisables));
        }
        item.disables += 1;
        let was_pending = item.is(PENDING);
        let mut afterwards = Afterwards::nothing();
        if was_pending {
            afterwards = self.make_tombstone(&mut state, item);
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

    /// Reverts one `disable`, as [`Work::enable`](crate::Work::enable) does; returns true if the item can be queued again.
    ///
    /// # Errors
    /// Fails as [`Work::enable`](crate::Work::enable) does.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
    pub unsafe fn enable(&'static self, work: NonNull<EmbeddedWork>) -> Result<bool, WorkError> {
        self.refuse_forked(work)?;
        // SAFETY: by this function's contract.
        let (_, _state, item) = unsafe { self.lock(work) };
        if item.disables == 0 {
            return Err(error(work, WorkErrorKind::NotDisabled));
        }
        item.disables -= 1;
        Ok(item.disables == 0)
    }

    /// Returns whether it is pending, as [`Work::is_pending`](crate::Work::is_pending) does. Memory that was reused since is
    /// mistaken for a pending item only if it contains that item's address.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires.
    pub unsafe fn is_pending(&'static self, work: NonNull<EmbeddedWork>) -> bool {
        if !self.is_of_this_process() {
            return false;
        }
        // SAFETY: by this function's contract.
        let (_, _state, item) = unsafe { self.lock(work) };
        item.is_pending_in(self.pending) && item.ticket.is_of(work)
    }

    /// Returns whether it is running, as [`Work::is_running`](crate::Work::is_running) does. The item need not be alive.
    pub fn is_running(&'static self, work: NonNull<EmbeddedWork>) -> bool {
        self.is_of_this_process() && self.stripe(work).lock().run_of(work).is_some()
    }

    /// Locks the stripe of an item, and returns its fields.
    ///
    /// # Safety
    /// As [`EmbeddedWorks`] requires; and the fields are used only while the lock is held.
    #[inline(always)]
    unsafe fn lock<'item>(
        &'static self,
        work: Place,
    ) -> (&'static Stripe<P>, LockGuard<'static, P, StripeState<P>>, &'item mut Fields) {
        let stripe = self.stripe(work);
        let state = stripe.lock();
        // SAFETY: by this function's contract.
        (stripe, state, unsafe { EmbeddedWork::fields(work) })
    }

    #[inline(always)]
    fn refuse_forked(&self, work: Place) -> Result<(), WorkError> {
        if self.is_of_this_process() { Ok(()) } else { Err(forked(work)) }
    }

    /// Returns true if the item is pending. Fails if it was pending in the process that this one was forked from: it never runs
    /// here.
    fn is_pending_here(&self, work: Place, item: &Fields) -> Result<bool, WorkError> {
        match item.is(PENDING) {
            pending if !pending || item.is_pending_in(self.pending) => Ok(pending),
            _ => Err(error(work, WorkErrorKind::PendingAtFork)),
        }
    }

    /// Makes the pending queueing a tombstone.
    fn make_tombstone(&self, state: &mut StripeState<P>, item: &mut Fields) -> Afterwards<P> {
        if item.is_pending_in(self.pending) {
            return state.make_tombstone(item);
        }
        item.forget_queueing();
        Afterwards::nothing()
    }

    /// Begins a queueing, which was counted in, of a free item.
    #[inline(always)]
    fn bring(
        &self,
        stripe: &'static Stripe<P>,
        state: LockGuard<'_, P, StripeState<P>>,
        work: Place,
        item: &mut Fields,
        entry: SubmitPermit<'_, P>,
        ticket: QueueingTicket,
    ) {
        item.flags = self.queued;
        item.ticket = ticket;
        dispatch(stripe, state, work, item, entry);
    }

    #[inline(always)]
    pub(super) fn stripe(&'static self, work: NonNull<EmbeddedWork>) -> &'static Stripe<P> {
        // Fibonacci hashing (Knuth, The Art of Computer Programming 6.4): addresses are multiples of structure sizes, and their
        // lowest three bits are 0.
        let hash = (work.as_ptr().addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 35;
        // SAFETY: `leak` makes `mask + 1` of them, a power of two of at most `MAX_STRIPES`, which cannot have wrapped to 0.
        let stripe = unsafe { self.stripes.get_unchecked(hash as usize & self.mask) };
        in_one_register(stripe)
    }
}

/// Returns the ticket of another queueing.
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
    // SAFETY: every caller's caller guarantees that the item is alive.
    error(work, WorkErrorKind::Refused(RefusedReason::Forked))
}

/// Called while the item is alive, by the contract of the caller's caller.
#[cold]
fn error(work: Place, kind: WorkErrorKind) -> WorkError {
    // SAFETY: as just explained; its name may be read without a lock.
    WorkError::new(unsafe { work.as_ref() }.name().get(), kind)
}

/// Returns true if this thread is inside the item's function.
fn is_inside_of<P: Platform>(work: Place) -> bool {
    runs_work::<P>(work.as_ptr().cast_const().cast())
}

/// Takes the entry of a delayed item out of the timers, if it was not fired; the item is still marked as delayed.
fn take_due<P: Platform>(item: &mut Fields) -> Option<Delayed<P, EmbeddedToken<P>>> {
    let (timers, key) = item.take_armed::<P>()?;
    let due = timers.remove(key).and_then(Due::take);
    item.arm(timers, key);
    due
}

/// Returns the same reference, and hides its origin from the compiler, which would otherwise keep an address for each field in
/// use, one of them on the stack.
#[inline(always)]
fn in_one_register<T>(at: &'static T) -> &'static T {
    #[cfg(not(miri))]
    {
        let mut address = std::ptr::from_ref(at);
        // SAFETY: it contains no instruction, and leaves the address and the memory there unchanged.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) address, options(pure, readonly, nostack, preserves_flags));
            &*address
        }
    }
    #[cfg(miri)]
    at
}

impl<P: Platform> fmt::Debug for EmbeddedWorks<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedWorks")
            .field("stripes", &self.stripes.len())
            .finish_non_exhaustive()
    }
}

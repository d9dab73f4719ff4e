//! A task: a future, its state and its place among its queue's items, in one allocation.
//!
//! Rules:
//!
//! 1. The state word decides everything.
//! 2. Only the worker that has set `RUNNING` accesses the future, and drops it.
//! 3. That worker writes the outcome before `DONE`; after that, the handle owns it.
//! 4. The schedule function exists until the task is done and no sender is inside it: it holds the queue.
//! 5. The future, its outcome, and the waiter's waker are user code: they are called and dropped inside a catch of panics,
//!    with no obligation pending. Their panics go to the handle, or to the queue's panic handler.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{DataCell, Lock, Platform};

use super::state::{AWAITED, CANCELLED, DONE, Next, SCHEDULED, TaskState, has_senders};
use crate::base::budget;
use crate::base::item::ItemBody;
use crate::base::returned::Returned;
use crate::callbacks::Callback;
use crate::insight::TaskSpan;
use crate::queue::{Unclaimed, WaitingTable, WaitingTask};
use crate::timers::Timers;

/// Sends a task to a worker, and reports its panics.
pub(super) trait Schedule<P: Platform>: Send + Sync {
    /// Sends it, to be run once; returns it if no worker would run it.
    fn send(&self, runnable: Runnable<P>) -> Option<Runnable<P>>;
    /// Returns the timers whose threads may run the task's leftovers; `None` if there are none.
    fn callbacks(&self) -> Option<Arc<Timers<P>>> {
        None
    }
    /// Keeps a panic until it is claimed or reported.
    fn unclaimed(&self, thrown: Thrown) -> Unclaimed<P>;
    /// Registers a task that is about to wait with its queue. Returns false if the queue was shut down at once.
    ///
    /// # Safety
    /// It is this object's task, and the caller has set `RUNNING`; [`Self::unlist`] is called before the task is done.
    unsafe fn list(&self, _: WaitingTask) -> bool {
        true
    }
    /// Removes it from that list, if it is listed.
    ///
    /// # Safety
    /// The caller has set `RUNNING`.
    unsafe fn unlist(&self) {}
}

/// The outcome of a future; `None` if the future was dropped before completion, or the outcome was taken.
pub(super) type Outcome<P, T> = Option<Result<T, Unclaimed<P>>>;

/// The part that does not depend on the future; wakers refer to it.
pub(super) struct Head<P: Platform> {
    pub(super) state: TaskState<P>,
    table: &'static CellTable<P>,
    awaiter: Awaiter<P>,
}

impl<P: Platform> Head<P> {
    /// Returns true in a process that was forked from the one that polls it.
    pub(super) fn is_orphaned(&self) -> bool {
        P::process_generation() != self.awaiter.process_generation
    }

    /// Returns true if it was not done when this process was forked.
    pub(super) fn never_ends(&self) -> bool {
        self.is_orphaned() && self.state.load() & DONE == 0
    }

    /// Drops the waiter's waker. In a forked process it stays, since a thread that does not exist there may hold the lock.
    #[inline]
    fn forget_awaiter(&self) {
        if self.state.load() & AWAITED != 0 && !self.is_orphaned() {
            drop(user::discard(self.awaiter.take()));
        }
    }
}

/// The waker of the handle's owner. The lock's word stands beside another one: [`Lock`] would fill it up to 8 bytes.
struct Awaiter<P: Platform> {
    waker: P::Cell<Option<Waker>>,
    lock: Lock<P, ()>,
    /// The process that created the task: it is not polled in one forked from that.
    process_generation: u32,
}

impl<P: Platform> Awaiter<P> {
    fn with<R>(&self, call: impl FnOnce(&mut Option<Waker>) -> R) -> R {
        let _guard = self.lock.lock();
        // SAFETY: all accesses are here, under the lock.
        self.waker.with_mut(|waker| call(unsafe { &mut *waker }))
    }

    fn take(&self) -> Option<Waker> {
        self.with(Option::take)
    }
}

type FindTimers<P> = unsafe fn(NonNull<Head<P>>) -> Option<Arc<Timers<P>>>;

/// The operations that depend on the future.
struct CellTable<P: Platform> {
    run: unsafe fn(NonNull<Head<P>>),
    /// Sends it; returns it if no worker would run it.
    send: unsafe fn(NonNull<Head<P>>) -> Option<Runnable<P>>,
    callbacks: FindTimers<P>,
    release: unsafe fn(NonNull<Head<P>>),
    free: unsafe fn(NonNull<Head<P>>),
    /// Returns the future's type name.
    name: fn() -> &'static str,
}

/// The head comes first, so that its address is the task's.
#[repr(C)]
pub(super) struct TaskCell<P: Platform, F: Future, S> {
    pub(super) head: Head<P>,
    schedule: UnsafeCell<ManuallyDrop<S>>,
    span: TaskSpan<P>,
    body: P::Cell<Body<P, F>>,
}

enum Body<P: Platform, F: Future> {
    Future(F),
    Outcome(Outcome<P, F::Output>),
}

/// The right to poll a task once, or to close it: a reference, with `SCHEDULED` set. It has no destructor: losing it leaks the
/// task.
#[must_use]
pub(crate) struct Runnable<P: Platform>(NonNull<Head<P>>);

// SAFETY: a task consists of a future that is `Send` and of parts designed to be shared.
unsafe impl<P: Platform> Send for Runnable<P> {}

impl<P: Platform> ItemBody for Runnable<P> {
    type Named = Self;
    const IS_AWAITED: bool = false;

    #[inline(always)]
    fn run(self) {
        Self::run(self);
    }

    fn name(&self) -> &'static str {
        // SAFETY: this is a reference.
        (unsafe { self.0.as_ref() }.table.name)()
    }

    /// Drops the future; its handle reports that the queue has ended.
    fn set_aside(self) -> Option<Returned> {
        close(self);
        None
    }
}

impl<P: Platform> Runnable<P> {
    /// Polls it, on a worker; or closes it, anywhere.
    pub(super) fn run(self) {
        // SAFETY: this is a reference, and this is its only use.
        unsafe { (self.0.as_ref().table.run)(self.0) };
    }
}

/// The rest of a task, for a thread that may run user code.
enum Leftover<P: Platform> {
    /// The task cannot be sent to its queue: its future must be dropped.
    Unsent(Runnable<P>),
    /// The task is done, and its last sender must release the queue, possibly as its last holder.
    Sender(Sender<P>),
}

/// A thread that counts as one of a task's senders.
struct Sender<P: Platform>(NonNull<Head<P>>);

// SAFETY: as for `Runnable`.
unsafe impl<P: Platform> Send for Sender<P> {}

impl<P: Platform> Leftover<P> {
    fn into_callback(self) -> Callback {
        Callback::new(move || user::call(|| self.discard()))
    }

    fn discard(self) {
        match self {
            Self::Unsent(runnable) => close(runnable),
            // SAFETY: it counts as a sender, and this ends it.
            Self::Sender(Sender(task)) => unsafe { sent(task) },
        }
    }
}

/// Closes a task that no worker would run.
#[cold]
fn close<P: Platform>(runnable: Runnable<P>) {
    // SAFETY: a runnable is a reference.
    let next = unsafe { runnable.0.as_ref() }.state.refuse();
    debug_assert_eq!(next, Next::Nothing, "an item is on its way: this one");
    runnable.run();
}

/// Creates and identifies the wakers of this crate's tasks on this platform.
struct Wakers<P>(PhantomData<P>);

impl<P: Platform> Wakers<P> {
    const TABLE: RawWakerVTable = RawWakerVTable::new(
        // SAFETY: created by `waker` here, from a task's head, like the others.
        |data| unsafe { clone_waker::<P>(data) },
        // SAFETY: as above; by value, so that the reference is handed over.
        |data| unsafe { wake(head::<P>(data), true) },
        // SAFETY: as above.
        |data| unsafe { wake(head::<P>(data), false) },
        // SAFETY: as above.
        |data| unsafe { settle(head::<P>(data), head::<P>(data).as_ref().state.drop_reference()) },
    );
}

/// # Safety
/// `data` is a task's head.
unsafe fn head<P: Platform>(data: *const ()) -> NonNull<Head<P>> {
    // SAFETY: by this function's contract it is not null.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

/// # Safety
/// `data` is the head of a task that the caller holds a reference to.
unsafe fn clone_waker<P: Platform>(data: *const ()) -> RawWaker {
    // SAFETY: by this function's contract.
    unsafe { head::<P>(data).as_ref() }.state.add_reference();
    RawWaker::new(data, &Wakers::<P>::TABLE)
}

/// Wakes a task of this crate without running user code; returns another executor's waker. If the task's queue has ended, the
/// rest of the task is returned for another thread.
pub(crate) fn wake_own<P: Platform>(waker: Waker) -> Result<Option<Callback>, Waker> {
    if *waker.vtable() != Wakers::<P>::TABLE {
        return Err(waker);
    }
    let waker = ManuallyDrop::new(waker);
    // SAFETY: the table identifies the data's type; the waker is a reference, and is handed over.
    let left = unsafe { wake_leaving(head::<P>(waker.data()), true) };
    Ok(left.map(Leftover::into_callback))
}

/// Called by a waker. Runs no user code here if another thread can: the caller may hold a lock that the future's destructor
/// takes.
///
/// # Safety
/// The caller holds a reference, which it hands over if `consumes`.
unsafe fn wake<P: Platform>(task: NonNull<Head<P>>, consumes: bool) {
    // SAFETY: by this function's contract.
    if let Some(leftover) = unsafe { wake_leaving(task, consumes) } {
        // SAFETY: the leftover keeps the task, and the schedule function with it.
        match unsafe { (task.as_ref().table.callbacks)(task) } {
            Some(timers) => timers.call(leftover.into_callback()),
            None => leftover.discard(),
        }
    }
}

/// Wakes the task. If its queue has ended, returns the rest of the task for a thread that may run user code.
///
/// # Safety
/// As for [`wake`].
unsafe fn wake_leaving<P: Platform>(task: NonNull<Head<P>>, consumes: bool) -> Option<Leftover<P>> {
    // SAFETY: by this function's contract.
    let next = unsafe { task.as_ref() }.state.wake(consumes);
    if next != Next::Send {
        // SAFETY: as returned by `wake`. A task that is done holds no user code.
        unsafe { settle(task, next) };
        return None;
    }
    // SAFETY: this caller counts as a sender, so the task is alive.
    let Head { table, state, .. } = unsafe { task.as_ref() };
    // SAFETY: as above.
    let unsent = unsafe { (table.send)(task) };
    if state.sent_unless_last() {
        return unsent.map(Leftover::Unsent);
    }
    Some(Leftover::Sender(Sender(task)))
}

/// Performs the action that a change of the state requires.
///
/// # Safety
/// `next` was returned by that change, and this is called once for it.
pub(super) unsafe fn settle<P: Platform>(task: NonNull<Head<P>>, next: Next) {
    match next {
        Next::Nothing => {}
        Next::Send => {
            // SAFETY: this caller counts as a sender, so the task lives until `sent` is called.
            let unsent = unsafe { (task.as_ref().table.send)(task) };
            // SAFETY: as above.
            unsafe { sent(task) };
            unsent.into_iter().for_each(close);
        }
        // SAFETY: `Free` is returned to one thread, when no other can access the task.
        Next::Free => unsafe { (task.as_ref().table.free)(task) },
        Next::Close => unreachable!("only a worker that runs it is told to close it"),
    }
}

/// Removes a sender.
///
/// # Safety
/// The caller counts as one.
#[inline]
unsafe fn sent<P: Platform>(task: NonNull<Head<P>>) {
    // SAFETY: a sender keeps the task; the last one of a task that is done releases the queue, once.
    let next = unsafe {
        let head = task.as_ref();
        head.state.sent(|| (head.table.release)(task))
    };
    if next == Next::Free {
        // SAFETY: no other thread can access the task.
        unsafe { (task.as_ref().table.free)(task) };
    }
}

impl<P: Platform, F, S> TaskCell<P, F, S>
where
    F: Future + Send,
    F::Output: Send,
    S: Schedule<P>,
{
    const TABLE: CellTable<P> = CellTable {
        run: Self::run,
        send: Self::send,
        callbacks: Self::callbacks,
        release: Self::release,
        free: Self::free,
        name: std::any::type_name::<F>,
    };

    /// Creates a task and the right to its first poll; the caller receives a reference as its handle.
    pub(super) fn new(future: F, span: TaskSpan<P>, schedule: S) -> (NonNull<Self>, Runnable<P>) {
        let head = Head {
            state: TaskState::new(),
            table: const { &Self::TABLE },
            awaiter: Awaiter {
                waker: P::Cell::new(None),
                lock: Lock::new(()),
                process_generation: P::process_generation(),
            },
        };
        let task = Box::new(Self {
            head,
            schedule: UnsafeCell::new(ManuallyDrop::new(schedule)),
            span,
            body: P::Cell::new(Body::Future(future)),
        });
        let task = NonNull::from(Box::leak(task));
        (task, Runnable(task.cast()))
    }

    unsafe fn send(head: NonNull<Head<P>>) -> Option<Runnable<P>> {
        // SAFETY: the caller counts as a sender: the schedule function exists.
        let task = unsafe { head.cast::<Self>().as_ref() };
        task.span.woken();
        // SAFETY: as above.
        unsafe { &*task.schedule.get() }.send(Runnable(head))
    }

    unsafe fn callbacks(head: NonNull<Head<P>>) -> Option<Arc<Timers<P>>> {
        // SAFETY: the caller counts as a sender, or has the right to close the task: the schedule function exists.
        unsafe { &*head.cast::<Self>().as_ref().schedule.get() }.callbacks()
    }

    unsafe fn release(head: NonNull<Head<P>>) {
        // SAFETY: called once, when the task is done and no sender is left.
        let dropped = user::call(|| unsafe {
            ManuallyDrop::drop(&mut *head.cast::<Self>().as_ref().schedule.get());
        });
        drop(dropped);
    }

    unsafe fn free(head: NonNull<Head<P>>) {
        // SAFETY: no other thread can access the task, which `new` has created.
        drop(unsafe { Box::from_raw(head.cast::<Self>().as_ptr()) });
    }

    unsafe fn run(head: NonNull<Head<P>>) {
        // SAFETY: the caller's reference keeps it until the end of this function.
        let task = unsafe { head.cast::<Self>().as_ref() };
        if !task.head.state.begin() {
            // SAFETY: RUNNING is set, by `begin`.
            return unsafe { Self::finish(head, None) };
        }
        let waker = RawWaker::new(head.as_ptr().cast_const().cast(), &Wakers::<P>::TABLE);
        // SAFETY: the caller's reference outlives this waker, which is never dropped.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(waker) });
        let poll = || {
            // SAFETY: RUNNING is set: no other thread accesses the body, which does not move.
            task.body.with_mut(|body| match unsafe { &mut *body } {
                Body::Future(future) => {
                    // SAFETY: as above.
                    let future = unsafe { Pin::new_unchecked(future) };
                    task.span.poll(|| future.poll(&mut Context::from_waker(&waker)))
                }
                Body::Outcome(_) => unreachable!("a task that is done is not polled"),
            })
        };
        let polled = budget::with_budget::<P, _>(|| user::call(poll));
        // SAFETY: RUNNING is set.
        let schedule = || unsafe { &*task.schedule.get() };
        let outcome = match polled {
            Ok(Poll::Ready(value)) => Some(Ok(value)),
            Err(thrown) => Some(Err(schedule().unclaimed(thrown))),
            Ok(Poll::Pending) => {
                // SAFETY: RUNNING is set.
                unsafe { Self::list(head) };
                match task.head.state.suspend() {
                    Next::Close => None,
                    // SAFETY: as returned by `suspend`.
                    next => return unsafe { settle(head, next) },
                }
            }
        };
        // SAFETY: RUNNING is set.
        unsafe { Self::finish(head, outcome) };
    }

    /// Registers the task with the queue before it waits. If the queue was shut down at once, the task is refused.
    ///
    /// # Safety
    /// The caller has set `RUNNING`.
    #[inline]
    unsafe fn list(head: NonNull<Head<P>>) {
        // SAFETY: the caller's reference keeps it.
        let task = unsafe { head.cast::<Self>().as_ref() };
        if task.head.state.load() & (SCHEDULED | CANCELLED) != 0 {
            return;
        }
        let table = const {
            &WaitingTable {
                // SAFETY: called while the task is on the list, so it is alive.
                hold: |task| unsafe { task.cast::<Head<P>>().as_ref() }.state.add_reference(),
                // SAFETY: called with that reference.
                refuse: |task| unsafe { refuse(task.cast::<Head<P>>()) },
            }
        };
        // SAFETY: not done, so the schedule function exists. RUNNING is set; `finish` removes the task from the list.
        let is_listed =
            unsafe { (*task.schedule.get()).list(WaitingTask { task: head.cast(), table }) };
        if !is_listed {
            let next = task.head.state.refuse();
            debug_assert_eq!(next, Next::Nothing, "the caller runs it, and will close it");
        }
    }

    /// Drops the future and leaves the outcome.
    ///
    /// # Safety
    /// The caller has set `RUNNING`, and gives up its reference.
    unsafe fn finish(head: NonNull<Head<P>>, outcome: Outcome<P, F::Output>) {
        // SAFETY: the caller's reference keeps it.
        let task = unsafe { head.cast::<Self>().as_ref() };
        // SAFETY: not done, so the schedule function exists.
        let report = |thrown| drop(unsafe { &*task.schedule.get() }.unclaimed(thrown));
        // SAFETY: not done, so the schedule function exists; RUNNING is set.
        unsafe { (*task.schedule.get()).unlist() };
        // SAFETY: RUNNING is set; the future is dropped in place, once, and its place is overwritten.
        task.body.with_mut(|body| unsafe {
            let dropped = user::call(|| {
                std::ptr::drop_in_place(body);
                task.span.end();
            });
            std::ptr::write(body, Body::Outcome(outcome));
            if let Err(thrown) = dropped {
                report(thrown);
            }
        });
        let seen = task.head.state.finish(|| {
            // SAFETY: RUNNING is still set, and the handle was dropped.
            if let Some(Ok(value)) = unsafe { Self::take_outcome(head) }
                && let Err(thrown) = user::discard(value)
            {
                report(thrown);
            }
        });
        if seen & AWAITED != 0 {
            let awaiter = task.head.awaiter.take();
            // This is a sender, so the queue is alive.
            if let Some(Err(thrown)) = awaiter.map(user::wake) {
                report(thrown);
            }
            // SAFETY: counted by `finish`.
            unsafe { sent(head) };
        } else if !has_senders(seen) {
            // SAFETY: it is done, and has no senders, now or later.
            unsafe { Self::release(head) };
        }
        // SAFETY: the caller's reference.
        unsafe { settle(head, task.head.state.drop_reference()) };
    }

    /// # Safety
    /// The caller has set `RUNNING` and written the outcome, or is the handle of a task that is done.
    pub(super) unsafe fn take_outcome(head: NonNull<Head<P>>) -> Outcome<P, F::Output> {
        // SAFETY: by this function's contract no other thread accesses it.
        let task = unsafe { head.cast::<Self>().as_ref() };
        // SAFETY: as above.
        task.body.with_mut(|body| match unsafe { &mut *body } {
            Body::Outcome(outcome) => outcome.take(),
            Body::Future(_) => unreachable!("a task that is done has no future"),
        })
    }

    /// Polls for the outcome; the caller is woken when it is available.
    ///
    /// # Safety
    /// The caller is the handle.
    pub(super) unsafe fn poll_outcome(
        head: NonNull<Head<P>>,
        context: &Context<'_>,
    ) -> Poll<Outcome<P, F::Output>> {
        // SAFETY: the handle is a reference.
        let whole = unsafe { head.as_ref() };
        let Head { state, awaiter, .. } = whole;
        if state.load() & DONE == 0 {
            let is_known = |known: &Waker| known.will_wake(context.waker());
            if !awaiter.with(|waker| waker.as_ref().is_some_and(is_known)) {
                let waker = context.waker().clone();
                drop(awaiter.with(|known| known.replace(waker)));
            }
            if !state.await_end() {
                return Poll::Pending;
            }
        }
        whole.forget_awaiter();
        // SAFETY: it is done, and the caller is the handle.
        Poll::Ready(unsafe { Self::take_outcome(head) })
    }

    /// Drops the handle. Returns the outcome, if it is available.
    ///
    /// # Safety
    /// The caller is the handle, which is not used after this.
    pub(super) unsafe fn let_go(head: NonNull<Head<P>>, cancels: bool) -> Outcome<P, F::Output> {
        // SAFETY: the handle is a reference.
        let whole = unsafe { head.as_ref() };
        whole.forget_awaiter();
        let Head { state, .. } = whole;
        if let Some(next) = state.let_go(cancels) {
            // SAFETY: as returned by `let_go`.
            unsafe { settle(head, next) };
            return None;
        }
        // SAFETY: it is done, and the caller is the handle.
        let outcome = unsafe { Self::take_outcome(head) };
        // SAFETY: the handle's reference.
        unsafe { settle(head, state.drop_reference()) };
        outcome
    }
}

/// Refuses further polls, because the task's queue was shut down.
///
/// # Safety
/// The caller has a reference, and gives it up.
unsafe fn refuse<P: Platform>(head: NonNull<Head<P>>) {
    // SAFETY: by this function's contract; each is called once for the change's result.
    unsafe {
        settle(head, head.as_ref().state.refuse());
        settle(head, head.as_ref().state.drop_reference());
    }
}

/// Cancels the task.
///
/// # Safety
/// The caller has a reference.
pub(super) unsafe fn cancel<P: Platform>(head: NonNull<Head<P>>) {
    // SAFETY: by this function's contract; and as returned by `cancel`.
    unsafe { settle(head, head.as_ref().state.cancel()) };
}

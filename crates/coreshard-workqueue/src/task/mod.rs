//! Futures on a workqueue. `README.md` beside this file describes the protocol.
//!
//! A task is a future with its state and its reference to the queue, in one allocation. Each poll is an item of the queue: it
//! enters through the intake like any other, counts for `max_active`, `drain` and the statistics, and may call `blocking` and
//! `join`. While the future waits for something, the queue holds no item of it.
//!
//! A task stays in the pod that it was spawned in: whichever thread wakes it, each poll is sent to that pod, which has its
//! memory in the cache. (A guest of that pod may run the poll, as any item.)
//!
//! This module reaches two objects by address. A task is freed by the thread that drops its last reference when no sender is
//! left. Its *queue* is held by a [`TaskRef`], which exists until the task is done and no thread is inside `Home::send` any
//! more. A waker may outlive the queue, since it refers only to the task.
#![allow(unsafe_code)]

mod abort;
mod cancellation;
mod cell;
mod error;
mod executors;
mod join_set;
#[cfg(all(test, loom))]
mod loom_tests;
mod scope;
mod state;
mod yield_now;

use std::fmt;
use std::future::poll_fn;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use coreshard_platform::Platform;
use coreshard_platform::user::{self, Thrown};
use coreshard_topology::CpuId;

use crate::base::budget;
use crate::base::error::Refused;
use crate::insight::Label;
use crate::insight::diagnostic::say_panic;
use crate::queue::{
    Origin, Panic, Reservation, Shared, SubmitPermit, TaskRef, Unclaimed, WaitingTask, WhenFull,
    Workqueue,
};
use crate::timers::Timers;
use cell::{Runnable, Schedule};

pub use abort::AbortHandle;
use abort::{AbortTable, Aborts};
pub use cancellation::{CancellationToken, WaitForCancellation};
pub(crate) use cell::wake_own;
pub use error::TaskError;
use error::TaskErrorKind;
pub use join_set::JoinSet;
pub use yield_now::{ConsumeBudget, YieldNow, consume_budget, yield_now};

/// A spawned future, and the right to its result.
///
/// Awaiting it waits for the future to complete, under any executor. Dropping it cancels the future, which is then dropped
/// without further polls. [`detach`](Self::detach) lets it run on without a handle.
///
/// A panic of the future goes to the code that awaits the task. Without such code, and for panics in destructors, it goes to
/// the queue's panic handler. [`result`](Self::result) returns the panic as an error instead.
///
/// ```
/// let queue = coreshard::workqueue()?.name("requests").build()?;
/// let task = queue.spawn(async { 6 * 7 })?;
/// let after = queue.spawn(async move { task.await + 1 })?;
/// # while !after.is_finished() { std::thread::yield_now() }
/// # assert_eq!(after.now_or_never(), Some(43));
/// # trait Now: Future + Sized { fn now_or_never(self) -> Option<Self::Output>; }
/// # impl<F: Future> Now for F {
/// #     fn now_or_never(self) -> Option<F::Output> {
/// #         let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #         match std::pin::pin!(self).poll(&mut context) {
/// #             std::task::Poll::Ready(value) => Some(value),
/// #             std::task::Poll::Pending => None,
/// #         }
/// #     }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a task cancels it; `detach` lets it run"]
pub struct Task<T> {
    raw: Option<Raw<T>>,
}

/// The handle's reference, and its operations. Only `T` is known of the task.
struct Raw<T> {
    task: NonNull<()>,
    /// A reference to a `'static` table, as a pointer, since not every `T` is `'static`.
    table: NonNull<TaskTable<T>>,
}

/// The outcome of a future.
type Ended<T> = Result<T, TaskError>;

struct TaskTable<T> {
    poll: unsafe fn(NonNull<()>, &Context<'_>) -> Poll<Ended<T>>,
    aborts: &'static AbortTable,
    /// Gives up the handle's reference; true cancels the task. Returns a value that was not taken.
    let_go: unsafe fn(NonNull<()>, bool) -> Option<T>,
}

// SAFETY: the handle is a reference to a task that is designed to be shared, and the right to its result.
unsafe impl<T: Send> Send for Task<T> {}
// SAFETY: as above; a shared handle is only used to check whether the task has completed.
unsafe impl<T: Send> Sync for Task<T> {}
// The task is changed only by read-modify-writes of whole steps.
impl<T> UnwindSafe for Task<T> {}
impl<T> RefUnwindSafe for Task<T> {}

impl<T> Raw<T> {
    fn table(&self) -> &TaskTable<T> {
        // SAFETY: the table is a constant.
        unsafe { self.table.as_ref() }
    }
}

impl<T> Task<T> {
    /// Lets the future run to completion without this handle. If it panics, the panic goes to the queue's panic handler.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("requests").build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// queue.spawn(async move { tell.send("answered").unwrap() })?.detach();
    /// assert_eq!(told.recv()?, "answered");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detach(mut self) {
        self.let_go(false);
    }

    /// Cancels the future and waits until it is dropped. Returns the result if it has completed before.
    ///
    /// # Panics
    /// Panics with the future's panic, if it had panicked before; with [`Forked`](crate::Forked) in a forked process, since it
    /// never completes there.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("requests").build()?;
    /// let waits = queue.spawn(std::future::pending::<()>())?;
    /// assert_eq!(block_on(waits.cancel()), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn cancel(mut self) -> Option<T> {
        self.abort();
        match poll_fn(|context| self.poll_result(context)).await {
            Ok(value) => Some(value),
            Err(error) if error.is_cancelled() || error.is_queue_gone() => None,
            Err(error) => error.throw(),
        }
    }

    /// Requests cancellation, and does not wait: a worker soon drops the future, unless it has completed before. Awaiting
    /// [`result`](Self::result) then returns an error with [`TaskError::is_cancelled`]; awaiting the task itself panics.
    /// ```
    /// let queue = coreshard::workqueue()?.name("requests").build()?;
    /// let task = queue.spawn(std::future::pending::<()>())?;
    /// task.abort();
    /// let told = queue.spawn(async move { task.result().await.unwrap_err().is_cancelled() })?;
    /// # let done = queue.spawn(async move { assert!(told.await) })?;
    /// # while !done.is_finished() { std::thread::yield_now() }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abort(&self) {
        if let Some(raw) = &self.raw {
            // SAFETY: this is the handle.
            unsafe { (raw.table().aborts.abort)(raw.task) };
        }
    }

    /// Returns a handle that can [`abort`](Self::abort) the task without owning it. It keeps the task's memory, but neither the
    /// future nor the queue.
    ///
    /// # Panics
    /// Panics if the task has already been awaited to completion.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("requests").build()?;
    /// let task = queue.spawn(std::future::pending::<()>())?;
    /// let abort = task.abort_handle();
    /// std::thread::spawn(move || abort.abort());
    /// assert!(block_on(task.result()).unwrap_err().is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abort_handle(&self) -> AbortHandle {
        let raw = self.raw.as_ref().expect("a task that was awaited to its end has no handle");
        // SAFETY: this is the handle.
        unsafe { AbortHandle::new(raw.task, raw.table().aborts) }
    }

    /// Returns true once the future has completed or was dropped: then awaiting it does not wait.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("requests").build()?;
    /// let task = queue.spawn(std::future::pending::<()>())?;
    /// assert!(!task.is_finished());
    /// task.abort();
    /// while !task.is_finished() {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_finished(&self) -> bool {
        // SAFETY: this is the handle.
        self.raw.as_ref().is_none_or(|raw| unsafe { (raw.table().aborts.is_done)(raw.task) })
    }

    /// Returns a future that waits like the task itself, and yields the outcome as a [`Result`]: it does not panic if the
    /// future panicked, was cancelled, or lost its queue to a shutdown. Dropping it also cancels the future.
    ///
    /// ```
    /// let queue = coreshard::workqueue()?.name("requests").build()?;
    /// let task = queue.spawn(async { "served" })?;
    /// let waiter = queue.spawn(async move {
    ///     match task.result().await {
    ///         Ok(value) => println!("{value}"),
    ///         Err(error) if error.is_cancelled() => println!("somebody has cancelled it"),
    ///         Err(error) => println!("{error}"),
    ///     }
    /// })?;
    /// # while !waiter.is_finished() { std::thread::yield_now() }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn result(self) -> TaskResult<T> {
        TaskResult { task: self }
    }

    pub(super) fn poll_result(&mut self, context: &Context<'_>) -> Poll<Ended<T>> {
        let raw = self.raw.as_ref().expect("a task is not awaited after it has ended");
        // SAFETY: this is the handle.
        let result = unsafe { (raw.table().poll)(raw.task, context) };
        if result.is_ready() {
            self.let_go(false);
        }
        result
    }

    /// Gives the handle up. If dropping a value that was not taken panics, the panic reaches the caller.
    fn let_go(&mut self, cancels: bool) {
        let Some(raw) = self.raw.take() else { return };
        // SAFETY: this was the handle.
        let value = unsafe { (raw.table().let_go)(raw.task, cancels) };
        let outcome = user::resume_unless_unwinding(user::discard(value));
        say_panic(outcome, "a task's result panicked as it was dropped");
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.let_go(true);
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    /// # Panics
    /// Panics with the future's panic, or if the future was dropped because it was cancelled, or its queue was shut down while
    /// it waited. Panics with [`Forked`](crate::Forked) in a process that was forked from the one that polls the future.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.poll_result(context).map(|ended| ended.unwrap_or_else(|error| error.throw()))
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("is_finished", &self.is_finished()).finish()
    }
}

/// A future that yields the outcome of a task; see [`Task::result`]. Dropping it cancels the task.
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited, and dropping this one cancels the task"]
pub struct TaskResult<T> {
    task: Task<T>,
}

impl<T> TaskResult<T> {
    /// Returns the task, to be awaited directly or detached.
    pub fn into_task(self) -> Task<T> {
        self.task
    }
}

impl<T> Future for TaskResult<T> {
    type Output = Result<T, TaskError>;

    /// # Panics
    /// Panics if it is polled after it has completed.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll_result(context)
    }
}

/// The handle's operations on a task of this type.
struct Handles<P, F, S>(std::marker::PhantomData<(P, F, S)>);

impl<P, F, S> Handles<P, F, S>
where
    P: Platform,
    F: Future + Send,
    F::Output: Send,
    S: Schedule<P>,
{
    const TABLE: TaskTable<F::Output> =
        TaskTable { poll: Self::poll, aborts: &Aborts::<P>::TABLE, let_go: Self::let_go };

    /// Creates the handle of a task.
    ///
    /// # Safety
    /// It is the only handle, and owns the reference that was created for it.
    unsafe fn handle(task: NonNull<cell::TaskCell<P, F, S>>) -> Task<F::Output> {
        let table = NonNull::from(const { &Self::TABLE });
        Task { raw: Some(Raw { task: task.cast(), table }) }
    }

    unsafe fn poll(task: NonNull<()>, context: &Context<'_>) -> Poll<Ended<F::Output>> {
        // SAFETY: called by the handle, which is a reference.
        let head = unsafe { task.cast::<cell::Head<P>>().as_ref() };
        if head.never_ends() {
            return Poll::Ready(Err(TaskErrorKind::Forked.into()));
        }
        if budget::proceed::<P>(context).is_pending() {
            return Poll::Pending;
        }
        // SAFETY: called by the handle.
        let outcome = unsafe { cell::TaskCell::<P, F, S>::poll_outcome(task.cast(), context) };
        if outcome.is_ready() {
            budget::spend::<P>();
        }
        outcome.map(|outcome| match outcome {
            Some(Ok(value)) => Ok(value),
            Some(Err(thrown)) => Err(TaskErrorKind::Panicked(Panic::thrown(thrown.claim())).into()),
            None if head.state.load() & state::REFUSED != 0 => Err(TaskErrorKind::QueueGone.into()),
            None => Err(TaskErrorKind::Cancelled.into()),
        })
    }

    unsafe fn let_go(task: NonNull<()>, cancels: bool) -> Option<F::Output> {
        // SAFETY: called by the handle, once.
        let outcome = unsafe { cell::TaskCell::<P, F, S>::let_go(task.cast(), cancels) };
        // A panic that is not claimed goes to the queue's panic handler.
        outcome?.ok()
    }
}

/// Sends polls to the queue.
struct Home<P: Platform> {
    task_ref: TaskRef<P>,
}

impl<P: Platform> Schedule<P> for Home<P> {
    /// Sends the next poll; returns it if the queue is closed.
    #[inline]
    fn send(&self, runnable: Runnable<P>) -> Option<Runnable<P>> {
        let cpu = self.task_ref.polled_on();
        match self.task_ref.queue().enter_near(cpu, Origin::WokenTask, WhenFull::Exceed) {
            Ok(entry) => {
                entry.send_as(|| Label::Part, runnable);
                None
            }
            Err(_closed) => Some(runnable),
        }
    }

    fn callbacks(&self) -> Option<Arc<Timers<P>>> {
        let queue = self.task_ref.queue();
        let timers = (!queue.is_forked()).then(|| Arc::clone(queue.timers()))?;
        // The keeper provides a thread for waiting callbacks.
        timers.start_keeper().is_ok().then_some(timers)
    }

    fn unclaimed(&self, thrown: Thrown) -> Unclaimed<P> {
        Unclaimed::of(&self.task_ref.queue().core, thrown)
    }

    unsafe fn list(&self, task: WaitingTask) -> bool {
        // SAFETY: by this function's contract, which is the same.
        unsafe { self.task_ref.list(task) }
    }

    #[inline]
    unsafe fn unlist(&self) {
        // SAFETY: as above.
        unsafe { self.task_ref.unlist() };
    }
}

impl<P: Platform> Workqueue<P> {
    /// Runs a future on the queue's workers, in the pod of the CPU that the caller runs on. Makes one allocation, for the task.
    ///
    /// Each poll is an item of the queue. A waiting future is in no queue, so `drain`, `shutdown` and the drop of the last
    /// handle do not wait for it. If it is woken after that, a thread of the runtime soon drops it; the waking thread runs none
    /// of its code.
    ///
    /// In a queue with a [`capacity`](crate::Builder::capacity), a future that was never polled is a waiting item. If the queue
    /// is full, the call waits as [`queue`](Workqueue::queue) does. Later polls do not wait for room, since the future was
    /// accepted already.
    ///
    /// # Errors
    /// Returns `future` if the queue is shut down.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("requests").build()?;
    /// let length = queue.spawn(async { "answer".len() })?;
    /// let twice = queue.spawn(async move { 2 * length.await })?;
    /// assert_eq!(block_on(twice), 12); // under any executor
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "tokio::spawn")]
    #[inline]
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<Task<F::Output>, Refused<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn(self.shared(), future, WhenFull::Wait)
    }

    /// Spawns `future` like [`spawn`](Self::spawn), but does not wait if the queue is full.
    ///
    /// # Errors
    /// Fails as [`spawn`](Self::spawn) does. Also returns `future`, with the reason [`Full`](crate::RefusedReason::Full), if
    /// the queue's [`capacity`](crate::Builder::capacity) is used up.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("requests").capacity(64).build()?;
    /// match queue.try_spawn(async { "200 OK" }) {
    ///     Ok(task) => assert_eq!(block_on(task), "200 OK"),
    ///     Err(refused) => println!("503, come later: {refused}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn try_spawn<F>(&self, future: F) -> Result<Task<F::Output>, Refused<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn(self.shared(), future, WhenFull::Refuse)
    }
}

impl<P: Platform> Reservation<P> {
    /// Spawns `future` without waiting; see [`Workqueue::spawn`]. Its first poll uses this room.
    ///
    /// # Errors
    /// Returns `future` if the queue rejects it; never because it is full.
    #[track_caller]
    pub fn spawn<F>(mut self, future: F) -> Result<Task<F::Output>, Refused<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let shared = Arc::clone(self.shared());
        match self.enter() {
            Ok(entry) => Ok(spawn_entered(&shared, P::current_cpu(), entry, future)),
            Err(reason) => Err(Refused::new(future, reason)),
        }
    }
}

#[inline]
#[track_caller]
fn spawn<P, F>(
    shared: &Arc<Shared<P>>,
    future: F,
    when_full: WhenFull,
) -> Result<Task<F::Output>, Refused<F>>
where
    P: Platform,
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let cpu = P::current_cpu();
    // Counted in before the task is created, so that a rejected future is returned unchanged.
    let entry = match shared.enter_near(cpu, Origin::Outside, when_full) {
        Ok(entry) => entry,
        Err(reason) => return Err(Refused::new(future, reason)),
    };
    Ok(spawn_entered(shared, cpu, entry, future))
}

/// Creates a task whose first poll was counted in.
#[inline(always)]
#[track_caller]
fn spawn_entered<P, F>(
    shared: &Arc<Shared<P>>,
    cpu: CpuId,
    entry: SubmitPermit<'_, P>,
    future: F,
) -> Task<F::Output>
where
    P: Platform,
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let span = entry.task_span::<F>();
    let home = Home { task_ref: TaskRef::new(shared, cpu) };
    let (task, runnable) = cell::TaskCell::new(future, span, home);
    entry.send_as(|| Label::Part, runnable);
    // SAFETY: created just now, with a reference for its handle.
    unsafe { Handles::<P, F, Home<P>>::handle(task) }
}

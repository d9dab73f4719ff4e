//! The result of a submitted item.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Host, Platform, Time};

use super::claimable::{Claimable, PATIENCE, Wait};
use super::limiter::GateAnswer;
use super::panics::{Panic, Unclaimed};
use super::pool_link::Entry;
use crate::base::completion::Completion;
use crate::base::error::{Dropped, Forked, WouldDeadlock, message_of};
use crate::base::item::ItemBody;
use crate::base::latch::Latch;
use crate::base::returned::{Returned, ReturnedBody};
use crate::insight::Label;
use crate::insight::trouble::say;
use crate::pool::{
    CurrentWorker, JobId, blocking, blocking_if_relieved, is_inside, wait_for_workers,
    wait_in_turns,
};
use crate::timers::Timers;

/// Looks at a result that is not there before its waiter sleeps.
const SPINS: u32 = 200;

/// An item, and later what has come of it, in one allocation. The item's place in the queue has one
/// reference, whoever waits for it the other one.
pub(crate) struct Submitted<P: Platform, F, T> {
    claimable: Claimable<P>,
    over: Completion<P>,
    slot: UnsafeCell<Submission<P, F, T>>,
}

enum Submission<P: Platform, F, T> {
    Work(F),
    Value(Result<T, Unclaimed<P>>),
    Empty,
}

// SAFETY: who has claimed the item takes the work and, if that is a worker, leaves the value before the
// latch opens (release); the one who waits takes that after it saw the latch open (acquire).
unsafe impl<P: Platform, F: Send, T: Send> Sync for Submitted<P, F, T> {}
// SAFETY: as above.
unsafe impl<P: Platform, F: Send, T: Send> Send for Submitted<P, F, T> {}

/// What whoever waits for an item sees of it.
pub(crate) trait AwaitedItem<P: Platform, T> {
    fn claimable(&self) -> &Claimable<P>;
    fn over(&self) -> &Latch<P>;

    /// Runs the item here.
    ///
    /// # Safety
    /// The caller has claimed it, just now.
    unsafe fn run(&self) -> Result<T, Thrown>;

    /// What the worker has left.
    ///
    /// # Safety
    /// The latch was seen to be open, and this is called once.
    unsafe fn take(&self) -> Result<T, Thrown>;
}

impl<P: Platform, F, T> Drop for Submitted<P, F, T> {
    /// A result that nobody took. If its destructor panics, whoever drops the last reference is told: the
    /// handle's owner, or the worker, and so the queue's panic handler.
    fn drop(&mut self) {
        if let Submission::Value(Ok(value)) =
            std::mem::replace(self.slot.get_mut(), Submission::Empty)
            && let Err(thrown) = user::resume_unless_unwinding(user::discard(value))
        {
            let panic = message_of(thrown.payload());
            say(|| tracing::error!(panic, "a result panicked as it was dropped"));
        }
    }
}

impl<P: Platform, F, T> Submitted<P, F, T> {
    #[inline]
    fn new(entry: &Entry<'_, P>, work: F) -> Arc<Self> {
        Arc::new(Self {
            claimable: Claimable::new(entry, false),
            over: Completion::new(),
            slot: UnsafeCell::new(Submission::Work(work)),
        })
    }

    /// Takes what is there.
    ///
    /// # Safety
    /// Nobody else looks at it: see the rules at `Sync`.
    unsafe fn replace(&self, by: Submission<P, F, T>) -> Submission<P, F, T> {
        // SAFETY: by this function's contract.
        unsafe { self.slot.get().replace(by) }
    }
}

impl<P: Platform, F: FnOnce() -> T, T> Submitted<P, F, T> {
    /// # Safety
    /// The caller has claimed the item, just now.
    unsafe fn call(&self) -> Result<T, Thrown> {
        // SAFETY: by this function's contract, and the value is left later.
        match unsafe { self.replace(Submission::Empty) } {
            Submission::Work(work) => user::call(work),
            _ => unreachable!("an item that nobody has begun is there"),
        }
    }
}

impl<P: Platform, F: FnOnce() -> T, T> AwaitedItem<P, T> for Submitted<P, F, T> {
    fn claimable(&self) -> &Claimable<P> {
        &self.claimable
    }

    fn over(&self) -> &Latch<P> {
        self.over.latch()
    }

    unsafe fn run(&self) -> Result<T, Thrown> {
        let mut result = None;
        // SAFETY: by this function's contract.
        self.claimable.run(whole_at(self.over()), || result = Some(unsafe { self.call() }));
        result.expect("it was run")
    }

    unsafe fn take(&self) -> Result<T, Thrown> {
        // SAFETY: by this function's contract.
        match unsafe { self.replace(Submission::Empty) } {
            Submission::Value(value) => value.map_err(Unclaimed::claim),
            _ => panic!("the result of a work item was taken before"),
        }
    }
}

/// What its handle sees of an item, beside that: it may be cancelled, and be polled for.
pub(crate) trait OwnedItem<P: Platform, T>: AwaitedItem<P, T> {
    fn completion(&self) -> &Completion<P>;

    /// Calls the closure as that of nobody's item.
    ///
    /// # Safety
    /// The caller has cancelled it, and does this or [`Self::discard`], once.
    unsafe fn call_cancelled(&self) -> Result<T, Thrown>;

    /// Drops the closure.
    ///
    /// # Safety
    /// As of [`Self::call_cancelled`].
    unsafe fn discard(&self) -> Result<(), Thrown>;
}

impl<P: Platform, F: FnOnce() -> T, T> OwnedItem<P, T> for Submitted<P, F, T> {
    fn completion(&self) -> &Completion<P> {
        &self.over
    }

    unsafe fn call_cancelled(&self) -> Result<T, Thrown> {
        // SAFETY: cancelled, by this function's contract, which claims it for good.
        unsafe { self.call() }
    }

    unsafe fn discard(&self) -> Result<(), Thrown> {
        // SAFETY: as above.
        user::discard(unsafe { self.replace(Submission::Empty) })
    }
}

/// What is over when this opens, for those who are inside of it.
fn whole_at<P: Platform>(over: &Latch<P>) -> *const () {
    std::ptr::from_ref(over).cast()
}

/// Waits for an item: runs it here where nobody has begun it and that may be, else sleeps until it is
/// over. `None` in a process that was forked since.
pub(crate) fn wait_for<P: Platform, T>(
    item: &dyn AwaitedItem<P, T>,
    wait: Wait,
) -> Option<Result<T, Thrown>> {
    let over = item.over();
    if over.is_orphaned() {
        return None;
    }
    if wait == Wait::Help {
        let claimable = item.claimable();
        // On a stack that is used up, only if nobody else can go on. Others may fall asleep later, so it
        // is asked again and again.
        if !claimable.needs_lent_turn()
            && CurrentWorker::<P>::here().is_some_and(|worker| !worker.has_room())
        {
            let sleep = || over.wait_timeout(PATIENCE);
            while claimable.is_queued() && blocking_if_relieved::<P, _>(sleep).is_some() {}
        }
        loop {
            match claimable.claim() {
                // SAFETY: claimed just now.
                GateAnswer::Claimed => return Some(unsafe { item.run() }),
                GateAnswer::Begun => break,
                // Nobody tells of a thaw.
                GateAnswer::Frozen => drop(blocking::<P, _>(|| over.wait_timeout(PATIENCE))),
                // Another worker sets it aside, if there is one.
                GateAnswer::Stopped => {
                    let sleep = || over.wait_timeout(PATIENCE);
                    if blocking_if_relieved::<P, _>(sleep).is_none() && claimable.cancel() {
                        return Some(Err(Thrown::new(Box::new(Dropped))));
                    }
                }
            }
        }
    }
    let is_open = match CurrentWorker::<P>::here() {
        Some(worker) if !worker.pool().is_team() => {
            worker.help_until(over, JobId::at(over), || false, || false)
        }
        Some(_) => wait_for_workers(over),
        None => P::watch(SPINS, || over.is_open()) || over.wait(),
    };
    // SAFETY: the latch was seen to be open, so the worker is done with the value; whoever calls this
    // does so once.
    is_open.then(|| unsafe { item.take() })
}

/// The right to the result of an item: [`join`](Self::join) it, await it (it is a future, under any
/// executor), or [`cancel`](Self::cancel) it.
///
/// Dropping it lets the item run all the same; the queue's panic handler is told then what the item throws,
/// or has thrown.
///
/// ```
/// let queue = coreshard::workqueue()?.name("sums").build()?;
/// let sum = queue.submit(|| (1..=10).sum::<u32>())?;
/// let task = queue.spawn(async move { sum.await.map(|sum| sum + 1) })?;
/// let waited = queue.submit(|| 1)?.join()?;
/// # let waker = std::task::Waker::noop();
/// # let mut context = std::task::Context::from_waker(&waker);
/// # let mut task = std::pin::pin!(task);
/// # let done = loop {
/// #     if let std::task::Poll::Ready(done) = Future::poll(task.as_mut(), &mut context) { break done }
/// # };
/// # assert_eq!((done?, waited), (56, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "without its handle, an item's result is lost; `queue` needs none"]
pub struct JoinHandle<T, P: Platform = Host> {
    pub(super) item: Arc<dyn OwnedItem<P, T> + Send + Sync>,
    /// A waker was left with the item's completion.
    pub(super) is_polled: bool,
}

impl<P: Platform, T> JoinHandle<T, P> {
    /// True inside the very item, on whichever thread, which is over only after the caller.
    fn is_own(&self) -> bool {
        !self.is_finished() && is_inside::<P>(whole_at(self.item.over()))
    }

    /// What to say where the item could never be over while the caller waits.
    fn deadlock(&self, wait: Wait) -> Option<WouldDeadlock> {
        if self.is_own() {
            return Some(WouldDeadlock::own(self.item.claimable().queue_name()));
        }
        (wait == Wait::Never).then(|| WouldDeadlock::behind(self.item.claimable().queue_name()))
    }

    /// True once the item is over: then [`join`](Self::join) does not wait.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("sums").build()?;
    /// let sum = queue.submit(|| (1..=10).sum::<u32>())?;
    /// queue.flush()?;
    /// assert!(sum.is_finished());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_finished(&self) -> bool {
        self.item.over().is_open()
    }

    /// Checks whether [`join`](Self::join) would refuse to wait here. For a caller that waits for the item's end by means of its own.
    ///
    /// # Errors
    /// [`WouldDeadlock`], as `join`.
    ///
    /// # Examples
    /// ```
    /// use coreshard::WouldDeadlock;
    ///
    /// let queue = coreshard::workqueue()?.name("log").ordered().build()?;
    /// let log = queue.clone();
    /// let first = queue.submit(move || {
    ///     let behind = log.submit(|| ()).unwrap();
    ///     behind.check_join().is_err()
    /// })?;
    /// assert!(first.check_join().is_ok(), "this thread is inside no item");
    /// assert!(first.join()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_join(&self) -> Result<(), WouldDeadlock> {
        self.deadlock(self.item.claimable().wait()).map_or(Ok(()), Err)
    }

    /// Waits until the item is over.
    ///
    /// ```
    /// let queue = coreshard::workqueue()?.name("sums").build()?;
    /// assert_eq!(queue.submit(|| 6 * 7)?.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Inside an item of a queue with the same attributes, an item that nobody has begun is run at
    /// once, by this call; but that of a queue with a limit only inside another one of that queue,
    /// which lends it its turn. Otherwise another worker takes this one's place meanwhile.
    ///
    /// # Errors
    /// What the item threw, if it panicked. [`Forked`], if it is an item of the process that this
    /// one was forked from: it never ends here. [`WouldDeadlock`], if it is the caller's own item, or one that
    /// waits for the caller; or if it is behind the caller's own in a queue that runs one at a time: then it runs when its turn has
    /// come, unawaited.
    /// [`Dropped`], if the queue was shut down before the item had begun
    /// ([`shutdown_now`](crate::Workqueue::shutdown_now)), and whoever did so dropped it.
    /// [`Panic::into_payload`] holds them.
    ///
    /// # Panics
    /// If the handle was awaited to its end before.
    pub fn join(mut self) -> Result<T, Panic> {
        self.forget_waker();
        let wait = self.item.claimable().wait();
        if let Some(deadlock) = self.deadlock(wait) {
            return Err(Panic::of(deadlock));
        }
        match wait_for(&*self.item, wait) {
            Some(result) => result.map_err(Panic::thrown),
            None => Err(Panic::of(Forked)),
        }
    }

    /// Waits until the item is over, or for `timeout`: then the handle comes back, and the item goes on.
    ///
    /// Unlike [`join`](Self::join), this call never runs the item itself, which could take longer; on a worker,
    /// another one takes this one's place meanwhile. So an item of a queue with a limit that only the caller's
    /// own turn could run is not over when the time is: `join` it, then, or [`cancel`](Self::cancel) it.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = coreshard::workqueue()?.name("slow").build()?;
    /// let mut slow = queue.submit(|| std::thread::sleep(Duration::from_millis(30)))?;
    /// let outcome = loop {
    ///     match slow.join_timeout(Duration::from_millis(10)) {
    ///         Ok(outcome) => break outcome,
    ///         Err(handle) => slow = handle, // not over: it is waited for again
    ///     }
    /// };
    /// outcome?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The handle, when the time is over. What is inside of `Ok` is what [`join`](Self::join) returns, at once
    /// where the item could never be over while the caller waits.
    ///
    /// # Panics
    /// As `join`.
    pub fn join_timeout(mut self, timeout: Duration) -> Result<Result<T, Panic>, Self> {
        self.forget_waker();
        if let Some(deadlock) = self.deadlock(self.item.claimable().wait()) {
            return Ok(Err(Panic::of(deadlock)));
        }
        match wait_until_over(&*self.item, timeout) {
            Some(Some(result)) => Ok(result.map_err(Panic::thrown)),
            Some(None) => Ok(Err(Panic::of(Forked))),
            None => Err(self),
        }
    }
}

/// Sleeps until the item is over, or for `timeout`: then `None`. Inside of that `None` in a process that was
/// forked since.
fn wait_until_over<P: Platform, T>(
    item: &dyn AwaitedItem<P, T>,
    timeout: Duration,
) -> Option<Option<Result<T, Thrown>>> {
    let over = item.over();
    if over.is_orphaned() {
        return Some(None);
    }
    // Where the clock ends before, it is waited for without a time.
    let deadline = Timers::<P>::deadline(timeout).ok();
    let wait = |until: Option<Time>| loop {
        let left = until.map_or(FOR_LONG, |until| until - P::now());
        // Once at least, so that a timeout of nothing is a look.
        if over.wait_timeout(left) || until.is_some_and(|until| P::now() >= until) {
            return over.is_open();
        }
    };
    let is_open = over.is_open() || wait_in_turns::<P>(deadline, wait);
    // SAFETY: the latch was seen to be open, so the worker is done with the value; this is called once for it.
    is_open.then(|| Some(unsafe { item.take() }))
}

/// One of the sleeps of a wait without a time.
const FOR_LONG: Duration = Duration::from_secs(3600);

impl<P: Platform, T> fmt::Debug for JoinHandle<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}

#[inline]
#[track_caller]
pub(crate) fn submit<P, F, T>(entry: Entry<'_, P>, work: F) -> JoinHandle<T, P>
where
    P: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let item = Submitted::new(&entry, work);
    entry.send_as(Label::item::<F>, SubmittedPlace(Arc::clone(&item)));
    JoinHandle { item, is_polled: false }
}

/// Sends `work`. What it and its result borrow must be there until it is over.
#[inline(always)]
#[track_caller]
pub(crate) fn send<P, F, T>(entry: Entry<'_, P>, work: F) -> Arc<Submitted<P, F, T>>
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let item = Submitted::new(&entry, work);
    let placed = Arc::clone(&item);
    entry.send_as(Label::item::<F>, move || run_placed(placed));
    item
}

/// A worker has come to the item's place.
#[inline]
fn run_placed<P: Platform, F: FnOnce() -> T, T>(placed: Arc<Submitted<P, F, T>>) {
    if placed.claimable.begin() {
        let over = &raw const *placed.over.latch();
        let worker = CurrentWorker::<P>::here();
        // SAFETY: `placed` keeps the latch until the value is left.
        let part = worker.and_then(|worker| unsafe { worker.begin_item(over) });
        // SAFETY: claimed just now.
        let result = unsafe { placed.call() };
        drop(part);
        leave(placed, result);
    }
}

/// The place of an item that borrows nothing, and so may come back.
struct SubmittedPlace<P: Platform, F, T>(Arc<Submitted<P, F, T>>);

impl<P, F, T> ItemBody for SubmittedPlace<P, F, T>
where
    P: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Named = F;
    const IS_AWAITED: bool = false;

    #[inline(always)]
    fn run(self) {
        run_placed(self.0);
    }

    fn is_void(&self) -> bool {
        !self.0.claimable.is_queued()
    }

    fn set_aside(self) -> Option<Returned> {
        // Claimed: nobody looks at where it was queued from here on.
        self.0.claimable.begin().then(|| Returned::new(ReturnedSubmission(self.0)))
    }
}

/// A submitted item that was claimed to be handed back. Whoever joins it waits for what comes of it.
struct ReturnedSubmission<P: Platform, F, T>(Arc<Submitted<P, F, T>>);

impl<P, F, T> ReturnedBody for ReturnedSubmission<P, F, T>
where
    P: Platform,
    F: FnOnce() -> T + Send,
    T: Send,
{
    fn run(self: Box<Self>) {
        // SAFETY: it was claimed, and this is its one use.
        let result = unsafe { self.0.call() };
        leave(self.0, result);
    }

    fn discard(self: Box<Self>) -> Result<(), Thrown> {
        let item = self.0;
        // SAFETY: it was claimed, and this is its one use.
        let dropped = user::discard(unsafe { item.replace(Submission::Empty) });
        let told = Unclaimed::of_nobody(Thrown::new(Box::new(Dropped)));
        // SAFETY: as in `leave`.
        unsafe { item.replace(Submission::Value(Err(told))) };
        // SAFETY: as in `leave`.
        let woken = unsafe { item.over.open() };
        dropped.and(woken)
    }

    fn has_handle(&self) -> bool {
        true
    }
}

/// Leaves the result for the handle. If nobody holds that any more, a panic goes on to the
/// queue's panic handler.
#[inline(always)]
fn leave<P: Platform, F, T>(item: Arc<Submitted<P, F, T>>, result: Result<T, Thrown>) {
    let result = match result {
        // Inside the item, so that the worker hears what it throws as it goes.
        Ok(value) if Arc::strong_count(&item) == 1 => return drop(value),
        Err(thrown) if Arc::strong_count(&item) == 1 => thrown.resume(),
        result => result.map_err(Unclaimed::here),
    };
    // SAFETY: the latch is not open yet, so the handle's holder does not look at the value.
    unsafe { item.replace(Submission::Value(result)) };
    // SAFETY: this Arc keeps it, and whoever has claimed the item leaves its result once.
    if let Err(thrown) = unsafe { item.over.open() } {
        // The waker's. The worker hears of it.
        thrown.resume();
    }
}

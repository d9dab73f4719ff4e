//! Scopes: work that borrows from its caller, which waits for all of it.
//!
//! If the caller is inside an item of the queue, and the queue need not see each of its items (for a limit or a measurement),
//! new items are *spawned*: they are pushed to the worker's stack of forked jobs (`../pool/README.md`). Items queued by those
//! jobs go to the stacks of the workers that run them. While the caller waits, it runs its spawned items that no worker has
//! taken, the latest first, and then parts of the items that other workers have taken. So scopes may nest as deep as there is
//! stack, whatever the number of workers.
//!
//! Other items go through the intake. If the caller may run such an item (see [`Wait::Help`]), the item is *offered* to it:
//! while the caller waits, it runs the offers that have not begun. Offers are under the scope's own lock, which the workers
//! that run the items do not take.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Host, Lock, Platform};

use super::claimable::{Claimable, PATIENCE};
use super::deadlock::{Wait, Waiter};
use super::item_cell::ItemCell;
use super::panics::Panic;
use crate::base::error::{Forked, Refused, RefusedReason};
use crate::base::latch::Latch;
use crate::base::target::Target;
use crate::insight::Label;
use crate::pool::{
    CurrentWorker, Frame, Header, JobId, OpenScope, Spawned, blocking, blocking_if_relieved,
    innermost, wait_for_workers,
};
use crate::queue::link::{GateAnswer, SubmitPermit, WhenFull};
use crate::queue::shared::Shared;

/// State shared by the items and the waiting caller. It lies in the caller's frame.
pub(super) struct ScopeState<P: Platform> {
    /// Items that have not finished, plus one for the caller's body.
    open: P::AtomicU64,
    /// Opens when the last item has finished, if the caller's body has ended before.
    over: Latch<P>,
    /// Panics of items: the first, or all.
    thrown: Lock<P, Vec<Thrown>>,
    keeps_all: bool,
    /// The caller, if it is a worker.
    waiter: Option<Waiter>,
    /// The frame that the caller is inside of.
    opener: *const Frame<P>,
    /// Items for the caller to run.
    offers: Lock<P, Offers<P>>,
}

// SAFETY: the frame is accessed only by threads that run an item of the scope, and until that item ends the caller leaves none
// of the frames that it was inside of. All other fields can be shared.
unsafe impl<P: Platform> Sync for ScopeState<P> {}

/// An item that was counted in: the scope lives until the item has ended.
pub(super) struct Ticket<P: Platform>(NonNull<ScopeState<P>>);

// SAFETY: it points to a `Sync` value.
unsafe impl<P: Platform> Send for Ticket<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for Ticket<P> {}

impl<P: Platform> Ticket<P> {
    /// Keeps a panic for the caller; returns it if the caller takes no more.
    pub(super) fn keep(&self, thrown: Thrown) -> Option<Thrown> {
        // SAFETY: the caller of the scope waits for the item's end.
        unsafe { self.0.as_ref() }.keep(thrown)
    }

    /// Counts the item as finished; called once. The scope may be freed when this returns.
    pub(super) fn end(&self) {
        // SAFETY: by this type's meaning the item was counted in, and it is counted as finished once, here.
        unsafe { ScopeState::one_is_over(self.0.as_ptr()) };
    }

    /// Calls `work` as the item.
    fn run(self, work: impl FnOnce()) {
        let more = user::call(work).err().and_then(|thrown| self.keep(thrown));
        self.end();
        // The caller reports the panic that was kept. This one goes to the thread that runs the item, and so to the queue's
        // panic handler.
        if let Some(thrown) = more {
            thrown.resume();
        }
    }
}

/// Claimed offers are removed when there are this many, and again whenever the number has doubled since.
const MIN_OFFERS: usize = 64;

struct Offers<P: Platform> {
    /// The latest last.
    items: Vec<Arc<dyn Offer<P>>>,
    /// The length of `items` at which claimed offers are removed.
    full: usize,
    /// The items wait for the caller's own turn: no other thread can run them.
    lent: bool,
}

/// An item that the scope's caller may run.
///
/// It may outlive the values that its closure borrowed. The closure itself is then gone, and no value of its type is accessed
/// any more.
pub(super) trait Offer<P: Platform>: Send + Sync {
    fn claimable(&self) -> &Claimable<P>;

    /// Runs it.
    ///
    /// # Safety
    /// The caller has just claimed it.
    unsafe fn run(&self);
}

struct Offered<P: Platform, F> {
    claimable: Claimable<P>,
    work: ItemCell<F, ()>,
}

// SAFETY: the work is taken once, by the thread that has claimed it; it is `Send`.
unsafe impl<P: Platform, F: Send> Sync for Offered<P, F> {}

impl<P: Platform, F: FnOnce() + Send> Offer<P> for Offered<P, F> {
    fn claimable(&self) -> &Claimable<P> {
        &self.claimable
    }

    unsafe fn run(&self) {
        // SAFETY: by this function's contract.
        let work = unsafe { self.work.take_work() };
        self.claimable.run(ptr::null(), work);
    }
}

impl<P: Platform> ScopeState<P> {
    /// Keeps a panic for the caller; returns it if there is one already.
    fn keep(&self, thrown: Thrown) -> Option<Thrown> {
        let mut kept = self.thrown.lock();
        if !kept.is_empty() && !self.keeps_all {
            return Some(thrown);
        }
        kept.push(thrown);
        None
    }

    /// Counts one item as finished. AcqRel: the caller sees the effects of all items.
    ///
    /// # Safety
    /// The scope is alive, and one item has finished that was not counted yet.
    unsafe fn one_is_over(state: *const Self) {
        // SAFETY: the scope lives until the last item has finished; the latch's address is computed before that.
        let (open, over) = unsafe { (&raw const (*state).open, &raw const (*state).over) };
        // SAFETY: the last one opens the latch, and the caller waits for that, unless it was the last itself.
        unsafe {
            if (*open).fetch_sub(1, AcqRel) == 1 {
                Latch::open(over);
            }
        }
    }

    /// Sends an item, and offers it to the caller.
    #[track_caller]
    fn send_offered<'scope>(
        &self,
        entry: SubmitPermit<'_, P>,
        label: Label,
        work: impl FnOnce() + Send + 'scope,
    ) {
        let item = Arc::new(Offered {
            claimable: Claimable::new(&entry, true),
            work: ItemCell::new(work),
        });
        let offer: Arc<dyn Offer<P> + 'scope> = Arc::clone(&item) as _;
        self.offer(offer);
        entry.send_as(
            || label,
            move || {
                if item.claimable.begin() {
                    // SAFETY: claimed just now.
                    let work = unsafe { item.work.take_work() };
                    work();
                }
            },
        );
    }

    /// Offers an item to the caller before the item is sent: after that the scope may end at any moment.
    pub(super) fn offer<'scope>(&self, offer: Arc<dyn Offer<P> + 'scope>) {
        // SAFETY: the offer is run before the scope ends, if at all, since the item is; `Offer` explains what remains of it
        // afterwards.
        let offer: Arc<dyn Offer<P>> =
            unsafe { std::mem::transmute::<Arc<dyn Offer<P> + 'scope>, Arc<dyn Offer<P>>>(offer) };
        let mut offers = self.offers.lock();
        if offers.items.len() >= offers.full {
            offers.items.retain(|offer| offer.claimable().is_queued());
            offers.full = (2 * offers.items.len()).max(MIN_OFFERS);
        }
        offers.lent |= offer.claimable().needs_lent_turn();
        offers.items.push(offer);
        drop(offers);
        self.over.nudge();
    }

    /// Claims the latest item that has not begun. If there is none, `Err` says whether some are frozen.
    fn claim_offer(&self) -> Result<Arc<dyn Offer<P>>, bool> {
        let mut offers = self.offers.lock();
        let mut has_frozen = false;
        for at in (0..offers.items.len()).rev() {
            match offers.items[at].claimable().claim() {
                GateAnswer::Frozen => has_frozen = true,
                GateAnswer::Claimed => return Ok(offers.items.remove(at)),
                GateAnswer::Begun | GateAnswer::Stopped => drop(offers.items.remove(at)),
            }
        }
        Err(has_frozen)
    }

    /// Returns true if there are items that have not begun.
    fn has_offers(&self) -> bool {
        self.offers.lock().items.iter().any(|offer| offer.claimable().is_queued())
    }

    /// Returns true if there are items that have not begun and that other workers may run.
    fn leaves_offers(&self) -> bool {
        let mut offers = self.offers.lock();
        while offers.items.pop_if(|offer| !offer.claimable().is_queued()).is_some() {}
        !offers.lent && !offers.items.is_empty()
    }

    /// Runs an item that has not begun, on a worker. Returns false if there is none.
    fn run_offer(&self, worker: CurrentWorker<'_, P>) -> bool {
        // If the stack is used up, an item is run only if no other worker can make progress. Other workers may fall asleep
        // later, so this is checked repeatedly.
        if !worker.has_room()
            && self.leaves_offers()
            && blocking_if_relieved::<P, _>(|| self.over.wait_timeout(PATIENCE)).is_some()
        {
            return true;
        }
        match self.claim_offer() {
            // SAFETY: claimed just now.
            Ok(offer) => unsafe { offer.run() },
            Err(false) => return false,
            // A thaw sends no notification.
            Err(true) => drop(blocking::<P, _>(|| self.over.wait_timeout(PATIENCE))),
        }
        true
    }

    /// Waits until all items have finished. Returns false if this process was forked since the scope began.
    fn wait(&self, spawns: Option<&OpenScope<'_, P>>) -> bool {
        let Some(worker) = CurrentWorker::<P>::here().filter(|_| self.waiter.is_some()) else {
            return wait_for_workers(&self.over);
        };
        let is_over = worker.help_until(
            &self.over,
            JobId::at(&raw const self.over),
            || spawns.is_some_and(OpenScope::run_one) || self.run_offer(worker),
            || self.has_offers(),
        );
        // Offers that were never run point to this scope; that happens only if the process was forked.
        self.offers.lock().items.clear();
        is_over
    }
}

/// A scope whose work may borrow data from outside it; see [`Workqueue::scope`](crate::Workqueue::scope).
pub struct WorkScope<'scope, 'env: 'scope, P: Platform = Host> {
    queue: &'env Shared<P>,
    state: &'scope ScopeState<P>,
    /// Invariant in both lifetimes, as in [`std::thread::Scope`].
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, P: Platform> WorkScope<'scope, '_, P> {
    /// Queues `work`, which may borrow from outside the scope, and may queue more work through it.
    ///
    /// # Errors
    /// Fails if the queue is shut down. Also fails if the scope was opened inside an item of the same queue, and the queue runs
    /// one item at a time: `work` could not begin before that item has finished. (In a queue with a limit but no order, the
    /// scope's caller runs it.) On an error `work` is dropped, uncalled.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("words").build()?;
    /// let (text, mut lines, mut words) = ("to be\nor not", 0, 0);
    /// queue.scope(|scope| {
    ///     scope.queue(|| lines = text.lines().count()).expect("the queue is open");
    ///     scope.queue(|| words = text.split_whitespace().count()).expect("the queue is open");
    /// });
    /// assert_eq!((lines, words), (2, 4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn queue<F>(&'scope self, work: F) -> Result<(), Refused>
    where
        F: FnOnce() + Send + 'scope,
    {
        if let Some(worker) = self.spawns_here() {
            worker.spawn(self.spawned(worker, work));
            return Ok(());
        }
        let (entry, wait) = self.enter(Target::Here)?;
        self.send(entry, wait, Label::item::<F>(), self.item(work));
        Ok(())
    }

    /// Queues a closure like [`queue`](Self::queue), and passes it the scope, through which it can queue more work.
    ///
    /// # Errors
    /// Fails as [`queue`](Self::queue) does.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::{Runtime, WorkScope};
    /// # use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// # let queue = runtime.workqueue().build()?;
    /// struct Folder(Vec<Folder>);
    ///
    /// fn walk<'scope>(
    ///     scope: &'scope WorkScope<'scope, '_, Host>,
    ///     folder: &'scope Folder,
    ///     count: &'scope AtomicUsize,
    /// ) {
    ///     count.fetch_add(1, Relaxed);
    ///     for inner in &folder.0 {
    ///         scope.queue_with(move |scope| walk(scope, inner, count)).expect("the queue is open");
    ///     }
    /// }
    ///
    /// let tree = Folder(vec![Folder(vec![Folder(vec![])]), Folder(vec![])]);
    /// let count = AtomicUsize::new(0);
    /// queue.scope(|scope| walk(scope, &tree, &count));
    /// assert_eq!(count.into_inner(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn queue_with<F>(&'scope self, work: F) -> Result<(), Refused>
    where
        F: FnOnce(&'scope Self) + Send + 'scope,
    {
        if let Some(worker) = self.spawns_here() {
            worker.spawn(self.spawned(worker, move || work(self)));
            return Ok(());
        }
        let (entry, wait) = self.enter(Target::Here)?;
        self.send(entry, wait, Label::item::<F>(), self.item(move || work(self)));
        Ok(())
    }

    /// Sends an item that was counted in, in the way that its scope's caller may wait for it.
    #[track_caller]
    pub(super) fn send(
        &self,
        entry: SubmitPermit<'_, P>,
        wait: Option<Wait>,
        label: Label,
        item: impl FnOnce() + Send + 'scope,
    ) {
        if wait == Some(Wait::Help) {
            self.state.send_offered(entry, label, item);
        } else {
            entry.send_as(|| label, item);
        }
    }

    /// Returns an item of the scope that was counted in.
    pub(super) fn item(
        &self,
        work: impl FnOnce() + Send + 'scope,
    ) -> impl FnOnce() + Send + 'scope {
        let ticket = self.ticket();
        // The item does not outlive its borrows: `run_to_end` returns only after it has finished.
        move || ticket.run(work)
    }

    /// Queues `work` in a pod, for its workers alone.
    #[track_caller]
    pub(crate) fn queue_there(
        &'scope self,
        target: Target,
        label: Label,
        work: impl FnOnce() + Send + 'scope,
    ) -> Result<(), RefusedReason> {
        let (entry, _) = self.enter(target)?;
        entry.send_as(|| label, self.item(work));
        Ok(())
    }

    pub(super) fn state(&self) -> &ScopeState<P> {
        self.state
    }

    /// Returns a ticket for an item that was counted in, which counts it as finished.
    pub(super) fn ticket(&self) -> Ticket<P> {
        Ticket(NonNull::from(self.state))
    }

    /// Returns the worker on this thread, if items of the scope can be spawned on it.
    pub(super) fn spawns_here(&self) -> Option<CurrentWorker<'_, P>> {
        let whole = &raw const self.state.over;
        CurrentWorker::here().filter(|worker| worker.may_spawn(whole))
    }

    /// Returns a job of the scope that is counted in.
    pub(super) fn spawned(
        &self,
        worker: CurrentWorker<'_, P>,
        work: impl FnOnce() + Send + 'scope,
    ) -> NonNull<Header<P>> {
        // Relaxed: as in `enter`.
        self.state.open.fetch_add(1, Relaxed);
        let (state, queue) = (self.state, worker.spawn_place().queue);
        Spawned::job(self.item(work), state.opener, &raw const state.over, queue)
    }

    pub(super) fn shared(&self) -> &'scope Shared<P> {
        self.queue
    }

    /// Counts an item in, both in the queue and in the scope; returns how the caller of the scope may wait for it.
    pub(super) fn enter(
        &self,
        target: Target,
    ) -> Result<(SubmitPermit<'_, P>, Option<Wait>), RefusedReason> {
        // Relaxed: the caller's own count keeps the sum above zero until the body has ended, and an item's count until the item
        // has.
        self.state.open.fetch_add(1, Relaxed);
        let entry = match self.queue.generations.enter(target, WhenFull::Wait) {
            Ok(entry) => entry,
            Err(reason) => {
                self.ticket().end();
                return Err(reason);
            }
        };
        let wait = self.state.waiter.as_ref().map(|waiter| waiter.wait_for(&entry));
        if wait == Some(Wait::Never) {
            entry.abandon();
            self.ticket().end();
            return Err(RefusedReason::WouldDeadlock);
        }
        Ok((entry, wait))
    }
}

impl<P: Platform> fmt::Debug for WorkScope<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkScope").field("queue", &self.queue.name()).finish_non_exhaustive()
    }
}

/// Returns the result of `body`, or its panic, and the panics of items, once all items have finished.
pub(crate) fn run_to_end<'env, P: Platform, R>(
    queue: &'env Shared<P>,
    keeps_all: bool,
    body: impl for<'scope> FnOnce(&'scope WorkScope<'scope, 'env, P>) -> R,
) -> (Result<R, Thrown>, Vec<Thrown>) {
    let state = ScopeState::<P> {
        open: P::AtomicU64::new(1),
        over: Latch::new(),
        thrown: Lock::new(Vec::new()),
        keeps_all,
        waiter: Waiter::here::<P>(queue.core.queue_id()),
        opener: innermost::<P>(),
        offers: Lock::new(Offers { items: Vec::new(), full: MIN_OFFERS, lent: false }),
    };
    let scope = WorkScope { queue, state: &state, scope: PhantomData, env: PhantomData };
    let place = state.waiter.as_ref().and_then(|waiter| waiter.spawn_place(queue));
    let spawns = CurrentWorker::<P>::here().zip(place);
    let spawns = spawns.map(|(worker, place)| worker.begin_scope(&raw const state.over, place));
    let result = user::call(|| body(&scope));
    if state.open.fetch_sub(1, AcqRel) != 1 && !state.wait(spawns.as_ref()) {
        Forked::throw();
    }
    drop(spawns);
    let thrown = std::mem::take(&mut *state.thrown.lock());
    (result, thrown)
}

/// The panics of a scope's body and items; see [`Workqueue::try_scope`](crate::Workqueue::try_scope).
pub struct ScopePanics {
    body: Option<Panic>,
    items: Vec<Panic>,
}

impl ScopePanics {
    /// Returns the body's result, unless it or an item panicked.
    pub(crate) fn unless_none<R>(result: Result<R, Thrown>, items: Vec<Thrown>) -> Result<R, Self> {
        let mut items: Vec<_> = items.into_iter().map(Panic::thrown).collect();
        match result {
            Ok(value) if items.is_empty() => Ok(value),
            Ok(value) => {
                items.extend(user::discard(value).err().map(Panic::thrown));
                Err(Self { body: None, items })
            }
            Err(thrown) => Err(Self { body: Some(Panic::thrown(thrown)), items }),
        }
    }

    /// Returns the body's panic.
    pub fn body(&self) -> Option<&Panic> {
        self.body.as_ref()
    }

    /// Returns the items' panics, in the order of the items' ends, except panics that a handle has reported.
    pub fn items(&self) -> &[Panic] {
        &self.items
    }

    /// Returns all panics, the body's first.
    pub fn into_panics(self) -> impl Iterator<Item = Panic> {
        self.body.into_iter().chain(self.items)
    }
}

impl fmt::Display for ScopePanics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = usize::from(self.body.is_some()) + self.items.len();
        let first = self.body.iter().chain(&self.items).next().map_or("", Panic::message);
        write!(f, "{count} panics in a scope, the first: {first}")
    }
}

coreshard_topology::readable_debug!(ScopePanics);

impl std::error::Error for ScopePanics {}

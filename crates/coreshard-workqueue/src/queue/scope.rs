//! Work that borrows from its caller, which waits for all of it.
//!
//! Where the caller is a worker that may run the scope's items (see [`Wait::Help`]), each of them is also
//! *offered* to it: while it waits, it runs those that nobody has begun, the latest first, and sleeps
//! only when all others are begun. So scopes may nest as deep as there is stack, whatever the number of
//! workers. Offers are under a lock of the scope's own, which workers that run the items do not take.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Lock, Parker, Platform};

use super::claimable::{Claimable, PATIENCE, Wait, Waiter};
use super::pool_link::Entry;
use super::workqueue::Workqueue;
use crate::base::error::{Forked, Refused, RefusedReason};
use crate::base::target::Target;
use crate::insight::Label;
use crate::pool::{CurrentWorker, blocking, blocking_if_relieved};

/// What the items and the waiting caller share; kept alive by whoever comes last.
struct ScopeState<P: Platform> {
    /// Items that are not over, and one for the caller's body.
    open: P::AtomicU64,
    caller: Parker<P>,
    /// What the first item that panicked threw.
    thrown: Lock<P, Option<Thrown>>,
    /// The caller, if it is a worker.
    waiter: Option<Waiter>,
    /// Items for the caller to run.
    offers: Lock<P, Offers<P>>,
}

/// Offers that were taken are thrown out when there are so many, and each time that there are twice as
/// many as were left then.
const MIN_OFFERS: usize = 64;

struct Offers<P: Platform> {
    /// The latest last.
    items: Vec<Arc<dyn Offer<P>>>,
    /// Of how many `items` is to be rid of those that were taken.
    full: usize,
    /// The caller sleeps, or is about to, since there were none.
    asleep: bool,
    /// They wait for the caller's own turn: nobody else can run them.
    lent: bool,
}

/// An item that the scope's caller may run.
///
/// It may be here when what its closure borrows is gone: then the closure is, too, and nothing of its type
/// is touched any more.
trait Offer<P: Platform>: Send + Sync {
    fn claimable(&self) -> &Claimable<P>;

    /// Runs it.
    ///
    /// # Safety
    /// The caller has claimed it, just now.
    unsafe fn run(&self);
}

struct Offered<P: Platform, F> {
    claimable: Claimable<P>,
    work: UnsafeCell<Option<F>>,
}

// SAFETY: the work is taken by who has claimed it, once, on whatever thread: it is `Send`.
unsafe impl<P: Platform, F: Send> Sync for Offered<P, F> {}

impl<P: Platform, F: FnOnce() + Send> Offered<P, F> {
    /// # Safety
    /// The caller has claimed it, just now.
    unsafe fn take(&self) -> F {
        // SAFETY: by this function's contract nobody else is here.
        let work = unsafe { (*self.work.get()).take() };
        work.expect("an item that nobody has begun is there")
    }
}

impl<P: Platform, F: FnOnce() + Send> Offer<P> for Offered<P, F> {
    fn claimable(&self) -> &Claimable<P> {
        &self.claimable
    }

    unsafe fn run(&self) {
        // SAFETY: by this function's contract.
        let work = unsafe { self.take() };
        self.claimable.run(work);
    }
}

impl<P: Platform> ScopeState<P> {
    /// Keeps what was thrown for the caller; gives it back if there is something already.
    fn keep(&self, thrown: Thrown) -> Option<Thrown> {
        let mut kept = self.thrown.lock();
        if kept.is_some() {
            return Some(thrown);
        }
        *kept = Some(thrown);
        None
    }

    /// One is over. AcqRel: the caller sees what all items did.
    fn one_is_over(&self) {
        if self.open.fetch_sub(1, AcqRel) == 1 {
            self.caller.unpark();
        }
    }

    /// Sends an item, and offers it to the caller.
    #[track_caller]
    fn send_offered<'scope>(
        &self,
        entry: Entry<'_, P>,
        label: Label,
        work: impl FnOnce() + Send + 'scope,
    ) {
        let item = Arc::new(Offered {
            claimable: Claimable::new(&entry),
            work: UnsafeCell::new(Some(work)),
        });
        let offer: Arc<dyn Offer<P> + 'scope> = Arc::clone(&item) as _;
        // SAFETY: it is run before the scope ends, if at all, since the item is; what is left of it then
        // is told at `Offer`.
        let offer: Arc<dyn Offer<P>> =
            unsafe { std::mem::transmute::<Arc<dyn Offer<P> + 'scope>, Arc<dyn Offer<P>>>(offer) };
        let wakes = {
            let mut offers = self.offers.lock();
            if offers.items.len() >= offers.full {
                offers.items.retain(|offer| offer.claimable().is_queued());
                offers.full = (2 * offers.items.len()).max(MIN_OFFERS);
            }
            offers.lent |= offer.claimable().needs_lent_turn();
            offers.items.push(offer);
            std::mem::take(&mut offers.asleep)
        };
        entry.send_as(
            || label,
            move || {
                if item.claimable.begin() {
                    // SAFETY: claimed just now.
                    let work = unsafe { item.take() };
                    work();
                }
            },
        );
        if wakes {
            self.caller.unpark();
        }
    }

    /// The latest item that nobody has begun, claimed. Where there is none, `Err`, with whether some are
    /// frozen: the next one wakes the caller, but a thaw does not.
    fn claim_offer(&self) -> Result<Arc<dyn Offer<P>>, bool> {
        let mut offers = self.offers.lock();
        let mut has_frozen = false;
        for at in (0..offers.items.len()).rev() {
            let claimable = offers.items[at].claimable();
            if claimable.is_queued() && claimable.is_frozen() {
                has_frozen = true;
                continue;
            }
            let offer = offers.items.remove(at);
            if offer.claimable().claim() {
                return Ok(offer);
            }
        }
        offers.asleep = true;
        Err(has_frozen)
    }

    /// True if there are items that nobody has begun, and that others may run: the next one wakes the
    /// caller.
    fn leaves_offers(&self) -> bool {
        let mut offers = self.offers.lock();
        while offers.items.pop_if(|offer| !offer.claimable().is_queued()).is_some() {}
        offers.asleep = true;
        !offers.lent && !offers.items.is_empty()
    }

    /// The caller waits for all items. False in a process that was forked since the scope began.
    fn wait(&self, process_generation: u32) -> bool {
        while self.open.load(Acquire) != 0 {
            if P::process_generation() != process_generation {
                return false;
            }
            let sleep = || self.caller.park();
            if self.waiter.is_none() {
                blocking::<P, _>(sleep);
                continue;
            }
            // On a stack that is used up, items are run only if nobody else can go on. Others may fall
            // asleep later, so it is asked again and again.
            if CurrentWorker::<P>::here().is_some_and(|worker| !worker.has_room())
                && self.leaves_offers()
                && blocking_if_relieved::<P, _>(|| self.caller.park_timeout(PATIENCE)).is_some()
            {
                continue;
            }
            match self.claim_offer() {
                // SAFETY: claimed just now.
                Ok(offer) => unsafe { offer.run() },
                Err(false) => blocking::<P, _>(sleep),
                Err(true) => {
                    blocking::<P, _>(|| self.caller.park_timeout(PATIENCE));
                }
            }
        }
        // They hold the tally, if they were never run: only where the process was forked.
        self.offers.lock().items.clear();
        true
    }
}

impl<P: Platform> Workqueue<P> {
    /// Calls `body` with a scope through which it can queue work that borrows from outside, and
    /// waits until all of it is over.
    ///
    /// On a worker that may run them ([`JoinHandle::join`](crate::JoinHandle::join) tells which), the caller runs those of the
    /// scope's items that nobody has begun: scopes may nest as deep as there is stack. An item that it
    /// runs so finds what the caller has on its thread: locks that are held, cells that are borrowed.
    ///
    /// # Panics
    /// With what `body` threw, or else with what the first of the scope's items threw, after all
    /// of them are over. With [`Forked`](crate::Forked) in a process that `body` forked, where the
    /// scope's items never end.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope WorkScope<'scope, 'env, P>) -> R,
    ) -> R {
        run(self, body)
    }
}

/// A scope in which work may borrow what lives outside it; see [`Workqueue::scope`].
pub struct WorkScope<'scope, 'env: 'scope, P: Platform> {
    queue: &'env Workqueue<P>,
    tally: Arc<ScopeState<P>>,
    /// Invariant in both lifetimes, as in [`std::thread::Scope`].
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, P: Platform> WorkScope<'scope, '_, P> {
    /// Queues `work`, which may borrow from outside the scope, and queue more through it.
    ///
    /// # Errors
    /// If the queue is shut down; or if the scope was opened inside an item of the same queue, which runs
    /// one at a time: `work` could not begin before that item is over. (A queue with a limit, but no order,
    /// has the scope's caller run it.) `work` is dropped then, uncalled.
    #[track_caller]
    pub fn queue<F>(&'scope self, work: F) -> Result<(), Refused>
    where
        F: FnOnce() + Send + 'scope,
    {
        // Relaxed: the caller's own count keeps the sum above zero until the body is over, and an
        // item's until it is.
        self.tally.open.fetch_add(1, Relaxed);
        let tally = Arc::clone(&self.tally);
        let entry = match self.queue.enter(Target::Here) {
            Ok(entry) => entry,
            Err(reason) => {
                tally.one_is_over();
                return Err(reason.into());
            }
        };
        let wait = self.tally.waiter.as_ref().map(|waiter| waiter.wait_for(&entry));
        if wait == Some(Wait::Never) {
            entry.abandon();
            tally.one_is_over();
            return Err(RefusedReason::WouldDeadlock.into());
        }
        // The item outlives none of what it borrows: `run` does not return before it is over.
        let item = move || {
            let more = user::call(work).err().and_then(|thrown| tally.keep(thrown));
            tally.one_is_over();
            // The caller hears of one. The queue's panic handler hears of this, from who runs the item.
            if let Some(thrown) = more {
                thrown.resume();
            }
        };
        if wait == Some(Wait::Help) {
            self.tally.send_offered(entry, Label::item::<F>(), item);
        } else {
            entry.send_as(Label::item::<F>, item);
        }
        Ok(())
    }
}

impl<P: Platform> fmt::Debug for WorkScope<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkScope").field("queue", &self.queue.name()).finish_non_exhaustive()
    }
}

pub(crate) fn run<'env, P: Platform, R>(
    queue: &'env Workqueue<P>,
    body: impl for<'scope> FnOnce(&'scope WorkScope<'scope, 'env, P>) -> R,
) -> R {
    let process_generation = P::process_generation();
    let tally = Arc::new(ScopeState::<P> {
        open: P::AtomicU64::new(1),
        caller: Parker::new(),
        thrown: Lock::new(None),
        waiter: queue.waiter(),
        offers: Lock::new(Offers {
            items: Vec::new(),
            full: MIN_OFFERS,
            asleep: false,
            lent: false,
        }),
    });
    let scope =
        WorkScope { queue, tally: Arc::clone(&tally), scope: PhantomData, env: PhantomData };
    let result = user::call(|| body(&scope));
    if tally.open.fetch_sub(1, AcqRel) != 1 && !tally.wait(process_generation) {
        Forked::throw();
    }
    let items = tally.thrown.lock().take();
    // One goes on to the caller; of another the queue's panic handler is told.
    let (thrown, other) = match (result, items) {
        (Ok(value), None) => return value,
        (Ok(value), Some(items)) => (items, user::discard(value).err()),
        (Err(bodys), items) => (bodys, items),
    };
    if let Some(other) = other {
        queue.on_panic(other);
    }
    thrown.resume()
}

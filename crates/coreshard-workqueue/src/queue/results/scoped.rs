//! The result of an item of a scope.
//!
//! Three may come to it: the worker at the item's place, the scope's caller, to whom it is offered, and whoever
//! joins it. Who claims it runs it. What is left for the handle is taken, or dropped, before the scope counts the
//! item as over: from then on nothing that it borrows is touched. Handle and item say to each other, by one
//! swap each, who came last: that one sees to the value.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Host, Platform};

use super::claimable::{Claimable, Wait};
use super::item_cell::ItemCell;
use super::panics::Panic;
use super::scope::{Offer, Ticket, WorkScope};
use super::submitted::{AwaitedItem, ended, wait_for};
use crate::base::error::{Refused, WouldDeadlock};
use crate::base::latch::Latch;
use crate::base::target::Target;
use crate::insight::Label;
use crate::queue::shared::Shared;

/// Neither has come to the end.
const BOTH: u32 = 0;
/// The value is there.
const LEFT: u32 = 1;
/// Nobody will take it.
const GONE: u32 = 2;

struct ScopedItem<P: Platform, F, T> {
    claimable: Claimable<P>,
    over: Latch<P>,
    /// [`BOTH`], [`LEFT`] or [`GONE`].
    value: P::AtomicU32,
    slot: ItemCell<F, Result<T, Thrown>>,
    ticket: Ticket<P>,
}

// SAFETY: the work is taken by who has claimed the item, once; the value is written by that one before `value`
// says so and the latch opens (release), and taken by one, who saw that (acquire): who joins, or the later of
// the handle and the item.
unsafe impl<P: Platform, F: Send, T: Send> Sync for ScopedItem<P, F, T> {}
// SAFETY: as above.
unsafe impl<P: Platform, F: Send, T: Send> Send for ScopedItem<P, F, T> {}

/// What the handle sees.
trait ScopedOutcome<P: Platform, T>: AwaitedItem<P, T> {
    /// The handle goes without having joined. A panic that nobody else will tell of comes back.
    fn let_go(&self) -> Option<Thrown>;
}

impl<P: Platform, F, T> ScopedItem<P, F, T> {
    /// Drops a value that nobody takes; a panic is the scope's, and comes back where that has one already.
    ///
    /// # Safety
    /// The value is there, and nobody else takes it.
    unsafe fn drop_value(&self) -> Option<Thrown> {
        // SAFETY: by this function's contract.
        let value = unsafe { self.slot.take() }.expect("the value is there");
        self.ticket.keep(value.and_then(user::discard).err()?)
    }
}

impl<P: Platform, F: FnOnce() -> T, T> ScopedItem<P, F, T> {
    /// Calls it, and leaves the value for the handle.
    ///
    /// # Safety
    /// The caller has claimed it, just now.
    unsafe fn call_and_leave(&self) {
        // SAFETY: by this function's contract.
        let value = unsafe { self.slot.call() };
        // SAFETY: nobody looks at it before it is told.
        unsafe { self.slot.leave(value) };
        // Release: the value. Acquire: what the handle's owner did before it went.
        let is_gone = self.value.swap(LEFT, AcqRel) == GONE;
        // SAFETY: the handle came first, and leaves it.
        let more = if is_gone { unsafe { self.drop_value() } } else { None };
        // SAFETY: the caller's reference keeps it.
        unsafe { Latch::open(&raw const self.over) };
        // Last: the scope may end here, and with it what the item borrows.
        self.ticket.end();
        if let Some(more) = more {
            more.resume();
        }
    }
}

impl<P: Platform, F: FnOnce() -> T + Send, T: Send> Offer<P> for ScopedItem<P, F, T> {
    fn claimable(&self) -> &Claimable<P> {
        &self.claimable
    }

    unsafe fn run(&self) {
        // SAFETY: by this function's contract.
        self.claimable.run(ptr::null(), || unsafe { self.call_and_leave() });
    }
}

impl<P: Platform, F: FnOnce() -> T, T> AwaitedItem<P, T> for ScopedItem<P, F, T> {
    fn claimable(&self) -> &Claimable<P> {
        &self.claimable
    }

    fn over(&self) -> &Latch<P> {
        &self.over
    }

    unsafe fn run(&self) -> Result<T, Thrown> {
        let mut result = None;
        // SAFETY: by this function's contract.
        self.claimable.run(ptr::null(), || result = Some(unsafe { self.slot.call() }));
        // Who joins is inside the scope itself, which does not end before that is over.
        self.ticket.end();
        result.expect("it was run")
    }

    unsafe fn take(&self) -> Result<T, Thrown> {
        // SAFETY: by this function's contract.
        unsafe { self.slot.take() }.expect("an item that is over has left its value")
    }
}

impl<P: Platform, F: FnOnce() -> T, T> ScopedOutcome<P, T> for ScopedItem<P, F, T> {
    fn let_go(&self) -> Option<Thrown> {
        // Acquire: the value, if it is there. Release: see `call_and_leave`.
        if self.value.swap(GONE, AcqRel) != LEFT {
            return None;
        }
        // SAFETY: the item came first, and leaves it.
        unsafe { self.drop_value() }
    }
}

/// The right to the result of a scope's item; see [`WorkScope::submit`]. Dropping it lets the item run all the
/// same, and what it throws goes to the scope's caller then.
#[must_use = "without its handle, an item's result is lost; `WorkScope::queue` needs none"]
pub struct ScopedJoinHandle<'scope, T, P: Platform = Host> {
    /// `None` once it was joined.
    item: Option<Arc<dyn ScopedOutcome<P, T> + Send + Sync + 'scope>>,
    queue: &'scope Shared<P>,
}

impl<P: Platform, T> ScopedJoinHandle<'_, T, P> {
    /// True once the item is over: then [`join`](Self::join) does not wait.
    pub fn is_finished(&self) -> bool {
        self.item.as_ref().is_none_or(|item| item.over().is_open())
    }

    /// Waits until the item is over, as [`JoinHandle::join`](crate::JoinHandle::join) does; on a worker that may, it runs an item that
    /// nobody has begun.
    ///
    /// # Errors
    /// As there: what the item threw, which the scope's caller does not hear then.
    pub fn join(mut self) -> Result<T, Panic> {
        let item = self.item.take().expect("it was not joined yet");
        let wait = item.claimable().wait();
        if wait == Wait::Never {
            let deadlock = WouldDeadlock::behind(item.claimable().queue_name());
            self.item = Some(item);
            return Err(Panic::of(deadlock));
        }
        ended(wait_for(&*item, wait))
    }
}

impl<P: Platform, T> Drop for ScopedJoinHandle<'_, T, P> {
    fn drop(&mut self) {
        if let Some(more) = self.item.take().and_then(|item| item.let_go()) {
            self.queue.core.on_panic(more);
        }
    }
}

impl<P: Platform, T> fmt::Debug for ScopedJoinHandle<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}

impl<'scope, P: Platform> WorkScope<'scope, '_, P> {
    /// As [`queue`](Self::queue), with a handle to the item's result, by which the body, or another item of the scope, may
    /// wait for it.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// # let queue = runtime.workqueue().build()?;
    /// let text = String::from("to be or not to be");
    /// let longest = queue.scope(|scope| {
    ///     let words = scope.submit(|| text.split(' ').count()).expect("the queue is open");
    ///     let longest = scope.submit(|| text.split(' ').max_by_key(|word| word.len()));
    ///     assert_eq!(words.join().expect("it does not panic"), 6);
    ///     longest.expect("the queue is open").join().expect("it does not panic")
    /// });
    /// assert_eq!(longest, Some("not"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn submit<F, T>(&'scope self, work: F) -> Result<ScopedJoinHandle<'scope, T, P>, Refused>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (entry, wait) = self.enter(Target::Here)?;
        let item = Arc::new(ScopedItem {
            claimable: Claimable::new(&entry, true),
            over: Latch::new(),
            value: P::AtomicU32::new(BOTH),
            slot: ItemCell::new(work),
            ticket: self.ticket(),
        });
        if wait == Some(Wait::Help) {
            self.state().offer(Arc::clone(&item) as Arc<dyn Offer<P> + 'scope>);
        }
        let placed = Arc::clone(&item);
        entry.send_as(Label::item::<F>, move || {
            if placed.claimable.begin() {
                // SAFETY: claimed just now.
                unsafe { placed.call_and_leave() };
            }
        });
        Ok(ScopedJoinHandle { item: Some(item), queue: self.shared() })
    }
}

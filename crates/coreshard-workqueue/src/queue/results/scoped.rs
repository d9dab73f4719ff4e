//! The result of a scope's item.
//!
//! Three threads may reach it: the worker at the item's place, the scope's caller, to which it is offered, and the thread that
//! joins it. The thread that claims it runs it. The value left for the handle is taken or dropped before the scope counts the
//! item as finished, so no borrow is accessed after that. The handle and the item each announce their end by one swap; the
//! later of the two disposes of the value.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Host, Platform};

use super::claimable::Claimable;
use super::deadlock::Wait;
use super::item_cell::ItemCell;
use super::panics::Panic;
use super::scope::{Offer, Ticket, WorkScope};
use super::submitted::{AwaitedItem, ended, wait_for};
use crate::base::error::{Refused, WouldDeadlock};
use crate::base::latch::Latch;
use crate::base::target::Target;
use crate::insight::Label;
use crate::queue::shared::Shared;

/// Neither the item nor the handle has come to its end.
const BOTH: u32 = 0;
/// The value was left by the item.
const LEFT: u32 = 1;
/// The handle was dropped: no thread will take the value.
const GONE: u32 = 2;

struct ScopedItem<P: Platform, F, T> {
    claimable: Claimable<P>,
    over: Latch<P>,
    /// [`BOTH`], [`LEFT`] or [`GONE`].
    value: P::AtomicU32,
    slot: ItemCell<F, Result<T, Thrown>>,
    ticket: Ticket<P>,
}

// SAFETY: the work is taken once, by the thread that has claimed the item. That thread writes the value before `value` says so
// and the latch opens (release). One thread takes the value after it saw that (acquire): the one that joins, or the later of
// the handle and the item.
unsafe impl<P: Platform, F: Send, T: Send> Sync for ScopedItem<P, F, T> {}
// SAFETY: as above.
unsafe impl<P: Platform, F: Send, T: Send> Send for ScopedItem<P, F, T> {}

/// The handle's view of the item.
trait ScopedOutcome<P: Platform, T>: AwaitedItem<P, T> {
    /// Drops the handle's interest without a join. Returns a panic that is not reported elsewhere.
    fn let_go(&self) -> Option<Thrown>;
}

impl<P: Platform, F, T> ScopedItem<P, F, T> {
    /// Drops a value that no thread will take. A panic goes to the scope, and is returned if the scope already has one.
    ///
    /// # Safety
    /// The value was left, and no other thread takes it.
    unsafe fn drop_value(&self) -> Option<Thrown> {
        // SAFETY: by this function's contract.
        let value = unsafe { self.slot.take() }.expect("the value was left");
        self.ticket.keep(value.and_then(user::discard).err()?)
    }
}

impl<P: Platform, F: FnOnce() -> T, T> ScopedItem<P, F, T> {
    /// Calls the closure, and leaves the value for the handle.
    ///
    /// # Safety
    /// The caller has just claimed it.
    unsafe fn call_and_leave(&self) {
        // SAFETY: by this function's contract.
        let value = unsafe { self.slot.call() };
        // SAFETY: no other thread accesses the value before it is announced.
        unsafe { self.slot.leave(value) };
        // Release: the value. Acquire: the accesses of the handle's owner before it dropped the handle.
        let is_gone = self.value.swap(LEFT, AcqRel) == GONE;
        // SAFETY: the handle came first, and left the value to the item.
        let more = if is_gone { unsafe { self.drop_value() } } else { None };
        // SAFETY: the caller's reference keeps it.
        unsafe { Latch::open(&raw const self.over) };
        // Last: the scope may end here, and with it the item's borrows.
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
        // The joining thread is inside the scope itself, which does not end before the join has returned.
        self.ticket.end();
        result.expect("it was run")
    }

    unsafe fn take(&self) -> Result<T, Thrown> {
        // SAFETY: by this function's contract.
        unsafe { self.slot.take() }.expect("a finished item has left its value")
    }
}

impl<P: Platform, F: FnOnce() -> T, T> ScopedOutcome<P, T> for ScopedItem<P, F, T> {
    fn let_go(&self) -> Option<Thrown> {
        // Acquire: the value, if it was left. Release: see `call_and_leave`.
        if self.value.swap(GONE, AcqRel) != LEFT {
            return None;
        }
        // SAFETY: the item came first, and left the value to the handle.
        unsafe { self.drop_value() }
    }
}

/// The right to the result of a scope's item; see [`WorkScope::submit`]. Dropping it does not stop the item; its panic, if any,
/// then goes to the scope's caller.
#[must_use = "without its handle, an item's result is lost; `WorkScope::queue` needs none"]
pub struct ScopedJoinHandle<'scope, T, P: Platform = Host> {
    /// `None` once it was joined.
    item: Option<Arc<dyn ScopedOutcome<P, T> + Send + Sync + 'scope>>,
    queue: &'scope Shared<P>,
}

impl<P: Platform, T> ScopedJoinHandle<'_, T, P> {
    /// Returns true once the item has finished: then [`join`](Self::join) does not wait.
    pub fn is_finished(&self) -> bool {
        self.item.as_ref().is_none_or(|item| item.over().is_open())
    }

    /// Waits until the item has finished, as [`JoinHandle::join`](crate::JoinHandle::join) does; on a suitable worker, it runs
    /// the item itself if that has not begun.
    ///
    /// # Errors
    /// Returns the item's panic, which the scope's caller then does not receive. Otherwise fails as
    /// [`JoinHandle::join`](crate::JoinHandle::join) does.
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
    /// Queues `work` like [`queue`](Self::queue), and returns a handle to its result, on which the body or another item of the
    /// scope may wait.
    ///
    /// # Errors
    /// Fails as [`queue`](Self::queue) does.
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

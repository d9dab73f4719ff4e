//! The item itself: its words, its function, and the state that a queueing may have besides its token.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::user;
use coreshard_platform::{AtomicInt, DataCell, Host, Lock, Platform};

use super::state::{Number, Tombstone, WorkState};
use super::way::KeptPlace;
use crate::base::event::Event;
use crate::base::item::Name;
use crate::insight::diagnostic::say;
use crate::timers::{Due, Key, Timers};

/// Called and dropped by `Token::run`, which catches its panics; or dropped with the last handle.
pub(super) type Function<P> = Box<dyn FnMut(&Work<P>) + Send>;

/// A work item that is allocated once and queued any number of times, without further allocations.
///
/// Guarantees:
///
/// - It never runs on two workers at once, whatever queues it is queued on. It may queue itself.
/// - It is pending from a successful [`queue`](Self::queue) until just before its function is called. If a queueing is rejected
///   because the item is pending, the upcoming run sees the caller's earlier writes.
/// - Clones are handles to the same item. It lives as long as a handle or an unfinished queueing: its function may drop the
///   last handle.
///
/// Modelled on the Linux kernel's `work_struct` and `delayed_work`; docs/KERNEL-OPERATIONS.md lists the differences.
pub struct Work<P: Platform = Host> {
    pub(super) core: Arc<WorkCore<P>>,
}

/// In this order the words that every queueing and every run access fill one cache line, with the reference counts before them.
#[repr(C)]
pub(super) struct WorkCore<P: Platform> {
    pub(super) state: WorkState<P>,
    /// The address of the limiter that it was to pass last; 0 for none.
    pub(super) limiter: P::AtomicU64,
    /// The identifier of the queue of a queueing that waits for the current run; 0 for none.
    pub(super) behind: P::AtomicU64,
    /// Present until the last handle is dropped.
    pub(super) call: P::Cell<Option<Function<P>>>,
    /// The type name of its function, for the monitor.
    pub(super) name: &'static Name,
    /// Notifies its waiters.
    pub(super) over: Event<P>,
    /// The process that created it: in a process forked from it, a pending queueing never runs.
    pub(super) process_generation: u32,
    pub(super) slot: Lock<P, Held<P>>,
    /// The type name of its function.
    pub(super) function: &'static str,
    /// The place of its creation, for its spans.
    pub(super) made_at: &'static Location<'static>,
}

/// The state that a queueing may have besides its token.
pub(super) struct Held<P: Platform> {
    pub(super) parked: Option<KeptPlace<P, Number>>,
    pub(super) armed: Option<Armed<P>>,
}

// SAFETY: only the worker that has set RUNNING accesses the function, and it is handed from one to the next by the state word's
// release and acquire; all other fields are designed to be shared.
#[allow(unsafe_code)]
unsafe impl<P: Platform> Sync for WorkCore<P> {}
// SAFETY: as above; the function is `Send`.
#[allow(unsafe_code)]
unsafe impl<P: Platform> Send for WorkCore<P> {}

impl<P: Platform> WorkCore<P> {
    #[track_caller]
    pub(super) fn new<F: FnMut(&Work<P>) + Send + 'static>(function: F) -> Self {
        let call: Function<P> = Box::new(function);
        Self {
            state: WorkState::new(),
            limiter: P::AtomicU64::new(0),
            behind: P::AtomicU64::new(0),
            call: P::Cell::new(Some(call)),
            name: Name::of::<F>(),
            over: Event::new(),
            process_generation: P::process_generation(),
            slot: Lock::new(Held { parked: None, armed: None }),
            function: std::any::type_name::<F>(),
            made_at: Location::caller(),
        }
    }

    /// Returns the address of the limiter that it was to pass last; 0 for none.
    pub(super) fn limiter(&self) -> u64 {
        self.limiter.load(Relaxed)
    }

    /// Completes a tombstone: no timer fires it, and its waiters are woken. Returns false if there was none.
    pub(super) fn finish_tombstone(&self, tombstone: Option<Tombstone>) -> bool {
        let Some(tombstone) = tombstone else { return false };
        self.behind.store(0, Relaxed);
        if !tombstone.delayed {
            P::item_is_taken();
        }
        // In a forked process the timers' lock may be held by a thread that does not exist there.
        if tombstone.delayed && P::process_generation() == self.process_generation {
            // The caller also has a handle, so the entry's is not the last one.
            drop(self.disarm(tombstone.number));
        }
        if tombstone.awaited {
            self.over.notify();
        }
        true
    }

    /// Takes the entry of queueing `number` back from the timers, if it is still there.
    pub(super) fn disarm(&self, number: Number) -> Option<Due<P>> {
        let mut slot = self.slot.lock();
        let armed = slot.armed.take_if(|armed| armed.number == number)?;
        armed.timers.remove(armed.key)
    }

    /// Calls the function.
    ///
    /// # Safety
    /// The caller has set `RUNNING`, and clears it later.
    #[allow(unsafe_code)]
    pub(super) unsafe fn call(&self, work: &Work<P>) {
        self.call.with_mut(|call| {
            // SAFETY: by this function's contract no other thread accesses it.
            let function = unsafe { (*call).as_mut() };
            function.expect("the function goes with the last handle")(work);
        });
    }

    /// Takes the function out: the exclusive borrow proves that no worker runs it, or will.
    #[allow(unsafe_code)]
    pub(super) fn take_function(&mut self) -> Option<Function<P>> {
        // SAFETY: exclusive, by the borrow.
        self.call.with_mut(|call| unsafe { (*call).take() })
    }
}

impl<P: Platform> Drop for WorkCore<P> {
    /// A panic of the function's captures reaches the thread that drops the last handle.
    fn drop(&mut self) {
        let function = self.take_function();
        if let Err(thrown) = user::resume_unless_unwinding(user::discard(function)) {
            let panic = thrown.message().unwrap_or_default();
            let work = self.function;
            say(|| {
                tracing::error!(work, panic, "a work item's function panicked as it was dropped")
            });
        }
    }
}

/// An entry with the timers.
pub(super) struct Armed<P: Platform> {
    pub(super) timers: Arc<Timers<P>>,
    pub(super) key: Key,
    pub(super) number: Number,
}

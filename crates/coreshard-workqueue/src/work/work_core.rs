//! The item itself: its words, its function, and what a queueing may have besides its token.

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

/// Called in front of the net, by `Token::run`, and dropped there; or by whoever drops the last handle.
pub(super) type Function<P> = Box<dyn FnMut(&Work<P>) + Send>;

/// A work item that is allocated once and queued any number of times, without an allocation.
///
/// What can be relied on:
///
/// - It never runs on two workers at once, whatever queues it is queued on, and may queue itself.
/// - It is pending from a successful [`queue`](Self::queue) until just before its function is
///   called: what was written before a queueing that was refused (since it was pending) is seen
///   by the run to come.
/// - Clones are handles to the same item. It lives as long as a handle, or a queueing that is not
///   over: its function may drop the last handle.
///
/// After the Linux kernel's `work_struct` and `delayed_work`; docs/KERNEL-OPERATIONS.md says
/// what differs.
pub struct Work<P: Platform = Host> {
    pub(super) core: Arc<WorkCore<P>>,
}

/// In this order the words that every queueing and every run touch fill one line, with the
/// reference counts before them.
#[repr(C)]
pub(super) struct WorkCore<P: Platform> {
    pub(super) state: WorkState<P>,
    /// The limiter that it was to pass last, by its address; 0 for none.
    pub(super) limiter: P::AtomicU64,
    /// The queue, by its name, of a queueing that waits for the run that goes on; 0 for none.
    pub(super) behind: P::AtomicU64,
    /// There until the last handle goes.
    pub(super) call: P::Cell<Option<Function<P>>>,
    /// The type name of its function, for the monitor.
    pub(super) name: &'static Name,
    /// Tells those who wait for it.
    pub(super) over: Event<P>,
    /// In which process it was made: in one forked from it, what was pending never runs.
    pub(super) process_generation: u32,
    pub(super) slot: Lock<P, Held<P>>,
    /// The type name of its function.
    pub(super) function: &'static str,
    /// Where it was made, for its spans.
    pub(super) made_at: &'static Location<'static>,
}

/// What a queueing may have besides its token.
pub(super) struct Held<P: Platform> {
    pub(super) parked: Option<KeptPlace<P, Number>>,
    pub(super) armed: Option<Armed<P>>,
}

// SAFETY: the function is reached by the worker that has set RUNNING alone, and handed from one
// to the next by the state word's release and acquire; everything else is made to be shared.
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

    /// The limiter that it was to pass last, by its address; 0 for none.
    pub(super) fn limiter(&self) -> u64 {
        self.limiter.load(Relaxed)
    }

    /// After a queueing was made a tombstone: nothing fires it, and its waiters are woken. False if there was none.
    pub(super) fn finish_tombstone(&self, tombstone: Option<Tombstone>) -> bool {
        let Some(tombstone) = tombstone else { return false };
        self.behind.store(0, Relaxed);
        if !tombstone.delayed {
            P::item_is_taken();
        }
        // In a forked process the timers' lock may be held by nobody who is here.
        if tombstone.delayed && P::process_generation() == self.process_generation {
            // The caller has a handle as well, so the entry's is not the last one.
            drop(self.disarm(tombstone.number));
        }
        if tombstone.awaited {
            self.over.notify();
        }
        true
    }

    /// Takes the entry of queueing `number` back from the timers, if it is there.
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
            // SAFETY: by this function's contract nobody else is here.
            let function = unsafe { (*call).as_mut() };
            function.expect("the function goes with the last handle")(work);
        });
    }

    /// Takes the function out: the borrow proves that nobody runs it, nor will.
    #[allow(unsafe_code)]
    pub(super) fn take_function(&mut self) -> Option<Function<P>> {
        // SAFETY: by the exclusive borrow nobody else is here.
        self.call.with_mut(|call| unsafe { (*call).take() })
    }
}

impl<P: Platform> Drop for WorkCore<P> {
    /// If what the function holds panics, whoever drops the last handle is told.
    fn drop(&mut self) {
        let function = self.take_function();
        if let Err(thrown) = user::resume_unless_unwinding(user::discard(function)) {
            let panic = thrown.message().unwrap_or_default();
            let work = self.function;
            say(|| {
                tracing::error!(work, panic, "what a work item held panicked as it was dropped")
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

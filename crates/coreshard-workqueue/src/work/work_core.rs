//! The item itself: its words, its function, and what a queueing may have besides its token.

use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

use coreshard_platform::user;
use coreshard_platform::{DataCell, Host, Lock, Platform};

use super::state::{Number, WorkState};
use crate::base::event::Event;
use crate::base::item::Name;
use crate::insight::trouble::say;
use crate::queue::PoolLink;
use crate::timers::{Key, Timers};

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
    pub(super) parked: Option<Parked<P>>,
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

/// A place in a queue, kept until the run that goes on is over.
pub(super) struct Parked<P: Platform> {
    /// It counted the queueing in, and so lives until that is over.
    pub(super) link: NonNull<PoolLink<P>>,
    pub(super) injector: usize,
    pub(super) number: Number,
}

// SAFETY: a pool link is shared between threads as it is.
#[allow(unsafe_code)]
unsafe impl<P: Platform> Send for Parked<P> {}

/// An entry with the timers.
pub(super) struct Armed<P: Platform> {
    pub(super) timers: Arc<Timers<P>>,
    pub(super) key: Key,
    pub(super) number: Number,
}

//! A pool's view of the monitor: wakes it, reports diagnostics to it, and counts the runtime's workers.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use coreshard_platform::{AtomicInt, Padded, Parker, Platform, fields, user};

use super::roster::WorkerCount;
use crate::callbacks::{Callback, Callbacks, Threads};
use crate::insight::diagnostic::{Diagnostic, Watchdog};

const ASLEEP: u32 = 0;
const AWAKE: u32 = 1;

/// The thread that reports diagnostics. If a handler never returns, later reports wait for it.
const TELLERS: Threads = Threads { name: "cs-trouble", most: 1 };
/// Pending reports, at most: a handler that never returns must not fill the memory.
const MAX_TOLD: usize = 64;

/// A pool's view of the monitor.
pub(crate) struct MonitorHandle<P: Platform> {
    /// Whether the monitor scans, or sleeps and must be woken. Read at every claim, written when the process falls asleep or
    /// wakes up.
    state: Padded<P::AtomicU32>,
    parker: Parker<P>,
    pub(super) watch: Arc<Watchdog>,
    pub(super) tells: Arc<Callbacks<P>>,
    worker_count: Arc<WorkerCount<P>>,
}
fields!(MonitorHandle<P: Platform> { state, parker, watch, tells, worker_count });

impl<P: Platform> MonitorHandle<P> {
    pub(super) fn new(watch: Watchdog, most_workers: usize) -> Self {
        Self {
            state: Padded::new(P::AtomicU32::new(AWAKE)),
            parker: Parker::new(),
            watch: Arc::new(watch),
            tells: Arc::new(Callbacks::new(TELLERS)),
            worker_count: Arc::new(WorkerCount::new(most_workers)),
        }
    }

    /// How many workers the runtime has.
    pub(super) fn worker_count(&self) -> Arc<WorkerCount<P>> {
        Arc::clone(&self.worker_count)
    }

    /// Called by a worker that has work. Wakes the monitor if it sleeps.
    #[inline]
    pub(super) fn notice_work(&self) {
        if self.state.load(Relaxed) != AWAKE {
            self.wake();
        }
    }

    /// Called when pools end: the monitor checks whether any is left.
    #[cold]
    pub(crate) fn wake(&self) {
        if self.state.swap(AWAKE, AcqRel) == ASLEEP {
            self.parker.unpark();
        }
    }

    /// Calls `call` soon, on another thread, unless too many reports are pending.
    pub(super) fn later(&self, call: impl FnOnce() + Send + 'static) {
        // A model has no such thread.
        if cfg!(loom) {
            return;
        }
        let refused = self.tells.offer(call_back(call), MAX_TOLD);
        drop(user::discard(refused));
    }

    /// Reports a diagnostic soon.
    pub(super) fn tell(&self, trouble: Diagnostic) {
        let watch = Arc::clone(&self.watch);
        self.later(move || watch.tell(&trouble));
    }

    /// Announces that the monitor is about to sleep: from here on a worker that has work wakes it.
    pub(super) fn announce_sleep(&self) {
        self.state.swap(ASLEEP, AcqRel);
    }

    /// Cancels the announced sleep.
    pub(super) fn stay_awake(&self) {
        self.state.store(AWAKE, Relaxed);
    }

    /// Sleeps until it is woken, after [`Self::announce_sleep`].
    pub(super) fn sleep(&self) {
        while self.state.load(Acquire) == ASLEEP {
            self.parker.park();
        }
    }
}

pub(super) fn call_back(call: impl FnOnce() + Send + 'static) -> Callback {
    Callback::new(move || {
        call();
        Ok(())
    })
}

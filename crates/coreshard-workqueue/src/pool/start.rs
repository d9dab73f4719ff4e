//! How a pool's workers are started, told to exit, and waited for.

use std::io;
use std::sync::Arc;

use coreshard_platform::{Platform, SpawnError, ThreadHandle, ThreadSpec};
use coreshard_topology::{PodId, Scope};

use super::context::index_in;
use super::monitor::Monitor;
use super::pool::Pool;
use super::roster::ThreadSlot;
use super::shared::PoolSettings;
use super::{team, worker};
use crate::base::event::Event;
use crate::config::attributes::{Attributes, Place};
use crate::insight::diagnostic::{Diagnostic, NoWorker};

/// The kernel shows at most 15 bytes: the prefix, the scope in short, the pod, the worker.
fn thread_name(prefix: &str, scope: Scope, pod: PodId, index: usize) -> String {
    let scope = match scope {
        Scope::Cpu => "cpu",
        Scope::Smt => "smt",
        Scope::CacheShard => "shard",
        Scope::Cache => "llc",
        Scope::Numa => "node",
        Scope::System => "sys",
    };
    format!("{prefix}{scope}{pod}:{index}")
}

/// The error for a start that the runtime's limit rejects; `remedy` is what the caller may drop instead.
pub(super) fn refused(what: String, remedy: &str) -> SpawnError {
    let reason = format!(
        "the runtime has as many workers as it may have; allow it more with max_workers, or drop {remedy}"
    );
    SpawnError::refused(what, io::Error::other(reason))
}

impl<P: Platform> Pool<P> {
    /// Makes a pool with its first worker, which is running when this returns, and with a monitor.
    pub(crate) fn start(
        place: Place,
        attributes: Arc<Attributes>,
        settings: PoolSettings,
        event: Arc<Event<P>>,
        monitor: &Arc<Monitor<P>>,
    ) -> Result<Arc<Self>, SpawnError> {
        let pool = Self::unmanned(place, attributes, settings, event, &monitor.handle);
        monitor.watch(&pool)?;
        if !pool.is_team() {
            pool.start_first()?;
        }
        Ok(pool)
    }

    /// Starts a worker, and the rescuer if the pool has one: at first, and after the workers have exited.
    pub(super) fn start_first(self: &Arc<Self>) -> Result<(), SpawnError> {
        let (worker, rescuer) = {
            let mut state = self.lock_state();
            let has_rescuer = self.attributes.rescuer.is_some();
            let reserve = || state.roster.reserve_rescuer(&self.slots);
            let mut rescuer = has_rescuer.then(reserve).flatten();
            let worker = state.reserve_worker(self);
            state.roster.stopping = worker.is_none();
            match worker {
                Some(_) => state.roster.starting += 1 + u16::from(rescuer.is_some()),
                None => rescuer.take().into_iter().for_each(|at| state.roster.put_handle(at, None)),
            }
            (worker, rescuer)
        };
        let Some(worker) = worker else {
            return Err(refused(format!("worker of pod {}", self.place.pod), "a queue"));
        };
        let (mut started, mut wanted) = self.start_worker(worker);
        match rescuer {
            Some(rescuer) if started.is_ok() => {
                // Nothing is wanted meanwhile: the first worker is still being started.
                (started, wanted) = self.start_worker(rescuer);
            }
            Some(rescuer) => {
                let mut state = self.lock_state();
                state.roster.put_handle(rescuer, None);
                state.roster.starting -= 1;
            }
            None => {}
        }
        if let Some(wanted) = wanted {
            self.start_spare(wanted);
        }
        if started.is_err() {
            self.tell_to_go();
        }
        started
    }

    /// Starts the worker whose index was reserved. Returns another index to start: that of a worker that was
    /// wanted meanwhile, and left to the caller.
    ///
    /// While it is being started it counts as running, so other workers may have parked for it. A failed start restores the
    /// earlier state of the pool: a sleeper takes its place, or the rescuer, or else the monitor tries again.
    fn start_worker(self: &Arc<Self>, index: usize) -> (Result<(), SpawnError>, Option<usize>) {
        self.start_worker_by(index, None, |spec, body| P::spawn(spec, body).map(ThreadSlot::Here))
    }

    /// As [`start_worker`](Self::start_worker), on a thread from `start`, with this name if one is given.
    pub(super) fn start_worker_by(
        self: &Arc<Self>,
        index: usize,
        name: Option<String>,
        start: impl FnOnce(
            ThreadSpec,
            Box<dyn FnOnce() + Send>,
        ) -> Result<ThreadSlot<P::Thread>, SpawnError>,
    ) -> (Result<(), SpawnError>, Option<usize>) {
        let spec = ThreadSpec {
            name: name.unwrap_or_else(|| {
                let Place { thread_names, pod, .. } = &self.place;
                thread_name(thread_names, self.attributes.scope, *pod, index)
            }),
            affinity: Some(self.place.home.clone()),
            nice: self.attributes.nice,
            stack_bytes: self.attributes.stack_bytes,
        };
        let pool = Arc::clone(self);
        let (thread, outcome) = match start(spec, Box::new(move || worker::start(&pool, index))) {
            Ok(thread) => (Some(thread), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let mut state = self.lock_state();
        state.roster.put_handle(index, thread);
        let mut kick = None;
        if outcome.is_err() {
            state.cold_mut().counters.failed_worker_starts += 1;
            state.roster.refuse_spare();
            let left = state.has_work_for(self, 1);
            kick = state.pass_on(self, left);
        }
        let is_wanted = state.roster.end_start();
        let next = if is_wanted { state.reserve_spare(self) } else { None };
        let kick = kick.or_else(|| state.call_rescuer());
        let is_awaited = state.roster.stopping;
        self.unlock_and_kick(state, kick);
        if is_awaited {
            self.event.notify();
        }
        // Possibly no worker is left for new work.
        self.monitor.notice_work();
        (outcome, next)
    }

    /// Starts the worker whose index was reserved, and any that became necessary meanwhile: a worker that blocks while another
    /// is being started cannot start its own replacement.
    ///
    /// Not inlined, so that a caller in another crate gets no copy of the whole worker code.
    #[cold]
    #[inline(never)]
    pub(super) fn start_spare(self: &Arc<Self>, index: usize) {
        let mut next = Some(index);
        while let Some(index) = next {
            let (started, wanted) = self.start_worker(index);
            if let Err(error) = started {
                self.report_missing(&error);
            }
            next = wanted;
        }
    }

    /// A worker could not be started: reports it, less and less often.
    #[cold]
    fn report_missing(&self, error: &SpawnError) {
        let failures = self.lock_state().cold().counters.failed_worker_starts;
        if failures.is_power_of_two() {
            let (pod, reason) = (self.place.pod, format!("{error} (failure {failures})"));
            self.monitor.tell(Diagnostic::NoWorker(NoWorker { pod, reason }));
        }
    }

    /// True if the pool was not stopped.
    #[cfg(all(test, loom))]
    pub(crate) fn is_running(&self) -> bool {
        !self.lock_state().roster.stopping
    }

    /// True once the workers were told to exit, and all have.
    pub(super) fn is_gone(&self) -> bool {
        let state = self.lock_state();
        state.roster.stopping && state.roster.is_empty()
    }

    /// True while workers that were told to exit are left.
    pub(super) fn is_leaving(&self) -> bool {
        let state = self.lock_state();
        state.roster.stopping && !state.roster.is_empty()
    }

    /// Tells the workers to exit when no work is left.
    pub(crate) fn tell_to_go(&self) {
        if self.is_team() {
            return team::end(self);
        }
        let mut state = self.lock_state();
        state.roster.stopping = true;
        let mut sleepers = state.take_sleepers(self);
        sleepers.extend(state.roster.dismiss_rescuer());
        drop(state);
        for worker in sleepers {
            self.wake(worker);
        }
    }

    /// After [`Self::tell_to_go`]: waits until all have exited; a worker that calls this does not wait for itself.
    pub(super) fn wait_until_gone(&self) {
        if self.lock_state().roster.starting > 0 {
            // The starter of a worker stores its thread for this wait.
            self.event.wait_until(None, || self.lock_state().roster.starting == 0);
        }
        let threads = self.lock_state().roster.take_threads(index_in(self));
        for thread in threads {
            thread.join();
        }
    }
}

//! Who comes to a pool and goes: its workers' indices and threads.

use std::sync::Arc;

use coreshard_platform::{Platform, SpawnError, ThreadHandle, ThreadSpec};
use coreshard_topology::{PodId, Scope};

use super::context::index_in;
use super::monitor::Monitor;
use super::pool::{Pool, PoolSettings};
use super::run;
use super::seen::Seen;
use super::sizes::MAX_WORKERS;
use super::state::{Blocked, RESCUER, Rescuer, State, ThreadSlot};
use crate::base::event::Event;
use crate::spec::attributes::{Attributes, Place};

/// At most 15 bytes are seen by the kernel: the prefix, the scope in short, the pod, the worker.
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

impl<P: Platform> Pool<P> {
    /// A pool with its first worker, which is running when this returns, and with a monitor.
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
            pool.man()?;
        }
        Ok(pool)
    }

    /// Starts a worker, and the rescuer, if the pool is to have one: at first, and after the workers went.
    pub(super) fn man(self: &Arc<Self>) -> Result<(), SpawnError> {
        let (worker, rescuer) = {
            let mut state = self.lock();
            let mut rescuer = state.reserve_rescuer(self);
            let worker = state.reserve_worker(self);
            state.stopping = worker.is_none();
            match worker {
                Some(_) => state.starting += 1 + u16::from(rescuer.is_some()),
                None => rescuer.take().into_iter().for_each(|at| state.put_handle(at, None)),
            }
            (worker, rescuer)
        };
        let Some(worker) = worker else {
            return Err(SpawnError::refused(
                format!("worker of pod {}", self.place.pod),
                std::io::Error::other(
                    "the runtime has as many workers as it may have; allow it more with \
                     max_workers, or drop a queue",
                ),
            ));
        };
        let (mut started, mut wanted) = self.start_worker(worker);
        match rescuer {
            Some(rescuer) if started.is_ok() => {
                // Nothing is wanted meanwhile: this one is still to come.
                (started, wanted) = self.start_worker(rescuer);
            }
            Some(rescuer) => {
                let mut state = self.lock();
                state.put_handle(rescuer, None);
                state.starting -= 1;
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

    /// Starts the worker whose index was reserved. Returns an index to go on with: that of a worker that was
    /// wanted meanwhile, and left to whoever starts this one.
    ///
    /// While a start is on its way it counts as a worker that runs, so others may have lain down for
    /// it. One that fails leaves the pool as if it had never been on its way: somebody who sleeps takes
    /// its place, or the rescuer, or else the monitor tries again.
    pub(super) fn start_worker(
        self: &Arc<Self>,
        index: usize,
    ) -> (Result<(), SpawnError>, Option<usize>) {
        self.start_worker_by(index, None, |spec, body| P::spawn(spec, body).map(ThreadSlot::Here))
    }

    /// As [`start_worker`](Self::start_worker), on a thread that `start` gets, which has a name of its own where one is given.
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
        let (thread, outcome) = match start(spec, Box::new(move || run::start(&pool, index))) {
            Ok(thread) => (Some(thread), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let mut state = self.lock();
        state.put_handle(index, thread);
        let mut kick = None;
        if outcome.is_err() {
            state.cold_mut().counters.failed_worker_starts += 1;
            // Its first worker: the pool is not there.
            state.stopping |= state.alive == 0;
            state.spare_refused = true;
            let left = state.has_work_for(self, 1);
            kick = state.pass_on(self, left);
        }
        state.starting -= 1;
        let wanted = std::mem::take(&mut state.spare_missed);
        let next = if wanted { state.reserve_spare(self) } else { None };
        let kick = kick.or_else(|| state.call_rescuer());
        let is_awaited = state.stopping;
        self.unlock_and_kick(state, kick);
        if is_awaited {
            self.event.notify();
        }
        // Perhaps nobody is left to do what comes.
        self.monitor.notice_work();
        (outcome, next)
    }

    /// Starts the worker whose index was reserved, and those that were wanted meanwhile: a worker
    /// that blocks while another is being started cannot see to its own replacement.
    ///
    /// Not inlined: a program that reaches it in another crate's code has no copy of all that a worker does.
    #[cold]
    #[inline(never)]
    pub(super) fn start_spare(self: &Arc<Self>, index: usize) {
        let mut next = Some(index);
        while let Some(index) = next {
            let (started, wanted) = self.start_worker(index);
            if let Err(error) = started {
                self.tell_of_missing(&error);
            }
            next = wanted;
        }
    }

    /// True once the workers were told to go, and all are gone.
    pub(super) fn is_gone(&self) -> bool {
        let state = self.lock();
        state.stopping && state.is_unmanned()
    }

    /// True while workers are there that were told to go.
    pub(super) fn is_leaving(&self) -> bool {
        let state = self.lock();
        state.stopping && !state.is_unmanned()
    }

    /// Tells the workers to go when there is nothing left to do.
    pub(crate) fn tell_to_go(&self) {
        if self.is_team() {
            return self.end_team();
        }
        let mut state = self.lock();
        state.stopping = true;
        let mut sleepers = state.all_sleepers(self);
        sleepers.extend(state.dismiss_rescuer());
        drop(state);
        for worker in sleepers {
            self.wake(worker);
        }
    }

    /// After [`Self::tell_to_go`]: waits until all are gone; a worker that calls this does not wait for itself.
    pub(super) fn wait_until_gone(&self) {
        if self.lock().starting > 0 {
            // Whoever starts a worker leaves its thread to be waited for.
            self.event.wait_until(None, || self.lock().starting == 0);
        }
        let threads = self.lock().take_threads(index_in(self));
        for thread in threads {
            thread.join();
        }
    }
}

impl<P: Platform> State<P> {
    fn is_unmanned(&self) -> bool {
        self.starting == 0 && self.alive == 0 && self.has_no_rescuer()
    }

    /// An index for a spare worker, where all others are busy and one more may run.
    pub(super) fn reserve_spare(&mut self, pool: &Pool<P>) -> Option<usize> {
        if pool.is_team() {
            // It has its members, and nobody else.
            return None;
        }
        let wanted = self.idle_count() == 0
            && self.alive - self.blocked < pool.place.limit
            && !self.stopping;
        if !wanted {
            return None;
        }
        if self.starting > 0 {
            // The one that is being started may be what this caller waits beside: whoever starts
            // it looks again when it is done.
            self.spare_missed = true;
            return None;
        }
        let index = self.reserve_worker(pool)?;
        self.starting += 1;
        Some(index)
    }

    /// An index for one more worker, which counts as alive from here on.
    pub(super) fn reserve_worker(&mut self, pool: &Pool<P>) -> Option<usize> {
        let index = if self.alive < pool.most_workers && self.cold_mut().worker_count.enter() {
            let index = self.claim_index(pool);
            if index.is_none() {
                self.cold_mut().worker_count.leave();
            }
            index
        } else {
            None
        };
        if index.is_none() {
            self.spare_refused = true;
            self.cold_mut().counters.refused_workers += 1;
        }
        self.alive += usize::from(index.is_some());
        self.cold_mut().counted += usize::from(index.is_some());
        index
    }

    /// An index that no worker has, with its slot.
    pub(super) fn claim_index(&mut self, pool: &Pool<P>) -> Option<usize> {
        let index = match self.cold_mut().free.pop() {
            Some(index) => index,
            None if self.cold_mut().threads.len() < MAX_WORKERS => {
                self.cold_mut().threads.push(ThreadSlot::None);
                self.blocked_as.push(Blocked::No);
                self.cold_mut().seen.push(Seen::default());
                self.cold_mut().declared.push(0);
                self.cold_mut().threads.len() - 1
            }
            None => return None,
        };
        self.cold_mut().threads[index] = ThreadSlot::Coming;
        pool.ensure_slot(index);
        Some(index)
    }

    /// A worker that is on no list has nothing more to do. It goes, or stands by if it is the rescuer.
    ///
    /// Its slot is its own until [`Self::retire_worker`]: a user's code runs on it before that.
    pub(super) fn let_go(&mut self, worker: usize) {
        if self.is_called(worker) {
            self.rescuer = Rescuer::StandsBy;
            self.alive -= 1;
        } else {
            self.set_blocked(worker, Blocked::Leaving);
        }
    }

    /// Sees a worker off: nothing runs on its thread from here on that knows of its slot. Or undoes a
    /// reservation.
    pub(super) fn retire_worker(&mut self, index: usize) {
        let is_rescuer = index == RESCUER && self.rescuer != Rescuer::None;
        if is_rescuer {
            self.alive -= usize::from(self.rescuer == Rescuer::Called);
            self.rescuer = Rescuer::Gone;
        } else {
            self.set_blocked(index, Blocked::No);
            self.alive -= 1;
            self.cold_mut().counted -= 1;
            self.cold_mut().worker_count.leave();
        }
        let cold = self.cold_mut();
        if matches!(cold.threads[index], ThreadSlot::Coming) {
            // Not given out again before: its handle would be taken for the next one's.
            cold.threads[index] = ThreadSlot::Late;
            return;
        }
        // The thread ends by itself; nobody waits for it any more, or somebody does.
        cold.threads[index] = ThreadSlot::None;
        if !is_rescuer {
            cold.free.push(index);
        }
    }

    /// The starter of a worker has its handle; or `None`, and nobody was started.
    pub(super) fn put_handle(&mut self, index: usize, thread: Option<ThreadSlot<P::Thread>>) {
        if thread.is_none() {
            self.retire_worker(index);
        }
        let is_rescuer = index == RESCUER && self.rescuer != Rescuer::None;
        let cold = self.cold_mut();
        match (&cold.threads[index], thread) {
            (ThreadSlot::Coming, Some(thread)) => cold.threads[index] = thread,
            _ => {
                cold.threads[index] = ThreadSlot::None;
                if !is_rescuer {
                    cold.free.push(index);
                }
            }
        }
    }

    /// All threads but that of worker `but`, to be joined.
    pub(super) fn take_threads(&mut self, but: Option<usize>) -> Vec<P::Thread> {
        self.cold_mut()
            .threads
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| Some(*index) != but)
            .filter_map(|(_, thread)| thread.take())
            .collect()
    }
}

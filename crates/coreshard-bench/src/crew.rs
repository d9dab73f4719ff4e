//! Threads that begin together, each pinned to a CPU.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use coreshard_platform::{
    AtomicInt, Lock, Padded, Parker, Platform, SpawnError, ThreadHandle, ThreadSpec, Time, fields,
};
use coreshard_topology::CpuId;

/// Returns the options of a thread on one CPU.
pub(crate) fn pinned(name: String, cpu: CpuId) -> ThreadSpec {
    ThreadSpec { name, affinity: Some([cpu].into_iter().collect()), ..ThreadSpec::default() }
}

/// Threads behind a gate. Each may return a result. A crew that is dropped before it ran tells its
/// threads to exit and joins them.
pub(crate) struct Crew<P: Platform, R = ()> {
    gate: Arc<Gate<P>>,
    threads: Vec<P::Thread>,
    /// The results of threads started by [`spawn_on`](Self::spawn_on), in that order.
    results: Arc<Lock<P, Vec<Option<R>>>>,
}

/// The result of a crew's run.
pub(crate) struct Ran<R> {
    pub(crate) released_at: Time,
    /// The time from the release until the last member left.
    pub(crate) elapsed_ns: u64,
    pub(crate) results: Vec<R>,
}

impl<P: Platform, R: Send + 'static> Crew<P, R> {
    /// Creates a crew that will have `members` threads.
    pub(crate) fn new(members: usize) -> Self {
        let gate = Arc::new(Gate::new(members));
        P::describe(Arc::as_ptr(&gate));
        let results = Arc::new(Lock::new(Vec::new()));
        Self { gate, threads: Vec::with_capacity(members), results }
    }

    /// Starts a thread that prepares itself, passes the gate, and leaves when its work is done.
    pub(crate) fn spawn(
        &mut self,
        spec: ThreadSpec,
        body: impl FnOnce(&Gate<P>) + Send + 'static,
    ) -> Result<(), SpawnError> {
        self.spawn_by(|body| P::spawn(spec, body), body)
    }

    /// Starts a thread on a CPU that does `work` once the gate is open, and stores its result.
    pub(crate) fn spawn_on(
        &mut self,
        cpu: CpuId,
        name: String,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<(), SpawnError> {
        let results = Arc::clone(&self.results);
        let at = results.lock().len();
        results.lock().push(None);
        self.spawn(pinned(name, cpu), move |gate| {
            if gate.pass() {
                let result = work();
                gate.leave();
                results.lock()[at] = Some(result);
            }
        })
    }

    /// As [`spawn`](Self::spawn), with a function of the platform.
    pub(crate) fn spawn_by(
        &mut self,
        spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> Result<P::Thread, SpawnError>,
        body: impl FnOnce(&Gate<P>) + Send + 'static,
    ) -> Result<(), SpawnError> {
        let gate = Arc::clone(&self.gate);
        self.threads.push(spawn(Box::new(move || body(&gate)))?);
        Ok(())
    }

    /// Waits until all members have arrived at the gate.
    pub(crate) fn assemble(&self) {
        self.gate.wait_for_all();
    }

    /// Opens the gate and waits until all members have left. Returns when it was opened.
    pub(crate) fn release(&self) -> Time {
        let released_at = P::now();
        self.gate.open();
        self.gate.wait_until_left();
        released_at
    }

    /// Runs the work of all members at once, and joins them.
    pub(crate) fn run(self) -> Ran<R> {
        self.assemble();
        let released_at = self.release();
        let elapsed_ns = P::now().ns_since(released_at).max(1);
        let results = Arc::clone(&self.results);
        self.join();
        let results = std::mem::take(&mut *results.lock()).into_iter();
        let results =
            results.map(|result| result.expect("a finished thread has stored its result"));
        Ran { released_at, elapsed_ns, results: results.collect() }
    }

    /// Joins the members of a crew that was released.
    pub(crate) fn join(mut self) {
        self.threads.drain(..).for_each(ThreadHandle::join);
    }
}

impl<P: Platform, R> Drop for Crew<P, R> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.gate.set(GIVEN_UP);
            self.threads.drain(..).for_each(ThreadHandle::join);
        }
    }
}

const SHUT: u32 = 0;
const OPEN: u32 = 1;
/// The run is cancelled: members exit.
const GIVEN_UP: u32 = 2;

/// A gate for one use: members arrive and wait, the coordinator opens, members leave.
pub(crate) struct Gate<P: Platform> {
    /// The number of members that have not arrived or, after the opening, have not left.
    missing: Padded<P::AtomicU32>,
    state: Padded<P::AtomicU32>,
    /// The coordinator sleeps here until all have arrived, or have left.
    coordinator: Padded<Parker<P>>,
    members: u32,
}
fields!(Gate<P: Platform> { missing, state, coordinator, members });

impl<P: Platform> Gate<P> {
    fn new(members: usize) -> Self {
        let members = u32::try_from(members).expect("a process has fewer than 2³² threads");
        Self {
            missing: Padded::new(P::AtomicU32::new(members)),
            state: Padded::new(P::AtomicU32::new(SHUT)),
            coordinator: Padded::new(Parker::new()),
            members,
        }
    }

    /// Called by a member: waits for the gate to open. Returns false if the run was cancelled.
    pub(crate) fn pass(&self) -> bool {
        self.leave();
        loop {
            match self.state.load(Acquire) {
                SHUT => P::wait(&self.state, SHUT, None),
                state => return state == OPEN,
            };
        }
    }

    /// Called by a member when its work is done.
    pub(crate) fn leave(&self) {
        // AcqRel: the coordinator sees the earlier writes of all members.
        if self.missing.fetch_sub(1, AcqRel) == 1 {
            self.coordinator.unpark();
        }
    }

    fn wait_for_all(&self) {
        self.coordinator.park();
        self.missing.store(self.members, Release);
    }

    fn open(&self) {
        self.set(OPEN);
    }

    fn set(&self, state: u32) {
        self.state.store(state, Release);
        P::wake_all(&raw const *self.state);
    }

    fn wait_until_left(&self) {
        self.coordinator.park();
    }
}

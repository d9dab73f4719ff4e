//! Threads that begin together, each pinned to a CPU.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use coreshard_platform::{
    AtomicInt, Padded, Parker, Platform, SpawnError, ThreadHandle, ThreadSpec, Time, fields,
};
use coreshard_topology::CpuId;

/// Returns what a thread on one CPU is to be.
pub(crate) fn pinned(name: String, cpu: CpuId) -> ThreadSpec {
    ThreadSpec { name, affinity: Some([cpu].into_iter().collect()), ..ThreadSpec::default() }
}

/// Threads behind a gate. A crew that is dropped before it ran sends its threads home and joins them.
pub(crate) struct Crew<P: Platform> {
    gate: Arc<Gate<P>>,
    threads: Vec<P::Thread>,
}

impl<P: Platform> Crew<P> {
    /// A crew that will have `members` threads.
    pub(crate) fn new(members: usize) -> Self {
        let gate = Arc::new(Gate::new(members));
        P::describe(Arc::as_ptr(&gate));
        Self { gate, threads: Vec::with_capacity(members) }
    }

    /// Starts a thread that prepares itself, passes the gate, and leaves it when its work is done.
    pub(crate) fn spawn(
        &mut self,
        spec: ThreadSpec,
        body: impl FnOnce(&Gate<P>) + Send + 'static,
    ) -> Result<(), SpawnError> {
        self.spawn_by(|body| P::spawn(spec, body), body)
    }

    /// Starts a thread on a CPU that does `work` once the gate is open.
    pub(crate) fn spawn_on(
        &mut self,
        cpu: CpuId,
        name: String,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), SpawnError> {
        self.spawn(pinned(name, cpu), |gate| {
            if gate.pass() {
                work();
                gate.leave();
            }
        })
    }

    /// As [`spawn`](Self::spawn), by a call of the platform's.
    pub(crate) fn spawn_by(
        &mut self,
        spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> Result<P::Thread, SpawnError>,
        body: impl FnOnce(&Gate<P>) + Send + 'static,
    ) -> Result<(), SpawnError> {
        let gate = Arc::clone(&self.gate);
        self.threads.push(spawn(Box::new(move || body(&gate)))?);
        Ok(())
    }

    /// Waits until all members stand before the gate.
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

    /// Lets all members do their work at once, and joins them. Returns when they began.
    pub(crate) fn run(self) -> Time {
        self.assemble();
        let released_at = self.release();
        self.join();
        released_at
    }

    /// As [`run`](Self::run). Returns the nanoseconds from the release until the last member left.
    pub(crate) fn run_ns(self) -> u64 {
        self.assemble();
        let released_at = self.release();
        let elapsed_ns = P::now().ns_since(released_at).max(1);
        self.join();
        elapsed_ns
    }

    /// Joins the members of a crew that was released.
    pub(crate) fn join(mut self) {
        self.threads.drain(..).for_each(ThreadHandle::join);
    }
}

impl<P: Platform> Drop for Crew<P> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.gate.set(GIVEN_UP);
            self.threads.drain(..).for_each(ThreadHandle::join);
        }
    }
}

const SHUT: u32 = 0;
const OPEN: u32 = 1;
/// The run is given up: members go home.
const GIVEN_UP: u32 = 2;

/// One use: members arrive and wait, the coordinator opens, members leave.
pub(crate) struct Gate<P: Platform> {
    /// How many still have to arrive; then how many still have to leave.
    missing: Padded<P::AtomicU32>,
    state: Padded<P::AtomicU32>,
    /// Where the coordinator sleeps until all have arrived, or have left.
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

    /// Member: waits for the gate to open. Returns false if the run was given up.
    pub(crate) fn pass(&self) -> bool {
        self.leave();
        loop {
            match self.state.load(Acquire) {
                SHUT => P::wait(&self.state, SHUT, None),
                state => return state == OPEN,
            };
        }
    }

    /// Member: has done its work.
    pub(crate) fn leave(&self) {
        // AcqRel: the coordinator sees what all of them did before.
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

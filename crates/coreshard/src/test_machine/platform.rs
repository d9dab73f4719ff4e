//! This machine or, inside a test, the simulated one.

use std::sync::Weak;
use std::time::Duration;

use coreshard_platform::{
    AffinityError, ForkHook, Host, LocalKey, NodeMemory, NodeMemoryError, Platform, SpawnError,
    ThreadHandle, ThreadId, ThreadSpec, Time, WaitOutcome,
};
use coreshard_sim::{Sim, SimThread};
use coreshard_topology::{CpuId, CpuSet, NodeId};

use super::simulated_process::SimulatedProcess;

/// Attempts at a grace period on this machine before a simulated program assumes that there is none.
const GRACE_PERIODS: u32 = 1_000;

/// The machine of the types in [`simulated`](crate::testing::simulated). Code inside
/// [`by_hand`](crate::testing::by_hand()) or [`check`](crate::testing::check()) runs on a simulated machine, and other
/// code on this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestMachine;

/// A thread of this machine or the simulated one.
#[derive(Debug)]
pub enum TestThread {
    /// Of this machine.
    Host(<Host as Platform>::Thread),
    /// Of the simulated one.
    Simulated(SimThread),
}

impl ThreadHandle for TestThread {
    #[track_caller]
    fn join(self) {
        match self {
            Self::Host(thread) => thread.join(),
            Self::Simulated(thread) => thread.join(),
        }
    }
}

/// `on!(call(arguments))` calls the simulated machine from a simulation, otherwise this one.
macro_rules! on {
    ($($call:tt)+) => {
        if Sim::is_running() { Sim::$($call)+ } else { Host::$($call)+ }
    };
}

impl Platform for TestMachine {
    // Outside a simulation these are native.
    type AtomicU32 = <Sim as Platform>::AtomicU32;
    type AtomicU64 = <Sim as Platform>::AtomicU64;
    type AtomicPtr<T> = <Sim as Platform>::AtomicPtr<T>;
    type Cell<T> = <Sim as Platform>::Cell<T>;
    type Thread = TestThread;

    const WATCHES_ITEMS: bool = true;

    fn current_cpu() -> CpuId {
        on!(current_cpu())
    }

    fn spawn(spec: ThreadSpec, body: Box<dyn FnOnce() + Send>) -> Result<TestThread, SpawnError> {
        if Sim::is_running() {
            Sim::spawn(spec, body).map(TestThread::Simulated)
        } else {
            Host::spawn(spec, body).map(TestThread::Host)
        }
    }

    #[track_caller]
    fn wait(word: &Self::AtomicU32, expected: u32, timeout: Option<Duration>) -> WaitOutcome {
        if Sim::is_running() {
            Sim::wait(word, expected, timeout)
        } else {
            Host::wait(word.native(), expected, timeout)
        }
    }

    fn wake_one(word: *const Self::AtomicU32) {
        // The simulated word has the layout of the native one and is not read there.
        if Sim::is_running() { Sim::wake_one(word) } else { Host::wake_one(word.cast()) }
    }

    fn wake_all(word: *const Self::AtomicU32) {
        if Sim::is_running() { Sim::wake_all(word) } else { Host::wake_all(word.cast()) }
    }

    fn now() -> Time {
        on!(now())
    }

    fn rough_ns() -> u64 {
        on!(rough_ns())
    }

    #[track_caller]
    fn sleep(duration: Duration) {
        on!(sleep(duration));
    }

    fn at_thread_end(end: Box<dyn FnOnce()>) {
        on!(at_thread_end(end));
    }

    fn spin_hint() {
        on!(spin_hint());
    }

    fn watch(looks: u32, done: impl FnMut() -> bool) -> bool {
        on!(watch(looks, done))
    }

    #[track_caller]
    fn yield_now() {
        on!(yield_now());
    }

    #[track_caller]
    fn set_affinity(cpus: &CpuSet) -> Result<(), AffinityError> {
        on!(set_affinity(cpus))
    }

    fn set_affinity_of(thread: ThreadId, cpus: impl Iterator<Item = CpuId>) -> bool {
        on!(set_affinity_of(thread, cpus))
    }

    fn process_cpus() -> Option<CpuSet> {
        on!(process_cpus())
    }

    fn allocate(bytes: usize, node: Option<NodeId>) -> Result<NodeMemory, NodeMemoryError> {
        // Simulated memory has no location, and may outlive the simulation.
        Host::allocate(bytes, node.filter(|_| !Sim::is_running()))
    }

    fn local(key: LocalKey) -> *mut () {
        on!(local(key))
    }

    fn set_local(key: LocalKey, value: *mut ()) {
        on!(set_local(key, value));
    }

    fn idlers_may_spin() -> bool {
        on!(idlers_may_spin())
    }

    fn prefetch_write<T>(place: *const T) {
        on!(prefetch_write(place));
    }

    fn this_thread() -> ThreadId {
        on!(this_thread())
    }

    fn cpu_time_of(thread: ThreadId) -> Option<Duration> {
        on!(cpu_time_of(thread))
    }

    fn is_waiting(thread: ThreadId) -> bool {
        on!(is_waiting(thread))
    }

    fn checks_rules() -> bool {
        on!(checks_rules())
    }

    fn item_is_queued() {
        Sim::item_is_queued();
    }

    fn item_begins(name: &'static str, is_void: impl Fn() -> bool) {
        Sim::item_begins(name, is_void);
    }

    fn item_is_over() {
        Sim::item_is_over();
    }

    fn item_is_taken() {
        Sim::item_is_taken();
    }

    fn item_panicked(queue: &str, panic: &str) {
        Sim::item_panicked(queue, panic);
    }

    fn on_fork(hook: Weak<dyn ForkHook>) {
        if Sim::is_running() {
            SimulatedProcess::on_end(hook);
        } else {
            Host::on_fork(hook);
        }
    }

    /// Objects of a simulation detect that they are outside it, or in another one, as in a forked process: their
    /// threads do not exist. They reject work and do not block.
    fn process_generation() -> u32 {
        SimulatedProcess::generation().unwrap_or_else(Host::process_generation)
    }

    // Objects of a test may be visible to threads of this machine and vice versa. A simulated section is therefore also
    // one of this machine, and a grace period needs both.
    fn begin_reading() -> *const () {
        Sim::begin_reading();
        let thread = Host::begin_reading();
        if Sim::is_running() {
            SimulatedProcess::section_begins(thread);
        }
        thread
    }

    fn end_reading(thread: *const ()) {
        if Sim::is_running() {
            SimulatedProcess::section_ends();
        }
        Host::end_reading(thread);
        Sim::end_reading(thread);
    }

    fn try_grace_period() -> bool {
        if !Sim::is_running() {
            return Host::try_grace_period();
        }
        // Sections are short there, so a run does not depend on whether one is in progress.
        Sim::try_grace_period()
            && (0..GRACE_PERIODS).any(|_| {
                let is_over = Host::try_grace_period();
                if !is_over {
                    std::thread::yield_now();
                }
                is_over
            })
    }
}

//! This machine, or inside of a test the simulated one.

use std::sync::Weak;
use std::time::Duration;

use coreshard_platform::{
    AffinityError, ForkHook, Host, LocalKey, NodeMemory, NodeMemoryError, Platform, SpawnError,
    ThreadHandle, ThreadId, ThreadSpec, Time, WaitOutcome,
};
use coreshard_sim::{Sim, SimThread};
use coreshard_topology::{CpuId, CpuSet, NodeId};

use super::simulated_process::SimulatedProcess;

/// How often a simulated program asks this machine for a grace period before it takes that there is none.
const GRACE_PERIODS: u32 = 1_000;

/// The machine of the types in [`simulated`](crate::testing::simulated): code that runs inside of
/// [`by_hand`](crate::testing::by_hand()) or [`check`](crate::testing::check()) is on a simulated machine, all other code on this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestMachine;

/// A thread of this machine, or of the simulated one.
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

/// `on!(call(arguments))`: on the simulated machine where the caller is simulated, else on this one.
macro_rules! on {
    ($($call:tt)+) => {
        if Sim::is_running() { Sim::$($call)+ } else { Host::$($call)+ }
    };
}

impl Platform for TestMachine {
    // Outside of a simulation these are this machine's own.
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
        // The simulated word is the native one, by its layout, and nothing is read there.
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
        // Simulated memory is the same wherever it lies; and it may be there for longer than a simulation.
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

    /// What was made in a simulation finds itself outside of it, or in another one, as in a forked process: its
    /// threads are not there. So it refuses, and waits for nobody.
    fn process_generation() -> u32 {
        SimulatedProcess::generation().unwrap_or_else(Host::process_generation)
    }

    // What a test has made may be seen by threads of this machine, and the other way round. So a simulated section is
    // one of this machine's, too, and a grace period is over when it is over there as well.
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
        // Sections are short there: a run does not depend on whether one goes on at this moment.
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

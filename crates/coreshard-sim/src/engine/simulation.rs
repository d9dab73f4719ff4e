//! A simulation: its options and its result.
#![allow(unsafe_code)]

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::Duration;

use super::faults::{CallCounts, Faults};
use super::pulse::Pulse;
use super::run::{RunningSimulation, Watch};
use super::settings::{Settings, Switching};
use super::state::{SimState, current, with_current};
use super::view::{SimError, View};
use crate::machine::{Machine, NS, ps};
use crate::profile::Profile;
use crate::report::{LineReport, Timeline};
use crate::space::{Arena, in_host};

/// The accesses that a program may make without progress.
const PROGRESS_LIMIT: u64 = 4_000_000_000;

/// The options of a simulation. Equal options give equal runs.
#[derive(Clone, Debug)]
pub struct Simulation<'machine> {
    machine: &'machine Machine,
    settings: Settings,
}

/// The result of a simulation.
#[derive(Debug)]
pub struct Run<R> {
    /// The program's return value.
    pub value: R,
    /// Figures of the run.
    pub summary: Summary,
    /// The lines that cost time, if recorded.
    pub lines: Option<LineReport>,
    /// The threads of each CPU over time, if recorded.
    pub timeline: Option<Timeline>,
    /// Whether memory that the program has allocated is not freed: it is leaked, or held by a thread that
    /// still waits, or by `value`.
    pub left_memory: bool,
}

impl<R> Run<R> {
    /// Maps the value after the simulation has ended.
    ///
    /// While any allocation remains in a simulation's memory, all of its addresses stay reserved, and at most
    /// 256 simulations can have some. Copy values to keep the results of many simulations.
    ///
    /// ```
    /// use coreshard_sim::{Machine, Simulation};
    ///
    /// let run = Simulation::new(&Machine::pocket()).run(|| vec![1, 2])?;
    /// let run = run.map(|inside| inside.clone());
    /// assert_eq!(run.value, [1, 2]);
    /// # Ok::<(), coreshard_sim::SimError>(())
    /// ```
    pub fn map<T>(self, of: impl FnOnce(R) -> T) -> Run<T> {
        let Self { value, summary, lines, timeline, left_memory } = self;
        Run { value: of(value), summary, lines, timeline, left_memory }
    }
}

/// Figures of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The seed.
    pub seed: u64,
    /// Virtual time from the start to the program's return, in nanoseconds.
    pub virtual_ns: u64,
    /// A hash of every access and every switch of the run, with its time: equal for equal runs.
    pub trace_hash: u64,
    /// Memory accesses that were simulated.
    pub accesses: u64,
    /// Accesses that did not find the line in the required state.
    pub misses: u64,
    /// How often the engine resumed a thread.
    pub resumes: u64,
    /// How often a CPU began to run a thread.
    pub context_switches: u64,
    /// How often a thread was made runnable.
    pub wakeups: u64,
    /// Interrupts sent to idle CPUs.
    pub ipis: u64,
    /// Virtual threads, including the program's first one.
    pub threads: usize,
    /// Threads that ended by a panic.
    pub panicked_threads: usize,
    /// Threads that still waited when the program had returned.
    pub threads_left: usize,
    /// Lines that were accessed.
    pub lines: u64,
    /// Calls that can fail.
    pub calls: CallCounts,
    /// Work items that have begun, if the runtime reports them.
    pub items_begun: u64,
    /// Work items that were accepted and never began.
    pub items_left: u64,
    /// Panics of items without a handler, with the queue's name.
    pub unheard_panics: Vec<String>,
}

macro_rules! setters {
    ($($(#[$doc:meta])+ $setting:ident: $type:ty;)+) => {
        impl Simulation<'_> {
            $($(#[$doc])+
            #[must_use]
            pub fn $setting(mut self, $setting: $type) -> Self {
                self.settings.$setting = $setting;
                self
            })+
        }
    };
}

setters! {
    /// Sets the seed, which breaks ties among CPUs at the same time.
    seed: u64;
    /// Sets the cost profile: user space or kernel.
    profile: Profile;
    /// Sets whether to record which code used which line; takes about twice the time.
    record_lines: bool;
    /// Sets whether to record the threads of each CPU over time.
    record_timeline: bool;
    /// Sets the injected faults. Default: none.
    faults: Faults;
    /// Sets the virtual time after which a run is aborted.
    time_limit: Duration;
    /// Sets the number of thread turns after which a run is aborted. Default: unlimited.
    turn_limit: u64;
    /// Sets the number of accesses without [progress](crate::Sim::progress) after which a run is aborted, with the
    /// last access of each thread. Default: four billion, some minutes of host time.
    progress_limit: u64;
    /// Sets the virtual time to wait for sleeping threads after the program has returned, such as one that
    /// checks periodically whether it is still needed. Their memory is then released. If they are abandoned
    /// instead, the simulation's range of addresses stays reserved, and a process has only some hundreds of them. This
    /// time does not count as the program's. Default: zero.
    settle: Duration;
    /// Sets whether each access costs the same, wherever the data is and whichever CPU used it. The run then
    /// does not depend on addresses, so it is reproducible without [`SimAlloc`](crate::SimAlloc). Default:
    /// no.
    uniform_memory: bool;
    /// Sets whether [`Stuck`](super::Stuck) reports where in the source the first thread, and threads inside
    /// items, wait. Takes some microseconds for each wait. Default: no.
    record_waits: bool;
    /// Sets whether the first thread controls items and time with [`Sim::let_run`](crate::Sim::let_run), and
    /// nothing costs time. Threads are then switched [at waits](Switching::AtWaits). Default: no.
    by_hand: bool;
}

impl<'machine> Simulation<'machine> {
    /// Creates a simulation of `machine`: seed 0, the futex profile, nothing recorded, at most an hour of
    /// virtual time.
    #[must_use]
    pub fn new(machine: &'machine Machine) -> Self {
        let settings = Settings {
            time_limit: Duration::from_secs(3_600),
            turn_limit: u64::MAX,
            progress_limit: PROGRESS_LIMIT,
            ..Settings::default()
        };
        Self { machine, settings }
    }

    /// Returns the simulated machine.
    #[must_use]
    pub const fn machine(&self) -> &'machine Machine {
        self.machine
    }

    /// Sets where threads are switched. Default: [`Switching::Anywhere`].
    #[must_use]
    pub fn switching(mut self, switching: Switching) -> Self {
        self.settings.at_waits = switching == Switching::AtWaits;
        self
    }

    /// Exempts starts from [`Faults::failed_spawns_per_million`].
    ///
    /// `spares` is called with the thread's name, and whether the program's first thread starts it. Default:
    /// none.
    #[must_use]
    pub fn spare_starts(mut self, spares: fn(&str, bool) -> bool) -> Self {
        self.settings.spares_start = Some(spares);
        self
    }

    /// Reports each turn to `pulse`.
    #[must_use]
    pub fn pulse(mut self, pulse: Arc<Pulse>) -> Self {
        self.settings.pulse = Some(pulse);
        self
    }

    /// Ends the run with [`SimError::Stopped`] soon after `stop` becomes true.
    ///
    /// Another host thread or a signal handler may set it.
    #[must_use]
    pub fn stop_when(mut self, stop: Arc<AtomicBool>) -> Self {
        self.settings.stop = Some(stop);
        self
    }

    /// Runs `program` as the first thread of the machine, on its first CPU, with all threads that it starts,
    /// until it has returned and all threads wait.
    ///
    /// # Errors
    /// If the simulation cannot be set up, the program deadlocks, or its time limit passes. Remaining threads
    /// are abandoned, and their memory is leaked.
    ///
    /// # Panics
    /// With the panic of the program's first thread. Also inside another simulation.
    pub fn run<R>(&self, program: impl FnOnce() -> R) -> Result<Run<R>, SimError> {
        self.run_and_watch(program, None)
    }

    /// As [`run`](Self::run), and calls `look` once per `every` of virtual time, between two events.
    ///
    /// This does not affect the run. If `look` returns an error, which names the broken rule, the run ends at
    /// once.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`SimError::Broken`].
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_watched<R>(
        &self,
        program: impl FnOnce() -> R,
        every: Duration,
        mut look: impl FnMut(&View<'_>) -> Result<(), String>,
    ) -> Result<Run<R>, SimError> {
        let every = ps(every).max(NS);
        self.run_and_watch(program, Some(Watch { next: every, every, look: &mut look }))
    }

    fn run_and_watch<R>(
        &self,
        program: impl FnOnce() -> R,
        watch: Option<Watch<'_>>,
    ) -> Result<Run<R>, SimError> {
        assert!(current().is_none(), "a simulation cannot run inside another one");
        keep_panic_hook_outside();
        let mut arena = Arena::reserve().map_err(SimError::Setup)?;
        // SAFETY: the arena was just created, and there is no other reference to it.
        let hooks = unsafe { arena.as_mut() };
        if self.settings.faults.held_stores_per_million > 0 {
            hooks.before_change = Some(drain_own_stores);
        }
        if self.settings.record_lines {
            hooks.on_release = Some(tell_recorder_of_release);
        }
        let id = hooks.id();
        let mut running = RunningSimulation::new(self.machine, arena, self.settings.clone());
        let mut outcome = None;
        let program = || outcome = Some(panic::catch_unwind(AssertUnwindSafe(program)));
        let end_ns = running.run(program, watch)?;
        let value = match outcome.expect("a finished program has stored its outcome") {
            Ok(value) => value,
            Err(payload) => {
                drop(running);
                panic::resume_unwind(payload)
            }
        };
        let sim = running.sim();
        let summary = Summary::of(sim, end_ns);
        let (lines, timeline) = self.reports(sim);
        drop(running);
        Ok(Run { value, summary, lines, timeline, left_memory: id.is_in_use() })
    }

    fn reports(&self, sim: &mut SimState) -> (Option<LineReport>, Option<Timeline>) {
        let Some(recorder) = sim.hw.recorder.take() else { return (None, None) };
        let names = sim.threads.iter().map(|thread| thread.name.clone()).collect();
        let nodes = self.machine.topology().node_ids();
        let memory = &mut sim.hw.memory;
        let node_of = |place| memory.home(place).and_then(|home| nodes.get(home)).map(|id| id.0);
        recorder.finish(self.machine, names, sim.sched.ids(), node_of)
    }
}

impl Summary {
    fn of(sim: &SimState, virtual_ns: u64) -> Self {
        let (trace, sched) = (&sim.hw.trace, &sim.sched);
        Self {
            seed: sim.settings.seed,
            virtual_ns,
            trace_hash: trace.hash,
            accesses: trace.accesses,
            misses: trace.misses,
            resumes: sim.resumes,
            context_switches: sched.context_switches,
            wakeups: sched.wakeups,
            ipis: sched.ipis,
            threads: sim.threads.len(),
            panicked_threads: sim.panicked,
            threads_left: sim.threads.alive(),
            lines: sim.hw.memory.touched_lines(),
            calls: sim.faults.call_counts().clone(),
            items_begun: sim.items.begun(),
            items_left: sim.items.queued(),
            unheard_panics: sim.items.panics().to_vec(),
        }
    }
}

fn drain_own_stores() {
    with_current(SimState::drain_own_stores);
}

fn tell_recorder_of_release(address: usize, bytes: usize) {
    with_current(|sim| sim.release(address, bytes));
}

/// Wraps the process's panic hook, so that it does not allocate from the memory of the panicking program,
/// whose run would not be reproducible.
fn keep_panic_hook_outside() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| in_host(|| hook(info))));
    });
}

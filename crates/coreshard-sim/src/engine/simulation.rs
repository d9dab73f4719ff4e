//! A simulation: how it is to run, what it has come to.
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

/// How a simulation is to run. Equal settings give equal runs.
#[derive(Clone, Debug)]
pub struct Simulation<'machine> {
    machine: &'machine Machine,
    settings: Settings,
}

/// What a simulation has come to.
#[derive(Debug)]
pub struct Run<R> {
    /// What the program returned.
    pub value: R,
    /// Figures of the run.
    pub summary: Summary,
    /// Which lines cost time, if that was recorded.
    pub lines: Option<LineReport>,
    /// What each CPU ran when, if that was recorded.
    pub timeline: Option<Timeline>,
    /// Something that the program has allocated is not freed: it is leaked, or held by a thread that still
    /// waits, or by `value`.
    pub left_memory: bool,
}

impl<R> Run<R> {
    /// With another value, which is made of it when the simulation is over. While there is anything in a simulation's memory,
    /// all of its addresses stay, and no more than 256 simulations can have some: copy values to keep those of many
    /// simulations.
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
    /// Depends on every access and every switch of the run, with its time: equal for equal runs.
    pub trace_hash: u64,
    /// Memory accesses that were simulated.
    pub accesses: u64,
    /// Those that did not find the line as they needed it.
    pub misses: u64,
    /// Times that the engine resumed a thread.
    pub resumes: u64,
    /// Times that a CPU began to run a thread.
    pub context_switches: u64,
    /// Times that a thread was made runnable.
    pub wakeups: u64,
    /// Interrupts sent to idle CPUs.
    pub ipis: u64,
    /// Virtual threads, the program's first one among them.
    pub threads: usize,
    /// Threads that a panic has ended.
    pub panicked_threads: usize,
    /// Threads that still waited when the program had returned.
    pub threads_left: usize,
    /// Lines that were touched.
    pub lines: u64,
    /// Calls that can fail.
    pub calls: CallCounts,
    /// Work items that have begun, if the runtime reports them.
    pub items_begun: u64,
    /// Work items that were accepted and never began.
    pub items_left: u64,
    /// Panics of items that no caller asked for, with the queue's name.
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
    /// Settles which of several CPUs at the same time is first.
    seed: u64;
    /// Whose code the program is taken for.
    profile: Profile;
    /// Whether to record which code used which line; takes about twice the time.
    record_lines: bool;
    /// Whether to record what each CPU ran when.
    record_timeline: bool;
    /// What goes wrong on purpose. Default: nothing.
    faults: Faults;
    /// The virtual time after which a run is given up.
    time_limit: Duration;
    /// How many turns threads may have before a run is given up. Default: any number.
    turn_limit: u64;
    /// For how long of virtual time threads that sleep are waited for when the program has returned, such as one that looks
    /// now and then whether it is still needed. What they hold is given back then; of those that are forgotten it keeps the
    /// simulation's addresses, of which a process has some hundreds. It is no part of the program's time. Default: not at all.
    settle: Duration;
    /// Whether each access costs the same, wherever the data are and whichever CPU used them: the run does not depend on
    /// addresses, so it is the same again without [`SimAlloc`](crate::SimAlloc). Default: no.
    uniform_memory: bool;
    /// Whether [`Stuck`](super::Stuck) tells where in the source the first thread, and those inside items, wait. Takes some
    /// microseconds for each wait. Default: no.
    record_waits: bool;
    /// Whether items begin and time passes as the first thread says by [`Sim::let_run`](crate::Sim::let_run), and
    /// nothing costs time; threads are switched [at waits](Switching::AtWaits) then. Default: no.
    by_hand: bool;
}

impl<'machine> Simulation<'machine> {
    /// A simulation of `machine`: seed 0, the futex profile, nothing recorded, at most an hour of
    /// virtual time.
    #[must_use]
    pub fn new(machine: &'machine Machine) -> Self {
        let settings = Settings {
            time_limit: Duration::from_secs(3_600),
            turn_limit: u64::MAX,
            ..Settings::default()
        };
        Self { machine, settings }
    }

    /// Where threads are switched. Default: [`Switching::Anywhere`].
    #[must_use]
    pub fn switching(mut self, switching: Switching) -> Self {
        self.settings.at_waits = switching == Switching::AtWaits;
        self
    }

    /// Which starts [`Faults::failed_spawns_per_million`] leaves out: `spares` is called with the thread's name, and whether
    /// the program's first thread starts it. Default: none.
    #[must_use]
    pub fn spare_starts(mut self, spares: fn(&str, bool) -> bool) -> Self {
        self.settings.spares_start = Some(spares);
        self
    }

    /// Has `pulse` told of each turn.
    #[must_use]
    pub fn pulse(mut self, pulse: Arc<Pulse>) -> Self {
        self.settings.pulse = Some(pulse);
        self
    }

    /// Ends the run with [`SimError::Stopped`] soon after `stop` is true, which another host thread may make it, or a handler
    /// of a signal.
    #[must_use]
    pub fn stop_when(mut self, stop: Arc<AtomicBool>) -> Self {
        self.settings.stop = Some(stop);
        self
    }

    /// Runs `program` as the first thread of the machine, on its first CPU, and everything that it
    /// starts, until it has returned and nothing but waiting is left.
    ///
    /// # Errors
    /// If the simulation cannot be set up, the program deadlocks, or its time limit passes. Threads
    /// that are left then are forgotten as they are: what they hold is leaked.
    ///
    /// # Panics
    /// With what the program's first thread threw. Inside another simulation.
    pub fn run<R>(&self, program: impl FnOnce() -> R) -> Result<Run<R>, SimError> {
        self.run_and_watch(program, None)
    }

    /// As [`run`](Self::run), with `look` called for every `every` of virtual time, between two
    /// events. It is no part of the program: the run is the same without it. The run ends at once
    /// if it returns an error, which says what rule is broken.
    ///
    /// # Errors
    /// As there, and [`SimError::Broken`].
    ///
    /// # Panics
    /// As there.
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
        // SAFETY: the arena was just made, and there is no other reference to it.
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
        let value = match outcome.expect("a program that is over has left its outcome") {
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

/// Wraps the process's panic hook, so that it takes no memory of the program that panics: its run would not
/// be the same twice.
fn keep_panic_hook_outside() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| in_host(|| hook(info))));
    });
}

//! A simulation: how it is to run, what it has come to.
#![allow(unsafe_code)]

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::Duration;

use coreshard_platform::ThreadSpec;

use super::allowance::Allowance;
use super::call_failures::{CallCounts, CallFailures};
use super::events::Event;
use super::fault_injector::FaultInjector;
use super::faults::Faults;
use super::mode::{Mode, Switching};
use super::pulse::Pulse;
use super::run::step;
use super::state::{SimState, current};
use super::stuck::SimError;
use super::thread::ThreadState;
use super::tso::drain_own_stores;
use super::turn::with;
use super::watch::{View, Watcher};
use crate::machine::{Costs, Machine, NS, Ps, ps};
use crate::profile::Profile;
use crate::report::{LineReport, Recorder, Timeline};
use crate::space::{Arena, in_host};

/// How a simulation is to run. Equal settings give equal runs.
#[derive(Clone, Debug)]
pub struct Simulation<'machine> {
    machine: &'machine Machine,
    seed: u64,
    profile: Profile,
    record_lines: bool,
    record_timeline: bool,
    time_limit: Duration,
    turn_limit: u64,
    settle: Duration,
    faults: Faults,
    mode: Mode,
    pulse: Option<Arc<Pulse>>,
    stop: Option<Arc<AtomicBool>>,
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
    /// all of its addresses stay, and no more than 256 simulations can have some: who keeps what many of them returned
    /// copies it.
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
    /// Work items that have begun, where the runtime tells of them; those that were accepted and never began.
    pub items_begun: u64,
    /// See [`Self::items_begun`].
    pub items_left: u64,
    /// What items threw that nobody asked to hear of, with the queue's name.
    pub unheard_panics: Vec<String>,
}

impl<'machine> Simulation<'machine> {
    /// A simulation of `machine`: seed 0, the futex profile, nothing recorded, at most an hour of
    /// virtual time.
    #[must_use]
    pub fn new(machine: &'machine Machine) -> Self {
        Self {
            machine,
            seed: 0,
            profile: Profile::default(),
            record_lines: false,
            record_timeline: false,
            time_limit: Duration::from_secs(3_600),
            turn_limit: u64::MAX,
            settle: Duration::ZERO,
            faults: Faults::default(),
            mode: Mode::default(),
            pulse: None,
            stop: None,
        }
    }

    /// Settles which of several CPUs at the same time is first.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whose code the program is taken for.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Whether to record who used which line; takes about twice the time.
    #[must_use]
    pub fn record_lines(mut self, record: bool) -> Self {
        self.record_lines = record;
        self
    }

    /// Whether to record what each CPU ran when.
    #[must_use]
    pub fn record_timeline(mut self, record: bool) -> Self {
        self.record_timeline = record;
        self
    }

    /// What goes wrong on purpose. Default: nothing.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// The virtual time after which a run is given up.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// How many turns threads may have before a run is given up. Default: any number.
    #[must_use]
    pub fn turn_limit(mut self, turns: u64) -> Self {
        self.turn_limit = turns;
        self
    }

    /// For how long of virtual time threads that sleep are waited for when the program has returned, such as one that looks
    /// now and then whether it is still needed. What they hold is given back then; of those that are forgotten it keeps the
    /// simulation's addresses, of which a process has some hundreds. It is no part of the program's time. Default: not at all.
    #[must_use]
    pub fn settle(mut self, time: Duration) -> Self {
        self.settle = time;
        self
    }

    /// Where threads are switched. Default: [`Switching::Anywhere`].
    #[must_use]
    pub fn switching(mut self, switching: Switching) -> Self {
        self.mode.at_waits = switching == Switching::AtWaits;
        self
    }

    /// Whether each access costs the same, wherever the data are and whoever used them: the run does not depend on
    /// addresses, so it is the same again without [`SimAlloc`](crate::SimAlloc). Default: no.
    #[must_use]
    pub fn uniform_memory(mut self, uniform: bool) -> Self {
        self.mode.uniform_memory = uniform;
        self
    }

    /// Whether [`Stuck`](super::Stuck) tells where in the source the first thread, and those inside items, wait. Takes some
    /// microseconds for each wait. Default: no.
    #[must_use]
    pub fn record_waits(mut self, record: bool) -> Self {
        self.mode.records_waits = record;
        self
    }

    /// Which starts [`Faults::failed_spawns_per_million`] leaves out: `spares` is called with the thread's name, and whether
    /// the program's first thread starts it. Default: none.
    #[must_use]
    pub fn spare_starts(mut self, spares: fn(&str, bool) -> bool) -> Self {
        self.mode.spares_start = Some(spares);
        self
    }

    /// Whether items begin and time passes as the first thread says by [`Sim::let_run`](crate::Sim::let_run), and
    /// nothing costs time; threads are switched [at waits](Switching::AtWaits) then. Default: no.
    #[must_use]
    pub fn by_hand(mut self, by_hand: bool) -> Self {
        self.mode.by_hand = by_hand;
        self
    }

    /// Has `pulse` told of each turn.
    #[must_use]
    pub fn pulse(mut self, pulse: Arc<Pulse>) -> Self {
        self.pulse = Some(pulse);
        self
    }

    /// Ends the run with [`SimError::Stopped`] soon after `stop` is true, which another host thread may make it, or a handler
    /// of a signal.
    #[must_use]
    pub fn stop_when(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Runs `program` as the first thread of the machine, on its first CPU, and everything that it
    /// starts, until it has returned and nothing but waiting is left.
    ///
    /// # Errors
    /// Where the simulation cannot be set up, the program deadlocks, or its time is over. Threads
    /// that are left then are forgotten where they stand: what they hold is leaked.
    ///
    /// # Panics
    /// With what the program's first thread threw. Inside another simulation.
    pub fn run<R>(&self, program: impl FnOnce() -> R) -> Result<Run<R>, SimError> {
        self.run_and_watch(program, None)
    }

    /// As [`run`](Self::run), with `look` called for every `every` of virtual time, between two
    /// events. It is no part of the program: the run is the same without it. The run ends at once
    /// where it returns an error, which says what rule is broken.
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
        let arena = Arena::reserve().map_err(SimError::Setup)?;
        let recorder = (self.record_lines || self.record_timeline)
            .then(|| Box::new(Recorder::new(self.record_lines, self.record_timeline)));
        let mut sim =
            Box::new(SimState::new(self.machine, arena, self.seed, self.profile, recorder));
        sim.call_failures = CallFailures::new(self.faults.failing);
        sim.mode = self.mode;
        sim.pulse.clone_from(&self.pulse);
        sim.stop.clone_from(&self.stop);
        if self.mode.by_hand {
            sim.mode.at_waits = true;
            sim.costs = Costs { slice: sim.costs.slice, ..Costs::default() };
            sim.hand = Some(Allowance::default());
        }
        if self.faults != Faults::default() {
            sim.injector = Some(FaultInjector::new(self.faults, self.seed, sim.cpus.len()));
            // A search looks for orders of accesses, and draws them itself.
            sim.memory.serve_in_order();
            sim.begin_faults();
        }
        if self.faults.held_stores_per_million > 0 {
            // SAFETY: the arena was just made, and nobody else has a reference to it.
            unsafe { (*arena.as_ptr()).before_change = Some(drain_own_stores) };
        }
        if self.record_lines {
            // SAFETY: as above.
            unsafe { (*arena.as_ptr()).on_release = Some(tell_recorder_of_release) };
        }
        let mut running = RunningSimulation { sim: Box::into_raw(sim), arena };
        let mut outcome = None;
        let program = || outcome = Some(panic::catch_unwind(AssertUnwindSafe(program)));
        let limits =
            Limits { time: ps(self.time_limit), turns: self.turn_limit, settle: ps(self.settle) };
        let end_ns = running.run(program, limits, self.seed, watch)?;
        let value = match outcome.expect("a program that is over has left its outcome") {
            Ok(value) => value,
            Err(payload) => {
                drop(running);
                panic::resume_unwind(payload)
            }
        };
        let sim = running.sim();
        let recorder = sim.recorder.take();
        let summary = sim.summary(self.seed, end_ns);
        let (lines, timeline) = match recorder {
            None => (None, None),
            Some(recorder) => {
                let names = sim.threads.iter().map(|thread| thread.name.clone()).collect();
                let cpus = sim.cpus.iter().map(|cpu| cpu.id).collect();
                let nodes = self.machine.topology().node_ids();
                let memory = &mut sim.memory;
                let (line_bytes, machine) = (memory.line_bytes(), self.machine);
                let node_of =
                    |place| memory.home(place).and_then(|home| nodes.get(home)).map(|id| id.0);
                recorder.finish(line_bytes, machine, names, cpus, node_of)
            }
        };
        // SAFETY: the simulation's reference goes with `running`.
        let arena = unsafe { running.arena.as_ref() }.id();
        drop(running);
        Ok(Run { value, summary, lines, timeline, left_memory: arena.is_in_use() })
    }
}

fn tell_recorder_of_release(address: usize, bytes: usize) {
    let Some(sim) = current() else { return };
    with(sim, |sim| {
        let place = sim.place(address);
        if let Some(recorder) = sim.recorder() {
            in_host(|| recorder.release(place, bytes));
        }
    });
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

/// When a run is given up.
#[derive(Clone, Copy)]
struct Limits {
    time: Ps,
    turns: u64,
    settle: Ps,
}

/// What looks at a run from outside, how often, and when next.
struct Watch<'a> {
    next: Ps,
    every: Ps,
    look: &'a mut Watcher<'a>,
}

/// A simulation's parts; dropping them ends it.
struct RunningSimulation {
    sim: *mut SimState,
    arena: NonNull<Arena>,
}

impl RunningSimulation {
    fn sim(&mut self) -> &mut SimState {
        // SAFETY: made by `Box::into_raw`, and freed by `drop`; no coroutine runs.
        unsafe { &mut *self.sim }
    }

    /// Runs to the end. Returns when the first thread was over, in nanoseconds.
    fn run(
        &mut self,
        program: impl FnOnce(),
        limits: Limits,
        seed: u64,
        mut watch: Option<Watch<'_>>,
    ) -> Result<u64, SimError> {
        let mut root_end = None;
        let program: Box<dyn FnOnce() + '_> = Box::new(|| {
            program();
            root_end = current().map(|sim| with(sim, |sim| sim.now));
            if let Some(sim) = current() {
                with(sim, SimState::let_all_go);
            }
        });
        // SAFETY: the closure is run, or forgotten, before this function's caller goes on: `drop`
        // forgets all coroutines. It stays on this host thread.
        let program: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(program) };
        let sim = self.sim();
        let spec = ThreadSpec { name: "main".to_owned(), ..ThreadSpec::default() };
        let root = sim
            .new_thread(spec, 0, program)
            .map_err(|error| SimError::Setup(io::Error::other(error.to_string())))?;
        sim.make_runnable(root, 0);
        let mut settled_at = None;
        loop {
            let sim = self.sim();
            let root_is_over = sim.threads[root].state == ThreadState::Over;
            if root_is_over && (sim.alive == 0 || sim.busy_cpus == 0) {
                let until = sim.last_time.saturating_add(limits.settle);
                let until = *settled_at.get_or_insert(until);
                let soon = sim.events.first_time().is_some_and(|time| time < until);
                let sleeps = sim.events.len() > sim.background && soon;
                if sim.alive == 0 || !sleeps {
                    break;
                }
            }
            sim.look_by_hand(seed)?;
            let Some((time, what)) = sim.events.begin() else {
                return Err(SimError::Deadlock(sim.stuck(seed)));
            };
            // Nothing that is left comes from the program, or leads to it.
            if sim.events.len() == sim.background && sim.busy_cpus == 0 {
                return Err(SimError::Deadlock(sim.stuck(seed)));
            }
            // No event of its own: that would be seen in the run.
            if let Some(watch) = &mut watch
                && time >= watch.next
            {
                watch.next = time + watch.every;
                sim.last_time = sim.last_time.max(time);
                if let Err(rule) = (watch.look)(&View { sim, now_ns: time / NS }) {
                    return Err(SimError::Broken { rule, stuck: sim.stuck(seed) });
                }
            }
            if sim.is_to_stop() {
                // What its threads do as they are unwound is the end of it.
                sim.stop = None;
                return Err(SimError::Stopped);
            }
            if time > limits.time {
                return Err(SimError::TimeLimit(sim.stuck(seed)));
            }
            if sim.pauses > limits.turns {
                let rule =
                    format!("the simulated program came to no end within {} turns", limits.turns);
                return Err(SimError::Broken { rule, stuck: sim.stuck(seed) });
            }
            match what {
                Event::Timer(thread) => {
                    sim.timer(thread, time);
                    sim.events.end();
                }
                Event::Tick(cpu) => {
                    sim.tick(cpu, time);
                    sim.events.end();
                }
                Event::Offline => sim.some_cpu_goes_offline(time),
                Event::Online(cpu) => sim.come_online(cpu, time),
                Event::Line(slot) => sim.hand_out_line(slot, time),
                // SAFETY: the simulation lives, and the reference to it is not used any more.
                Event::Cpu(cpu) => unsafe { step(self.sim, cpu, time) },
            }
            let sim = self.sim();
            if let Some(rule) = sim.broken_rule.take() {
                return Err(SimError::Broken { rule, stuck: sim.stuck(seed) });
            }
        }
        Ok(root_end.unwrap_or(0) / NS)
    }
}

impl Drop for RunningSimulation {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `run`, and freed here alone.
        let mut sim = unsafe { Box::from_raw(self.sim) };
        for thread in &mut sim.threads {
            if let Some(body) = &mut thread.body {
                // SAFETY: what is on the stack is forgotten, as a leak is; nobody resumes it.
                unsafe { body.force_reset() };
            }
        }
        drop(sim);
        // SAFETY: the simulation's own reference, dropped once.
        unsafe { Arena::end_simulation(self.arena) };
    }
}

impl SimState {
    fn summary(&self, seed: u64, virtual_ns: u64) -> Summary {
        Summary {
            seed,
            virtual_ns,
            trace_hash: self.trace_hash,
            accesses: self.accesses,
            misses: self.misses,
            resumes: self.pauses,
            context_switches: self.context_switches,
            wakeups: self.wakeups,
            ipis: self.ipis,
            threads: self.threads.len(),
            panicked_threads: self.panicked,
            threads_left: self.alive,
            lines: self.memory.touched_lines(),
            calls: self.call_failures.counts().clone(),
            items_begun: self.items.begun,
            items_left: self.items.queued,
            unheard_panics: self.items.panics.clone(),
        }
    }
}

//! The view of a run from outside, while it runs and after it failed.
#![allow(unsafe_code)]

use std::fmt;
use std::io;

use coreshard_topology::CpuId;

use super::state::SimState;
use super::threads::{ThreadState, Wait};
use crate::machine::NS;
use crate::memory::{Access, Place};
use crate::report::bare_name;

/// The view of a run from outside, at one moment of virtual time.
#[derive(Clone, Copy)]
pub struct View<'run> {
    pub(super) sim: &'run SimState,
    pub(super) now_ns: u64,
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("now_ns", &self.now_ns).finish_non_exhaustive()
    }
}

impl View<'_> {
    /// Returns the virtual time since the start, in nanoseconds.
    ///
    /// It does not jump when the program's clock does.
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns how long a CPU has been idle, in nanoseconds.
    ///
    /// Returns `None` if it runs, is being woken, is offline, or does not exist.
    #[must_use]
    pub fn idle_ns(&self, cpu: CpuId) -> Option<u64> {
        let since = self.sim.sched.idle_since(self.sim.sched.place_of(cpu)?)?;
        Some(self.now_ns.saturating_sub(since / NS))
    }

    /// Returns the number of threads that could not be started so far.
    #[must_use]
    pub const fn failed_spawns(&self) -> usize {
        self.sim.faults.failed_starts()
    }

    /// Returns when a call last failed by injection, in nanoseconds: by its number, or randomly for a start.
    #[must_use]
    pub fn last_failure_ns(&self) -> Option<u64> {
        self.sim.faults.last_failure().map(|last| last / NS)
    }

    /// Returns the state of each thread that has not ended, one line each.
    #[must_use]
    pub fn threads(&self) -> Vec<WaitingThread> {
        WaitingThread::all(self.sim)
    }
}

/// The error of a simulation that did not finish.
pub enum SimError {
    /// The simulation cannot be set up.
    Setup(io::Error),
    /// Every thread waits for an event that can no longer occur.
    Deadlock(Stuck),
    /// The time limit has passed.
    TimeLimit(Stuck),
    /// A rule of the engine, or of the closure that observes the run, was broken.
    Broken {
        /// Which rule, and how.
        rule: String,
        /// The state of each thread at that time.
        stuck: Stuck,
    },
    /// The run was stopped from outside.
    Stopped,
}

/// The state of each thread of a stuck run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The seed, to run it again.
    pub seed: u64,
    /// The virtual time of the last event, in nanoseconds.
    pub at_ns: u64,
    /// The trace hash until then, as in [`Summary`](super::Summary).
    pub trace_hash: u64,
    /// Each thread that has not ended.
    pub threads: Vec<WaitingThread>,
}

/// A thread that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingThread {
    /// Its name.
    pub name: String,
    /// The state of the thread, in words.
    pub waits_for: String,
}

impl SimError {
    /// Returns the state of each thread when the run ended, if it ran.
    pub(crate) const fn stuck(&self) -> Option<&Stuck> {
        match self {
            Self::Deadlock(stuck) | Self::TimeLimit(stuck) | Self::Broken { stuck, .. } => {
                Some(stuck)
            }
            Self::Setup(_) | Self::Stopped => None,
        }
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ns of virtual time, with seed {}:", self.at_ns, self.seed)?;
        for thread in &self.threads {
            write!(f, "\n  {:?} {}", thread.name, thread.waits_for)?;
        }
        Ok(())
    }
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(error) => write!(f, "the simulation cannot be set up: {error}"),
            Self::Deadlock(stuck) => write!(f, "the simulated program is deadlocked {stuck}"),
            Self::TimeLimit(stuck) => {
                write!(f, "the simulated program did not finish within its time limit {stuck}")
            }
            Self::Broken { rule, stuck } => write!(f, "{rule}\n{stuck}"),
            Self::Stopped => f.write_str("the simulation was stopped"),
        }
    }
}

coreshard_topology::readable_debug!(SimError);

impl std::error::Error for SimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text already contains this error's text.
            Self::Setup(error) => error.source(),
            Self::Deadlock(_) | Self::TimeLimit(_) | Self::Broken { .. } | Self::Stopped => None,
        }
    }
}

impl Stuck {
    pub(super) fn of(sim: &SimState) -> Self {
        Self {
            seed: sim.settings.seed,
            at_ns: sim.last_time / NS,
            trace_hash: sim.hw.trace.hash,
            threads: WaitingThread::all(sim),
        }
    }
}

impl WaitingThread {
    fn all(sim: &SimState) -> Vec<Self> {
        let threads = sim.threads.iter().enumerate().filter(|(_, thread)| !thread.is_over());
        let waiting = threads.map(|(number, thread)| Self {
            name: thread.name.clone(),
            waits_for: waits_for(sim, number),
        });
        waiting.collect()
    }
}

fn waits_for(sim: &SimState, number: usize) -> String {
    let thread = &sim.threads[number];
    let text = match (thread.state(), &thread.waited_at) {
        // The place in the source says more than the word that it waits for.
        (ThreadState::Waiting { wait: Wait::Futex { .. }, since }, Some(waited_at)) => {
            format!("waits since {} ns{waited_at}", since / NS)
        }
        (ThreadState::Waiting { wait, since }, waited_at) => {
            let waited_at = waited_at.as_ref().map(ToString::to_string).unwrap_or_default();
            waits(sim, wait, since / NS) + &waited_at
        }
        _ => runs(sim, number),
    };
    match thread.item() {
        Some(item) => format!("is inside item {item} and {text}"),
        None => text,
    }
}

fn runs(sim: &SimState, number: usize) -> String {
    let cpu = sim.sched.cpu_of(number);
    let id = sim.sched.id_of(cpu);
    if sim.sched.current(cpu) != Some(number) {
        return format!("is runnable, and waits for CPU {id}");
    }
    let last = sim.threads[number].last_access.map(|last| {
        let does = match last.access {
            Access::Load => "loads",
            Access::Store => "stores to",
            _ => "modifies",
        };
        format!(", and {does} {} at {}", name_of(sim, last.place), last.site)
    });
    let last = last.unwrap_or_default();
    match sim.hw.spinning.first_line(cpu) {
        Some(line) => format!("spins on {}, on CPU {id}{last}", name_of(sim, line)),
        None => format!("runs on CPU {id}{last}"),
    }
}

fn waits(sim: &SimState, wait: Wait, since: u64) -> String {
    match wait {
        Wait::LockQueue { place, .. } => {
            format!("spins since {since} ns for its turn at {}", name_of(sim, place))
        }
        Wait::Woken => format!("sleeps since {since} ns, and was woken"),
        Wait::Sleep => format!("sleeps since {since} ns"),
        Wait::Item => format!("is held before an item since {since} ns"),
        Wait::Hand => format!("lets others run since {since} ns"),
        Wait::Join(other) => {
            format!("waits since {since} ns for the end of {:?}", sim.threads[other].name)
        }
        Wait::Futex { place, address, expected } => {
            // SAFETY: the word's owner sleeps on it, so it is live, and it is a 32-bit atomic. No simulated
            // code runs.
            let holds = unsafe { *(address as *const u32) };
            let name = name_of(sim, place);
            format!(
                "waits since {since} ns for a wake-up on {name}, which held \
                 {expected} then and holds {holds} now"
            )
        }
    }
}

fn name_of(sim: &SimState, place: Place) -> String {
    let described = sim.hw.recorder.as_ref().and_then(|recorder| recorder.field_at(place));
    described.unwrap_or_else(|| bare_name(place))
}

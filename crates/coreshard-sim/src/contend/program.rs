//! Runs a contention: threads that repeat its steps.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard_platform::{AtomicInt, SpawnError, ThreadHandle, ThreadSpec};
use coreshard_topology::CpuId;

use super::description::{Contention, Operation, Pinning, Step};
use super::locks::{Waiter, cas, with_lock};
use super::shared::{Seat, SharedMemory};
use super::stage::Stage;
use crate::engine::{SimError, Simulation};
use crate::platform::Sim;

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Once a thread has done this many rounds.
    Rounds(u32),
    /// After this time.
    Elapsed(Duration),
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Rounds per second of all threads.
    pub per_sec: f64,
    /// How long a thread takes for the steps of a round, on average, in nanoseconds.
    pub steps_ns: f64,
    /// The share of the threads' time that goes to each object; all 0 on real CPUs.
    pub shares: Vec<f64>,
    /// The share of the threads' time that they waited for a CPU; `None` on a simulated machine, and if the
    /// kernel does not count it.
    pub preempted: Option<f64>,
}

/// The most rounds of a simulated thread.
const MOST_ROUNDS: usize = 1_000;
/// The rounds of all simulated threads, if there are few threads.
const ALL_ROUNDS: usize = 8_000;
/// The fewest rounds of a simulated thread.
const FEWEST_ROUNDS: usize = 24;

/// How long a real thread computes, at least, between two readings of the clock.
const LOOK_AFTER_NS: f64 = 20_000.0;

/// The most accesses without a finished round.
const PROGRESS_LIMIT: u64 = 50_000_000;

/// Returns how many rounds each simulated thread does.
fn rounds(contention: &Contention, threads: usize) -> u32 {
    let rounds = (ALL_ROUNDS / threads).clamp(FEWEST_ROUNDS, MOST_ROUNDS);
    let every = contention.steps.iter().map(|step| step.every).max().unwrap_or(1);
    (rounds as u32).max(4 * every)
}

/// Runs a contention on a simulated machine, with `threads` threads that compute for `outside_ns` between two
/// rounds.
///
/// # Errors
/// If the simulation fails or is stopped.
pub fn simulate(
    contention: &Contention,
    simulation: &Simulation<'_>,
    threads: usize,
    outside_ns: f64,
) -> Result<Measured, SimError> {
    let machine = simulation.machine();
    // The simulated machine itself has one clock.
    let cpus = contention.cpus(machine);
    let slowdown = machine.slowdown(&cpus[..threads.min(cpus.len())]);
    let (mut slowed, outside_ns) = (contention.clone(), slowdown * outside_ns);
    slowed.steps.iter_mut().for_each(|step| step.inside_ns *= slowdown);
    let ids: Vec<CpuId> = machine.topology().cpus().iter().map(|cpu| cpu.id).collect();
    let pins = match contention.pinning {
        Pinning::Unpinned => None,
        Pinning::Pinned(_) => Some(cpus.into_iter().map(|at| ids[at]).collect::<Vec<_>>()),
    };
    let until = Until::Rounds(rounds(contention, threads));
    let run = || measure::<Sim>(&slowed, threads, outside_ns, &ids, pins.as_deref(), until);
    let simulation = simulation.clone().progress_limit(PROGRESS_LIMIT);
    let run = simulation.run(run)?;
    // A copy, out of the simulation's memory.
    let copy = |it: Result<Measured, SpawnError>| it.as_ref().map(Measured::clone).ok();
    Ok(run.map(copy).value.expect("no start of a simulated thread fails"))
}

/// Runs a contention on a platform whose CPUs are `cpus`, with a thread on each of `pins`, if given.
///
/// # Errors
/// If a thread cannot be started.
///
/// # Panics
/// If there are fewer pins than threads.
pub fn measure<P: Stage>(
    contention: &Contention,
    threads: usize,
    outside_ns: f64,
    cpus: &[CpuId],
    pins: Option<&[CpuId]>,
    until: Until,
) -> Result<Measured, SpawnError> {
    let contest = Arc::new(Contest::<P> {
        contention: contention.clone(),
        shared: SharedMemory::new(contention, threads, cpus.len()),
        ready: P::AtomicU32::new(0),
        threads,
        cpus: cpus.to_vec(),
        outside_ns,
        until,
        is_over: AtomicBool::new(false),
        tallies: Mutex::default(),
    });
    let mut handles = Vec::with_capacity(threads);
    for thread in 0..threads {
        let affinity = pins.map(|pins| [pins[thread]].into_iter().collect());
        let spec =
            ThreadSpec { name: format!("thread {thread}"), affinity, ..ThreadSpec::default() };
        let theirs = Arc::clone(&contest);
        match P::spawn(spec, Box::new(move || theirs.run(thread))) {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                // The others wait for all.
                contest.is_over.store(true, Relaxed);
                contest.ready.store(threads as u32, Release);
                handles.into_iter().for_each(ThreadHandle::join);
                return Err(error);
            }
        }
    }
    handles.into_iter().for_each(ThreadHandle::join);
    let tallies = contest.tallies.lock().expect("no thread panics");
    Ok(summary(&tallies, outside_ns, contention.objects.len()))
}

fn summary(tallies: &[Tally], outside_ns: f64, objects: usize) -> Measured {
    let rate = |tally: &Tally| tally.rounds as f64 / tally.elapsed_ns.max(1) as f64;
    let per_ns: f64 = tallies.iter().map(rate).sum();
    let elapsed_ns: u64 = tallies.iter().map(|tally| tally.elapsed_ns).sum();
    let share = |object: usize| {
        let spent: u64 = tallies.iter().map(|tally| tally.spent_ns[object]).sum();
        spent as f64 / elapsed_ns.max(1) as f64
    };
    let waited_ns: Option<u64> = tallies.iter().map(|tally| tally.waited_ns).sum();
    Measured {
        per_sec: per_ns * 1e9,
        // Little's law.
        steps_ns: (tallies.len() as f64 / per_ns.max(1e-12) - outside_ns).max(0.0),
        shares: (0..objects).map(share).collect(),
        preempted: waited_ns.map(|waited_ns| waited_ns as f64 / elapsed_ns.max(1) as f64),
    }
}

/// A thread's work after its first rounds.
struct Tally {
    rounds: u32,
    elapsed_ns: u64,
    /// By object.
    spent_ns: Vec<u64>,
    waited_ns: Option<u64>,
}

/// A run.
struct Contest<P: Stage> {
    contention: Contention,
    shared: SharedMemory<P>,
    /// Threads that have started.
    ready: P::AtomicU32,
    threads: usize,
    cpus: Vec<CpuId>,
    outside_ns: f64,
    until: Until,
    is_over: AtomicBool,
    tallies: Mutex<Vec<Tally>>,
}

/// A thread of a run.
struct Contender {
    seat: Seat,
    waiter: Waiter,
    spent_ns: Vec<u64>,
}

impl Contender {
    /// Counts the time of an access to an object.
    fn touch<P: Stage>(&mut self, object: usize, access: impl FnOnce()) {
        let start = P::free_clock_ns();
        access();
        self.spent_ns[object] += P::free_clock_ns() - start;
    }
}

impl<P: Stage> Contest<P> {
    fn run(&self, thread: usize) {
        let cpu = P::current_cpu();
        let cpu = self.cpus.iter().position(|known| *known == cpu).unwrap_or(0);
        let mut contender = Contender {
            seat: Seat { thread, cpu },
            waiter: Waiter::new(thread),
            spent_ns: vec![0; self.contention.objects.len()],
        };
        let all = self.threads as u32;
        if self.ready.fetch_add(1, AcqRel) + 1 < all {
            while !P::watch(u32::MAX, || self.ready.load(Acquire) >= all) {}
        }
        let (warm_up, rounds) = match self.until {
            Until::Rounds(rounds) => (rounds / 8, rounds),
            Until::Elapsed(_) => (self.rounds_of_look(), u32::MAX),
        };
        (0..warm_up).for_each(|round| self.round(&mut contender, round));
        contender.spent_ns.fill(0);
        let waited_before = P::waited_for_cpu_ns();
        let start = P::now();
        let mut done = 0;
        while done < rounds && !self.is_over.load(Relaxed) {
            self.round(&mut contender, warm_up.wrapping_add(done));
            done += 1;
            // The threads themselves look: a further one might get no CPU beside them.
            if let Until::Elapsed(duration) = self.until
                && done.is_multiple_of(self.rounds_of_look())
                && P::now() - start >= duration
            {
                break;
            }
        }
        let elapsed_ns = P::now().ns_since(start);
        self.is_over.store(true, Relaxed);
        let waited = P::waited_for_cpu_ns().zip(waited_before);
        let waited_ns = waited.map(|(after, before)| after.saturating_sub(before));
        let tally = Tally { rounds: done, elapsed_ns, spent_ns: contender.spent_ns, waited_ns };
        self.tallies.lock().expect("no thread panics").push(tally);
    }

    /// Returns after how many rounds a thread reads the clock.
    fn rounds_of_look(&self) -> u32 {
        let inside = self.contention.steps.iter().map(|step| step.inside_ns);
        (LOOK_AFTER_NS / (inside.sum::<f64>() + self.outside_ns + 100.0)).ceil() as u32
    }

    fn round(&self, contender: &mut Contender, round: u32) {
        for step in &self.contention.steps {
            let turn = round.wrapping_add(contender.seat.thread as u32);
            if turn.is_multiple_of(step.every) {
                self.step(contender, step);
            }
        }
        // Half to one and a half times the mean, so that threads do not fall into step.
        let varied = 0.5 + f64::from(contender.waiter.random(1 << 20)) / f64::from(1 << 20);
        P::spend(self.outside_ns * varied);
        P::round_is_done();
    }

    fn step(&self, contender: &mut Contender, step: &Step) {
        let slot = self.shared.slot(step.word, contender.seat);
        let object = step.word.0;
        match step.operation {
            Operation::Load => contender.touch::<P>(object, || {
                slot.word.load(Acquire);
            }),
            Operation::Store => contender.touch::<P>(object, || slot.word.store(1, Release)),
            // No result is needed, as of a counter.
            Operation::Add => contender.touch::<P>(object, || {
                slot.word.fetch_add(1, Relaxed);
            }),
            Operation::Cas => {
                let start = P::free_clock_ns();
                cas(slot, step.retry, &mut contender.waiter);
                contender.spent_ns[object] += P::free_clock_ns() - start;
            }
            lock => {
                let start = P::free_clock_ns();
                let Contender { seat, waiter, spent_ns } = contender;
                let mut inside_ns = 0;
                with_lock((lock, step.retry), &self.shared, slot, waiter, || {
                    let begun = P::free_clock_ns();
                    self.inside(step, *seat, spent_ns);
                    inside_ns += P::free_clock_ns() - begun;
                });
                spent_ns[object] += (P::free_clock_ns() - start).saturating_sub(inside_ns);
            }
        }
    }

    /// Does the work of a lock's holder.
    fn inside(&self, step: &Step, seat: Seat, spent_ns: &mut [u64]) {
        for word in &step.reads {
            let start = P::free_clock_ns();
            self.shared.slot(*word, seat).word.load(Relaxed);
            spent_ns[word.0] += P::free_clock_ns() - start;
        }
        for word in &step.writes {
            let start = P::free_clock_ns();
            let slot = self.shared.slot(*word, seat);
            slot.word.store(slot.word.load(Relaxed).wrapping_add(1), Relaxed);
            spent_ns[word.0] += P::free_clock_ns() - start;
        }
        P::spend(step.inside_ns);
    }
}

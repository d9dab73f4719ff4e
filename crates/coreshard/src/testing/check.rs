//! Tests on many schedules of a simulated machine.

use std::sync::Arc;
use std::time::Duration;

use coreshard_sim::search::{Plan, ReplaySeed};
use coreshard_sim::{Faults, Machine, Profile, Schedule, Switching};
use coreshard_topology::Topology;

use super::fault::Fault;
use super::run::{How, Outcome, Settings, run, text_of};

/// Reproduces one run.
const REPLAY: &str = "CORESHARD_TEST_REPLAY";
/// Overrides the number of seeds.
const SEEDS: &str = "CORESHARD_TEST_SEEDS";

const DEFAULT_SEEDS: u64 = 100;
const DEFAULT_CPUS: usize = 4;

/// Probability of a CPU stall at the start of a thread's turn, for long turns from one wait to the next.
const STALLS_AT_WAITS_PER_MILLION: u32 = 300_000;
/// The same for short turns of some ten nanoseconds, and at the start of an item and at preemption points.
const STALLS_ANYWHERE_PER_MILLION: u32 = 10_000;
const STALLS_AT_POINTS_PER_MILLION: u32 = 300_000;
/// The maximum stalls that seeds choose from: between two items, from a few of them to very many.
const LONGEST_STALLS: [Duration; 4] = [
    Duration::from_micros(2),
    Duration::from_micros(20),
    Duration::from_micros(200),
    Duration::from_millis(2),
];

/// Where the threads of a [`Check`] may be switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preemption {
    /// When a thread waits, yields or ends, when an item starts or finishes, and at each
    /// [`preemption_point`](super::preemption_point()). A lock of the standard library that is held between these
    /// points is safe, so this suits nearly all programs. It does not test what happens between two memory accesses of
    /// the program, or between a queueing and the code after it.
    #[default]
    AtWaits,
    /// Also at any step of the runtime, such as inside a queueing. For programs that share data only by this crate's
    /// means and atomics: a held lock of the standard library that another thread wants stops the run, which is
    /// reported after the [patience](Check::patience).
    Anywhere,
}

/// A test of a program on a simulated machine, with a run for each of many seeds; see [`check`].
#[derive(Clone, Debug)]
#[must_use = "a check does nothing until `run` is called"]
pub struct Check {
    machine: Machine,
    seeds: u64,
    first_seed: u64,
    preemption: Preemption,
    schedule: Option<Schedule>,
    faults: Vec<Fault>,
    allows_panics: bool,
    patience: Duration,
    time_limit: Duration,
    turn_limit: u64,
}

/// Runs `test` on 100 schedules of a simulated machine with 4 CPUs: [`Check::new`], and [`Check::run`].
///
/// # Panics
/// As [`Check::run`].
///
/// # Examples
/// ```
/// use std::sync::Mutex;
/// use std::sync::Arc;
///
/// use coreshard::testing::simulated;
///
/// coreshard::testing::check(|| {
///     let queue = simulated::workqueue().unwrap().name("sum").build().unwrap();
///     let sum = Arc::new(Mutex::new(0));
///     for number in 1..=10 {
///         let sum = Arc::clone(&sum);
///         queue.queue(move || *sum.lock().unwrap() += number).unwrap();
///     }
///     queue.flush().unwrap();
///     assert_eq!(*sum.lock().unwrap(), 55);
/// });
/// ```
#[track_caller]
pub fn check(test: impl Fn() + Send + Sync + 'static) {
    Check::new().run(test);
}

/// The results of a [`Check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Number of runs.
    pub runs: u64,
    /// Work items started in all runs.
    pub items: u64,
    /// A hash of all events of each run: equal for equal runs.
    pub trace_hash: u64,
}

/// A run that failed.
struct Failure {
    replay: ReplaySeed,
    what: String,
    faults: String,
}

impl Default for Check {
    fn default() -> Self {
        Self::new()
    }
}

impl Check {
    /// Creates a check with 100 seeds on 4 CPUs that share a cache, threads switched at waits, and no faults.
    pub fn new() -> Self {
        Self {
            machine: with_cpus(DEFAULT_CPUS),
            seeds: DEFAULT_SEEDS,
            first_seed: 0,
            preemption: Preemption::default(),
            schedule: None,
            faults: Vec::new(),
            allows_panics: false,
            patience: Duration::from_secs(10),
            time_limit: Duration::from_secs(3_600),
            turn_limit: 10_000_000,
        }
    }

    /// Sets the number of seeds, from the [first](Self::first_seed) on. The environment variable `CORESHARD_TEST_SEEDS`
    /// overrides it, for long searches. Default: 100.
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds;
        self
    }

    /// Sets the first seed. Default: 0.
    pub fn first_seed(mut self, seed: u64) -> Self {
        self.first_seed = seed;
        self
    }

    /// Sets a machine with this many CPUs that share a cache. Default: 4.
    ///
    /// # Panics
    /// If `cpus` is 0 or more than 1,024.
    #[track_caller]
    pub fn cpus(mut self, cpus: usize) -> Self {
        self.machine = with_cpus(cpus);
        self
    }

    /// Sets another machine. A different topology has different pools and so different schedules. Memory costs have no
    /// effect.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = machine;
        self
    }

    /// Sets where threads may be switched. Default: [`Preemption::AtWaits`].
    pub fn preemption(mut self, preemption: Preemption) -> Self {
        self.preemption = preemption;
        self
    }

    /// Sets one schedule for all seeds. Default: each seed draws one, random or by probabilistic concurrency testing.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// Sets the faults to inject, each in some of the runs; the seed draws how often. Default: none.
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// Allows item panics that no handle or handler reports. Default: no.
    pub fn allow_unheard_panics(mut self, allow: bool) -> Self {
        self.allows_panics = allow;
        self
    }

    /// Sets the maximum real time without progress in a run. Default: 10 s.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the maximum virtual time of a run. Default: an hour.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Sets the maximum number of turns of a run's threads. Default: ten million.
    pub fn turn_limit(mut self, turns: u64) -> Self {
        self.turn_limit = turns;
        self
    }

    /// Runs `test` once for each seed. Inside it, [`simulated`](super::simulated) belongs to the simulated machine, and
    /// the process's runtime to the run.
    ///
    /// The same seed gives the same run, if `test` depends on nothing else: not on the real clock, threads of the
    /// standard library, addresses, or the order of a `HashMap` with random keys.
    ///
    /// With `CORESHARD_TEST_REPLAY` in the environment, as a failure prints it, only that seed is run.
    ///
    /// # Panics
    /// At the first seed that fails, with a message that gives the reason and the command line that reproduces the run:
    /// if `test` panics; if an item panics and the panic is not reported; if threads deadlock, with what each waits for
    /// and where; if a run does not end; if queues, or items that never started, are left at its end; if there is no
    /// progress for the [patience](Self::patience); or if there are no [seeds](Self::seeds).
    #[track_caller]
    pub fn run(&self, test: impl Fn() + Send + Sync + 'static) -> Checked {
        let test: Arc<dyn Fn() + Send + Sync> = Arc::new(test);
        let (seeds, replayed) = self.seeds_to_run();
        let mut checked = Checked { runs: 0, items: 0, trace_hash: 0 };
        for seed in seeds {
            match self.run_seed(seed, &test) {
                Ok((items, trace_hash)) => {
                    checked.runs += 1;
                    checked.items += items;
                    checked.trace_hash = checked.trace_hash.rotate_left(9) ^ trace_hash;
                }
                Err(failure) => panic!("{}", failure.told(replayed)),
            }
        }
        checked
    }

    /// Returns the seeds, and the run to replay.
    fn seeds_to_run(&self) -> (impl Iterator<Item = u64>, Option<ReplaySeed>) {
        let (first, count, replayed) = self.seeds_asked_for();
        assert!(count > 0, "invalid number of seeds 0: expected at least 1");
        // 0 follows the last seed.
        ((0..count).map(move |number| first.wrapping_add(number)), replayed)
    }

    fn seeds_asked_for(&self) -> (u64, u64, Option<ReplaySeed>) {
        if let Ok(text) = std::env::var(REPLAY) {
            let replay: ReplaySeed =
                text.parse().unwrap_or_else(|error| panic!("{REPLAY}={text:?}: {error}"));
            return (replay.seed, 1, Some(replay));
        }
        let seeds = std::env::var(SEEDS).map_or(self.seeds, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("invalid {SEEDS}={text:?}: expected a number of seeds"))
        });
        (self.first_seed, seeds, None)
    }

    fn run_seed(
        &self,
        seed: u64,
        test: &Arc<dyn Fn() + Send + Sync>,
    ) -> Result<(u64, u64), Box<Failure>> {
        let (faults, text) = self.faults_of(seed);
        let Self { time_limit, turn_limit, patience, .. } = *self;
        let switching = match self.preemption {
            Preemption::AtWaits => Switching::AtWaits,
            Preemption::Anywhere => Switching::Anywhere,
        };
        let faults = Box::new(faults);
        let how = How::Drawn { seed, faults, switching, time_limit, turn_limit };
        let settings = Settings { machine: self.machine.clone(), patience, how };
        let test = Arc::clone(test);
        let failure = |trace_hash: Option<u64>, what: String| {
            Box::new(Failure { replay: ReplaySeed::new(seed, trace_hash), what, faults: text })
        };
        match run(settings, move || test()) {
            Outcome::Failed { what, trace_hash } => Err(failure(trace_hash, what)),
            Outcome::Over { value, left_behind, summary } => {
                let what = match value {
                    Err(payload) => Some(format!("the test panicked: {}", text_of(&*payload))),
                    Ok(()) if !self.allows_panics && !summary.unheard_panics.is_empty() => {
                        Some(summary.unheard_panics.join("\n"))
                    }
                    Ok(()) if left_behind.is_some() => left_behind,
                    Ok(()) if summary.panicked_threads > 0 => {
                        Some(format!("{} threads panicked", summary.panicked_threads))
                    }
                    Ok(()) => None,
                };
                match what {
                    Some(what) => Err(failure(Some(summary.trace_hash), what)),
                    None => Ok((summary.items_begun, summary.trace_hash)),
                }
            }
        }
    }

    /// Returns the faults of a seed, and their description.
    fn faults_of(&self, seed: u64) -> (Faults, String) {
        let mut plan = Plan::of_seed(seed);
        let drawn = plan.faults;
        // Held stores need the simulator's allocator. A clock that jumps would break deadlines.
        let mut faults =
            Faults { schedule: self.schedule.unwrap_or(drawn.schedule), ..Faults::NONE };
        faults.longest_stall = LONGEST_STALLS[(seed % 4) as usize];
        let timed = u32::from(faults.schedule == Schedule::Timed);
        match self.preemption {
            Preemption::AtWaits => faults.stalls_per_million = timed * STALLS_AT_WAITS_PER_MILLION,
            Preemption::Anywhere => {
                faults.stalls_per_million = timed * STALLS_ANYWHERE_PER_MILLION;
                faults.stalls_at_points_per_million = STALLS_AT_POINTS_PER_MILLION;
            }
        }
        for fault in &self.faults {
            fault.add(&drawn, &mut faults);
        }
        plan.faults = faults;
        plan.profile = Profile::Futex;
        // The costs are always the same.
        (faults, plan.to_string().replacen(", costs futex", "", 1))
    }
}

impl Failure {
    /// `replayed` is the run to reproduce.
    fn told(&self, replayed: Option<ReplaySeed>) -> String {
        let Self { replay, what, faults } = self;
        let other = match replayed.and_then(|replayed| replayed.trace_hash) {
            Some(hash) if replay.trace_hash.is_some_and(|found| found != hash) => {
                "\nthis run differs from the replayed one: the code, the test or its settings have changed"
            }
            _ => "",
        };
        let package =
            std::env::var("CARGO_PKG_NAME").map_or(String::new(), |name| format!(" -p {name}"));
        let test = std::thread::current().name().map_or(String::new(), |name| {
            if name == "main" { String::new() } else { format!(" -- --exact {name}") }
        });
        format!(
            "{what}\nseed {seed}, schedule and faults: {faults}{other}\nrun it again: {REPLAY}={replay} cargo test{package}{test}",
            seed = replay.seed
        )
    }
}

#[track_caller]
fn with_cpus(cpus: usize) -> Machine {
    let topology = Topology::from_synthetic(&format!("core:{cpus} pu:1"));
    let machine = topology.map_err(|error| error.to_string()).and_then(|topology| {
        Machine::with_round_costs(topology).map_err(|error| error.to_string())
    });
    machine.unwrap_or_else(|error| panic!("cannot simulate {cpus} CPUs: {error}"))
}

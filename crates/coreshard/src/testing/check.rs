//! A test on many schedules of a simulated machine.

use std::sync::Arc;
use std::time::Duration;

use coreshard_sim::search::{Plan, ReplaySeed};
use coreshard_sim::{Faults, Machine, Profile, Schedule, Switching};
use coreshard_topology::Topology;

use super::fault::Fault;
use super::run::{How, Outcome, Settings, run, text_of};

/// Brings one run about again.
const REPLAY: &str = "CORESHARD_TEST_REPLAY";
/// Another number of seeds.
const SEEDS: &str = "CORESHARD_TEST_SEEDS";

const DEFAULT_SEEDS: u64 = 100;
const DEFAULT_CPUS: usize = 4;

/// How often a CPU stalls where a thread begins its turn, if that is long: from one wait to the next,
const STALLS_AT_WAITS_PER_MILLION: u32 = 300_000;
/// and if it is short, of some ten nanoseconds: there, and where an item begins or the program has a point of preemption;
const STALLS_ANYWHERE_PER_MILLION: u32 = 10_000;
const STALLS_AT_POINTS_PER_MILLION: u32 = 300_000;
/// and the longest stalls that seeds choose among: between two items, from a few of them to very many.
const LONGEST_STALLS: [Duration; 4] = [
    Duration::from_micros(2),
    Duration::from_micros(20),
    Duration::from_micros(200),
    Duration::from_millis(2),
];

/// Where the threads of a [`Check`] may be switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preemption {
    /// Where a thread waits, yields or ends, where an item begins or is over, and at each
    /// [`preemption_point`](super::preemption_point()). A lock of the standard library that is held between these is safe, so
    /// nearly all programs can be tested so. What comes between a program's own two accesses to memory is not
    /// tested, nor between a queueing and what follows it.
    #[default]
    AtWaits,
    /// At any step of the runtime's, too, such as inside of a queueing. For programs that share data by this crate's
    /// means and atomics alone: a lock of the standard library that is held then, and wanted by another thread,
    /// stops the run, which is told of after the [patience](Check::patience).
    Anywhere,
}

/// A test of a program on a simulated machine, with one run for each of many seeds; see [`check`].
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

/// What the runs of a [`Check`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Runs.
    pub runs: u64,
    /// Work items that began, in all of them.
    pub items: u64,
    /// Depends on all that happened in each run: equal for equal runs.
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
    /// 100 seeds on 4 CPUs that share a cache, threads switched at waits, no faults.
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

    /// How many seeds are tried, from the [first](Self::first_seed) on. The variable `CORESHARD_TEST_SEEDS` of the environment has
    /// precedence, for a long search. Default: 100.
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds;
        self
    }

    /// The first seed. Default: 0.
    pub fn first_seed(mut self, seed: u64) -> Self {
        self.first_seed = seed;
        self
    }

    /// A machine with so many CPUs that share a cache. Default: 4.
    ///
    /// # Panics
    /// Where `cpus` is 0 or more than 1,024.
    #[track_caller]
    pub fn cpus(mut self, cpus: usize) -> Self {
        self.machine = with_cpus(cpus);
        self
    }

    /// Another machine: one of another topology has other pools, and so other schedules. What memory costs there
    /// has no part in it.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = machine;
        self
    }

    /// Where threads may be switched. Default: [`Preemption::AtWaits`].
    pub fn preemption(mut self, preemption: Preemption) -> Self {
        self.preemption = preemption;
        self
    }

    /// One schedule for all seeds. Default: each seed draws one, by chance or of probabilistic concurrency testing.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// What goes wrong, each in some of the runs; the seed draws how often. Default: nothing.
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// Whether a run may pass in which an item panicked, and there was neither a handle nor a handler that heard of it.
    /// Default: no.
    pub fn allow_unheard_panics(mut self, allow: bool) -> Self {
        self.allows_panics = allow;
        self
    }

    /// For how long of real time nothing may go on in a run. Default: 10 s.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How long a run may take of virtual time. Default: an hour.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// How many turns the threads of a run may have. Default: ten million.
    pub fn turn_limit(mut self, turns: u64) -> Self {
        self.turn_limit = turns;
        self
    }

    /// Runs `test` once for each seed. Inside of it, all of this crate's root is of the simulated machine, and the
    /// process's runtime belongs to the run.
    ///
    /// The same seed gives the same run, as long as `test` depends on nothing else: not on the real clock, on
    /// threads of the standard library, on addresses, or on the order of a `HashMap` with random keys.
    ///
    /// With `CORESHARD_TEST_REPLAY` in the environment, as a failure prints it, that seed alone is run.
    ///
    /// # Panics
    /// At the first seed that fails, with a message that tells why, and ends with the one line that brings the run
    /// about again: where `test` panics; where an item does and nobody hears of it; where threads are deadlocked, each
    /// with what it waits for and where; where a run comes to no end; where queues are left at its end, or
    /// items that never began; where nothing goes on for the [patience](Self::patience). And where there are no
    /// [seeds](Self::seeds).
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

    /// Which seeds, and what is replayed.
    fn seeds_to_run(&self) -> (impl Iterator<Item = u64>, Option<ReplaySeed>) {
        let (first, count, replayed) = self.seeds_asked_for();
        assert!(
            count > 0,
            "a check of no seeds would hold whatever is tested; it needs one at least"
        );
        // After the last one comes 0.
        ((0..count).map(move |number| first.wrapping_add(number)), replayed)
    }

    fn seeds_asked_for(&self) -> (u64, u64, Option<ReplaySeed>) {
        if let Ok(text) = std::env::var(REPLAY) {
            let replay: ReplaySeed =
                text.parse().unwrap_or_else(|error| panic!("{REPLAY}={text:?}: {error}"));
            return (replay.seed, 1, Some(replay));
        }
        let seeds = std::env::var(SEEDS).map_or(self.seeds, |text| {
            text.parse().unwrap_or_else(|_| panic!("{SEEDS}={text:?} is no number of seeds"))
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

    /// What goes wrong with this seed, and in words.
    fn faults_of(&self, seed: u64) -> (Faults, String) {
        let mut plan = Plan::of_seed(seed);
        let drawn = plan.faults;
        // Held stores need the simulator's own allocator; a clock that jumps is nobody's deadline.
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
        // The costs are always these.
        (faults, plan.to_string().replacen(", costs futex", "", 1))
    }
}

impl Failure {
    /// `replayed` is the run that was to be brought about again.
    fn told(&self, replayed: Option<ReplaySeed>) -> String {
        let Self { replay, what, faults } = self;
        let other = match replayed.and_then(|replayed| replayed.trace_hash) {
            Some(hash) if replay.trace_hash.is_some_and(|found| found != hash) => {
                "\nthis is another run than the one that is replayed: the code, the test or its settings have changed"
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
    machine.unwrap_or_else(|error| panic!("a machine of {cpus} CPUs: {error}"))
}

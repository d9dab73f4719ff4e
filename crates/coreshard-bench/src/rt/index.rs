//! `bench rt index`: how fast each variant of the priority index is set and searched when all CPUs do both.
//!
//! **Method.** A thread is pinned to each CPU, and all are released together. Each sets its CPU's level
//! (alternately to a random priority and to none) and then searches for the CPU at the lowest level below 99.
//! The figure is operations, sets and searches alike, over the time from the release to the last thread's
//! end. If possible, the threads have the lowest fixed priority, so that other load does not take turns with
//! them: threads that do not run at the same time do not contend. In a second, shorter part the first thread
//! only searches and the others only set, which gives the cost of a search and of a set during the other.
//! Runs of the variants are interleaved, in an order that changes from run to run.

use std::num::{NonZeroU64, NonZeroUsize};

use coreshard_platform::{Policy, RealTime, ThreadHandle, ThreadSpec};
use coreshard_results::{IndexMeasurement, IndexResults};
use coreshard_rt::{PriorityIndex, Rung};

use super::storm::{Part, StormTimes, storm};
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Progress;
use crate::spread::Spread;

const DEFAULT_ROUNDS: u64 = 200_000;

/// A benchmark of the priority index. The default compares all variants.
#[derive(Clone, Debug)]
pub struct IndexBench {
    /// The variants, in any order; reported from the oldest.
    pub variants: Vec<Rung>,
    /// The number of threads, one on each of the first CPUs; by default all.
    pub threads: Option<NonZeroUsize>,
    /// How often each thread sets and searches in a run.
    pub rounds: NonZeroU64,
    /// The number of neighbouring CPUs that a search considers; by default all CPUs.
    pub group: Option<NonZeroUsize>,
    /// Runs of each variant.
    pub runs: NonZeroUsize,
    /// The seed of the levels, and of the order of the variants in each run.
    pub seed: u64,
}

impl Default for IndexBench {
    fn default() -> Self {
        Self {
            variants: Rung::ALL.to_vec(),
            threads: None,
            rounds: NonZeroU64::new(DEFAULT_ROUNDS).expect("it is not 0"),
            group: None,
            runs: NonZeroUsize::new(7).expect("7 is not 0"),
            seed: 0,
        }
    }
}

/// Returns the lowest fixed priority, if it is granted: then the threads run at the same time, whatever else
/// the machine does, and uninterrupted for a few milliseconds.
fn policy<P: RealTime>() -> Policy {
    let least = Policy::Fifo(1);
    match P::spawn_as(ThreadSpec::default(), least, Box::new(|| {})) {
        Ok(thread) => {
            thread.join();
            least
        }
        Err(_) => Policy::Normal,
    }
}

impl IndexBench {
    /// Runs the benchmark.
    ///
    /// # Errors
    /// If there is no variant, or if the index or its threads cannot be created.
    pub fn run<P: RealTime>(
        &self,
        machine: &BenchMachine,
        progress: &mut dyn Progress,
    ) -> Result<IndexResults, BenchError> {
        let variants: Vec<Rung> =
            Rung::ALL.into_iter().filter(|variant| self.variants.contains(variant)).collect();
        if variants.is_empty() {
            return Err(BenchError::no_variants("layout of the priority index"));
        }
        let cpus = &machine.usable;
        let threads = self.threads.map_or(cpus.len(), |threads| threads.get().min(cpus.len()));
        let group = self.group.map(NonZeroUsize::get).filter(|group| *group < cpus.len());
        let rounds = self.rounds.get();
        let policy = policy::<P>();
        let turn = |variant, part, rounds, run: usize| {
            let what = (part, rounds, self.seed.wrapping_add(run as u64));
            storm::<P>(variant, &machine.topology, cpus, (threads, group), what, policy)
        };
        let runs = self.runs.get();
        progress.begin(runs * variants.len());
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut measured: Vec<Vec<[StormTimes; 2]>> = vec![Vec::new(); variants.len()];
        let mut notes = Vec::new();
        if policy == Policy::Normal {
            notes.push(
                "no priority is granted, so other load takes turns with the threads".to_owned(),
            );
        }
        let mut order: Vec<usize> = (0..variants.len()).collect();
        'runs: for run in 0..runs {
            random.shuffle(&mut order);
            for at in &order {
                if progress.step(&variants[*at]).is_break() {
                    notes.push(format!("ended early: {run} of {runs} runs are whole"));
                    break 'runs;
                }
                let mixed = turn(variants[*at], Part::Mixed, rounds, run)?;
                let apart = turn(variants[*at], Part::Apart, rounds.div_ceil(4), run)?;
                measured[*at].push([mixed, apart]);
            }
        }
        // Runs that some variants lack would distort the ratios.
        let whole = measured.iter().map(Vec::len).min().unwrap_or(0);
        measured.iter_mut().for_each(|runs| runs.truncate(whole));
        let rate = |run: &[StormTimes; 2]| {
            2.0 * rounds as f64 * threads as f64 * 1e9 / run[0].elapsed_ns.max(1) as f64
        };
        let measurement = |(at, variant): (usize, &Rung)| -> Result<IndexMeasurement, BenchError> {
            let index = PriorityIndex::<P>::new(*variant, &machine.topology, cpus)?.0;
            let found = measurement(&measured[at], &measured[0], rate);
            Ok(IndexMeasurement { variant: variant.to_string(), bytes: index.bytes(), ..found })
        };
        let results: Result<Vec<_>, _> = match whole {
            0 => Ok(Vec::new()),
            _ => variants.iter().enumerate().map(measurement).collect(),
        };
        Ok(IndexResults {
            machine: machine.name.clone(),
            platform: machine.platform.clone(),
            threads,
            searched_cpus: group.unwrap_or(cpus.len()),
            rounds_per_thread: rounds,
            runs: whole,
            results: results?,
            notes,
        })
    }
}

/// Returns the figures of one of the variants, compared with the first one run by run.
fn measurement(
    own: &[[StormTimes; 2]],
    first: &[[StormTimes; 2]],
    rate: impl Fn(&[StormTimes; 2]) -> f64,
) -> IndexMeasurement {
    let each_run: Vec<f64> = own.iter().map(&rate).collect();
    let spread = |runs: &mut dyn Iterator<Item = f64>| Spread::of(runs).unwrap_or_default();
    let rates = spread(&mut each_run.iter().copied());
    let pairs = own.iter().zip(first);
    let ratios = spread(&mut pairs.map(|(one, first)| rate(one) / rate(first)));
    IndexMeasurement {
        ops_per_sec: rates.median,
        ops_per_sec_min: rates.min,
        ops_per_sec_max: rates.max,
        over_first: ratios.median,
        over_first_min: ratios.min,
        over_first_max: ratios.max,
        find_ns: spread(&mut own.iter().map(|run| run[1].first_ns_per_round)).median,
        set_ns: spread(&mut own.iter().map(|run| run[1].others_ns_per_round)).median,
        each_run,
        ..IndexMeasurement::default()
    }
}

//! Finds the scope and the shard size that suit a machine.
//!
//! Two loads pull in opposite directions, and every candidate is measured under both. *Even*: each CPU queues
//! one item and waits for it. Small pools win, since their CPUs do not contend. *Lopsided*: one CPU queues
//! bursts of work that takes longer than queueing it. Large pools win, since other CPUs help. A candidate's
//! worth is its throughput relative to the best, under the load that suits it less. Choosing by worth
//! minimises the regret, whatever the load turns out to be. If the load is known, by name or by measurement,
//! only the candidates that are good under it remain, and the one with the highest worth is chosen. The
//! duration of the lopsided load's items decides how many CPUs can help. If items were measured, their
//! duration is used.
//!
//! Each round is also judged by itself. How often the recommended candidate is among a round's best shows how certain
//! the recommendation is.

use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::ControlFlow;
use std::time::Duration;

use coreshard_platform::Platform;
use coreshard_results::{Candidate, Load, QueueMeasurement, QueueResults, Tuning};
use coreshard_topology::{Pods, Scope, ShardSize};
use coreshard_workqueue::{Intake, Wake};

use crate::error::BenchError;
use crate::kernel_scopes::{ITEM_WORK, SeenLoad, under_each_load};
use crate::machine::BenchMachine;
use crate::progress::Progress;
use crate::queue::QueueBench;
use crate::spread::{Quartiles, Spread};

/// The known properties of the load that a scope is chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TuneLoad {
    /// Nothing is known: the candidate with the least regret is chosen.
    #[default]
    Unknown,
    /// Each CPU queues for itself.
    Even,
    /// One CPU queues for all.
    Lopsided,
    /// The load was measured.
    Seen(SeenLoad),
}

impl TuneLoad {
    const fn seen(self) -> Option<SeenLoad> {
        match self {
            Self::Seen(load) => Some(load),
            _ => None,
        }
    }

    /// Returns how long items of the lopsided load take: as long as measured ones, if there are any.
    ///
    /// ```
    /// use coreshard_bench::TuneLoad;
    ///
    /// assert_eq!(TuneLoad::Unknown.item_work().as_micros(), 5);
    /// ```
    #[must_use]
    pub fn item_work(self) -> Duration {
        self.seen().map(|load| load.item_work).filter(|work| !work.is_zero()).unwrap_or(ITEM_WORK)
    }

    /// Returns the throughput of a candidate under the decisive load; 1 if neither load is decisive.
    fn rate(self, candidate: &Candidate) -> f64 {
        match self {
            Self::Unknown => 1.0,
            Self::Even => candidate.even.items_per_sec,
            Self::Lopsided => candidate.lopsided.items_per_sec,
            Self::Seen(_) => candidate.seen.map_or(1.0, |load| load.items_per_sec),
        }
    }
}

/// A candidate whose worth is at least this part of the best's is indistinguishable from it.
const AS_GOOD: f64 = 0.97;

/// How thoroughly to try.
#[derive(Clone, Copy, Debug)]
pub struct TuneEffort {
    /// The number of rounds. Each round runs every candidate.
    pub rounds: usize,
    /// The number of items that each producer of the even load queues. The lopsided load's producer queues as
    /// many as all of them.
    pub items: u64,
}

/// The benchmarks of a round: one for each candidate and load.
///
/// On a real machine they run one after the other. In a simulation each has its own machine, so that its
/// figure does not depend on the others.
///
/// ```
/// use coreshard_bench::{BenchMachine, TuneLoad, TuneRound};
/// use coreshard_topology::Topology;
///
/// let machine = BenchMachine::whole("two", "sim", Topology::from_synthetic("l3:1 core:2 pu:1")?);
/// let round = TuneRound::new(&machine, 100, TuneLoad::Unknown)?;
/// // By CPU, and all together; under an even load, and under a lopsided one.
/// assert_eq!(round.benches().len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TuneRound {
    candidates: Vec<Candidate>,
    load: TuneLoad,
    /// The benchmarks of the first candidate, then of the second, and so on.
    benches: Vec<QueueBench>,
}

impl TuneRound {
    /// Creates the round for the scopes and shard sizes of a machine, with the newest wake policy and intake.
    ///
    /// Each producer of the even load queues `items` items.
    ///
    /// # Errors
    /// If the machine has no CPU of a pod.
    pub fn new(machine: &BenchMachine, items: u64, load: TuneLoad) -> Result<Self, BenchError> {
        let (mut candidates, mut benches) = (Vec::new(), Vec::new());
        for (scope, candidate) in self::candidates(machine)? {
            let bench = QueueBench {
                scopes: vec![scope],
                wakes: vec![Wake::default()],
                intakes: vec![Intake::default()],
                items_per_thread: NonZeroU64::new(items),
                runs: NonZeroUsize::MIN,
                shard_size: candidate.shard_cores.map_or(ShardSize::DEFAULT, ShardSize::new),
                ..QueueBench::default()
            };
            benches.extend(under_each_load(machine, bench, load.item_work(), load.seen()));
            candidates.push(candidate);
        }
        Ok(Self { candidates, load, benches })
    }

    /// Returns the benchmarks, each of one combination and one run.
    #[must_use]
    pub fn benches(&self) -> &[QueueBench] {
        &self.benches
    }

    /// Returns the round's recommendation, from the results of its [benchmarks](Self::benches), in their
    /// order.
    ///
    /// # Panics
    /// If there is not one result for each benchmark.
    #[must_use]
    pub fn judged(&self, found: &[QueueResults]) -> Tuning {
        assert_eq!(found.len(), self.benches.len(), "there is one for each");
        let loads =
            found.iter().map(|found| found.results.first().map(one_run).unwrap_or_default());
        let loads: Vec<Load> = loads.collect();
        let of_each = loads.len() / self.candidates.len().max(1);
        let measured =
            self.candidates.iter().zip(loads.chunks(of_each)).map(|(candidate, loads)| {
                let seen = loads.get(2).copied();
                Candidate { even: loads[0], lopsided: loads[1], seen, ..candidate.clone() }
            });
        judged(measured.collect(), self.load)
    }
}

/// Compares the scopes and shard sizes of a machine, see [`TuneRound`].
///
/// Returns `None` if `progress` ended it.
///
/// # Errors
/// As [`QueueBench::run`].
pub fn tune<P: Platform>(
    machine: &BenchMachine,
    effort: TuneEffort,
    load: TuneLoad,
    progress: &mut dyn Progress,
) -> Result<Option<Tuning>, BenchError> {
    let round = TuneRound::new(machine, effort.items, load)?;
    progress.begin(round.benches.len() * effort.rounds);
    let mut rounds = Vec::with_capacity(effort.rounds);
    for number in 1..=effort.rounds {
        let mut found = Vec::with_capacity(round.benches.len());
        for bench in &round.benches {
            let what = format!("{}, round {number}", bench.scopes[0]);
            if progress.step(&what) == ControlFlow::Break(()) {
                return Ok(None);
            }
            found.push(bench.run::<P>(machine, &mut crate::progress::Unwatched)?);
        }
        rounds.push(round.judged(&found));
    }
    Ok(Some(over_rounds(&rounds, load)))
}

/// Combines rounds of one machine and one load: medians, and the number of rounds with the recommended candidate among
/// the best.
///
/// ```
/// use coreshard_bench::{TuneLoad, over_rounds};
/// use coreshard_results::{Candidate, Load, Tuning};
///
/// let round = |items_per_sec| Tuning {
///     candidates: vec![Candidate { even: Load { items_per_sec, ..Load::default() }, ..Candidate::default() }],
///     ..Tuning::default()
/// };
/// let all = over_rounds(&[round(1.0), round(5.0), round(2.0)], TuneLoad::Even);
/// assert_eq!(all.candidates[0].even.items_per_sec, 2.0);
/// assert_eq!((all.rounds, all.agreeing), (3, 3));
/// ```
#[must_use]
pub fn over_rounds(rounds: &[Tuning], load: TuneLoad) -> Tuning {
    let Some(first) = rounds.first() else { return Tuning::default() };
    let merged = |at: usize, of: fn(&Candidate) -> Option<Load>| {
        let loads: Option<Vec<Load>> = rounds.iter().map(|it| of(&it.candidates[at])).collect();
        loads.map(|loads| Load {
            end_to_end_p99_ns: loads.iter().map(|it| it.end_to_end_p99_ns).max().unwrap_or(0),
            ..spread(loads.iter().map(|it| it.items_per_sec))
        })
    };
    let candidates = first.candidates.iter().enumerate().map(|(at, candidate)| Candidate {
        even: merged(at, |it| Some(it.even)).unwrap_or_default(),
        lopsided: merged(at, |it| Some(it.lopsided)).unwrap_or_default(),
        seen: merged(at, |it| it.seen),
        ..with_worth(rounds.iter().map(|round| round.candidates[at].worth), candidate)
    });
    let tuning = chosen(candidates.collect(), load);
    let agrees =
        |round: &&Tuning| round.best == tuning.best || round.as_good.contains(&tuning.best);
    Tuning { rounds: rounds.len(), agreeing: rounds.iter().filter(agrees).count(), ..tuning }
}

/// Returns the candidate with its worth over the rounds.
fn with_worth(rounds: impl Iterator<Item = f64>, candidate: &Candidate) -> Candidate {
    let Quartiles { q1, median, q3 } = Quartiles::of(rounds).unwrap_or_default();
    Candidate { worth: median, worth_q1: q1, worth_q3: q3, ..candidate.clone() }
}

/// Returns one round's recommendation.
fn judged(mut candidates: Vec<Candidate>, load: TuneLoad) -> Tuning {
    let most =
        |load: fn(&Candidate) -> f64| candidates.iter().map(load).fold(f64::MIN_POSITIVE, f64::max);
    let even = most(|candidate| candidate.even.items_per_sec);
    let lopsided = most(|candidate| candidate.lopsided.items_per_sec);
    for candidate in &mut candidates {
        let shares =
            [candidate.even.items_per_sec / even, candidate.lopsided.items_per_sec / lopsided];
        *candidate = with_worth(std::iter::once(shares[0].min(shares[1])), candidate);
    }
    chosen(candidates, load)
}

/// Chooses the best of candidates whose worth is known.
fn chosen(candidates: Vec<Candidate>, load: TuneLoad) -> Tuning {
    let fastest = candidates.iter().map(|it| load.rate(it)).fold(f64::MIN_POSITIVE, f64::max);
    let fast = (0..candidates.len()).filter(|at| load.rate(&candidates[*at]) >= fastest * AS_GOOD);
    let fast: Vec<usize> = fast.collect();
    let highest = fast.iter().map(|at| candidates[*at].worth).fold(0.0, f64::max);
    let good = fast.into_iter().filter(|at| candidates[*at].worth >= highest * AS_GOOD);
    let good: Vec<usize> = good.collect();
    // Among equally good candidates, the one with the fewest pools: it has the fewest threads, and the most
    // CPUs that help one another.
    let best = good.iter().copied().min_by_key(|at| (candidates[*at].pods, *at)).unwrap_or(0);
    let as_good = good.into_iter().filter(|at| *at != best).collect();
    Tuning { candidates, best, as_good, rounds: 1, agreeing: 1 }
}

fn spread(rates: impl Iterator<Item = f64>) -> Load {
    let rates: Vec<f64> = rates.collect();
    let quartiles = Quartiles::of(rates.iter().copied()).unwrap_or_default();
    let rates = Spread::of(rates).unwrap_or_default();
    Load {
        items_per_sec: rates.median,
        items_per_sec_min: rates.min,
        items_per_sec_max: rates.max,
        items_per_sec_q1: quartiles.q1,
        items_per_sec_q3: quartiles.q3,
        end_to_end_p99_ns: 0,
    }
}

fn one_run(measurement: &QueueMeasurement) -> Load {
    Load {
        end_to_end_p99_ns: measurement.end_to_end_p99_ns,
        ..spread(std::iter::once(measurement.items_per_sec))
    }
}

/// Returns scopes from fine to coarse, with shard sizes in powers of two of cores; each layout once.
fn candidates(machine: &BenchMachine) -> Result<Vec<(Scope, Candidate)>, BenchError> {
    let BenchMachine { topology, usable, .. } = machine;
    let caches = Pods::new(topology, usable, Scope::Cache, ShardSize::DEFAULT)?;
    let mut layouts: Vec<Pods> = Vec::new();
    let mut candidates = Vec::new();
    for scope in
        [Scope::Cpu, Scope::Smt, Scope::CacheShard, Scope::Cache, Scope::Numa, Scope::System]
    {
        let most = if scope == Scope::CacheShard { topology.cores().max(2) } else { 2 };
        let sizes = (0..).map(|power| 1_usize << power).skip(1).take_while(|size| *size <= most);
        for cores in sizes {
            let pods = Pods::new(topology, usable, scope, ShardSize::new(cores))?;
            if layouts.iter().any(|known| known.same_layout(&pods)) {
                continue;
            }
            let is_sharded = scope == Scope::CacheShard && !pods.same_layout(&caches);
            // A shard as large as its cache is the cache, and gets that name.
            let scope =
                if scope == Scope::CacheShard && !is_sharded { Scope::Cache } else { scope };
            let candidate = Candidate {
                scope: scope.to_string(),
                shard_cores: is_sharded.then_some(cores),
                pods: pods.len(),
                ..Candidate::default()
            };
            candidates.push((scope, candidate));
            layouts.push(pods);
        }
    }
    Ok(candidates)
}

#[cfg(test)]
mod tests {
    use coreshard_topology::Topology;

    use super::*;

    #[test]
    fn each_layout_is_tried_once_and_by_its_plainest_name() {
        let names = |machine: &str| {
            let candidates = candidates(&BenchMachine::whole(
                machine,
                "host",
                Topology::parse_machine(machine).unwrap(),
            ))
            .unwrap();
            candidates.iter().map(|(_, it)| it.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            names("grace"),
            [
                "cpu",
                "cache_shard of 2",
                "cache_shard of 4",
                "cache_shard of 8",
                "cache_shard of 16",
                "cache_shard of 32",
                "cache"
            ]
        );
        assert_eq!(
            names("pack:2 numa:1 l3:2 core:4 pu:2"),
            ["cpu", "smt", "cache_shard of 2", "cache", "numa", "system"]
        );
        assert_eq!(names("pack:1 core:1 pu:1"), ["cpu"]);
    }

    fn candidate(scope: Scope, pods: usize, even: f64, lopsided: f64) -> Candidate {
        let load = |items_per_sec| Load { items_per_sec, ..Load::default() };
        let (even, lopsided) = (load(even), load(lopsided));
        Candidate { scope: scope.to_string(), pods, even, lopsided, ..Candidate::default() }
    }

    #[test]
    fn the_one_that_is_regretted_least_is_recommended() {
        let all = vec![
            candidate(Scope::Cpu, 64, 100.0, 1.0),
            candidate(Scope::CacheShard, 8, 60.0, 80.0),
            candidate(Scope::Cache, 2, 59.0, 90.0),
            candidate(Scope::System, 1, 10.0, 100.0),
        ];
        let tuning = judged(all.clone(), TuneLoad::Unknown);
        // 0.60 and 0.59 are indistinguishable, so the candidate with fewer pools wins.
        assert_eq!(tuning.recommended().scope, "cache");
        assert_eq!(tuning.as_good, [1]);
        assert_eq!(tuning.candidates[0].worth, 0.01);
        let named = [TuneLoad::Even, TuneLoad::Lopsided];
        let named = named.map(|load| judged(all.clone(), load).recommended().scope.clone());
        assert_eq!(named, ["cpu", "system"]);
    }

    #[test]
    fn rounds_that_recommend_another_are_counted() {
        let round = |of_cpu| {
            let all = vec![
                candidate(Scope::Cpu, 64, of_cpu, 50.0),
                candidate(Scope::Cache, 2, 50.0, 50.0),
            ];
            judged(all, TuneLoad::Unknown)
        };
        let all = over_rounds(&[100.0, 90.0, 20.0].map(round), TuneLoad::Unknown);
        assert_eq!(all.recommended().scope, "cpu");
        assert_eq!((all.rounds, all.agreeing), (3, 2));
        let even = all.candidates[0].even;
        assert_eq!((even.items_per_sec_min, even.items_per_sec_q1), (20.0, 55.0));
        // Each round by itself: 1, 1 and 0.4 of the best for one; 0.5, 50/90 and 1 for the other.
        let Candidate { worth, worth_q1, worth_q3, .. } = all.candidates[0].clone();
        assert_eq!((worth, worth_q1, worth_q3), (1.0, 0.7, 1.0));
        assert_eq!(all.candidates[1].worth, 50.0 / 90.0);
    }

    #[test]
    fn a_measured_load_comes_first() {
        let seen = |candidate: Candidate, items_per_sec| Candidate {
            seen: Some(Load { items_per_sec, ..Load::default() }),
            ..candidate
        };
        let all = vec![
            seen(candidate(Scope::Cpu, 64, 100.0, 1.0), 99.0),
            seen(candidate(Scope::CacheShard, 8, 60.0, 80.0), 98.0),
            seen(candidate(Scope::Cache, 2, 59.0, 90.0), 50.0),
            seen(candidate(Scope::System, 1, 10.0, 100.0), 100.0),
        ];
        let load = SeenLoad { producers: NonZeroUsize::MIN, item_work: Duration::ZERO };
        let tuning = judged(all, TuneLoad::Seen(load));
        assert_eq!(tuning.recommended().scope, "cache_shard");
        assert!(tuning.as_good.is_empty());
    }
}

//! A study: lists of options, and all their combinations.

use std::fmt;
use std::fmt::Display;
use std::num::{NonZeroU64, NonZeroUsize};
use std::str::FromStr;

use crate::common::{
    MachineArgs, SimArgs, bad_input, bail_input, few, many, or_all, seed, variant, whole,
};
use anyhow::{Context, bail};
use coreshard::{Intake, Scope, Wake};
use coreshard_bench::{QueueBench, Unwatched};
use coreshard_results::{StudyRow, StudyRun};
use coreshard_sim::Sim;
use coreshard_topology::{ShardSize, input};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One file per run limits the number of runs.
pub(super) const MOST_RUNS: u64 = 1_000_000;

/// The options that define a study.
#[derive(Debug, clap::Args)]
pub(super) struct StudyArgs {
    /// Machine to simulate, as for --machine; may be repeated; files must not change during the study
    #[arg(long, value_name = "MACHINE", required = true)]
    machines: Vec<String>,

    /// Affinity scopes [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = variant::<Scope>)]
    scopes: Vec<Scope>,

    /// Target numbers of cores in a cache shard
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "8",
          value_parser = few)]
    shard_sizes: Vec<NonZeroUsize>,

    /// Wake-up policies
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [Wake::default()],
          value_parser = variant::<Wake>)]
    wake: Vec<Wake>,

    /// Intakes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [Intake::default()],
          value_parser = variant::<Intake>)]
    intake: Vec<Intake>,

    /// First seed
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed)]
    seed: u64,

    /// Number of seeds
    #[arg(long, value_name = "N", default_value = "5", value_parser = whole::<NonZeroU64, 1, { MOST_RUNS }>)]
    seeds: NonZeroU64,

    /// Items per simulated CPU
    #[arg(long, value_name = "N", default_value = "100", value_parser = many::<NonZeroU64>)]
    items: NonZeroU64,
}

/// A study as stored in its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Study {
    /// The version that planned it. Other versions may simulate differently.
    release: String,
    machines: Vec<String>,
    #[serde(serialize_with = "words", deserialize_with = "variants")]
    scopes: Vec<Scope>,
    shard_sizes: Vec<NonZeroUsize>,
    #[serde(serialize_with = "words", deserialize_with = "variants")]
    wakes: Vec<Wake>,
    #[serde(serialize_with = "words", deserialize_with = "variants")]
    intakes: Vec<Intake>,
    first_seed: u64,
    seeds: NonZeroU64,
    items: NonZeroU64,
}

fn words<R: Display, S: Serializer>(list: &[R], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(ToString::to_string))
}

fn variants<'de, V: FromStr<Err: Display>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<V>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    words.iter().map(|word| word.parse().map_err(D::Error::custom)).collect()
}

impl Study {
    /// Creates a study from options. Reads each machine to report errors early.
    pub(super) fn new(args: &StudyArgs) -> anyhow::Result<Self> {
        let machine = |name: &String| {
            let machine = MachineArgs::of(name);
            machine.simulated()?;
            machine.lasting_name().map_err(bad_input)
        };
        let mut machines: Vec<String> = Vec::new();
        for name in &args.machines {
            let name = machine(name)?;
            // Remove duplicates, as in other options.
            if !machines.contains(&name) {
                machines.push(name);
            }
        }
        let study = Self {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            machines,
            scopes: or_all(&args.scopes, &Scope::ALL),
            shard_sizes: args.shard_sizes.clone(),
            wakes: args.wake.clone(),
            intakes: args.intake.clone(),
            first_seed: args.seed,
            seeds: args.seeds,
            items: args.items,
        };
        study.checked().map_err(bad_input)
    }

    /// Reads a stored study.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let study: Self = serde_json::from_str(text)?;
        if study.release != env!("CARGO_PKG_VERSION") {
            bail!(
                "invalid study: planned by coreshard {}, but this is {}, and their figures may differ",
                input::sentence(&study.release),
                env!("CARGO_PKG_VERSION")
            );
        }
        study.checked()
    }

    fn checked(self) -> anyhow::Result<Self> {
        let lengths = self.lengths();
        let runs = lengths.iter().try_fold(1, |runs: u64, length| runs.checked_mul(*length));
        match runs {
            Some(0) => bail!("invalid study: a list is empty"),
            Some(..=MOST_RUNS) if self.first_seed.checked_add(self.seeds.get()).is_some() => {
                Ok(self)
            }
            Some(..=MOST_RUNS) => {
                bail!("invalid study: its last seed is greater than {}", u64::MAX)
            }
            _ => bail!("invalid study: expected at most {MOST_RUNS} runs"),
        }
    }

    /// Returns the lengths of the lists, from the slowest to the fastest changing.
    fn lengths(&self) -> [u64; 6] {
        let Self { machines, scopes, shard_sizes, wakes, intakes, .. } = self;
        let lists = [machines.len(), scopes.len(), shard_sizes.len(), wakes.len(), intakes.len()];
        let [machines, scopes, shard_sizes, wakes, intakes] = lists.map(|length| length as u64);
        [machines, scopes, shard_sizes, wakes, intakes, self.seeds.get()]
    }

    /// Returns the number of runs.
    pub(super) fn runs(&self) -> u64 {
        self.lengths().iter().product()
    }

    /// Returns the run with a number.
    pub(super) fn run(&self, number: u64) -> anyhow::Result<PlannedRun> {
        let runs = self.runs();
        if number >= runs {
            bail_input!("invalid run {number}: expected 0 to {}", runs - 1);
        }
        let mut rest = number;
        let mut places = self.lengths();
        for place in places.iter_mut().rev() {
            (rest, *place) = (rest / *place, rest % *place);
        }
        let [machine, scope, shard_size, wake, intake, seed] = places;
        Ok(PlannedRun {
            number,
            machine: self.machines[machine as usize].clone(),
            scope: self.scopes[scope as usize],
            shard_size: self.shard_sizes[shard_size as usize],
            wake: self.wakes[wake as usize],
            intake: self.intakes[intake as usize],
            seed: self.first_seed + seed,
            items: self.items,
        })
    }
}

/// One run of a study.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedRun {
    pub(super) number: u64,
    machine: String,
    scope: Scope,
    shard_size: NonZeroUsize,
    wake: Wake,
    intake: Intake,
    seed: u64,
    items: NonZeroU64,
}

impl fmt::Display for PlannedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, machine, scope, shard_size, wake, intake, seed, .. } = self;
        let machine = input::sentence(machine);
        write!(
            f,
            "run {number}: {machine}, {scope}, shards of {shard_size}, {wake}, {intake}, seed {seed}"
        )
    }
}

impl PlannedRun {
    /// Simulates the run as `coreshard bench queue` does, with one seed.
    pub(super) fn simulate(&self) -> anyhow::Result<StudyRow> {
        let args = MachineArgs::of(&self.machine);
        let machine = args.must_be_simulated()?;
        let bench_machine = args.bench_machine(&machine);
        let bench = QueueBench {
            scopes: vec![self.scope],
            wakes: vec![self.wake],
            intakes: vec![self.intake],
            items_per_thread: Some(self.items),
            runs: NonZeroUsize::MIN,
            shard_size: ShardSize::new(self.shard_size.get()),
            seed: self.seed,
            ..QueueBench::default()
        };
        let simulation = SimArgs::default().simulation(&machine).seed(self.seed);
        let results = simulation.run(|| bench.run::<Sim>(&bench_machine, &mut Unwatched))?;
        let results = results.value?;
        let run = StudyRun { threads: results.threads, ..self.options() };
        let measurement = results.results.into_iter().next().context("nothing was measured")?;
        Ok(StudyRow { run, measurement })
    }

    fn options(&self) -> StudyRun {
        StudyRun {
            run: self.number,
            machine: self.machine.clone(),
            shard_size: self.shard_size.get(),
            seed: self.seed,
            items_per_thread: self.items.get(),
            threads: 0,
        }
    }

    /// Returns true if a line of results belongs to this run.
    pub(super) fn is_of(&self, row: &StudyRow) -> bool {
        let StudyRow { run, measurement } = row;
        let variants = [&measurement.scope, &measurement.wake, &measurement.intake];
        let own = [self.scope.to_string(), self.wake.to_string(), self.intake.to_string()];
        StudyRun { threads: 0, ..run.clone() } == self.options() && variants.into_iter().eq(&own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study() -> Study {
        Study {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            machines: vec!["pocket".to_owned(), "grace".to_owned()],
            scopes: vec![Scope::Cpu, Scope::Cache],
            shard_sizes: [2, 4].map(|cores| NonZeroUsize::new(cores).unwrap()).to_vec(),
            wakes: vec![Wake::Coalesced],
            intakes: vec![Intake::Locked, Intake::LockFree],
            first_seed: 7,
            seeds: NonZeroU64::new(3).unwrap(),
            items: NonZeroU64::MIN,
        }
    }

    #[test]
    fn runs_are_all_combinations_in_the_order_of_the_lists() {
        let study = study();
        assert_eq!(study.runs(), 48);
        let mut expected = Vec::new();
        for machine in ["pocket", "grace"] {
            for scope in [Scope::Cpu, Scope::Cache] {
                for shard_size in [2, 4] {
                    for intake in [Intake::Locked, Intake::LockFree] {
                        expected
                            .extend((7..10).map(|seed| (machine, scope, shard_size, intake, seed)));
                    }
                }
            }
        }
        for (number, expected) in (0..48).zip(expected) {
            let run = study.run(number).unwrap();
            let PlannedRun { machine, scope, shard_size, intake, seed, .. } = &run;
            assert_eq!((machine.as_str(), *scope, shard_size.get(), *intake, *seed), expected);
        }
        assert!(study.run(48).unwrap_err().to_string().contains("expected 0 to 47"));
    }

    #[test]
    fn a_study_is_read_as_it_is_written_and_what_is_wrong_with_it_is_told() {
        let text = serde_json::to_string(&study()).unwrap();
        assert_eq!(Study::read(&text).unwrap(), study());
        for (from, to, problem) in [
            ("\"cpu\"", "\"room\"", "\"room\""),
            ("[2,4]", "[0]", "nonzero"),
            ("[2,4]", "[]", "is empty"),
            ("\"seeds\":3", "\"seeds\":1000000000000", "expected at most 1000000 runs"),
            ("\"first_seed\":7", "\"first_seed\":18446744073709551614", "last seed"),
            ("\"release\":\"", "\"release\":\"0.", "planned by coreshard 0."),
        ] {
            assert!(text.contains(from), "{text}");
            let error = Study::read(&text.replace(from, to)).unwrap_err();
            assert!(format!("{error:#}").contains(problem), "{error:#}");
        }
    }
}

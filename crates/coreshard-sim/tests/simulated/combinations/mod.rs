//! Randomly drawn benchmarks of the queue: any machine, number of CPUs, variants, number of items and seed.

mod bench;

use std::fmt;
use std::time::Duration;

pub(crate) use bench::run_bench;
use coreshard_bench::QueueBench;
use coreshard_sim::{Machine, Profile, Simulation};
use coreshard_topology::{Preset, Scope, Topology};
use coreshard_workqueue::{Intake, Wake};

/// The virtual time within which each of them finishes.
const LIMIT: Duration = Duration::from_secs(600);

/// A benchmark of one combination of variants.
#[derive(Clone, Debug)]
pub(crate) struct Combination {
    /// A preset's name, or a topology in hwloc's notation.
    machine: String,
    cpus: usize,
    scope: Scope,
    wake: Wake,
    intake: Intake,
    profile: Profile,
    items: u64,
    seed: u64,
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, cpus, scope, wake, intake, profile, items, seed } = self;
        write!(
            f,
            "{machine}, {cpus} CPUs, {scope} {wake} {intake}, {profile}, {items} items, seed {seed}"
        )
    }
}

/// SplitMix64, by S. Vigna.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Draws a number from 1 to `most`, with small numbers as likely as large ones.
    fn size(&mut self, most: u64) -> u64 {
        let bits = self.below(u64::from(most.ilog2()) + 1);
        (1 + self.below(2 << bits)).min(most)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Draws a machine of up to 1,024 CPUs; half of them are presets.
    fn machine(&mut self) -> String {
        if self.below(2) == 0 {
            let names: Vec<_> = Preset::names().collect();
            return self.one_of(&names).to_owned();
        }
        let threads = 1 + self.below(2);
        let packages = 1 + self.below(4);
        let caches = 1 + self.below(8);
        let cores = self.size(1_024 / (threads * packages * caches));
        format!("pack:{packages} numa:1 l3:{caches} core:{cores} pu:{threads}")
    }
}

impl Combination {
    /// Draws a combination with at most `most_items` items for all CPUs together.
    pub(crate) fn draw(number: u64, most_items: u64) -> Self {
        let mut dice = Dice(number);
        let machine = dice.machine();
        let all = Self::machine(&machine).topology().cpus().len() as u64;
        // The whole machine as often as a part of it.
        let cpus = if dice.below(2) == 0 { all } else { dice.size(all) };
        let cpus = cpus.min(most_items);
        Self {
            machine,
            cpus: cpus as usize,
            scope: dice.one_of(&Scope::ALL),
            wake: dice.one_of(&Wake::ALL),
            intake: dice.one_of(&Intake::ALL),
            profile: dice.one_of(&Profile::ALL),
            items: dice.size(1_000.min(most_items / cpus)),
            seed: dice.below(20),
        }
    }

    fn machine(name: &str) -> Machine {
        match Preset::names().any(|known| known == name) {
            true => Machine::named(name).unwrap(),
            false => Machine::with_round_costs(Topology::from_synthetic(name).unwrap()).unwrap(),
        }
    }

    /// Runs it to the end.
    ///
    /// # Errors
    /// If it does not finish, or does less than requested.
    pub(crate) fn run(&self) -> Result<(), String> {
        let machine = Self::machine(&self.machine);
        let bench = QueueBench {
            scopes: vec![self.scope],
            wakes: vec![self.wake],
            intakes: vec![self.intake],
            seed: self.seed,
            ..QueueBench::default()
        };
        let simulation = Simulation::new(&machine).seed(self.seed).profile(self.profile);
        let simulation = simulation.time_limit(LIMIT).settle(Duration::from_secs(1));
        let run = run_bench(&simulation, &machine, self.cpus, self.items, bench);
        match run {
            Err(error) => Err(format!("{self}: {error}")),
            Ok(run) if run.left_memory => Err(format!("{self}: it leaves memory behind")),
            Ok(run) => match run.value {
                Ok(1) => Ok(()),
                other => Err(format!("{self}: {other:?}")),
            },
        }
    }
}

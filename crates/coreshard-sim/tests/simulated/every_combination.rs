//! No combination of variants deadlocks on any machine: each finishes within its virtual time, under either
//! profile.

use std::time::Duration;

use coreshard_bench::QueueBench;
use coreshard_sim::{Machine, Profile, Simulation};
use coreshard_topology::Preset;

use crate::combinations::{Combination, run_bench};

/// The first CPUs of each machine. Whole machines are for the nightly runs (`ci/simulated.sh`).
const CPUS: usize = 6;

fn ends(machine: &Machine, cpus: usize, items: u64, profile: Profile, seed: u64) {
    let simulation =
        Simulation::new(machine).seed(seed).profile(profile).time_limit(Duration::from_secs(60));
    let bench = QueueBench { seed, ..QueueBench::default() };
    let run = run_bench(&simulation, machine, cpus, items, bench).unwrap_or_else(|error| {
        panic!("{}, {profile}, {items} items, seed {seed}: {error}", machine.topology().name())
    });
    assert_eq!(run.value.unwrap(), 36);
}

#[test]
#[ignore = "at night: simulates every preset"]
fn every_preset_ends_under_either_profile_at_night() {
    for (number, name) in Preset::names().enumerate() {
        let machine = Machine::named(name).unwrap();
        let seed = number as u64;
        ends(&machine, CPUS, 1 + 7 * seed, Profile::InKernel, seed);
        ends(&machine, CPUS, 5, Profile::Futex, seed);
    }
}

/// In this case the kernel's profile once preempted a thread that held a pool's lock.
#[test]
fn more_producers_than_a_shard_has_cpus_end_in_a_kernel() {
    let machine = Machine::named("grace").unwrap();
    ends(&machine, 24, 12, Profile::InKernel, 3);
}

/// A sample of all machines, numbers of CPUs up to 1,024, variants, profiles, items and seeds.
/// `ci/simulated.sh` draws more of them each night.
#[test]
fn what_is_drawn_ends() {
    for number in 0..10 {
        Combination::draw(number, 1_500).run().unwrap_or_else(|what| panic!("{number}: {what}"));
    }
}

/// A number of CPUs that no preset has.
#[test]
fn a_thousand_and_twenty_four_cpus_end() {
    let largest = |number| {
        let drawn = Combination::draw(number, 1_024);
        drawn.to_string().contains(" 1024 CPUs").then_some(drawn)
    };
    let drawn = (0..).find_map(largest).expect("one of them has as many");
    drawn.run().unwrap();
}

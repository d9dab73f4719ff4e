//! Every variant against a sequential oracle.

use coreshard_platform::Host;

use super::*;
use crate::level::Priority;

/// The level of each CPU in a plain list.
struct Oracle {
    topology: Topology,
    levels: Vec<(CpuId, Option<Level>)>,
}

impl Oracle {
    fn find_all(&self, below: Level, allowed: &CpuSet) -> Option<(CpuSet, Level)> {
        let eligible = || {
            self.levels.iter().filter_map(|(cpu, level)| {
                let level = level.filter(|level| *level < below && allowed.contains(*cpu))?;
                Some((*cpu, level))
            })
        };
        let lowest = eligible().map(|(_, level)| level).min()?;
        Some((eligible().filter(|it| it.1 == lowest).map(|it| it.0).collect(), lowest))
    }

    fn llc(&self, cpu: CpuId) -> u32 {
        self.topology.cpu(cpu).unwrap().llc.0
    }
}

fn machines() -> [Topology; 4] {
    [
        "pack:1 core:3 pu:1",
        "pack:2 l3:2 core:3 pu:2",
        // Two groups of more than one line each, with interleaved numbers; and one group per package.
        "pack:1 l3:2 core:70 pu:2(indexes=core)",
        "pack:2 numa:1 l3:1 core:120 pu:2(indexes=core)",
    ]
    .map(|machine| Topology::from_synthetic(machine).unwrap())
}

fn random_set(random: &mut fastrand::Rng, cpus: &[CpuId]) -> CpuSet {
    let share = random.f64();
    let mut set: CpuSet = cpus.iter().copied().filter(|_| random.f64() < share).collect();
    set.insert(cpus[random.usize(..cpus.len())]);
    if random.u8(..4) == 0 { cpus.iter().copied().collect() } else { set }
}

fn random_level(random: &mut fastrand::Rng) -> Option<Level> {
    match random.u8(..8) {
        0 => None,
        1..4 => Some(Level::IDLE),
        4 => Some(Level::TOP),
        _ => Some(Priority::new(random.u8(1..=99)).unwrap().level()),
    }
}

fn agree(variant: Rung, topology: &Topology, seed: u64, steps: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let cpus: Vec<CpuId> = topology.online().iter().collect();
    let (index, mut writers) =
        PriorityIndex::<Host>::new(variant, topology, topology.online()).unwrap();
    let levels = cpus.iter().map(|cpu| (*cpu, Some(Level::IDLE))).collect();
    let mut oracle = Oracle { topology: topology.clone(), levels };
    for step in 0..steps {
        let what = format!("{variant} on {}, seed {seed}, step {step}", topology.name());
        let at = random.usize(..cpus.len());
        let level = random_level(&mut random);
        oracle.levels[at].1 = level;
        assert_eq!(writers[at].cpu(), cpus[at]);
        match level {
            Some(level) => writers[at].set(level),
            None => writers[at].withdraw(),
        }
        let allowed = random_set(&mut random, &cpus);
        let below = Level::from_index(random.usize(..Level::COUNT));
        let mask = index.mask(&allowed).unwrap();
        assert_eq!(index.cpus_of(&mask), allowed, "{what}");
        let expected = oracle.find_all(below, &allowed);
        let found = index.find_all(below, &mask);
        let found = found.map(|(cpus, level)| (index.cpus_of(&cpus), level));
        assert_eq!(found, expected, "{what}");
        let near = cpus[random.usize(..cpus.len())];
        let one = index.find(below, &mask, near);
        assert_eq!(one.map(|it| it.1), expected.as_ref().map(|it| it.1), "{what}");
        if let (Some((cpu, _)), Some((eligible, _))) = (one, expected) {
            assert!(eligible.contains(cpu), "{what}: {cpu} of {eligible}");
            let of_its_cache = |other: &CpuId| oracle.llc(*other) == oracle.llc(near);
            let near_ones: CpuSet = eligible.iter().filter(of_its_cache).collect();
            assert!(
                near_ones.is_empty() || near_ones.contains(cpu),
                "{what}: {cpu}, not {near_ones}"
            );
            assert!(!eligible.contains(near) || cpu == near, "{what}: {cpu}, not {near}");
        }
    }
}

#[test]
fn every_variant_agrees_with_a_sequential_oracle() {
    for topology in machines() {
        for variant in Rung::ALL {
            (0..3).for_each(|seed| agree(variant, &topology, seed, 400));
        }
    }
}

#[test]
fn a_summary_is_never_above_its_cpus_and_is_raised_by_a_search_in_vain() {
    let topology = Topology::from_synthetic("pack:1 l3:1 core:100 pu:1").unwrap();
    let (index, mut writers) =
        PriorityIndex::<Host>::new(Rung::PerLlc, &topology, topology.online()).unwrap();
    let mask = index.mask(topology.online()).unwrap();
    let top = Priority::MAX.level();
    writers.iter_mut().for_each(|writer| writer.set(top));
    let AnyLayout::PerLlc(groups) = &index.layout else { panic!("another variant") };
    assert_eq!(groups.bound_of(0), 0, "raising a CPU alone raises no bound");
    assert_eq!(index.find(top, &mask, CpuId(0)), None);
    assert_eq!(groups.bound_of(0), 99, "the search has read all bytes");
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..2_000 {
        let at = random.usize(..100);
        writers[at].set(Level::from_index(random.usize(60..Level::COUNT)));
        if random.bool() {
            let _ = index.find(Level::from_index(random.usize(55..80)), &mask, CpuId(0));
        }
        assert!(groups.bound_of(0) <= groups.lowest_of(0));
    }
}

/// Moves CPU 0 with `moves`, below level 70, while other threads search and another CPU goes to any level.
fn is_found_at_any_time(variant: Rung, moves: impl Fn(&mut LevelWriter<Host>) + Send + Sync) {
    let topology = Topology::from_synthetic("pack:1 l3:1 core:70 pu:1").unwrap();
    let (index, mut writers) =
        PriorityIndex::<Host>::new(variant, &topology, topology.online()).unwrap();
    let mask = index.mask(topology.online()).unwrap();
    writers.iter_mut().for_each(|writer| writer.set(Priority::MAX.level()));
    let (mut mover, mut other) = (writers.remove(0), writers.remove(0));
    for episode in 0..300 {
        mover.set(Level::IDLE);
        std::thread::scope(|scope| {
            let (mover, other, moves) = (&mut mover, &mut other, &moves);
            let moving = scope.spawn(move || moves(mover));
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(episode);
                (0..70).for_each(|_| other.set(Level::from_index(random.usize(70..Level::COUNT))));
            });
            while !moving.is_finished() {
                let found = index.find(Priority::new(70).unwrap().level(), &mask, CpuId(9));
                assert!(found.is_some(), "{variant}: CPU 0 was below 70 all the time");
            }
        });
    }
}

#[test]
fn a_cpu_that_is_raised_is_found_at_any_time() {
    for variant in Rung::ALL {
        is_found_at_any_time(variant, |writer| {
            (1..70).for_each(|at| writer.set(Level::from_index(at)))
        });
    }
}

#[test]
fn per_llc_finds_a_cpu_that_comes_down_at_any_time_too() {
    is_found_at_any_time(Rung::PerLlc, |writer| {
        let mut random = fastrand::Rng::with_seed(2);
        (0..200).for_each(|_| writer.set(Level::from_index(random.usize(..70))));
    });
}

#[test]
fn the_bytes_of_a_variant_are_those_it_says() {
    let topology = Topology::from_synthetic("pack:2 numa:1 l3:1 core:120 pu:2").unwrap();
    let bytes = Rung::ALL.map(|variant| {
        PriorityIndex::<Host>::new(variant, &topology, topology.online()).unwrap().0.bytes()
    });
    let (masks, occupied) = (101 * 128, 64);
    assert_eq!(
        bytes,
        [1_664 + masks + occupied, 12_928 + masks + occupied, 448 + masks + occupied, 768]
    );
}

#[test]
fn cpus_that_are_not_there_are_named() {
    let topology = Topology::from_synthetic("pack:1 core:4 pu:1").unwrap();
    let new =
        |cpus: &str| PriorityIndex::<Host>::new(Rung::PerLlc, &topology, &cpus.parse().unwrap());
    let error = new("2-6").unwrap_err().to_string();
    assert_eq!(error, "invalid CPUs 4-6: expected CPUs among 0-3");
    let (index, _seats) = new("0-2").unwrap();
    let error = index.mask(&"1,3".parse().unwrap()).unwrap_err().to_string();
    assert_eq!(error, "invalid CPUs 3: expected CPUs among 0-2");
    assert!(index.mask(&CpuSet::new()).is_err());
    let large = Topology::from_synthetic("pack:1 core:1025 pu:1").unwrap();
    let error = PriorityIndex::<Host>::new(Rung::Split, &large, large.online()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid number of CPUs 1025 for a priority index: expected 1 to 1024"
    );
    assert!(Priority::new(0).is_err() && "percpu".parse::<Rung>().is_err());
    assert!(
        Rung::ALL.iter().all(|variant| variant.to_string().parse::<Rung>().unwrap() == *variant)
    );
}

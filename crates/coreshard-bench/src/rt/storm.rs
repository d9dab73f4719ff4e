//! Threads that set and search one index at the same time.

use std::ops::Add;
use std::sync::Arc;

use coreshard_platform::{ByteAtomics, Lock, Policy, RealTime, Time};
use coreshard_rt::{CpuMask, Level, LevelWriter, Priority, PriorityIndex, Rung};
use coreshard_topology::{CpuId, CpuSet, Topology};

use crate::crew::{Crew, Gate, pinned};
use crate::error::BenchError;

/// The priorities of the tasks: few, as in programs.
const PRIORITIES: [u8; 4] = [20, 50, 80, 99];

/// The work of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Each sets and searches alternately.
    Mixed,
    /// The first one searches, and the others set.
    Apart,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StormTimes {
    /// From the release of the threads to the last one's end.
    pub(super) elapsed_ns: u64,
    /// The time of each of the first thread's rounds.
    pub(super) first_ns_per_round: f64,
    /// The mean of the others.
    pub(super) others_ns_per_round: f64,
}

struct Storm<P: ByteAtomics> {
    index: Arc<PriorityIndex<P>>,
    part: Part,
    rounds: u64,
    ends: Lock<P, Vec<(usize, Time, Time)>>,
}

/// Runs an index over `cpus`, with a thread pinned to each of the first `threads` of them. A search considers
/// the `group` CPUs around the searcher, or all.
pub(super) fn storm<P: RealTime>(
    variant: Rung,
    topology: &Topology,
    cpus: &CpuSet,
    (threads, group): (usize, Option<usize>),
    (part, rounds, seed): (Part, u64, u64),
    policy: Policy,
) -> Result<StormTimes, BenchError> {
    let (index, writers) = PriorityIndex::<P>::new(variant, topology, cpus)?;
    let all: Vec<CpuId> = cpus.iter().collect();
    let ends = Lock::new(Vec::with_capacity(threads));
    let shared = Arc::new(Storm { index, part, rounds, ends });
    let mut crew = Crew::<P>::new(threads);
    let mut spare = Vec::new();
    for (at, writer) in writers.into_iter().enumerate() {
        if at >= threads {
            spare.push(writer);
            continue;
        }
        let around = group.map_or(&all[..], |group| {
            let start = at / group * group;
            &all[start..all.len().min(start + group)]
        });
        let allowed = shared.index.mask(&around.iter().copied().collect())?;
        let spec = pinned(format!("storm-{at}"), writer.cpu());
        let theirs = Arc::clone(&shared);
        let random = fastrand::Rng::with_seed(seed ^ at as u64);
        let body = move |gate: &Gate<P>| theirs.run(at, writer, allowed, random, gate);
        crew.spawn_by(|body| P::spawn_as(spec, policy, body), body)?;
    }
    let released = crew.run().released_at;
    drop(spare);
    let mut ends = std::mem::take(&mut *shared.ends.lock());
    ends.sort_by_key(|end| end.0);
    let per_round =
        |(_, begin, end): &(usize, Time, Time)| end.ns_since(*begin) as f64 / rounds as f64;
    let last = ends.iter().map(|end| end.2).max().unwrap_or(released);
    let others = ends.get(1..).unwrap_or_default();
    Ok(StormTimes {
        elapsed_ns: last.ns_since(released),
        first_ns_per_round: ends.first().map_or(0.0, per_round),
        // `sum` of an empty iterator is -0.
        others_ns_per_round: others.iter().map(per_round).fold(0.0, f64::add)
            / others.len().max(1) as f64,
    })
}

impl<P: ByteAtomics> Storm<P> {
    fn run(
        &self,
        at: usize,
        mut writer: LevelWriter<P>,
        allowed: CpuMask,
        mut random: fastrand::Rng,
        gate: &Gate<P>,
    ) {
        // Drawn beforehand, so that only the index is measured.
        let levels: Vec<Level> = (0..256)
            .map(|turn| {
                let priority = PRIORITIES[random.usize(..PRIORITIES.len())];
                let busy = Priority::new(priority).map_or(Level::TOP, Priority::level);
                if turn % 2 == 0 { busy } else { Level::IDLE }
            })
            .collect();
        let cpu = writer.cpu();
        if !gate.pass() {
            return;
        }
        let begin = P::now();
        match (self.part, at) {
            (Part::Mixed, _) => {
                for round in 0..self.rounds {
                    writer.set(levels[round as usize % levels.len()]);
                    self.search(&allowed, cpu);
                }
            }
            (Part::Apart, 0) => (0..self.rounds).for_each(|_| self.search(&allowed, cpu)),
            (Part::Apart, _) => {
                (0..self.rounds)
                    .for_each(|round| writer.set(levels[round as usize % levels.len()]));
            }
        }
        let end = P::now();
        self.ends.lock().push((at, begin, end));
        gate.leave();
    }

    #[inline]
    fn search(&self, allowed: &CpuMask, near: CpuId) {
        std::hint::black_box(self.index.find(Priority::MAX.level(), allowed, near));
    }
}

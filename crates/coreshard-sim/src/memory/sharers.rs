//! Sets of CPUs that have a line, and the nearest and farthest of them.

use crate::cpu_mask::CpuMask;
use crate::machine::{Machine, Ps};

/// For each CPU, the others in rings of rising latency.
///
/// A set of sharers is compared with the rings word by word, so the cost does not grow with the number of
/// sharers.
pub(super) struct Neighbours {
    cpus: usize,
    /// Where a CPU's rings begin.
    first: Vec<usize>,
    rings: Vec<Ring>,
}

struct Ring {
    latency: Ps,
    members: CpuMask,
}

impl Neighbours {
    pub(super) fn new(machine: &Machine) -> Self {
        let cpus = machine.topology().cpus().len();
        let (mut first, mut rings) = (Vec::with_capacity(cpus + 1), Vec::new());
        for cpu in 0..cpus {
            first.push(rings.len());
            let row = &machine.latency()[cpu * cpus..][..cpus];
            let mut distances: Vec<Ps> =
                (0..cpus).filter(|other| *other != cpu).map(|other| row[other]).collect();
            distances.sort_unstable();
            distances.dedup();
            rings.extend(distances.into_iter().map(|latency| {
                let is_member = |other: usize| other != cpu && row[other] == latency;
                Ring { latency, members: CpuMask::of(cpus, is_member) }
            }));
        }
        first.push(rings.len());
        Self { cpus, first, rings }
    }

    pub(super) const fn cpus(&self) -> usize {
        self.cpus
    }

    fn rings_of(&self, cpu: usize) -> &[Ring] {
        &self.rings[self.first[cpu]..self.first[cpu + 1]]
    }

    /// Returns the latency to the nearest other CPU; 0 if there is none.
    pub(super) fn least(&self, cpu: usize) -> Ps {
        self.rings_of(cpu).first().map_or(0, |ring| ring.latency)
    }

    /// Returns the least latency to another CPU that exceeds this one; this one if there is none.
    pub(super) fn beyond(&self, cpu: usize, latency: Ps) -> Ps {
        let farther = self.rings_of(cpu).iter().find(|ring| ring.latency > latency);
        farther.map_or(latency, |ring| ring.latency)
    }

    /// Returns the nearest of the sharers. There must be at least one, and not `cpu` itself.
    pub(super) fn nearest(&self, cpu: usize, sharers: &[u64]) -> usize {
        for ring in self.rings_of(cpu) {
            for (word, (member, sharer)) in ring.members.words().iter().zip(sharers).enumerate() {
                let both = member & sharer;
                if both != 0 {
                    return word * 64 + both.trailing_zeros() as usize;
                }
            }
        }
        cpu
    }

    /// Returns the latency to the farthest of the sharers; 0 if there is none but `cpu` itself.
    pub(super) fn farthest(&self, cpu: usize, sharers: &[u64]) -> Ps {
        let meets =
            |ring: &&Ring| ring.members.words().iter().zip(sharers).any(|(a, b)| a & b != 0);
        self.rings_of(cpu).iter().rev().find(meets).map_or(0, |ring| ring.latency)
    }
}

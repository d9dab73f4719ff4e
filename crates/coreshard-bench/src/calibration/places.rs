//! The CPUs that contend or compute together.

use coreshard_results::Contenders;
use coreshard_topology::{Cpu, CpuId, Topology};

/// The CPUs of a machine in the orders in which they are used.
pub(super) struct Places {
    /// One CPU of each core, package by package; then the others.
    pub(super) cores_first: Vec<CpuId>,
    pub(super) cores: usize,
    /// All CPUs of the first core.
    siblings: Vec<CpuId>,
    /// One CPU of each core, one package after the other in turn.
    in_turn: Vec<CpuId>,
    packages: usize,
}

impl Places {
    pub(super) fn new(topology: &Topology) -> Self {
        // A CPU's place among those that share a part with it.
        let place = |cpu: &Cpu, shares: &dyn Fn(&Cpu) -> bool| {
            topology.cpus().iter().filter(|other| shares(other) && other.id < cpu.id).count()
        };
        let of_core = |cpu: &Cpu| place(cpu, &|other| other.core == cpu.core);
        let mut all: Vec<&Cpu> = topology.cpus().iter().collect();
        all.sort_by_key(|cpu| (of_core(cpu), cpu.package, cpu.llc, cpu.id));
        let mut firsts: Vec<&Cpu> = all.iter().copied().filter(|cpu| of_core(cpu) == 0).collect();
        let cores = firsts.len();
        let of_package: Vec<usize> = (0..cores)
            .map(|at| firsts[..at].iter().filter(|it| it.package == firsts[at].package).count())
            .collect();
        let mut turns: Vec<(usize, &Cpu)> = of_package.into_iter().zip(firsts.drain(..)).collect();
        turns.sort_by_key(|(turn, cpu)| (*turn, cpu.package));
        let first = all[0];
        let siblings = topology.cpus().iter().filter(|cpu| cpu.core == first.core);
        Self {
            cores,
            siblings: siblings.map(|cpu| cpu.id).collect(),
            in_turn: turns.into_iter().map(|(_, cpu)| cpu.id).collect(),
            packages: topology.packages(),
            cores_first: all.into_iter().map(|cpu| cpu.id).collect(),
        }
    }

    /// Returns the CPUs of each contest.
    pub(super) fn contests(&self) -> Vec<(Contenders, &[CpuId])> {
        let all = self.cores_first.len();
        let mut counts: Vec<usize> = CONTENDERS.into_iter().filter(|count| *count < all).collect();
        counts.extend([self.cores, all]);
        counts.sort_unstable();
        counts.dedup();
        let of = |count| (Contenders::CoresFirst, &self.cores_first[..count]);
        let mut contests: Vec<_> = counts.into_iter().map(of).collect();
        if self.siblings.len() > 1 {
            contests.push((Contenders::Siblings, &self.siblings));
        }
        if self.packages > 1 {
            let counts = [1, 2, 4].map(|each| each * self.packages);
            let counts = counts.into_iter().filter(|count| *count <= self.in_turn.len());
            contests.extend(counts.map(|count| (Contenders::Packages, &self.in_turn[..count])));
        }
        contests
    }
}

/// The numbers of threads that contend for one word, beside the number of cores and of CPUs. They match
/// published curves of other machines.
const CONTENDERS: [usize; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contests_are_of_cores_of_one_core_and_of_all_packages() {
        let contests = |text: &str| {
            let topology = Topology::from_synthetic(text).unwrap();
            let places = Places::new(&topology);
            let ids = |(contenders, cpus): (Contenders, &[CpuId])| {
                (contenders, cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>())
            };
            places.contests().into_iter().map(ids).collect::<Vec<_>>()
        };
        let found = contests("pack:2 numa:1 l3:1 core:2 pu:2");
        let of = |contenders| {
            let of = found.iter().filter(move |(its, _)| *its == contenders);
            of.map(|(_, cpus)| cpus.clone()).collect::<Vec<_>>()
        };
        let cores_first = of(Contenders::CoresFirst);
        assert_eq!(cores_first.last().unwrap(), &[0, 2, 4, 6, 1, 3, 5, 7]);
        assert_eq!(cores_first.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(of(Contenders::Siblings), [[0, 1]]);
        assert_eq!(of(Contenders::Packages), [vec![0, 4], vec![0, 4, 2, 6]]);

        let found = contests("pack:1 numa:1 l3:1 core:10 pu:1");
        let counts: Vec<usize> = found.iter().map(|(_, cpus)| cpus.len()).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8, 10]);
    }
}

//! The position of each CPU in an index: neighbours in the machine are neighbours in the index.

use std::ops::Range;

use coreshard_topology::{CpuId, CpuSet, Topology};

use super::cpu_mask::{CpuMask, MAX_INDEX_CPUS};
use crate::error::RtError;

/// The CPUs of an index, ordered by package, node, last-level cache, core and number. So the CPUs of a cache,
/// and of a core, are neighbours, however the system numbers them.
#[derive(Debug)]
pub(super) struct CpuOrder {
    cpus: Box<[CpuId]>,
    set: CpuSet,
    /// The position, by CPU number.
    position_of: Box<[Option<u16>]>,
    /// The positions of each last-level cache.
    groups: Box<[Range<usize>]>,
    /// The group, by position.
    group_of: Box<[u16]>,
}

impl CpuOrder {
    pub(super) fn new(topology: &Topology, cpus: &CpuSet) -> Result<Self, RtError> {
        if cpus.is_empty() {
            return Err(RtError::no_cpu());
        }
        if cpus.len() > MAX_INDEX_CPUS {
            let given = cpus.len();
            return Err(RtError::new(format!(
                "invalid number of CPUs {given} for a priority index: expected 1 to {MAX_INDEX_CPUS}"
            )));
        }
        let given = cpus - topology.online();
        if !given.is_empty() {
            return Err(RtError::outside_cpus(&given, topology.online()));
        }
        let mut ordered: Vec<_> =
            topology.cpus().iter().filter(|cpu| cpus.contains(cpu.id)).collect();
        ordered.sort_by_key(|cpu| (cpu.package, cpu.node, cpu.llc, cpu.core, cpu.id));
        let highest = cpus.last().map_or(0, CpuId::index);
        let mut position_of = vec![None; highest + 1];
        let mut groups: Vec<Range<usize>> = Vec::new();
        let mut group_of = Vec::with_capacity(ordered.len());
        for (position, cpu) in ordered.iter().enumerate() {
            position_of[cpu.id.index()] = Some(position as u16);
            match groups.last_mut() {
                Some(group) if ordered[group.start].llc == cpu.llc => group.end = position + 1,
                _ => groups.push(position..position + 1),
            }
            group_of.push((groups.len() - 1) as u16);
        }
        Ok(Self {
            cpus: ordered.iter().map(|cpu| cpu.id).collect(),
            set: cpus.clone(),
            position_of: position_of.into(),
            groups: groups.into(),
            group_of: group_of.into(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.cpus.len()
    }

    pub(super) fn set(&self) -> &CpuSet {
        &self.set
    }

    pub(super) fn cpus(&self) -> &[CpuId] {
        &self.cpus
    }

    pub(super) fn groups(&self) -> &[Range<usize>] {
        &self.groups
    }

    pub(super) fn group_of(&self, position: usize) -> usize {
        usize::from(self.group_of[position])
    }

    #[inline]
    pub(super) fn position_of(&self, cpu: CpuId) -> Option<usize> {
        self.position_of.get(cpu.index()).copied().flatten().map(usize::from)
    }

    /// Returns the member of `candidates` that is nearest to `near`: itself, or the next one of its cache, or
    /// the next one of all, wrapping around.
    #[inline]
    pub(super) fn nearest(&self, candidates: &CpuMask, near: usize) -> Option<usize> {
        if candidates.has(near) {
            return Some(near);
        }
        let group = self.groups[self.group_of(near)].clone();
        candidates
            .first_in(near..group.end)
            .or_else(|| candidates.first_in(group.start..near))
            .or_else(|| candidates.first_in(group.end..self.len()))
            .or_else(|| candidates.first_in(0..group.start))
    }
}

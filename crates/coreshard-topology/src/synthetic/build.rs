//! Makes a machine of the levels of a description.

use super::indexes;
use super::level::{Level, Machine, Type};
use crate::input;
use crate::topology::{Parts, RawCpu};
use crate::{CpuId, NodeId, Topology, TopologyError};

pub(super) fn topology(machine: &Machine) -> Result<Topology, TopologyError> {
    let total = machine.cpus();
    let pu = machine.level(Type::Pu);
    let cpu_numbers = indexes::numbers(machine, pu.and_then(indexes_of), total)?;
    let nodes = Nodes::new(machine)?;
    let package_numbers = numbers_of(machine, Type::Package)?;
    let core_numbers = numbers_of(machine, Type::Core)?;
    for level in &machine.levels {
        // Of no use here, but a mistake in it should not go unseen.
        indexes::numbers(machine, indexes_of(level), level.width)?;
    }

    let mut parts = Parts::new(input::plain(&machine.text));
    let package = machine.level(Type::Package);
    let core = machine.level(Type::Core);
    let cache = machine.last_cache();
    let level_2 = machine.data_cache(2);
    if package.is_none() {
        parts.notes.push("no package is described; the whole machine is taken as one".into());
    }
    if core.is_none() {
        parts.notes.push("no core is described; every CPU is taken as a core of its own".into());
    }
    if cache.is_none() {
        parts
            .notes
            .push("no cache is described; each package is taken as one last-level cache".into());
    }
    if let Some(Level { kind: Type::Cache { level, .. }, width, attributes, .. }) = cache {
        let details = (Some(*level), attributes.size_bytes);
        parts.caches.extend((0..*width).map(|key| (key as u64, details)));
    }
    parts.nodes.extend(nodes.numbers.iter().copied().map(NodeId));

    for (place, number) in cpu_numbers.into_iter().enumerate() {
        let object = |level: Option<&Level>| level.map_or(0, |level| place / (total / level.width));
        let package_object = object(package);
        parts.cpus.push(RawCpu {
            core: if core.is_some() { object(core) } else { place } as u64,
            llc: if cache.is_some() { object(cache) } else { package_object } as u64,
            node: nodes.of_cpu(place, total),
            package: package_object as u64,
            cluster: level_2.is_some().then(|| object(level_2) as u64),
            os_core: core_numbers.as_ref().map(|numbers| numbers[object(core)]),
            os_package: package_numbers.as_ref().map(|numbers| numbers[package_object]),
            ..RawCpu::of(CpuId(number))
        });
    }
    parts.assemble()
}

fn indexes_of(level: &Level) -> Option<&(String, usize)> {
    level.attributes.indexes.as_ref()
}

fn numbers_of(machine: &Machine, kind: Type) -> Result<Option<Vec<u32>>, TopologyError> {
    let Some(level) = machine.level(kind) else { return Ok(None) };
    indexes::numbers(machine, indexes_of(level), level.width).map(Some)
}

/// The NUMA nodes of a machine, and which of them is nearest to a CPU.
struct Nodes<'a> {
    /// By the order in which hwloc meets them.
    numbers: Vec<u32>,
    /// The level whose objects have a node each, or the innermost of them.
    nearest: Option<&'a Level>,
    /// Further out, levels with nodes attached.
    outer: Vec<&'a Level>,
}

impl<'a> Nodes<'a> {
    fn new(machine: &'a Machine) -> Result<Self, TopologyError> {
        if let Some(level) = machine.level(Type::Numa) {
            let numbers = indexes::numbers(machine, indexes_of(level), level.width)?;
            return Ok(Self { numbers, nearest: Some(level), outer: Vec::new() });
        }
        let mut outer: Vec<&Level> = machine.levels.iter().filter(|l| l.attached > 0).collect();
        let count = outer.iter().map(|level| level.width * level.attached).sum();
        let numbers = indexes::numbers(machine, machine.attached_indexes.as_ref(), count)?;
        Ok(Self { numbers, nearest: outer.pop(), outer })
    }

    /// The node of the `place`-th of `total` CPUs. If several nodes are attached to the same
    /// object, the first one is its CPUs' own, and the others have memory only.
    fn of_cpu(&self, place: usize, total: usize) -> Option<NodeId> {
        let level = self.nearest?;
        let object = place / (total / level.width);
        // Attached nodes are counted when their object ends: inner ones before outer ones.
        let ended = |outer: &&Level| object / (level.width / outer.width) * outer.attached;
        let before = object * level.attached.max(1) + self.outer.iter().map(ended).sum::<usize>();
        self.numbers.get(before).copied().map(NodeId)
    }
}

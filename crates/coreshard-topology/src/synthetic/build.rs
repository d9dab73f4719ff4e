//! Builds a machine from the levels of a description.

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
        // Unused, but errors in it are reported.
        indexes::numbers(machine, indexes_of(level), level.width)?;
    }

    let mut parts = Parts::new(input::plain(&machine.text));
    let package = machine.level(Type::Package);
    let core = machine.level(Type::Core);
    let cache = machine.last_cache();
    let level_2 = machine.data_cache(2);
    if package.is_none() {
        parts
            .notes
            .push("the description has no package; the whole machine is treated as one".into());
    }
    if core.is_none() {
        parts.notes.push("the description has no core; each CPU is treated as a core".into());
    }
    if cache.is_none() {
        parts.notes.push(
            "the description has no cache; each package is treated as one last-level cache".into(),
        );
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

/// The NUMA nodes of a machine, and the nearest node of each CPU.
struct Nodes<'a> {
    /// In hwloc's order.
    numbers: Vec<u32>,
    /// The innermost level whose objects have a node each.
    nearest: Option<&'a Level>,
    /// Outer levels with attached nodes.
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

    /// Returns the node of the `place`-th of `total` CPUs. If an object has several nodes, its CPUs belong to the
    /// first, and the others have only memory.
    fn of_cpu(&self, place: usize, total: usize) -> Option<NodeId> {
        let level = self.nearest?;
        let object = place / (total / level.width);
        // Attached nodes are counted when their object ends: inner ones before outer ones.
        let ended = |outer: &&Level| object / (level.width / outer.width) * outer.attached;
        let before = object * level.attached.max(1) + self.outer.iter().map(ended).sum::<usize>();
        self.numbers.get(before).copied().map(NodeId)
    }
}

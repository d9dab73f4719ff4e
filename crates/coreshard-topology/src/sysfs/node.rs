//! The NUMA node of each CPU.

use std::collections::HashMap;

use super::file::Folder;
use crate::assembly::Parts;
use crate::input::NODES;
use crate::{CpuId, CpuSet, NodeId, TopologyError};

/// Gives each CPU in `parts` its node; CPUs that no node lists keep none.
pub(super) fn read(
    folder: &Folder,
    online: &CpuSet,
    parts: &mut Parts,
) -> Result<(), TopologyError> {
    let numbers = folder.numbered("node")?;
    if numbers.len() > NODES {
        let problem = format!("it has {} nodes; at most {NODES} are read", numbers.len());
        return Err(TopologyError::folder(folder.path(), problem));
    }
    let mut node_of: HashMap<CpuId, NodeId> = HashMap::new();
    // So that each CPU is looked at once, however many nodes list it.
    let mut unlisted = online.clone();
    let mut listed_twice = CpuSet::new();
    for number in numbers {
        let node = NodeId(number);
        parts.nodes.insert(node);
        let list = folder.folder(format!("node{number}")).first_set(&["cpulist", "cpumap"])?;
        let list = &list.unwrap_or_default() & online;
        listed_twice = &listed_twice | &(&list - &unlisted);
        let first = &list & &unlisted;
        node_of.extend(first.iter().map(|cpu| (cpu, node)));
        unlisted = &unlisted - &first;
    }
    for cpu in &mut parts.cpus {
        cpu.node = node_of.get(&cpu.id).copied();
    }
    // Nodes made up by numa=fake share the CPUs of the real node that they are parts of.
    parts.note_cpus(&listed_twice, "in several NUMA nodes; the lowest is taken as theirs");
    parts.note_cpus(&unlisted, "without a NUMA node; it stays unknown");
    Ok(())
}

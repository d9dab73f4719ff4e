//! The NUMA node of each CPU.

use std::collections::HashMap;

use super::cpus;
use super::file::Folder;
use crate::assembly::Parts;
use crate::{CpuId, CpuSet, NodeId, TopologyError};

/// Gives each CPU in `parts` its node; CPUs that no node lists keep none.
pub(super) fn read(
    folder: &Folder,
    online: &CpuSet,
    parts: &mut Parts,
) -> Result<(), TopologyError> {
    let mut node_of: HashMap<CpuId, NodeId> = HashMap::new();
    let mut listed_twice = CpuSet::new();
    for number in folder.numbered("node")? {
        let node = NodeId(number);
        parts.nodes.insert(node);
        let list = folder.folder(format!("node{number}")).first_set(&["cpulist", "cpumap"])?;
        for cpu in &(&list.unwrap_or_default() & online) {
            if *node_of.entry(cpu).or_insert(node) != node {
                listed_twice.insert(cpu);
            }
        }
    }
    for cpu in &mut parts.cpus {
        cpu.node = node_of.get(&cpu.id).copied();
    }
    // Nodes made up by numa=fake share the CPUs of the real node that they are parts of.
    if !listed_twice.is_empty() {
        let note = "in several NUMA nodes; the lowest is taken as theirs";
        parts.notes.push(format!("{} {note}", cpus(&listed_twice)));
    }
    let unlisted: CpuSet = online.iter().filter(|cpu| !node_of.contains_key(cpu)).collect();
    if !unlisted.is_empty() {
        parts.notes.push(format!("{} without a NUMA node; it stays unknown", cpus(&unlisted)));
    }
    Ok(())
}

//! Reads a machine from `/sys`, of this machine or a recorded one.
//!
//! It reads these files, which are documented in the kernel's `Documentation/ABI/stable/sysfs-devices-system-cpu`,
//! `Documentation/admin-guide/cputopology.rst` and `Documentation/ABI/testing/sysfs-devices-system-cpu`:
//!
//! | property | from `sys/devices/system/` | if missing |
//! |---|---|---|
//! | CPUs online | `cpu/online`, and `cpu/cpuN/online` of CPUs that it leaves out | `cpu/cpuN/online`; no such file means online |
//! | core | `cpu/cpuN/topology/core_cpus_list`, `thread_siblings_list`, or their masks | package and `core_id`; else a separate core |
//! | cluster of cores that share an L2 cache | `cpu/cpuN/topology/cluster_cpus_list` or its mask; else `cpu/cpuN/cache/index2` | the core by itself |
//! | package | `cpu/cpuN/topology/physical_package_id` | `package_cpus_list`, `core_siblings_list`, or their masks; else one package for all |
//! | last-level cache | the highest unified (else data) `cpu/cpuN/cache/indexK`: its `shared_cpu_list` or mask, else its `id` | the package, or its part on a node |
//! | node | `node/nodeN/cpulist`, or its mask | unknown |
//! | kind | `../cpu_core/cpus` and `../cpu_atom/cpus`; else `cpu_capacity`, else `cpufreq/base_frequency` | unknown |
//!
//! Missing data is noted in [`Topology::notes`]. Data that cannot be parsed is an error, because a guess would be a
//! silent fallback.

mod cache;
mod cpu;
pub(crate) mod file;
mod note;

use std::collections::HashMap;
use std::path::Path;

use file::Folder;

use crate::input::{self, HEAD_BYTES, NODES};
use crate::topology::Parts;
use crate::{CpuId, CpuSet, NodeId, Topology, TopologyError};

/// Reads the machine whose `sys` folder is in `root`. A `proc` folder beside it provides the model.
pub(crate) fn topology(root: &Path) -> Result<Topology, TopologyError> {
    let devices = Folder::new(root.join("sys/devices"));
    if !devices.path().join("system/cpu").is_dir() {
        let mut problem = "expected a folder that holds sys/devices/system/cpu".to_owned();
        if root.join("devices/system/cpu").is_dir() {
            problem.push_str(" (the folder above this one is suitable)");
        }
        return Err(TopologyError::file(root, problem));
    }
    let name = root.file_name().unwrap_or(root.as_os_str()).to_string_lossy();
    let mut parts = Parts::new(input::plain(&name));
    parts.model = model(root)?;

    let folder = devices.folder("system/cpu");
    let online = cpu::online(&folder, &mut parts)?;
    cpu::read(&folder, &online, &mut parts)?;
    read_nodes(&devices.folder("system/node"), &online, &mut parts)?;
    // After the nodes, which determine the replacement for missing caches.
    cache::read(&folder, &online, &mut parts)?;
    read_kinds(&devices, &online, &mut parts)?;
    parts.assemble()
}

/// Returns the name of the processor or machine, if known.
fn model(root: &Path) -> Result<Option<String>, TopologyError> {
    // The first processors suffice. Reading the whole file takes a second on some machines.
    let info = file::present(input::head(&root.join("proc/cpuinfo"), HEAD_BYTES))?;
    let named = info.unwrap_or_default().lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| input::plain(value))
    });
    let mut model = named;
    // Arm processors have no names there. Firmware of servers and the device tree of boards name the machine.
    for file in ["sys/devices/virtual/dmi/id/product_name", "sys/firmware/devicetree/base/model"] {
        if model.is_none() {
            model = Folder::new(root.to_owned()).word(file)?.map(|name| input::plain(&name));
        }
    }
    Ok(model.filter(|name| !name.is_empty()))
}

/// Sets the node of each CPU in `parts`. CPUs that no node lists have none.
fn read_nodes(folder: &Folder, online: &CpuSet, parts: &mut Parts) -> Result<(), TopologyError> {
    let numbers = folder.numbered("node")?;
    if numbers.len() > NODES {
        let problem = format!("expected at most {NODES} nodes, found {}", numbers.len());
        return Err(TopologyError::folder(folder.path(), problem));
    }
    let mut node_of: HashMap<CpuId, NodeId> = HashMap::new();
    // Each CPU is checked once, however many nodes list it.
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
    // Nodes made by numa=fake share the CPUs of their real node.
    parts.note_cpus(&listed_twice, "in several NUMA nodes; the lowest is used");
    parts.note_cpus(&unlisted, "without a NUMA node; it is unknown");
    Ok(())
}

/// Sets the kind of each CPU in `parts`, if the machine has two.
fn read_kinds(devices: &Folder, online: &CpuSet, parts: &mut Parts) -> Result<(), TopologyError> {
    // Hybrid x86: each kind of core has its own performance counter device.
    let fast = devices.list("cpu_core/cpus")?.unwrap_or_default();
    let thrifty = devices.list("cpu_atom/cpus")?.unwrap_or_default();
    if !fast.is_empty() && !thrifty.is_empty() {
        parts.set_kinds(&fast, &thrifty);
        return Ok(());
    }
    // Arm: computing power relative to the fastest CPU, from firmware. Intel: the guaranteed frequency.
    for figure in ["cpu_capacity", "cpufreq/base_frequency"] {
        match figures(&devices.folder("system/cpu"), online, figure) {
            Ok(figures) => {
                if parts.split_kinds(figures, figure) {
                    return Ok(());
                }
            }
            // Drivers sometimes fail to report these figures, which are not essential.
            Err(error) => parts.notes.push(format!("kinds of CPUs are unknown: {error}")),
        }
    }
    Ok(())
}

/// Reads a figure of each CPU; empty if one is missing.
fn figures(
    folder: &Folder,
    online: &CpuSet,
    name: &str,
) -> Result<Vec<(u64, CpuId)>, TopologyError> {
    let mut figures = Vec::new();
    for cpu in online {
        match folder.number(format!("cpu{cpu}/{name}"))? {
            Some(figure) if figure > 0 => figures.push((u64::from(figure), cpu)),
            _ => return Ok(Vec::new()),
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests;

//! Reads the online CPUs, and the core and package of each.

use std::collections::HashMap;

use super::file::Folder;
use super::note::{SharersHash, note_disagreement};
use crate::error::beyond_max_cpu;
use crate::topology::{Parts, RawCpu};
use crate::{CpuId, CpuSet, MAX_CPU, TopologyError};

/// The package of CPUs without one. Firmware numbers have 32 bits.
const NO_PACKAGE: u64 = 1 << 40;

/// Returns the online CPUs. The others are added to `parts.offline`.
pub(super) fn online(folder: &Folder, parts: &mut Parts) -> Result<CpuSet, TopologyError> {
    let numbers = folder.numbered("cpu")?;
    if let Some(number) = numbers.iter().find(|number| **number > MAX_CPU.0) {
        return Err(TopologyError::file(folder.path(), beyond_max_cpu(number)));
    }
    let mut there: CpuSet = numbers.into_iter().map(CpuId).collect();
    // Recordings may contain an empty file.
    let listed = folder.list("online")?.filter(|listed| !listed.is_empty());
    let own_word = |cpu| folder.number(format!("cpu{cpu}/online"));
    let online = match listed {
        Some(mut online) => {
            let mut left_out = CpuSet::new();
            for cpu in &(&there - &online) {
                if own_word(cpu)? == Some(1) {
                    left_out.insert(cpu);
                }
            }
            // Containers may list only their own CPUs. This function reports the CPUs of the machine. Usable CPUs are
            // determined from other files.
            online = &online | &left_out;
            let note = "online by their own files, but missing in the list of online CPUs";
            parts.note_cpus(&left_out, note);
            online
        }
        None => {
            let mut online = CpuSet::new();
            for cpu in &there {
                // CPU 0 often cannot go offline and then has no such file.
                if own_word(cpu)? != Some(0) {
                    online.insert(cpu);
                }
            }
            online
        }
    };
    if online.is_empty() {
        return Err(TopologyError::file(folder.path(), "no CPU is online"));
    }
    parts.note_cpus(&(&online - &there), "online, but without a description");
    if let Some(present) = folder.list("present")? {
        there = &there | &present;
    }
    parts.offline = &there - &online;
    Ok(online)
}

/// Returns the CPUs that share an L2 cache with this one: the kernel's cluster since 5.16, otherwise the cache.
fn cluster(folder: &Folder, id: CpuId) -> Result<Option<CpuSet>, TopologyError> {
    let folder = folder.folder(format!("cpu{id}"));
    if let Some(cpus) =
        folder.folder("topology").first_set(&["cluster_cpus_list", "cluster_cpus"])?
    {
        return Ok(Some(cpus));
    }
    // Index 0 and 1 are the level 1 caches.
    let cache = folder.folder("cache/index2");
    let is_level_2 = cache.number("level")? == Some(2);
    if is_level_2 { cache.first_set(&["shared_cpu_list", "shared_cpu_map"]) } else { Ok(None) }
}

/// Reads the core and package of each online CPU into `parts`.
pub(super) fn read(
    folder: &Folder,
    online: &CpuSet,
    parts: &mut Parts,
) -> Result<(), TopologyError> {
    let mut said: HashMap<CpuId, SharersHash> = HashMap::new();
    let mut core_by_number: HashMap<(u64, Option<u32>, u32), u64> = HashMap::new();
    let mut cluster_of: HashMap<CpuId, u64> = HashMap::new();
    let (mut coreless, mut packageless) = (CpuSet::new(), CpuSet::new());
    for id in online {
        let topology = folder.folder(format!("cpu{id}/topology"));
        let os_core = topology.number("core_id")?;
        let os_package = topology.number("physical_package_id")?;
        let package = match os_package {
            Some(number) => u64::from(number),
            None => {
                let names =
                    ["package_cpus_list", "core_siblings_list", "package_cpus", "core_siblings"];
                let siblings = topology.first_set(&names)?.map(|set| &set & online);
                match siblings.and_then(|set| set.first()) {
                    Some(lowest) => NO_PACKAGE + 1 + u64::from(lowest.0),
                    None => {
                        packageless.insert(id);
                        NO_PACKAGE
                    }
                }
            }
        };
        let names = ["core_cpus_list", "thread_siblings_list", "core_cpus", "thread_siblings"];
        let siblings = topology.first_set(&names)?.map(|set| &set & online);
        let core = match (siblings.as_ref().and_then(CpuSet::first), os_core) {
            (Some(lowest), _) => u64::from(lowest.min(id).0),
            (None, Some(number)) => {
                // Core IDs are unique within one die of one package.
                let place = (package, topology.number("die_id")?, number);
                *core_by_number.entry(place).or_insert(u64::from(id.0))
            }
            (None, None) => {
                coreless.insert(id);
                u64::from(id.0)
            }
        };
        if !cluster_of.contains_key(&id) {
            let shared = cluster(folder, id)?.unwrap_or_default();
            let key = u64::from(id.0);
            cluster_of.extend((&shared & online).iter().map(|sharer| (sharer, key)));
        }
        said.extend(siblings.map(|siblings| (id, SharersHash::new(&siblings))));
        parts.cpus.push(RawCpu {
            core,
            package,
            cluster: cluster_of.get(&id).copied(),
            os_core,
            os_package,
            ..RawCpu::of(id)
        });
    }
    parts.note_cpus(&coreless, "without a core; each is treated as a core");
    parts.note_cpus(&packageless, "without a package; they are treated as one package");
    note_disagreement(parts, "core", |cpu| cpu.core, &said);
    Ok(())
}

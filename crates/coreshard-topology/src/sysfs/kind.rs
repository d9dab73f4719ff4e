//! Performance and efficiency CPUs.

use super::file::Folder;
use crate::assembly::Parts;
use crate::{CpuId, CpuSet, TopologyError};

/// Gives each CPU in `parts` its kind, where the machine has two.
pub(super) fn read(
    devices: &Folder,
    online: &CpuSet,
    parts: &mut Parts,
) -> Result<(), TopologyError> {
    // Hybrid x86: each kind of core has a performance-counter device of its own.
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
            // Drivers refuse to tell these figures at times, and little depends on them.
            Err(error) => parts.notes.push(format!("kinds of CPUs stay unknown: {error}")),
        }
    }
    Ok(())
}

/// A figure of each CPU; empty if one has none.
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

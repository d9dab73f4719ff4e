//! Performance and efficiency CPUs.

use super::file::Folder;
use crate::assembly::Parts;
use crate::{CpuId, CpuKind, CpuSet, TopologyError};

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
        set(parts, &fast, &thrifty);
        return Ok(());
    }
    // Arm: computing power relative to the fastest CPU, from firmware. Intel: the guaranteed frequency.
    for figure in ["cpu_capacity", "cpufreq/base_frequency"] {
        match split(&devices.folder("system/cpu"), online, figure) {
            Ok(None) => {}
            Ok(Some((fast, thrifty))) => {
                set(parts, &fast, &thrifty);
                let note = "performance and efficiency CPUs are told apart by";
                parts.notes.push(format!("{note} {figure}"));
                return Ok(());
            }
            // Drivers refuse to tell these figures at times, and little depends on them.
            Err(error) => parts.notes.push(format!("kinds of CPUs stay unknown: {error}")),
        }
    }
    Ok(())
}

fn set(parts: &mut Parts, fast: &CpuSet, thrifty: &CpuSet) {
    for cpu in &mut parts.cpus {
        if fast.contains(cpu.id) {
            cpu.kind = CpuKind::Performance;
        } else if thrifty.contains(cpu.id) {
            cpu.kind = CpuKind::Efficiency;
        }
    }
}

/// Splits the CPUs where their figures jump furthest, if that jump is one between kinds of cores.
///
/// Figures differ by a few per cent between cores of one kind (favoured cores, binning), and by a
/// third or more between kinds: 731 and 997 of 1,024 on an Arm machine, 1.4 and 1.9 GHz on an Intel one.
fn split(
    folder: &Folder,
    online: &CpuSet,
    name: &str,
) -> Result<Option<(CpuSet, CpuSet)>, TopologyError> {
    let mut figures: Vec<(u32, CpuId)> = Vec::new();
    for cpu in online {
        match folder.number(format!("cpu{cpu}/{name}"))? {
            Some(figure) if figure > 0 => figures.push((figure, cpu)),
            _ => return Ok(None),
        }
    }
    figures.sort_unstable();
    let jump = |pair: &[(u32, CpuId)]| f64::from(pair[1].0) / f64::from(pair[0].0);
    let furthest = figures.windows(2).map(jump).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((place, _)) = furthest.filter(|(_, ratio)| *ratio >= 1.2) else { return Ok(None) };
    let (thrifty, fast) = figures.split_at(place + 1);
    let cpus = |half: &[(u32, CpuId)]| half.iter().map(|(_, cpu)| *cpu).collect();
    Ok(Some((cpus(fast), cpus(thrifty))))
}

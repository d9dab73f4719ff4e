//! Performance and efficiency CPUs, told apart by a figure that each has.

use crate::assembly::Parts;
use crate::{CpuId, CpuKind, CpuSet};

/// Gives each CPU in `parts` its kind.
pub(crate) fn set(parts: &mut Parts, fast: &CpuSet, thrifty: &CpuSet) {
    for cpu in &mut parts.cpus {
        if fast.contains(cpu.id) {
            cpu.kind = CpuKind::Performance;
        } else if thrifty.contains(cpu.id) {
            cpu.kind = CpuKind::Efficiency;
        }
    }
}

/// Says which figure it was.
pub(crate) fn note(figure: &str) -> String {
    format!("performance and efficiency CPUs are told apart by {figure}")
}

/// Splits the CPUs into faster and slower ones where their figures jump furthest, if that jump is one between kinds of cores.
///
/// Figures differ by a few per cent between cores of one kind (favoured cores, binning), and by a
/// third or more between kinds: 731 and 997 of 1,024 on an Arm machine, 1.4 and 1.9 GHz on an Intel one.
pub(crate) fn split(mut figures: Vec<(u64, CpuId)>) -> Option<(CpuSet, CpuSet)> {
    figures.sort_unstable();
    let jump = |pair: &[(u64, CpuId)]| pair[1].0 as f64 / pair[0].0 as f64;
    let furthest = figures.windows(2).map(jump).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    let (place, _) = furthest.filter(|(_, ratio)| *ratio >= 1.2)?;
    let (thrifty, fast) = figures.split_at(place + 1);
    let cpus = |half: &[(u64, CpuId)]| half.iter().map(|(_, cpu)| *cpu).collect();
    Some((cpus(fast), cpus(thrifty)))
}

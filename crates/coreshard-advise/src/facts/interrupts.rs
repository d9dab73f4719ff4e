//! Interrupts: allowed CPUs, effective CPUs and counts.

use coreshard_topology::input;
use serde::Serialize;

use super::machine::MaskFacts;
use crate::tree::Tree;

/// Characters kept of a device name.
const NAME_CHARS: usize = 60;

/// An interrupt of a device.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct InterruptFacts {
    /// The number.
    pub number: u32,
    /// The handler's name in `/proc/interrupts`.
    pub name: Option<String>,
    /// Interrupts since boot, on all CPUs.
    pub count: Option<u64>,
    /// The CPUs that may handle it.
    pub allowed: Option<MaskFacts>,
    /// The CPUs that handle it.
    pub effective: Option<MaskFacts>,
    /// The NUMA node of its device.
    pub node: Option<u32>,
}

pub(super) fn read(tree: &Tree) -> Vec<InterruptFacts> {
    let mut numbers: Vec<u32> =
        tree.names("proc/irq").iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut interrupts: Vec<InterruptFacts> = numbers
        .into_iter()
        .map(|number| {
            let file = |name: &str| format!("proc/irq/{number}/{name}");
            InterruptFacts {
                number,
                allowed: tree.list(file("smp_affinity_list")).map(MaskFacts),
                effective: tree.list(file("effective_affinity_list")).map(MaskFacts),
                node: tree.number(file("node")).and_then(|node| u32::try_from(node).ok()),
                ..InterruptFacts::default()
            }
        })
        .collect();
    let Some(table) = tree.table("proc/interrupts") else { return interrupts };
    let mut lines = table.lines();
    let cpus = lines.next().unwrap_or_default().split_whitespace().count();
    for line in lines {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Ok(number) = number.trim().parse::<u32>() else { continue };
        let Ok(at) = interrupts.binary_search_by_key(&number, |it| it.number) else { continue };
        let mut words = rest.split_whitespace();
        let counts: Vec<u64> =
            words.by_ref().take(cpus).map_while(|word| word.parse().ok()).collect();
        if counts.len() < cpus {
            continue;
        }
        interrupts[at].count = Some(counts.iter().fold(0, |sum, count| sum.saturating_add(*count)));
        // The columns are chip, type and handler.
        let name = words.last().map(|name| name.chars().take(NAME_CHARS).collect::<String>());
        interrupts[at].name = name.map(|name| input::plain(&name));
    }
    interrupts
}

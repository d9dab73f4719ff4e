//! Notes that are necessary to interpret the figures.

use coreshard_results::{QueueResults, WakeRatio};
use coreshard_topology::{Pods, Scope};

use super::producer::{FLOOD_SAMPLED_EVERY, ProducerSlot};
use crate::machine::BenchMachine;

/// The pods of one scope.
pub(super) struct Layout {
    pub(super) pods: Pods,
    /// The finest scope of the benchmark with the very same pods.
    pub(super) same_as: Option<String>,
}

impl Layout {
    /// Returns whether two producers share a pool.
    pub(super) fn is_contended(&self, slots: &[ProducerSlot]) -> bool {
        let pod = |slot: &ProducerSlot| self.pods.pod_of(slot.stands_for.unwrap_or(slot.pinned_to));
        slots.iter().enumerate().any(|(at, slot)| {
            let own = pod(slot);
            slots[..at].iter().any(|other| pod(other) == own)
        })
    }

    /// Returns whether a producer's items may run on another CPU than its own.
    pub(super) fn runs_elsewhere(&self, slot: &ProducerSlot) -> bool {
        let pod = self.pods.pod_of(slot.pinned_to).and_then(|pod| self.pods.get(pod));
        slot.stands_for.is_some() || pod.is_none_or(|pod| pod.cpus.len() > 1)
    }
}

/// The pods of all scopes of a benchmark, from fine to coarse.
pub(super) struct Layouts(Vec<Layout>);

impl Layouts {
    pub(super) fn new(pods: Vec<Pods>) -> Self {
        let mut layouts: Vec<Layout> = Vec::new();
        for pods in pods {
            let same = layouts.iter().find(|finer| finer.pods.same_layout(&pods));
            let same_as = same.map(|finer| finer.pods.scope().to_string());
            layouts.push(Layout { pods, same_as });
        }
        Self(layouts)
    }

    pub(super) fn of(&self, scope: Scope) -> &Layout {
        let found = self.0.iter().find(|layout| layout.pods.scope() == scope);
        found.expect("every scope of the benchmark was laid out")
    }

    /// The scopes with the same pods, together; of every scope that has pods of its own, one group.
    fn groups(&self) -> Vec<Vec<&Layout>> {
        let mut groups: Vec<Vec<&Layout>> = Vec::new();
        for layout in &self.0 {
            let same = |group: &&mut Vec<&Layout>| group[0].pods.same_layout(&layout.pods);
            match groups.iter_mut().find(same) {
                Some(group) => group.push(layout),
                None => groups.push(vec![layout]),
            }
        }
        groups
    }

    /// Returns `cache_shard = cache = system here: 1 pod`, for each group of scopes with the same pods.
    fn equal(&self) -> Vec<String> {
        let groups = self.groups().into_iter().filter(|group| group.len() > 1);
        groups
            .map(|group| {
                let names: Vec<&str> =
                    group.iter().map(|layout| layout.pods.scope().name()).collect();
                let pods = counted(group[0].pods.len(), "pod");
                format!("{} here: {pods}", names.join(" = "))
            })
            .collect()
    }

    /// Returns a note for each group of scopes with the same pods, all of which are measured.
    pub(super) fn collapsed(&self) -> Vec<String> {
        let equal = self.equal().into_iter();
        equal.map(|equal| format!("{equal}; they differ by noise alone")).collect()
    }

    /// Returns the finest scope of each group, and a note for each group of which only that one is measured.
    pub(super) fn one_of_each(&self) -> (Vec<Scope>, Vec<String>) {
        let scopes = self.groups().iter().map(|group| group[0].pods.scope()).collect();
        let equal = self.equal().into_iter();
        (scopes, equal.map(|equal| format!("{equal}; measured once")).collect())
    }
}

/// `1 pod`, `2 pods`.
fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Returns the notes that are known before any measurement.
pub(super) fn of(
    machine: &BenchMachine,
    slots: &[ProducerSlot],
    outstanding: Option<u64>,
    layouts: &Layouts,
) -> Vec<String> {
    let mut notes = Vec::new();
    let real = machine.real_cpus().len();
    let producers = counted(slots.len(), "producer");
    if machine.laid_over.is_some() {
        notes.push(format!(
            "virtual topology: {} of {} laid over {}; producers and workers are pinned to the real \
             CPUs in turn, so the figures tell about many pods, and nothing about that machine",
            counted(machine.usable.len(), "virtual CPU"),
            machine.topology.name(),
            counted(real, "real CPU"),
        ));
        if slots.len() < machine.usable.len() {
            notes.push(format!(
                "{producers} stand for {} of the {} virtual CPUs, spread evenly",
                slots.len(),
                machine.usable.len()
            ));
        }
    }
    if slots.len() > real {
        notes.push(format!(
            "{producers} share {}: several are pinned to one, and wait for it as well",
            counted(real, "CPU")
        ));
    }
    if let Some(quota) = machine.cpu_quota {
        notes.push(format!(
            "a quota of {} CPU time limits this process; where it runs out, everything stands still",
            counted_cpus(quota)
        ));
    }
    if let Some(outstanding) = outstanding {
        notes.push(format!(
            "flood: each producer has up to {} in flight; one item of {FLOOD_SAMPLED_EVERY} is timed, \
             throughput counts all",
            counted(usize::try_from(outstanding).unwrap_or(usize::MAX), "item"),
        ));
    }
    notes.extend(layouts.collapsed());
    notes
}

fn counted_cpus(cpus: f64) -> String {
    if cpus == 1.0 { "1 CPU's".to_owned() } else { format!("{cpus:.2} CPUs'") }
}

const ENDED_EARLY: &str = "ended early: ";

/// Returns a note if less was done than planned.
pub(super) fn early_end(done: usize, planned: usize, what: &str) -> Option<String> {
    (done < planned).then(|| format!("{ENDED_EARLY}{done} of {planned} {what}"))
}

pub(super) fn is_of_early_end(note: &str) -> bool {
    note.starts_with(ENDED_EARLY)
}

pub(super) fn was_ended_early(results: &QueueResults) -> bool {
    results.notes.iter().any(|note| is_of_early_end(note))
}

/// Compares after-unlock with under-lock in contended cases, in one sentence for each intake.
pub(super) fn wake_ratios(ratios: &[WakeRatio]) -> Vec<String> {
    let mut pairs: Vec<(&str, &str, &str)> = Vec::new();
    for ratio in ratios.iter().filter(|ratio| ratio.contended) {
        let pair = (ratio.wake.as_str(), ratio.over.as_str(), ratio.intake.as_str());
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let sentence = |(wake, over, intake): (&str, &str, &str)| {
        let of_pair = ratios.iter().filter(|ratio| {
            ratio.contended
                && (ratio.wake.as_str(), ratio.over.as_str(), ratio.intake.as_str())
                    == (wake, over, intake)
        });
        let figures: Vec<String> = of_pair
            .map(|ratio| {
                let hold = ratio
                    .lock_hold_ratio
                    .map_or_else(String::new, |hold| format!(", lock held {hold:.2} ×"));
                let (low, high) = ratio.range();
                // A single run gives no range.
                let is_noise = low <= 1.0 && high >= 1.0 && low < high;
                let noise = if is_noise { ", by noise alone" } else { "" };
                let range =
                    if low < high { format!(" ({low:.2}–{high:.2})") } else { String::new() };
                format!("{} {:.2} ×{range}{noise}{hold}", ratio.scope, ratio.items_per_sec_ratio,)
            })
            .collect();
        format!("{wake} over {over}, {intake}, items/s run by run: {}", figures.join("; "))
    };
    pairs.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coreshard_results::WakeRatio;
    use coreshard_topology::{CpuId, ShardSize, Topology};

    fn layouts(machine: &str) -> Layouts {
        let topology = Topology::from_synthetic(machine).unwrap();
        let pods = |scope| Pods::new(&topology, topology.online(), scope, ShardSize::DEFAULT);
        Layouts::new(Scope::ALL.map(|scope| pods(scope).unwrap()).into())
    }

    fn slots(cpus: &[u32]) -> Vec<ProducerSlot> {
        let slot = |cpu: &u32| ProducerSlot { pinned_to: CpuId(*cpu), stands_for: None };
        cpus.iter().map(slot).collect()
    }

    #[test]
    fn scopes_with_the_same_pods_are_named_together() {
        let small = layouts("pack:1 numa:1 l3:1 core:2 pu:1");
        let notes = small.collapsed();
        assert_eq!(notes.len(), 2);
        assert!(notes[0].starts_with("cpu = smt here: 2 pods"), "{}", notes[0]);
        let coarse = "cache_shard = cache = numa = system here: 1 pod;";
        assert!(notes[1].starts_with(coarse), "{}", notes[1]);
        assert_eq!(small.of(Scope::System).same_as.as_deref(), Some("cache_shard"));
        assert_eq!(small.of(Scope::CacheShard).same_as, None);
        let (scopes, notes) = small.one_of_each();
        assert_eq!(scopes, [Scope::Cpu, Scope::CacheShard]);
        assert_eq!(notes[0], "cpu = smt here: 2 pods; measured once");
        let large = layouts("pack:2 numa:2 l3:2 core:16 pu:2");
        assert_eq!(large.collapsed(), Vec::<String>::new());
        assert_eq!(large.one_of_each(), (Scope::ALL.to_vec(), Vec::new()));
    }

    #[test]
    fn a_scope_is_contended_where_two_producers_share_a_pod() {
        let machine = layouts("pack:1 numa:1 l3:2 core:2 pu:1");
        assert!(!machine.of(Scope::Cpu).is_contended(&slots(&[0, 1, 2, 3])));
        assert!(machine.of(Scope::Cache).is_contended(&slots(&[0, 1, 2, 3])));
        assert!(!machine.of(Scope::Cache).is_contended(&slots(&[0, 2])));
        assert!(machine.of(Scope::System).is_contended(&slots(&[0, 2])));
        assert!(machine.of(Scope::Cpu).is_contended(&slots(&[0, 0])));
    }

    #[test]
    fn the_ratios_of_contended_scopes_make_one_sentence_a_pair() {
        let ratio = |scope: &str, contended| WakeRatio {
            scope: scope.into(),
            intake: "locked".into(),
            wake: "after-unlock".into(),
            over: "under-lock".into(),
            contended,
            items_per_sec_ratio: 1.25,
            items_per_sec_ratio_min: 1.1,
            items_per_sec_ratio_max: 1.5,
            lock_hold_ratio: Some(0.5),
            ..WakeRatio::default()
        };
        let notes = wake_ratios(&[ratio("cpu", false), ratio("cache", true), ratio("numa", true)]);
        assert_eq!(
            notes,
            ["after-unlock over under-lock, locked, items/s run by run: \
              cache 1.25 × (1.10–1.50), lock held 0.50 ×; numa 1.25 × (1.10–1.50), lock held 0.50 ×"]
        );
    }
}

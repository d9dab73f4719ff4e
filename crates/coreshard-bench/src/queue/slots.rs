//! The CPU that each producer is pinned to, and the one that it represents.

use coreshard_topology::{CpuId, CpuSet};

use super::producer::ProducerSlot;

/// Returns one slot on each CPU in turn. With more producers than CPUs, several share one.
pub(super) fn on_own_cpus(producers: usize, cpus: &CpuSet) -> Vec<ProducerSlot> {
    let slot = |cpu| ProducerSlot { pinned_to: cpu, stands_for: None };
    cpus.iter().cycle().take(producers).map(slot).collect()
}

/// Returns slots spread evenly over the virtual CPUs, and over the real ones below them. Virtual CPU `v` lies
/// on the real CPU `v % real`, as in the runtime.
pub(super) fn on_virtual_cpus(
    producers: usize,
    virtual_cpus: &CpuSet,
    real: &CpuSet,
) -> Vec<ProducerSlot> {
    let virtual_cpus: Vec<CpuId> = virtual_cpus.iter().collect();
    let real: Vec<CpuId> = real.iter().collect();
    let stride = virtual_cpus.len() / producers;
    (0..producers)
        .map(|producer| {
            let mut place = producer * virtual_cpus.len() / producers % virtual_cpus.len();
            if stride >= real.len() {
                // A stride that is a multiple of the number of real CPUs would put all on one.
                place = place - place % real.len() + producer % real.len();
            }
            let cpu = virtual_cpus[place.min(virtual_cpus.len() - 1)];
            ProducerSlot { pinned_to: real[cpu.index() % real.len()], stands_for: Some(cpu) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn each_cpu_has_a_producer_before_any_has_two() {
        let pinned = |producers| {
            let slots = on_own_cpus(producers, &set("2,5-6"));
            slots.iter().map(|slot| slot.pinned_to.0).collect::<Vec<_>>()
        };
        assert_eq!(pinned(2), [2, 5]);
        assert_eq!(pinned(3), [2, 5, 6]);
        assert_eq!(pinned(7), [2, 5, 6, 2, 5, 6, 2]);
    }

    #[test]
    fn virtual_slots_spread_over_both_kinds_of_cpu() {
        for (producers, virtual_cpus, real) in
            [(8, 64, 2), (8, 72, 2), (16, 480, 4), (8, 8, 2), (3, 8, 2), (1, 1, 2), (2, 7, 3)]
        {
            let all: CpuSet = (0..virtual_cpus).map(CpuId).collect();
            let below: CpuSet = (10..10 + real).map(CpuId).collect();
            let slots = on_virtual_cpus(producers, &all, &below);
            let stands: CpuSet = slots.iter().filter_map(|slot| slot.stands_for).collect();
            assert_eq!(stands.len(), producers, "{producers} on {virtual_cpus}: {stands}");
            let pinned: CpuSet = slots.iter().map(|slot| slot.pinned_to).collect();
            assert_eq!(pinned.len(), producers.min(real as usize).min(virtual_cpus as usize));
            for slot in slots {
                let cpu = slot.stands_for.unwrap();
                assert_eq!(slot.pinned_to.0, 10 + cpu.0 % real);
            }
        }
    }

    #[test]
    fn more_producers_than_virtual_cpus_share_them() {
        let slots = on_virtual_cpus(9, &set("0-3"), &set("0-1"));
        let stands: CpuSet = slots.iter().filter_map(|slot| slot.stands_for).collect();
        assert_eq!((slots.len(), stands), (9, set("0-3")));
    }
}

//! Costs that a machine's file need not give: each follows from other costs, or from Linux's code.

use std::collections::BTreeMap;

use coreshard_topology::Topology;

use super::costs::{Costs, Ps, SchedulerCosts, VARIATION_AT_PERCENT, Variation};

/// The variation of a machine whose own was not measured. The factors are those of a virtual machine with two CPUs (Xeon, family
/// 6, model 207), by `coreshard calibrate`. A tick of 2 µs at 250 Hz is assumed.
pub(super) const VARIATION: Variation = Variation {
    calls: [810, 940, 1_000, 1_060, 1_220, 1_420],
    exits: [860, 950, 1_000, 1_070, 1_890, 4_300],
    interrupted_every: 4_000_000_000,
    interrupted_for: 2_000_000,
};
const _: () = assert!(VARIATION_AT_PERCENT.len() == 6);

/// `CONFIG` defaults of Linux 6.6 to 6.14: `sysctl_sched_base_slice` of 0.75 ms, times one plus the logarithm of up to eight CPUs.
const BASE_SLICE: Ps = 750_000_000;
const MOST_SCALED_CPUS: usize = 8;

/// Fills in the costs without a source, by key. Returns a key that cannot be derived, and is missing.
pub(super) fn complete(
    topology: &Topology,
    costs: &mut Costs,
    sources: &mut BTreeMap<String, String>,
) -> Option<&'static str> {
    let cycle = costs.cycle;
    let mut derive = |key: &str, place: &mut Ps, cost: Ps, source: &str| {
        let is_missing = !sources.contains_key(key);
        if is_missing {
            *place = cost;
            sources.insert(key.to_owned(), format!("derived: {source}"));
        }
        is_missing
    };
    let atomic = (18 * cycle).max(costs.l1_hit);
    derive("atomic", &mut costs.atomic, atomic, "18 cycles, as published of locked additions");
    derive("clock_read", &mut costs.clock_read, 55 * cycle, "50 to 70 cycles, as published");
    let remote = 2 * costs.memory_local;
    derive(
        "memory_remote",
        &mut costs.memory_remote,
        remote,
        "twice memory_local, as published of servers with two packages",
    );
    derive(
        "futex",
        &mut costs.futex,
        450 * cycle,
        "assumed: 450 cycles to hash, lock a bucket and change its list",
    );
    let create = 45_000 * cycle;
    derive(
        "thread_create",
        &mut costs.thread_create,
        create,
        "assumed: 45,000 cycles; 10 to 24 µs are measured",
    );
    let scale = 1 + topology.cpus().len().clamp(1, MOST_SCALED_CPUS).ilog2();
    derive(
        "slice",
        &mut costs.slice,
        BASE_SLICE * Ps::from(scale),
        "Linux: 0.75 ms times 1 + log2(CPUs, at most 8)",
    );
    let locked = costs.arbitration.map_or(0, |it| it.locked);
    if locked > 0 {
        derive("shared_read", &mut costs.shared_read, locked, "locked_ns");
    }
    let source =
        "assumed: 900 cycles of try_to_wake_up, and 6 lines of the woken thread and its run queue";
    if derive("wake", &mut costs.wake, 900 * cycle, source) {
        costs.scheduler = Some(SchedulerCosts {
            wake_lines: 6,
            scan: 30 * cycle,
            kernel_switch: costs.context_switch / 2,
            kernel_compute: 12 * cycle,
        });
    }
    (!sources.contains_key("shared_read")).then_some("shared_read")
}

//! Helpers that the tests of this folder share.
use coreshard_topology::{CpuSet, Topology};

/// Returns this machine, and its CPUs that this process may use.
pub(crate) fn usable() -> (Topology, CpuSet) {
    let machine = Topology::host().unwrap();
    let cpus = &coreshard_platform::affinity().unwrap() & machine.online();
    (machine, cpus)
}

/// Returns a number from /proc/self/status.
pub(crate) fn status(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

//! The machine for programs.

use coreshard_topology::{CpuKind, Pod, Pods};
use serde::Serialize;
use serde_json::{Map, Value};

use super::view::View;

#[derive(Serialize)]
struct Document<'a> {
    machine: &'a str,
    /// This and the next four count what may be used.
    cpus: usize,
    cores: usize,
    llcs: usize,
    nodes: usize,
    packages: usize,
    /// By scope, finest first.
    scopes: Map<String, Value>,
    model: Option<&'a str>,
    shard_size: usize,
    online: String,
    offline: String,
    usable: String,
    /// Both empty where the kinds are not known.
    performance: String,
    efficiency: String,
    affinity: Option<String>,
    cgroup_cpusets: Vec<String>,
    cpu_quota: Option<f64>,
    worker_limit: usize,
    notes: &'a [String],
    /// What the machine has, usable or not.
    machine_has: Counts,
    memory_only_nodes: Vec<u32>,
}

#[derive(Serialize)]
struct Counts {
    cpus: usize,
    cores: usize,
    llcs: usize,
    nodes: usize,
    packages: usize,
}

#[derive(Serialize)]
struct ScopeEntry {
    pods: Vec<PodEntry>,
}

#[derive(Serialize)]
struct PodEntry {
    id: u32,
    cpus: String,
    node: Option<u32>,
}

pub(super) fn render(view: &View) -> anyhow::Result<String> {
    let topology = view.topology();
    let usable = view.machine.usable.as_ref();
    let whole = &view.machine.whole;
    let mut scopes = Map::new();
    for pods in &view.scopes {
        scopes.insert(pods.scope().name().to_owned(), serde_json::to_value(scope_entry(pods))?);
    }
    let cpusets = usable.map_or(&[][..], |usable| usable.cpusets());
    let document = Document {
        machine: topology.name(),
        cpus: topology.cpus().len(),
        cores: topology.cores(),
        llcs: topology.llcs(),
        nodes: topology.nodes(),
        packages: topology.packages(),
        scopes,
        model: topology.model(),
        shard_size: view.shard_size.cores(),
        online: view.machine.whole.online().to_string(),
        offline: topology.offline().to_string(),
        usable: view.machine.usable_cpus().to_string(),
        performance: view.cpus_of_kind(CpuKind::Performance).to_string(),
        efficiency: view.cpus_of_kind(CpuKind::Efficiency).to_string(),
        affinity: usable.and_then(|usable| usable.affinity()).map(ToString::to_string),
        cgroup_cpusets: cpusets.iter().map(|cpuset| cpuset.cpus.to_string()).collect(),
        cpu_quota: usable.and_then(|usable| usable.quota_cpus()),
        worker_limit: view.machine.worker_limit(),
        notes: &view.notes,
        machine_has: Counts {
            cpus: whole.cpus().len(),
            cores: whole.cores(),
            llcs: whole.llcs(),
            nodes: whole.nodes(),
            packages: whole.packages(),
        },
        memory_only_nodes: topology.memory_only_nodes().iter().map(|node| node.0).collect(),
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn scope_entry(pods: &Pods) -> ScopeEntry {
    let entry = |pod: &Pod| PodEntry {
        id: pod.id.0,
        cpus: pod.cpus.to_string(),
        node: pod.node.map(|node| node.0),
    };
    ScopeEntry { pods: pods.iter().map(entry).collect() }
}

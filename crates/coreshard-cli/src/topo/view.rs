//! The data that all formats show.

use crate::common::{Machine, counted};
use coreshard_topology::{CpuKind, CpuSet, Pod, Pods, Scope, ShardSize, Topology};
use serde_json::{Value, json};

/// The data that all formats show.
pub(super) struct View {
    pub(super) machine: Machine,
    pub(super) shard_size: ShardSize,
    /// In the order of [`Scope::ALL`].
    pub(super) scopes: Vec<Pods>,
    /// Assumptions and corrections, one sentence each.
    pub(super) notes: Vec<String>,
}

impl View {
    pub(super) fn new(machine: Machine, asked_size: Option<usize>) -> anyhow::Result<Self> {
        let shard_size = asked_size.map_or(ShardSize::DEFAULT, ShardSize::new);
        let topology = &machine.topology;
        let lay_out = |scope| Pods::new(topology, topology.online(), scope, shard_size);
        let scopes = Scope::ALL.into_iter().map(lay_out).collect::<Result<Vec<_>, _>>()?;
        let mut view = Self { machine, shard_size, scopes, notes: Vec::new() };
        view.notes = view.gather_notes(asked_size.is_some());
        Ok(view)
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.machine.topology
    }

    pub(super) fn pods(&self, scope: Scope) -> &Pods {
        // Scopes are built in this order, and enum values follow the order of variants.
        &self.scopes[scope as usize]
    }

    pub(super) fn shards(&self) -> &Pods {
        self.pods(Scope::CacheShard)
    }

    /// Returns the title, with the machine's name if it adds information.
    pub(super) fn title(&self) -> String {
        let name = self.topology().name();
        match self.topology().model() {
            Some(model) => format!("{model} ({name})"),
            None => name.to_owned(),
        }
    }

    /// Returns the CPUs of a kind.
    pub(super) fn cpus_of_kind(&self, kind: CpuKind) -> CpuSet {
        let cpus = self.topology().cpus().iter().filter(|cpu| cpu.kind == kind);
        cpus.map(|cpu| cpu.id).collect()
    }

    /// Returns the JSON document.
    pub(super) fn json(&self) -> Value {
        let topology = self.topology();
        let Machine { whole, usable, .. } = &self.machine;
        let usable = usable.as_ref();
        let pod = |pod: &Pod| {
            json!({
                "id": pod.id.0,
                "cpus": pod.cpus.to_string(),
                "node": pod.node.map(|node| node.0),
            })
        };
        let scopes = self.scopes.iter().map(|pods| {
            let all: Vec<Value> = pods.iter().map(pod).collect();
            (pods.scope().name().to_owned(), json!({ "pods": all }))
        });
        let cpusets = usable.map_or(&[][..], |usable| usable.cpusets());
        json!({
            "machine": topology.name(),
            // This and the next four count usable CPUs only.
            "cpus": topology.cpus().len(),
            "cores": topology.cores(),
            "llcs": topology.llcs(),
            "nodes": topology.nodes(),
            "packages": topology.packages(),
            // By scope, finest first.
            "scopes": Value::Object(scopes.collect()),
            "model": topology.model(),
            "shard_size": self.shard_size.cores(),
            "online": whole.online().to_string(),
            "offline": topology.offline().to_string(),
            "usable": self.machine.usable_cpus().to_string(),
            // Both are empty if kinds are unknown.
            "performance": self.cpus_of_kind(CpuKind::Performance).to_string(),
            "efficiency": self.cpus_of_kind(CpuKind::Efficiency).to_string(),
            "affinity": usable.and_then(|usable| usable.affinity()).map(ToString::to_string),
            "cgroup_cpusets": cpusets.iter().map(|set| set.cpus.to_string()).collect::<Vec<_>>(),
            "cpu_quota": usable.and_then(|usable| usable.quota_cpus()),
            "worker_limit": self.machine.worker_limit(),
            "notes": self.notes,
            "machine_has": {
                "cpus": whole.cpus().len(),
                "cores": whole.cores(),
                "llcs": whole.llcs(),
                "nodes": whole.nodes(),
                "packages": whole.packages(),
            },
            "memory_only_nodes":
                topology.memory_only_nodes().iter().map(|node| node.0).collect::<Vec<_>>(),
        })
    }

    fn gather_notes(&self, size_was_asked: bool) -> Vec<String> {
        let mut notes = self.topology().notes().to_vec();
        let largest = self.pods(Scope::Cache).iter().map(|pod| pod.cores).max().unwrap_or(0);
        if size_was_asked && self.shard_size.cores() > largest {
            let cores = counted(largest, "core");
            notes.push(format!(
                "shard size {} exceeds the {cores} of the largest last-level cache: every cache is one shard",
                self.shard_size
            ));
        }
        notes.extend(self.collapses());
        notes
    }

    /// Lists scopes with equal pods, as on machines with few CPUs.
    fn collapses(&self) -> Option<String> {
        let mut groups: Vec<Vec<&Pods>> = Vec::new();
        for pods in &self.scopes {
            match groups.last_mut() {
                Some(group) if group[0].same_layout(pods) => group.push(pods),
                _ => groups.push(vec![pods]),
            }
        }
        let equal = groups.iter().filter(|group| group.len() > 1).map(|group| {
            let names: Vec<&str> = group.iter().map(|pods| pods.scope().name()).collect();
            format!("{} ({})", names.join(" = "), counted(group[0].len(), "pod"))
        });
        let equal: Vec<String> = equal.collect();
        (!equal.is_empty()).then(|| format!("scopes with the same pods here: {}", equal.join(", ")))
    }
}

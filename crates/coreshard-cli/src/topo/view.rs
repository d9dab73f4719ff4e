//! What of a machine is shown, in any format.

use coreshard_topology::{CpuKind, CpuSet, Pods, Scope, ShardSize, Topology};

use crate::machine::Machine;

/// What is shown, in any format.
pub(super) struct View {
    pub(super) machine: Machine,
    pub(super) shard_size: ShardSize,
    /// In the order of [`Scope::ALL`].
    pub(super) scopes: Vec<Pods>,
    /// What was assumed or corrected, one sentence each.
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
        // Scopes are laid out in this order, and an enum's numbers are in the order of its variants.
        &self.scopes[scope as usize]
    }

    pub(super) fn shards(&self) -> &Pods {
        self.pods(Scope::CacheShard)
    }

    /// The title of the machine, and its name where that says more.
    pub(super) fn title(&self) -> String {
        let name = self.topology().name();
        match self.topology().model() {
            Some(model) => format!("{model} ({name})"),
            None => name.to_owned(),
        }
    }

    /// The CPUs of a kind.
    pub(super) fn cpus_of_kind(&self, kind: CpuKind) -> CpuSet {
        let cpus = self.topology().cpus().iter().filter(|cpu| cpu.kind == kind);
        cpus.map(|cpu| cpu.id).collect()
    }

    fn gather_notes(&self, size_was_asked: bool) -> Vec<String> {
        let mut notes = self.topology().notes().to_vec();
        let largest = self.pods(Scope::Cache).iter().map(|pod| pod.cores).max().unwrap_or(0);
        if size_was_asked && self.shard_size.cores() > largest {
            let cores = if largest == 1 { "1 core".to_owned() } else { format!("{largest} cores") };
            notes.push(format!(
                "shard size {} is beyond the {cores} of the largest last-level cache: every cache is one shard",
                self.shard_size
            ));
        }
        notes.extend(self.collapses());
        notes
    }

    /// Scopes that come to the same pods, as on machines with few CPUs.
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

/// `1 pod`, `2 pods`.
pub(super) fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

//! Pods: the CPUs of a machine, divided by an affinity scope.
//!
//! **What a pod is, and why pods nest.** A *cell* is the part of one last-level cache (LLC) that lies
//! on one NUMA node. On most machines every LLC lies on one node, and a cell is simply the LLC. If
//! an LLC spans nodes, as an Intel L3 does under sub-NUMA clustering, the cell is cut at the node's
//! border; so does the Linux scheduler when it decides which CPUs share a cache (`match_llc` in
//! `arch/x86/kernel/smpboot.c`, `cpu_coregroup_mask` in `drivers/base/arch_topology.c`). Then
//!
//! | scope | a pod is |
//! |---|---|
//! | cpu | one CPU |
//! | smt | one core |
//! | cache_shard | part of one cell, see [`ShardSize`] |
//! | cache | one cell |
//! | numa | one node; CPUs whose node is unknown form one pod of their own |
//! | system | all CPUs |
//!
//! and each pod lies within one pod of every coarser scope. A core always lies in one cell, because
//! [`Topology`] gives all its CPUs one LLC and one node.
//!
//! **What a shard keeps together.** A shard has cores of one kind: otherwise the same item takes twice as long on an
//! efficiency core as on a performance core, without an apparent reason. It also does not split a cluster, which is a
//! group of cores with a common L2 cache, unless the cluster has more cores than a shard should have. Linux has neither
//! rule.
//!
//! **The mask comes first.** Pods are laid out over the CPUs of the mask as if there were no others. A process confined
//! to 12 cores of an LLC gets shards of 6 and 6 cores, not the remains of larger ones.
//!
//! **Cost.** Two passes over the CPUs of the mask and one over their cores, for any scope.

use std::collections::HashMap;
use std::fmt;

use crate::{
    CoreId, Cpu, CpuId, CpuKind, CpuSet, LlcId, NodeId, PodId, Scope, ShardSize, Topology,
    TopologyError,
};

/// The CPUs that share one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pod {
    /// The index in [`Pods`].
    pub id: PodId,
    /// The CPUs; never empty.
    pub cpus: CpuSet,
    /// The number of cores with CPUs in the pod.
    pub cores: usize,
    /// The common node of all CPUs; `None` if they are on several nodes, or one is unknown.
    pub node: Option<NodeId>,
}

impl fmt::Display for Pod {
    /// Formats index and CPU list, as in `3 24-31`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.cpus)
    }
}

/// The pods of one scope over the CPUs of a mask.
///
/// ```
/// use coreshard_topology::{CpuId, Pods, Scope, ShardSize, Topology};
///
/// let grace = Topology::from_synthetic("pack:1 numa:1 l3:1 core:72 pu:1")?;
/// let shards = Pods::new(&grace, grace.online(), Scope::CacheShard, ShardSize::DEFAULT)?;
/// assert_eq!(shards.len(), 9);
/// let pod = shards.pod_of(CpuId(70)).and_then(|id| shards.get(id)).expect("CPU 70 is online");
/// assert_eq!(pod.cpus.to_string(), "64-71");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pods {
    scope: Scope,
    pods: Vec<Pod>,
    /// By CPU number; `None` outside the mask.
    pod_of: Vec<Option<PodId>>,
}

impl Pods {
    /// Divides the CPUs of `mask` into pods. `shard_size` is used only for [`Scope::CacheShard`].
    ///
    /// Pods are numbered by their lowest CPU. Shards are numbered by the lowest CPU of their cell, then by their
    /// position in the cell.
    ///
    /// # Errors
    /// If the mask is empty, or holds a CPU that is not online in `topology`.
    pub fn new(
        topology: &Topology,
        mask: &CpuSet,
        scope: Scope,
        shard_size: ShardSize,
    ) -> Result<Self, PodsError> {
        if mask.is_empty() {
            return Err(PodsError { text: TopologyError::empty_mask().to_string() });
        }
        let (missing, online) = (mask - topology.online(), topology.online());
        if !missing.is_empty() {
            let text =
                format!("invalid CPU mask: {missing} is not online, expected CPUs of {online}");
            return Err(PodsError { text });
        }
        let mut layout = Layout::new(topology, mask, scope);
        match scope {
            Scope::Cpu => layout.by(|cpu| cpu.id),
            Scope::Smt => layout.by(|cpu| cpu.core),
            Scope::CacheShard => layout.by_shard(shard_size),
            Scope::Cache => layout.by(cell),
            Scope::Numa => layout.by(|cpu| cpu.node),
            Scope::System => layout.by(|_| ()),
        }
        Ok(layout.pods)
    }

    /// Returns the scope of these pods.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the number of pods, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "masks and pods are never empty")]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Returns the pods, by ID.
    pub fn iter(&self) -> std::slice::Iter<'_, Pod> {
        self.pods.iter()
    }

    /// Returns the pod with this ID.
    pub fn get(&self, id: PodId) -> Option<&Pod> {
        self.pods.get(id.index())
    }

    /// Returns the pod of a CPU; `None` outside the mask. Costs one table lookup.
    pub fn pod_of(&self, cpu: CpuId) -> Option<PodId> {
        self.pod_of.get(cpu.index()).copied().flatten()
    }

    /// Returns true if both divide the same CPUs into the same pods, even for different scopes. On small machines
    /// several scopes have the same layout.
    pub fn same_layout(&self, other: &Self) -> bool {
        self.pods == other.pods
    }
}

impl<'a> IntoIterator for &'a Pods {
    type Item = &'a Pod;
    type IntoIter = std::slice::Iter<'a, Pod>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The part of an LLC on one node.
type Cell = (LlcId, Option<NodeId>);

const fn cell(cpu: &Cpu) -> Cell {
    (cpu.llc, cpu.node)
}

/// The cores of one kind in a cell, by cluster, in order of appearance.
#[derive(Default)]
struct Group {
    place_of_cluster: HashMap<u32, usize>,
    clusters: Vec<Vec<CoreId>>,
}

impl Group {
    fn add(&mut self, cpu: &Cpu) {
        let place = *self.place_of_cluster.entry(cpu.cluster).or_insert_with(|| {
            self.clusters.push(Vec::new());
            self.clusters.len() - 1
        });
        self.clusters[place].push(cpu.core);
    }

    /// Returns the units that a shard does not split: clusters, and the cores of clusters larger than a shard.
    fn units(self, size: ShardSize) -> Vec<Vec<CoreId>> {
        let mut units = Vec::new();
        for cluster in self.clusters {
            if cluster.len() > size.cores() {
                units.extend(cluster.into_iter().map(|core| vec![core]));
            } else {
                units.push(cluster);
            }
        }
        units
    }
}

/// Pods during layout.
struct Layout<'a> {
    topology: &'a Topology,
    mask: &'a CpuSet,
    /// By core ID: true after one of its CPUs was placed. A core has CPUs in one pod only, except in the scope `cpu`,
    /// whose pods each count it.
    core_seen: Vec<bool>,
    pods: Pods,
}

impl<'a> Layout<'a> {
    fn new(topology: &'a Topology, mask: &'a CpuSet, scope: Scope) -> Self {
        let numbers = mask.last().map_or(0, |cpu| cpu.index() + 1);
        let pods = Pods { scope, pods: Vec::new(), pod_of: vec![None; numbers] };
        Self { topology, mask, core_seen: vec![false; topology.cores()], pods }
    }

    /// Returns the CPUs of the mask in ascending order.
    fn cpus(&self) -> impl Iterator<Item = &'a Cpu> + use<'a> {
        let topology = self.topology;
        self.mask.iter().filter_map(move |id| topology.cpu(id))
    }

    /// Makes a pod for each value of `key`, in order of appearance.
    fn by<K: std::hash::Hash + Eq>(&mut self, key: impl Fn(&Cpu) -> K) {
        let mut pod_of_key = HashMap::new();
        for cpu in self.cpus() {
            let pod = *pod_of_key.entry(key(cpu)).or_insert_with(|| self.new_pod());
            self.place(cpu, pod);
        }
    }

    /// Makes the shards: by cell, then by kind of core, then by unit, then by core.
    fn by_shard(&mut self, size: ShardSize) {
        let mut place_of_group: HashMap<(Cell, CpuKind), usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut seen = vec![false; self.topology.cores()];
        for cpu in self.cpus() {
            if std::mem::replace(&mut seen[cpu.core.index()], true) {
                continue;
            }
            let place = *place_of_group.entry((cell(cpu), cpu.kind)).or_insert_with(|| {
                groups.push(Group::default());
                groups.len() - 1
            });
            groups[place].add(cpu);
        }

        let mut pod_of_core: Vec<Option<PodId>> = vec![None; self.topology.cores()];
        for group in groups {
            let units = group.units(size);
            let sizes: Vec<usize> = units.iter().map(Vec::len).collect();
            let mut rest = units.into_iter();
            for shard_units in size.divide_units(&sizes) {
                let pod = self.new_pod();
                for core in rest.by_ref().take(shard_units).flatten() {
                    pod_of_core[core.index()] = Some(pod);
                }
            }
        }

        for cpu in self.cpus() {
            let pod = pod_of_core[cpu.core.index()];
            self.place(cpu, pod.expect("the shards of a group contain all its cores"));
        }
    }

    fn new_pod(&mut self) -> PodId {
        let id = u32::try_from(self.pods.pods.len()).map(PodId);
        let id = id.expect("there are no more pods than CPUs, whose numbers are u32");
        self.pods.pods.push(Pod { id, cpus: CpuSet::new(), cores: 0, node: None });
        id
    }

    fn place(&mut self, cpu: &crate::Cpu, id: PodId) {
        let pod = &mut self.pods.pods[id.index()];
        pod.node = if pod.cpus.is_empty() || pod.node == cpu.node { cpu.node } else { None };
        pod.cpus.insert(cpu.id);
        let core_is_new = !std::mem::replace(&mut self.core_seen[cpu.core.index()], true);
        pod.cores += usize::from(core_is_new || self.pods.scope == Scope::Cpu);
        self.pods.pod_of[cpu.id.index()] = Some(id);
    }
}

/// Why pods could not be laid out.
#[derive(Clone, PartialEq, Eq)]
pub struct PodsError {
    text: String,
}

impl fmt::Display for PodsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

crate::readable_debug!(PodsError);

impl std::error::Error for PodsError {}

#[cfg(test)]
mod tests;

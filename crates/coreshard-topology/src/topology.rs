//! A machine: its CPUs, and the core, cache, node and package each belongs to.

use crate::{CoreId, CpuId, CpuSet, LlcId, NodeId, PackageId};

/// What a CPU was built for, where the source says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuKind {
    /// All CPUs are alike, or the source does not tell.
    #[default]
    Unknown,
    /// One of the faster CPUs of a machine with several kinds.
    Performance,
    /// One of the thriftier CPUs of a machine with several kinds.
    Efficiency,
}

/// One hardware thread that is online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpu {
    /// The kernel's number.
    pub id: CpuId,
    /// Its core. All CPUs of a core have the same `llc`, `node` and `package`.
    pub core: CoreId,
    /// Its last-level cache.
    pub llc: LlcId,
    /// Its NUMA node, where known.
    pub node: Option<NodeId>,
    /// Its package.
    pub package: PackageId,
    /// Performance or efficiency, where known.
    pub kind: CpuKind,
    /// Equal for the cores that share an L2 cache, as the efficiency cores of some machines do; else its core's own.
    pub(crate) cluster: u32,
    /// The number that firmware gave its core, unique within a package or a die at most.
    pub os_core: Option<u32>,
    /// The number that firmware gave its package.
    pub os_package: Option<u32>,
}

/// One last-level cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Llc {
    /// Its number.
    pub id: LlcId,
    /// 3 for an L3. `None` where the source tells of no cache, and the package stands in for it.
    pub level: Option<u32>,
    /// Its size, where known.
    pub size_bytes: Option<u64>,
    /// The CPUs online that share it.
    pub cpus: CpuSet,
}

/// A machine. Immutable, and plain data: nothing in it refers to the machine this runs on.
///
/// ```
/// use coreshard_topology::{CpuId, Topology};
///
/// let machine = Topology::from_synthetic("pack:2 numa:1 l3:2 core:4 pu:2")?;
/// assert_eq!((machine.cpus().len(), machine.cores(), machine.llcs()), (32, 16, 4));
/// let cpu = machine.cpu(CpuId(9)).expect("CPU 9 is online");
/// assert_eq!((cpu.core.0, cpu.llc.0, cpu.package.0), (4, 1, 0));
/// # Ok::<(), coreshard_topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub(crate) name: String,
    pub(crate) model: Option<String>,
    /// Ascending by id.
    pub(crate) cpus: Vec<Cpu>,
    /// By CPU number, the place in `cpus`.
    pub(crate) place_of: Vec<Option<u32>>,
    pub(crate) online: CpuSet,
    pub(crate) offline: CpuSet,
    pub(crate) cores: usize,
    pub(crate) llcs: Vec<Llc>,
    /// Ascending.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) memory_only_nodes: Vec<NodeId>,
    pub(crate) packages: usize,
    pub(crate) notes: Vec<String>,
    pub(crate) is_described: bool,
}

impl Topology {
    /// What it was made from: `host`, a preset's name, a synthetic string, a file's or folder's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// False where nothing but the CPUs is known; see [`host`](Self::host).
    #[must_use]
    pub const fn is_described(&self) -> bool {
        self.is_described
    }

    /// The processor's model, or a preset's title, where known.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The CPUs online, ascending by id.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The CPU of an id, if it is online. One load from a table.
    #[must_use]
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        let place = self.place_of.get(id.index()).copied().flatten()?;
        self.cpus.get(place as usize)
    }

    /// The CPUs online, as a set. Never empty.
    #[must_use]
    pub const fn online(&self) -> &CpuSet {
        &self.online
    }

    /// The CPUs that are there, or were listed, but are not online.
    #[must_use]
    pub const fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// The number of cores with a CPU online.
    #[must_use]
    pub const fn cores(&self) -> usize {
        self.cores
    }

    /// The number of last-level caches.
    #[must_use]
    pub fn llcs(&self) -> usize {
        self.llcs.len()
    }

    /// The last-level cache of an id.
    #[must_use]
    pub fn llc(&self, id: LlcId) -> Option<&Llc> {
        self.llcs.get(id.index())
    }

    /// The number of NUMA nodes that have CPUs online; 0 where no node is known.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The NUMA nodes that have CPUs online, ascending.
    #[must_use]
    pub fn node_ids(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The NUMA nodes that have memory and no CPU of their own, such as high-bandwidth or CXL memory.
    #[must_use]
    pub fn memory_only_nodes(&self) -> &[NodeId] {
        &self.memory_only_nodes
    }

    /// The number of packages.
    #[must_use]
    pub const fn packages(&self) -> usize {
        self.packages
    }

    /// What was missing or contradictory in the source, and what was assumed instead; one sentence
    /// each, to be shown to people.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The CPUs online on a node.
    #[must_use]
    pub fn cpus_of_node(&self, node: NodeId) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.node == Some(node)).map(|cpu| cpu.id).collect()
    }

    /// The CPUs online of a core.
    #[must_use]
    pub fn cpus_of_core(&self, core: CoreId) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.core == core).map(|cpu| cpu.id).collect()
    }
}

//! A machine: its CPUs, with the core, cache, node and package of each, built from a source's data about each CPU
//! ([`Parts`]).
//!
//! Sources contradict themselves: firmware tables have errors, and virtual machines invent topologies. The rest of
//! Coreshard relies on three rules. They are enforced here, and every correction is noted:
//!
//! 1. CPU numbers are unique and ascending.
//! 2. All CPUs of a core have one LLC, one node and one package, given by its lowest CPU.
//! 3. Core, LLC and package numbers are dense, each in the order of its lowest CPU.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::input::plain;
use crate::{CoreId, CpuId, CpuSet, LlcId, NodeId, PackageId, TopologyError};

/// The kind of a CPU, if known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuKind {
    /// All CPUs are alike, or the source does not say.
    #[default]
    Unknown,
    /// One of the faster CPUs of a hybrid machine.
    Performance,
    /// One of the more efficient CPUs of a hybrid machine.
    Efficiency,
}

/// An online hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpu {
    /// The kernel's CPU number.
    pub id: CpuId,
    /// The core. All CPUs of a core have the same `llc`, `node` and `package`.
    pub core: CoreId,
    /// The last-level cache.
    pub llc: LlcId,
    /// The NUMA node, if known.
    pub node: Option<NodeId>,
    /// The package.
    pub package: PackageId,
    /// Performance or efficiency, if known.
    pub kind: CpuKind,
    /// Equal for cores that share an L2 cache, such as efficiency cores of some machines; otherwise unique to the core.
    pub(crate) cluster: u32,
    /// The firmware's number of the core, unique at most within a package or die.
    pub os_core: Option<u32>,
    /// The firmware's number of the package.
    pub os_package: Option<u32>,
}

/// A last-level cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Llc {
    /// The number.
    pub id: LlcId,
    /// The level, such as 3 for an L3. `None` if the source has no cache and the package replaces it.
    pub level: Option<u32>,
    /// The size in bytes, if known.
    pub size_bytes: Option<u64>,
    /// The online CPUs that share it.
    pub cpus: CpuSet,
}

/// A machine. Immutable plain data, independent of the machine this runs on.
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
    name: String,
    model: Option<String>,
    /// Ascending by ID.
    cpus: Vec<Cpu>,
    /// Index in `cpus` by CPU number.
    place_of: Vec<Option<u32>>,
    online: CpuSet,
    offline: CpuSet,
    cores: usize,
    llcs: Vec<Llc>,
    /// Ascending.
    nodes: Vec<NodeId>,
    memory_only_nodes: Vec<NodeId>,
    packages: usize,
    notes: Vec<String>,
    is_described: bool,
}

impl Topology {
    /// Returns the source: `host`, a preset's name, a synthetic string, or a file or folder name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns false if nothing but the CPUs is known; see [`host`](Self::host).
    pub const fn is_described(&self) -> bool {
        self.is_described
    }

    /// Returns the processor's model or a preset's title, if known.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns the online CPUs, ascending by ID.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// Returns the CPU with this ID, if it is online. Costs one table lookup.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        let place = self.place_of.get(id.index()).copied().flatten()?;
        self.cpus.get(place as usize)
    }

    /// Returns the online CPUs as a set. Never empty.
    pub const fn online(&self) -> &CpuSet {
        &self.online
    }

    /// Returns the CPUs that exist or were listed, but are not online.
    pub const fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// Returns the number of cores with an online CPU.
    pub const fn cores(&self) -> usize {
        self.cores
    }

    /// Returns the number of last-level caches.
    pub fn llcs(&self) -> usize {
        self.llcs.len()
    }

    /// Returns the last-level cache with this ID.
    pub fn llc(&self, id: LlcId) -> Option<&Llc> {
        self.llcs.get(id.index())
    }

    /// Returns the number of NUMA nodes with online CPUs; 0 if no node is known.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the NUMA nodes with online CPUs, ascending.
    pub fn node_ids(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns the NUMA nodes with memory and without CPUs, such as high-bandwidth or CXL memory.
    pub fn memory_only_nodes(&self) -> &[NodeId] {
        &self.memory_only_nodes
    }

    /// Returns the number of packages.
    pub const fn packages(&self) -> usize {
        self.packages
    }

    /// Returns notes on gaps and contradictions in the source and on assumptions, one sentence each, for display.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the online CPUs of a node.
    pub fn cpus_of_node(&self, node: NodeId) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.node == Some(node)).map(|cpu| cpu.id).collect()
    }

    /// Returns the online CPUs of a core.
    pub fn cpus_of_core(&self, core: CoreId) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.core == core).map(|cpu| cpu.id).collect()
    }

    pub(crate) fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    #[cfg(feature = "presets")]
    pub(crate) fn set_model(&mut self, model: String) {
        self.model = Some(model);
    }

    /// Creates a machine from CPUs alone: each is a core, and all are in one package with one last-level cache. `why`
    /// is added to the notes.
    ///
    /// # Errors
    /// If there is no CPU.
    pub fn of_cpus(cpus: &CpuSet, why: impl Into<String>) -> Result<Self, TopologyError> {
        let mut parts = Parts::new("unknown".to_owned());
        parts.notes.push(why.into());
        parts.is_described = false;
        parts.cpus.extend(cpus.iter().map(RawCpu::of));
        parts.assemble()
    }

    /// Returns the machine reduced to some of its CPUs. Cores, caches and packages without CPUs are removed, and the
    /// others are renumbered densely. CPU and node numbers do not change.
    ///
    /// # Errors
    ///
    /// If the mask is empty, or contains a CPU that is not online here.
    pub fn restrict(&self, mask: &CpuSet) -> Result<Self, TopologyError> {
        if mask.is_empty() {
            return Err(TopologyError::empty_mask());
        }
        let missing = mask - &self.online;
        if !missing.is_empty() {
            return Err(TopologyError::unknown_cpus(&self.name, &missing, &self.online));
        }
        let mut parts = Parts::new(self.name.clone());
        parts.model.clone_from(&self.model);
        parts.offline = self.offline.clone();
        parts.notes.clone_from(&self.notes);
        parts.is_described = self.is_described;
        // They have no CPUs to lose.
        parts.nodes.extend(&self.memory_only_nodes);
        for llc in &self.llcs {
            parts.caches.insert(u64::from(llc.id.0), (llc.level, llc.size_bytes));
        }
        let kept = self.cpus.iter().filter(|cpu| mask.contains(cpu.id));
        parts.cpus.extend(kept.map(|cpu| RawCpu {
            id: cpu.id,
            core: u64::from(cpu.core.0),
            llc: u64::from(cpu.llc.0),
            node: cpu.node,
            package: u64::from(cpu.package.0),
            kind: cpu.kind,
            cluster: Some(u64::from(cpu.cluster)),
            os_core: cpu.os_core,
            os_package: cpu.os_package,
        }));
        parts.assemble()
    }
}

/// Maximum number of notes on CPUs that contradict others of their core.
const MAX_CORE_NOTES: usize = 16;

/// A CPU as its source describes it. `core`, `llc` and `package` are arbitrary numbers, equal for the CPUs that share
/// the object.
#[derive(Clone, Debug)]
pub(crate) struct RawCpu {
    pub(crate) id: CpuId,
    pub(crate) core: u64,
    pub(crate) llc: u64,
    pub(crate) node: Option<NodeId>,
    pub(crate) package: u64,
    pub(crate) kind: CpuKind,
    /// Like `core`, for cores that share an L2 cache; `None` if the source has no such cache.
    pub(crate) cluster: Option<u64>,
    pub(crate) os_core: Option<u32>,
    pub(crate) os_package: Option<u32>,
}

impl RawCpu {
    /// Returns an unknown CPU: a core by itself, in the first package, with the first cache.
    pub(crate) fn of(id: CpuId) -> Self {
        Self {
            id,
            core: u64::from(id.0),
            llc: 0,
            node: None,
            package: 0,
            kind: CpuKind::Unknown,
            cluster: None,
            os_core: None,
            os_package: None,
        }
    }
}

/// A machine as its source describes it.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) model: Option<String>,
    pub(crate) cpus: Vec<RawCpu>,
    pub(crate) offline: CpuSet,
    /// All nodes, so that those without CPUs can be listed.
    pub(crate) nodes: BTreeSet<NodeId>,
    /// Level and size in bytes by `llc` of [`RawCpu`].
    pub(crate) caches: HashMap<u64, (Option<u32>, Option<u64>)>,
    pub(crate) notes: Vec<String>,
    /// False if nothing but the CPUs is known.
    pub(crate) is_described: bool,
}

impl Parts {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            model: None,
            cpus: Vec::new(),
            offline: CpuSet::new(),
            nodes: BTreeSet::new(),
            caches: HashMap::new(),
            notes: Vec::new(),
            is_described: true,
        }
    }

    /// Adds a note about these CPUs, if there are any.
    pub(crate) fn note_cpus(&mut self, cpus: &CpuSet, note: &str) {
        if !cpus.is_empty() {
            let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
            self.notes.push(format!("{noun} {} {note}", plain(&cpus.to_string())));
        }
    }

    /// Sets the kinds of CPUs.
    pub(crate) fn set_kinds(&mut self, fast: &CpuSet, thrifty: &CpuSet) {
        for cpu in &mut self.cpus {
            if fast.contains(cpu.id) {
                cpu.kind = CpuKind::Performance;
            } else if thrifty.contains(cpu.id) {
                cpu.kind = CpuKind::Efficiency;
            }
        }
    }

    /// Splits the CPUs into faster and slower ones at the largest jump between their figures, if it is large enough.
    /// Adds a note with `name`, the figure. Returns whether there are two kinds.
    ///
    /// Figures differ by a few percent between cores of one kind (favoured cores, binning), and by a third or more
    /// between kinds: 731 and 997 of 1,024 on an Arm machine, 1.4 and 1.9 GHz on an Intel one.
    pub(crate) fn split_kinds(&mut self, mut figures: Vec<(u64, CpuId)>, name: &str) -> bool {
        figures.sort_unstable();
        let jump = |pair: &[(u64, CpuId)]| pair[1].0 as f64 / pair[0].0 as f64;
        let furthest = figures.windows(2).map(jump).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((place, _)) = furthest.filter(|(_, ratio)| *ratio >= 1.2) else { return false };
        let (thrifty, fast) = figures.split_at(place + 1);
        let cpus = |half: &[(u64, CpuId)]| half.iter().map(|(_, cpu)| *cpu).collect();
        self.set_kinds(&cpus(fast), &cpus(thrifty));
        self.notes.push(format!("performance and efficiency CPUs are distinguished by {name}"));
        true
    }

    /// # Errors
    ///
    /// If there is no CPU, or one occurs twice.
    pub(crate) fn assemble(mut self) -> Result<Topology, TopologyError> {
        self.cpus.sort_by_key(|cpu| cpu.id);
        if let Some(twice) = self.cpus.windows(2).find(|pair| pair[0].id == pair[1].id) {
            let problem = format!("CPU {} occurs twice", twice[0].id);
            return Err(TopologyError::malformed(&self.name, problem));
        }
        let Some(highest) = self.cpus.last().map(|cpu| cpu.id) else {
            return Err(TopologyError::malformed(&self.name, "no CPU is online"));
        };
        self.unite_cores();
        self.note_caches_that_span_nodes();

        let (mut cores, mut llcs, mut packages) = (Dense::new(), Dense::new(), Dense::new());
        let mut clusters = Dense::new();
        let mut place_of = vec![None; highest.index() + 1];
        let mut cpus = Vec::with_capacity(self.cpus.len());
        for (place, raw) in (0_u32..).zip(&self.cpus) {
            place_of[raw.id.index()] = Some(place);
            cpus.push(Cpu {
                id: raw.id,
                core: CoreId(cores.number(raw.core)),
                llc: LlcId(llcs.number(raw.llc)),
                node: raw.node,
                package: PackageId(packages.number(raw.package)),
                kind: raw.kind,
                // A core without a cluster has a key that no cluster has.
                cluster: clusters.number(raw.cluster.unwrap_or(!raw.core)),
                os_core: raw.os_core,
                os_package: raw.os_package,
            });
        }
        let online: CpuSet = cpus.iter().map(|cpu| cpu.id).collect();
        let nodes: BTreeSet<NodeId> = cpus.iter().filter_map(|cpu| cpu.node).collect();
        Ok(Topology {
            llcs: self.llcs(&llcs, &cpus),
            name: self.name,
            model: self.model,
            place_of,
            offline: &self.offline - &online,
            online,
            cores: cores.len(),
            memory_only_nodes: self.nodes.difference(&nodes).copied().collect(),
            nodes: nodes.into_iter().collect(),
            packages: packages.len(),
            notes: self.notes,
            is_described: self.is_described,
            cpus,
        })
    }

    /// Sets the LLC, node and package of all CPUs of a core to the values of its lowest CPU.
    fn unite_cores(&mut self) {
        let mut lowest: HashMap<u64, RawCpu> = HashMap::new();
        let mut corrected = 0_usize;
        for cpu in &mut self.cpus {
            let first = lowest.entry(cpu.core).or_insert_with(|| cpu.clone());
            let mut differences = Vec::new();
            if cpu.llc != first.llc {
                differences.push("last-level cache");
            }
            if cpu.node != first.node {
                differences.push("NUMA node");
            }
            if cpu.package != first.package {
                differences.push("package");
            }
            if !differences.is_empty() {
                corrected += 1;
                if corrected <= MAX_CORE_NOTES {
                    self.notes.push(format!(
                        "CPUs {} and {} are one core but differ in {}; the value of CPU {0} is used for both",
                        first.id,
                        cpu.id,
                        differences.join(" and ")
                    ));
                }
                (cpu.llc, cpu.node, cpu.package) = (first.llc, first.node, first.package);
            }
            cpu.cluster = first.cluster;
        }
        if corrected > MAX_CORE_NOTES {
            let more = corrected - MAX_CORE_NOTES;
            self.notes.push(format!("{more} more pairs of CPUs of one core also differ"));
        }
    }

    fn note_caches_that_span_nodes(&mut self) {
        let mut nodes_of: BTreeMap<u64, BTreeSet<Option<NodeId>>> = BTreeMap::new();
        for cpu in &self.cpus {
            nodes_of.entry(cpu.llc).or_default().insert(cpu.node);
        }
        let spanning = nodes_of.values().filter(|nodes| nodes.len() > 1).count();
        let note = format!(
            "{spanning} of {} last-level caches span NUMA nodes; cache pods are cut at the node's border",
            nodes_of.len()
        );
        self.notes.retain(|old| !old.ends_with("cache pods are cut at the node's border"));
        if spanning > 0 {
            self.notes.push(note);
        }
    }

    fn llcs(&self, numbers: &Dense, cpus: &[Cpu]) -> Vec<Llc> {
        let mut llcs: Vec<Llc> = (0_u32..)
            .zip(&numbers.keys)
            .map(|(number, key)| {
                let (level, size_bytes) = self.caches.get(key).copied().unwrap_or((None, None));
                Llc { id: LlcId(number), level, size_bytes, cpus: CpuSet::new() }
            })
            .collect();
        for cpu in cpus {
            llcs[cpu.llc.index()].cpus.insert(cpu.id);
        }
        llcs
    }
}

/// Assigns dense numbers to keys, in order of appearance.
struct Dense {
    number_of: HashMap<u64, u32>,
    keys: Vec<u64>,
}

impl Dense {
    fn new() -> Self {
        Self { number_of: HashMap::new(), keys: Vec::new() }
    }

    fn number(&mut self, key: u64) -> u32 {
        let Self { number_of, keys } = self;
        *number_of.entry(key).or_insert_with(|| {
            keys.push(key);
            u32::try_from(keys.len() - 1).expect("there are no more keys than CPUs")
        })
    }

    fn len(&self) -> usize {
        self.keys.len()
    }
}

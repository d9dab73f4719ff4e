//! A machine: its CPUs, and the core, cache, node and package each belongs to; and how it is made of what a source says about
//! each CPU ([`Parts`]).
//!
//! Sources contradict themselves: firmware tables are wrong, virtual machines make topologies up.
//! The rest of Coreshard relies on three rules. They are made true here, once, and every correction is noted:
//! 1. CPU numbers are unique and ascending;
//! 2. all CPUs of a core have one LLC, one node and one package (those of its lowest CPU);
//! 3. core, LLC and package numbers are dense, each in the order of its lowest CPU.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::input::plain;
use crate::{CoreId, CpuId, CpuSet, LlcId, NodeId, PackageId, TopologyError};

/// The kind of a CPU, if the source says it.
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
    /// Its NUMA node, if known.
    pub node: Option<NodeId>,
    /// Its package.
    pub package: PackageId,
    /// Performance or efficiency, if known.
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
    /// 3 for an L3. `None` if the source tells of no cache, and the package stands in for it.
    pub level: Option<u32>,
    /// Its size, if known.
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
    name: String,
    model: Option<String>,
    /// Ascending by id.
    cpus: Vec<Cpu>,
    /// By CPU number, the place in `cpus`.
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
    /// Its source: `host`, a preset's name, a synthetic string, a file's or folder's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// False if nothing but the CPUs is known; see [`host`](Self::host).
    pub const fn is_described(&self) -> bool {
        self.is_described
    }

    /// The processor's model, or a preset's title, if known.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The CPUs online, ascending by id.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The CPU of an id, if it is online. One load from a table.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        let place = self.place_of.get(id.index()).copied().flatten()?;
        self.cpus.get(place as usize)
    }

    /// The CPUs online, as a set. Never empty.
    pub const fn online(&self) -> &CpuSet {
        &self.online
    }

    /// The CPUs that are there, or were listed, but are not online.
    pub const fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// The number of cores with a CPU online.
    pub const fn cores(&self) -> usize {
        self.cores
    }

    /// The number of last-level caches.
    pub fn llcs(&self) -> usize {
        self.llcs.len()
    }

    /// The last-level cache of an id.
    pub fn llc(&self, id: LlcId) -> Option<&Llc> {
        self.llcs.get(id.index())
    }

    /// The number of NUMA nodes that have CPUs online; 0 if no node is known.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The NUMA nodes that have CPUs online, ascending.
    pub fn node_ids(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The NUMA nodes that have memory and no CPU of their own, such as high-bandwidth or CXL memory.
    pub fn memory_only_nodes(&self) -> &[NodeId] {
        &self.memory_only_nodes
    }

    /// The number of packages.
    pub const fn packages(&self) -> usize {
        self.packages
    }

    /// Gaps and contradictions of the source, and the assumptions made instead; one sentence
    /// each, to be shown to people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The CPUs online on a node.
    pub fn cpus_of_node(&self, node: NodeId) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.node == Some(node)).map(|cpu| cpu.id).collect()
    }

    /// The CPUs online of a core.
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

    /// A machine of which nothing is known but its CPUs: each is taken as a core of its own, and all of
    /// them as one package with one last-level cache. `why` is noted.
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

    /// The same machine with only some of its CPUs. Cores, caches and packages that lose all their
    /// CPUs are gone, and the numbers of the rest are dense again; CPU and node numbers stay.
    ///
    /// # Errors
    /// If the mask is empty, or holds a CPU that is not online here.
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
        // They lose no CPU.
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

/// CPUs that contradict the others of their core, each told in a note of its own.
const MAX_CORE_NOTES: usize = 16;

/// One CPU, as a source describes it. `core`, `llc` and `package` are any numbers that are equal for
/// the CPUs that share the thing, over the whole machine.
#[derive(Clone, Debug)]
pub(crate) struct RawCpu {
    pub(crate) id: CpuId,
    pub(crate) core: u64,
    pub(crate) llc: u64,
    pub(crate) node: Option<NodeId>,
    pub(crate) package: u64,
    pub(crate) kind: CpuKind,
    /// As `core`, for cores that share an L2 cache; `None` if the source tells of no such cache.
    pub(crate) cluster: Option<u64>,
    pub(crate) os_core: Option<u32>,
    pub(crate) os_package: Option<u32>,
}

impl RawCpu {
    /// A CPU of which nothing is known: a core of its own, in the first package, with the first cache.
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

/// A machine, as a source describes it.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) model: Option<String>,
    pub(crate) cpus: Vec<RawCpu>,
    pub(crate) offline: CpuSet,
    /// Every node that was seen, so that those without CPUs can be told.
    pub(crate) nodes: BTreeSet<NodeId>,
    /// By the `llc` of [`RawCpu`]: level, and size in bytes.
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

    /// Notes something of these CPUs, if there are any.
    pub(crate) fn note_cpus(&mut self, cpus: &CpuSet, note: &str) {
        if !cpus.is_empty() {
            let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
            self.notes.push(format!("{noun} {} {note}", plain(&cpus.to_string())));
        }
    }

    /// Gives CPUs their kinds.
    pub(crate) fn set_kinds(&mut self, fast: &CpuSet, thrifty: &CpuSet) {
        for cpu in &mut self.cpus {
            if fast.contains(cpu.id) {
                cpu.kind = CpuKind::Performance;
            } else if thrifty.contains(cpu.id) {
                cpu.kind = CpuKind::Efficiency;
            }
        }
    }

    /// Splits the CPUs into faster and slower ones where their figures jump furthest, if that jump is one between kinds of cores;
    /// notes `name`, the figure. Returns whether there are two kinds.
    ///
    /// Figures differ by a few per cent between cores of one kind (favoured cores, binning), and by a
    /// third or more between kinds: 731 and 997 of 1,024 on an Arm machine, 1.4 and 1.9 GHz on an Intel one.
    pub(crate) fn split_kinds(&mut self, mut figures: Vec<(u64, CpuId)>, name: &str) -> bool {
        figures.sort_unstable();
        let jump = |pair: &[(u64, CpuId)]| pair[1].0 as f64 / pair[0].0 as f64;
        let furthest = figures.windows(2).map(jump).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((place, _)) = furthest.filter(|(_, ratio)| *ratio >= 1.2) else { return false };
        let (thrifty, fast) = figures.split_at(place + 1);
        let cpus = |half: &[(u64, CpuId)]| half.iter().map(|(_, cpu)| *cpu).collect();
        self.set_kinds(&cpus(fast), &cpus(thrifty));
        self.notes.push(format!("performance and efficiency CPUs are told apart by {name}"));
        true
    }

    /// # Errors
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
                // A core of its own has a key that no cluster has.
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

    /// Gives all CPUs of a core the LLC, node and package of its lowest CPU.
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
                        "CPUs {} and {} are one core but differ in {}; CPU {0}'s is taken for both",
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
            self.notes.push(format!("and so do {more} further pairs of CPUs of one core"));
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

/// Dense numbers for keys, in the order of first sight.
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

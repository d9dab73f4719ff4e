//! A machine to simulate: its topology and its costs.

mod contradictions;
mod costs;
mod derived;
mod error;
mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use coreshard_topology::{CpuId, Preset, Topology, input};

pub use costs::MAX_CPUS;
pub(crate) use costs::{
    Arbitration, Costs, IdleState, NS, Ps, VARIATION_AT_PERCENT, Variation, ps,
};
pub use error::MachineError;

const POCKET: &str = include_str!("pocket.toml");

/// A machine to simulate.
///
/// ```
/// let grace = coreshard_sim::Machine::named("grace")?;
/// assert_eq!(grace.topology().cores(), 72);
/// assert!(grace.source("latency_llc").is_some());
/// # Ok::<(), coreshard_sim::MachineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    topology: Topology,
    costs: Costs,
    line_bytes: usize,
    sources: BTreeMap<String, String>,
    /// One-way latencies by requester's and owner's index among the CPUs.
    latency: Vec<Ps>,
}

impl Machine {
    /// Returns the machine with a preset's name.
    ///
    /// # Errors
    /// If there is no such preset, or if its file has no costs.
    pub fn named(name: &str) -> Result<Self, MachineError> {
        let wrong = |error| MachineError::of_topology(name, error);
        let preset = Preset::named(name).map_err(wrong)?;
        let topology = preset.topology().map_err(wrong)?;
        Self::read(name, preset.file(), Some(topology))
    }

    /// Returns a small machine with all features of large ones: two packages of two LLCs of two cores of two
    /// CPUs, with a server's costs in round figures.
    ///
    /// For searching bugs; its figures belong to no real machine.
    #[must_use]
    pub fn pocket() -> Self {
        Self::from_toml("pocket", POCKET).expect("its file is valid")
    }

    /// Returns a machine with unknown costs. It uses the costs of [`pocket`](Self::pocket).
    ///
    /// # Errors
    /// If it has more CPUs than can be simulated.
    pub fn with_round_costs(topology: Topology) -> Result<Self, MachineError> {
        let name = topology.name().to_owned();
        Self::read(&name, POCKET, Some(topology))
    }

    /// Reads a machine from a file.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid; the text names line and key.
    pub fn from_file(path: &Path) -> Result<Self, MachineError> {
        let name = path.display().to_string();
        let text = input::text(path, input::MACHINE_BYTES)
            .map_err(|error| MachineError::new(&name, None, error.to_string()))?;
        Self::from_toml(&name, &text)
    }

    /// Parses a machine from the text of a file; `name` is for messages.
    ///
    /// # Errors
    /// If the text is invalid; the error names line and key.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, MachineError> {
        Self::read(name, text, None)
    }

    fn read(name: &str, text: &str, topology: Option<Topology>) -> Result<Self, MachineError> {
        let file = file::read(name, text, topology)?;
        let latency = file.matrix.unwrap_or_else(|| by_distance(&file.topology, &file.costs));
        Ok(Self {
            topology: file.topology,
            costs: file.costs,
            line_bytes: file.line_bytes,
            sources: file.sources,
            latency,
        })
    }

    /// Returns the CPUs, caches and nodes.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the size of a cache line in bytes.
    #[must_use]
    pub const fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// Returns the same machine with lines of another length, a power of two from 32 to 256 bytes.
    ///
    /// Other values leave it unchanged.
    ///
    /// ```
    /// let longer = coreshard_sim::Machine::pocket().with_line_bytes(128);
    /// assert_eq!(longer.line_bytes(), 128);
    /// ```
    #[must_use]
    pub fn with_line_bytes(mut self, line_bytes: usize) -> Self {
        if line_bytes.is_power_of_two() && (32..=256).contains(&line_bytes) {
            self.line_bytes = line_bytes;
        }
        self
    }

    /// Returns the source of the number under a key of `[costs]`.
    #[must_use]
    pub fn source(&self, key: &str) -> Option<&str> {
        self.sources.get(key).map(String::as_str)
    }

    /// Returns how long a line takes from one CPU's cache to another's, in nanoseconds: half a round trip of
    /// a compare-exchange ping-pong.
    ///
    /// Returns `None` if one of them is not a CPU of this machine, or if both are the same.
    #[must_use]
    pub fn latency_ns(&self, requester: CpuId, owner: CpuId) -> Option<f64> {
        let place = |cpu| self.topology.cpus().iter().position(|known| known.id == cpu);
        let (requester, owner) = (place(requester)?, place(owner)?);
        let latency = self.latency[requester * self.topology.cpus().len() + owner];
        (requester != owner).then_some(latency as f64 / NS as f64)
    }

    /// Returns a clock cycle in nanoseconds.
    #[must_use]
    pub fn cycle_ns(&self) -> f64 {
        self.costs.cycle as f64 / NS as f64
    }

    /// Returns how many times longer a computation takes while the CPUs at these positions compute, on average over
    /// them: by the clock of busy cores, and by the CPUs that share a core. 1 if the machine's file does not say.
    ///
    /// ```
    /// let pocket = coreshard_sim::Machine::pocket();
    /// assert_eq!(pocket.slowdown(&[0, 1]), 1.0);
    /// ```
    #[must_use]
    pub fn slowdown(&self, busy: &[usize]) -> f64 {
        let Some(cores) = self.costs.cores else { return 1.0 };
        let cpus = self.topology.cpus();
        let core = |at: &usize| cpus[*at].core;
        let mut busy_cores: Vec<_> = busy.iter().map(core).collect();
        busy_cores.sort_unstable();
        let shares = |at: &usize| {
            let first = busy_cores.partition_point(|other| *other < core(at));
            busy_cores[first..].iter().take_while(|other| **other == core(at)).count() > 1
        };
        let sharing = busy.iter().filter(|at| shares(at)).count() as f64 / busy.len().max(1) as f64;
        busy_cores.dedup();
        let others = (self.topology.cores().max(2) - 1) as f64;
        let share_of_cores = (busy_cores.len().max(1) - 1) as f64 / others;
        let [all, shared] = [cores.all_core_clock, cores.smt_share].map(|it| it as f64 / 1e3);
        let clock = 1.0 - (1.0 - all) * share_of_cores;
        (1.0 - sharing + sharing / shared) / clock
    }

    pub(crate) fn latency(&self) -> &[Ps] {
        &self.latency
    }

    pub(crate) fn costs(&self) -> &Costs {
        &self.costs
    }
}

fn by_distance(topology: &Topology, costs: &Costs) -> Vec<Ps> {
    let cpus = topology.cpus();
    let pairs = cpus.iter().flat_map(|one| cpus.iter().map(move |other| (one, other)));
    let latency = pairs.map(|(one, other)| match other {
        other if one.id == other.id => 0,
        other if one.core == other.core => costs.latency_smt,
        other if one.llc == other.llc => costs.latency_llc,
        other if one.package == other.package => costs.latency_package,
        _ => costs.latency_remote,
    });
    latency.collect()
}

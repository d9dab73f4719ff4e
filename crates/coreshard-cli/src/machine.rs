//! Which machine a command is about: the options that choose it, and what may be used of it.

use std::path::PathBuf;

use coreshard_topology::{CpuSet, Topology, TopologyError, Usable};

use crate::failure::bad_input;

/// Chooses a machine; without any of these it is the one the command runs on.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(crate) struct MachineArgs {
    /// A machine by name (such as grace), or described as hwloc does ("pack:2 numa:1 l3:1 core:8 pu:2")
    #[arg(long, value_name = "NAME-OR-SYNTHETIC")]
    pub(crate) machine: Option<String>,

    /// A recorded machine: the folder that holds its sys folder, and perhaps its proc folder
    #[arg(long, value_name = "DIR")]
    pub(crate) sysfs: Option<PathBuf>,

    /// A machine exported by hwloc (lstopo machine.xml)
    #[arg(long, value_name = "FILE")]
    pub(crate) hwloc_xml: Option<PathBuf>,
}

/// A machine, cut to the CPUs that may be used.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Of the usable CPUs alone.
    pub(crate) topology: Topology,
    /// Of all CPUs online, usable or not: what the machine has.
    pub(crate) whole: Topology,
    /// What limits a process on it: for this machine, and for recorded ones as far as was recorded.
    pub(crate) usable: Option<Usable>,
}

impl Machine {
    /// The CPUs that may be used.
    pub(crate) fn usable_cpus(&self) -> &CpuSet {
        self.topology.online()
    }

    /// The most workers that can be kept running at once.
    pub(crate) fn worker_limit(&self) -> usize {
        match &self.usable {
            Some(usable) => usable.worker_limit(),
            None => self.usable_cpus().len(),
        }
    }
}

impl MachineArgs {
    /// Whether the machine chosen is the one the command runs on.
    pub(crate) fn is_this_one(&self) -> bool {
        self.machine.is_none() && self.sysfs.is_none() && self.hwloc_xml.is_none()
    }

    /// Reads the machine chosen.
    pub(crate) fn read(&self) -> anyhow::Result<Machine> {
        if let Some(text) = &self.machine {
            return Ok(whole(Topology::parse_machine(text).map_err(bad_input)?));
        }
        if let Some(path) = &self.hwloc_xml {
            return Ok(whole(Topology::from_hwloc_xml(path).map_err(bad_input)?));
        }
        if let Some(root) = &self.sysfs {
            let read = || {
                let topology = Topology::from_sysfs(root)?;
                let usable = Usable::from_root(root, &topology)?;
                cut(topology, usable)
            };
            return read().map_err(bad_input);
        }
        let topology = Topology::host()?;
        let usable = Usable::host(&topology)?;
        Ok(cut(topology, usable)?)
    }
}

fn whole(topology: Topology) -> Machine {
    Machine { whole: topology.clone(), topology, usable: None }
}

fn cut(whole: Topology, usable: Usable) -> Result<Machine, TopologyError> {
    Ok(Machine { topology: whole.restrict(usable.cpus())?, whole, usable: Some(usable) })
}

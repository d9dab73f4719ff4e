//! Machine settings as plain data.

mod devices;
mod interrupts;
mod kernel;
mod machine;
mod parse_error;
mod workqueues;

pub use devices::{BlockFacts, NetworkFacts};
pub use interrupts::InterruptFacts;
pub use kernel::{KernelFacts, KernelVersion};
pub use machine::{IsolationFacts, MaskFacts, RealtimeFacts};
pub use parse_error::ParseSettingError;
pub use workqueues::{ScopeSetting, WorkqueueFacts, WorkqueueSettings};

use std::path::Path;

use coreshard_topology::Topology;
use serde::Serialize;

use crate::tree::Tree;

/// The settings of a machine. Parts that are missing on the machine or in its recording are `None` or empty.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Facts {
    /// All online CPUs, with caches and nodes.
    #[serde(skip)]
    pub topology: Topology,
    /// The kernel, and whether the machine is a virtual one.
    pub kernel: KernelFacts,
    /// The settings of workqueues.
    pub workqueues: WorkqueueSettings,
    /// CPUs isolated from kernel work.
    pub isolation: IsolationFacts,
    /// The limit of real-time tasks.
    pub realtime: RealtimeFacts,
    /// Interrupts of devices, by number.
    pub interrupts: Vec<InterruptFacts>,
    /// Block devices that are not made of other devices.
    pub block: Vec<BlockFacts>,
    /// Network interfaces with a device.
    pub network: Vec<NetworkFacts>,
    /// Data that was found but not usable, one sentence each, for display.
    pub notes: Vec<String>,
}

impl Facts {
    /// Reads the settings below `root`: `/`, a recorded tree with a `sys` folder and optionally a `proc` folder, or an
    /// unpacked sosreport. The topology is given. Changes nothing, and reads a few small files per device and
    /// interrupt.
    #[must_use]
    pub fn read(root: impl AsRef<Path>, topology: Topology) -> Self {
        let tree = Tree::new(root.as_ref());
        let mut facts = Self {
            kernel: kernel::read(&tree),
            workqueues: workqueues::read(&tree),
            isolation: machine::isolation(&tree),
            realtime: machine::realtime(&tree),
            interrupts: interrupts::read(&tree),
            block: devices::block(&tree),
            network: devices::network(&tree),
            ..Self::of_machine(topology)
        };
        facts.notes.extend(tree.into_notes());
        facts
    }

    /// Returns the facts of a machine with only a known topology and the defaults of a kernel version. Devices are
    /// unknown.
    #[must_use]
    pub fn assumed(topology: Topology, version: KernelVersion) -> Self {
        let workqueues = WorkqueueSettings::of_version(version);
        let kernel = KernelFacts {
            release: Some(version.to_string()),
            version: Some(version),
            is_assumed: true,
            ..KernelFacts::default()
        };
        Self { kernel, workqueues, ..Self::of_machine(topology) }
    }

    /// Returns the facts of a machine with only a known topology.
    #[must_use]
    pub fn of_machine(topology: Topology) -> Self {
        Self {
            kernel: KernelFacts::default(),
            workqueues: WorkqueueSettings::default(),
            isolation: IsolationFacts::default(),
            realtime: RealtimeFacts::default(),
            interrupts: Vec::new(),
            block: Vec::new(),
            network: Vec::new(),
            notes: topology.notes().to_vec(),
            topology,
        }
    }

    /// Returns the interrupt with this number.
    #[must_use]
    pub fn interrupt(&self, number: u32) -> Option<&InterruptFacts> {
        let at = self.interrupts.binary_search_by_key(&number, |it| it.number).ok()?;
        self.interrupts.get(at)
    }
}

#[cfg(test)]
mod tests;

//! The settings of a machine, as plain data.

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

/// What was read of a machine. Each part that the machine, or its recording, does not tell is `None` or empty.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Facts {
    /// Its CPUs, caches and nodes: all that are online.
    #[serde(skip)]
    pub topology: Topology,
    /// The kernel, and whether the machine is a virtual one.
    pub kernel: KernelFacts,
    /// The workqueues' settings.
    pub workqueues: WorkqueueSettings,
    /// CPUs that are kept from the kernel's work.
    pub isolation: IsolationFacts,
    /// How long real-time tasks may run.
    pub realtime: RealtimeFacts,
    /// Each interrupt that a device has, by number.
    pub interrupts: Vec<InterruptFacts>,
    /// Block devices that are devices, not made of others.
    pub block: Vec<BlockFacts>,
    /// Network interfaces that are devices.
    pub network: Vec<NetworkFacts>,
    /// What was there and could not be used; one sentence each, to be shown to people.
    pub notes: Vec<String>,
}

impl Facts {
    /// Reads what the tree below `root` tells of a machine whose CPUs are known: `/`, a recorded tree with a folder `sys` and
    /// perhaps one `proc`, or an sosreport that was unpacked. Changes nothing; takes as long as reading some small files
    /// for each device and interrupt does.
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

    /// A machine of which nothing but the CPUs is known, with what a kernel of this version starts with; nothing of
    /// devices.
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

    /// A machine of which nothing but the CPUs is known.
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

    /// The interrupt of a number.
    #[must_use]
    pub fn interrupt(&self, number: u32) -> Option<&InterruptFacts> {
        let at = self.interrupts.binary_search_by_key(&number, |it| it.number).ok()?;
        self.interrupts.get(at)
    }
}

#[cfg(test)]
mod tests;

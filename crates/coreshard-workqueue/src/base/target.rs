//! Where in a queue an item goes.

use coreshard_topology::{CpuId, NodeId};

/// Where in a queue an item is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Target {
    /// In the pod of the CPU that the caller runs on; of a delayed item, the timekeeper.
    #[default]
    Here,
    /// In the pod of this CPU.
    Cpu(CpuId),
    /// In a pod on this node.
    Node(NodeId),
}

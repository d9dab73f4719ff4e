//! The part of a queue that an item goes to.

use coreshard_topology::{CpuId, NodeId};

/// The pod that runs an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Target {
    /// In the pod of the CPU that the caller runs on; for a delayed item, that of the timekeeper.
    #[default]
    Here,
    /// In the pod of this CPU.
    Cpu(CpuId),
    /// In a pod on this node.
    Node(NodeId),
}

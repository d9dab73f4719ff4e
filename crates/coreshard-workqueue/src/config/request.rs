//! What is asked of a queue.

use std::any::Any;
use std::sync::Arc;

use coreshard_platform::user::User;
use coreshard_topology::{CpuSet, Scope, ShardSize};

use crate::base::variants::Intake;
use crate::base::variants::Wake;
use crate::config::attributes::{Hooks, Priority};
use crate::insight::Wanted;

/// What was asked of a queue, before it is held against the machine.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) shard_size: ShardSize,
    pub(crate) strict: bool,
    pub(crate) mask: Option<CpuSet>,
    pub(crate) nice: Option<i8>,
    pub(crate) priority: Priority,
    pub(crate) max_active: MaxActive,
    /// How many items may wait to begin.
    pub(crate) capacity: Option<usize>,
    /// Asked for both an order and a limit.
    pub(crate) is_contradictory: bool,
    pub(crate) wake: Wake,
    pub(crate) intake: Intake,
    pub(crate) hooks: Hooks,
    pub(crate) stack_bytes: Option<usize>,
    pub(crate) rescuer: Option<u64>,
    pub(crate) panic_handler: Option<PanicHandler>,
    /// What an item forks stays on its worker.
    pub(crate) is_serial: bool,
    pub(crate) panic_policy: PanicPolicy,
    pub(crate) insight: Wanted,
}

/// What becomes of a queue when an item panics and no handle tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PanicPolicy {
    /// The panic handler is told, and the queue goes on.
    #[default]
    GoOn,
    /// The queue takes no more work, before the panic handler is told; what was accepted runs.
    CloseQueue,
}

pub(crate) type PanicHandler = Arc<User<dyn Fn(Box<dyn Any + Send>) + Send + Sync>>;

/// A queue's limit, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaxActive {
    /// None.
    Unlimited,
    /// So many items in all pools together.
    Total(usize),
    /// One at a time, in the order of their queueing; cannot be changed.
    Ordered,
    /// Split among the nodes, as the kernel does it.
    ByNode(usize),
    /// So many items of each pod.
    EachPod(usize),
}

impl MaxActive {
    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Self::Total(0) | Self::ByNode(0) | Self::EachPod(0))
    }
}

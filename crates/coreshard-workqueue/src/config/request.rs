//! The requested properties of a queue.

use std::any::Any;
use std::sync::Arc;

use coreshard_platform::user::User;
use coreshard_topology::{CpuSet, Scope, ShardSize};

use crate::base::variants::Intake;
use crate::base::variants::Wake;
use crate::config::attributes::{Hooks, Priority};
use crate::insight::Wanted;

/// The request for a queue, before it is checked against the machine.
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
    /// Both an order and a limit were requested.
    pub(crate) is_contradictory: bool,
    pub(crate) wake: Wake,
    pub(crate) intake: Intake,
    pub(crate) hooks: Hooks,
    pub(crate) stack_bytes: Option<usize>,
    pub(crate) rescuer: Option<u64>,
    pub(crate) panic_handler: Option<PanicHandler>,
    /// Forks of an item stay on its worker.
    pub(crate) is_serial: bool,
    pub(crate) panic_policy: PanicPolicy,
    pub(crate) insight: Wanted,
}

/// What happens to a queue when an item panics and no handle reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PanicPolicy {
    /// The panic handler is called, and the queue goes on.
    #[default]
    GoOn,
    /// The queue accepts no more work, and then the panic handler is called; accepted items run.
    CloseQueue,
}

pub(crate) type PanicHandler = Arc<User<dyn Fn(Box<dyn Any + Send>) + Send + Sync>>;

/// A queue's limit, as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaxActive {
    /// None.
    Unlimited,
    /// A maximum number of items in all pools together.
    Total(usize),
    /// One at a time, in queueing order; cannot be changed.
    Ordered,
    /// Split among the nodes, as in the kernel.
    ByNode(usize),
    /// A maximum number of items of each pod.
    EachPod(usize),
}

impl MaxActive {
    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Self::Total(0) | Self::ByNode(0) | Self::EachPod(0))
    }
}

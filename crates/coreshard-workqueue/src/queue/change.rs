//! What a queue is to be from now on.

use std::fmt;
use std::sync::Arc;

use coreshard_platform::{Host, Platform};
use coreshard_topology::{CpuSet, Scope, ShardSize};

use super::shared::Shared;
use crate::base::error::BuildError;
use crate::config::attributes::Priority;
use crate::config::request::{MaxActive, Request};

/// A change of a live queue, see [`Workqueue::change`](crate::Workqueue::change). What is not
/// named stays as it is.
#[must_use = "a change does nothing until `apply` is called"]
pub struct Change<P: Platform = Host> {
    shared: Arc<Shared<P>>,
    edits: Vec<Edit>,
}

type Edit = Box<dyn FnOnce(&mut Request) + Send>;

impl<P: Platform> Change<P> {
    pub(super) fn new(shared: Arc<Shared<P>>) -> Self {
        Self { shared, edits: Vec::new() }
    }

    fn with(mut self, edit: impl FnOnce(&mut Request) + Send + 'static) -> Self {
        self.edits.push(Box::new(edit));
        self
    }

    /// Which CPUs share a pool.
    pub fn scope(self, scope: Scope) -> Self {
        self.with(move |request| request.scope = scope)
    }

    /// The wanted size of a cache shard, in cores, at least 1.
    pub fn shard_size(self, cores: usize) -> Self {
        self.with(move |request| request.shard_size = ShardSize::new(cores))
    }

    /// Whether workers may never leave their pod.
    pub fn strict(self, strict: bool) -> Self {
        self.with(move |request| request.strict = strict)
    }

    /// The CPUs whose pods serve the queue; `None` for all that are usable.
    pub fn cpu_mask(self, cpus: impl Into<Option<CpuSet>>) -> Self {
        let cpus = cpus.into();
        self.with(move |request| request.mask = cpus)
    }

    /// The nice value of the workers; `None` for that of the process, or of the priority.
    pub fn nice(self, nice: impl Into<Option<i8>>) -> Self {
        let nice = nice.into();
        self.with(move |request| request.nice = nice)
    }

    /// The priority.
    pub fn priority(self, priority: Priority) -> Self {
        self.with(move |request| request.priority = priority)
    }

    /// How many items may be in the pools at once; `None` for no limit. Items that are there stay
    /// there, also where they are more; items that were queued without a limit are not counted.
    pub fn max_active(self, items: impl Into<Option<usize>>) -> Self {
        let limit = items.into().map_or(MaxActive::Unlimited, MaxActive::Total);
        self.with(move |request| request.max_active = limit)
    }

    /// As [`max_active`](Self::max_active), split among the nodes.
    pub fn max_active_by_node(self, items: usize) -> Self {
        self.with(move |request| request.max_active = MaxActive::ByNode(items))
    }

    /// As [`max_active`](Self::max_active), but of each pod.
    pub fn max_active_of_each_pod(self, items: usize) -> Self {
        self.with(move |request| request.max_active = MaxActive::EachPod(items))
    }

    /// How many items may wait to begin, for a queue that was built with a
    /// [`capacity`](crate::Builder::capacity). Items that wait already stay, also where they are more.
    pub fn capacity(self, items: usize) -> Self {
        self.with(move |request| request.capacity = Some(items))
    }

    /// Makes the change. Items that were queued before run in the pools that they were queued to;
    /// those that come after find the queue as it is then. None is lost or runs twice, and an
    /// ordered queue keeps its order. May be called while others queue, and inside an item.
    ///
    /// The new pools' first workers run when this returns; those of the old ones go when their
    /// last item is over.
    ///
    /// # Errors
    /// As [`Builder::build`](crate::Builder::build), and where the limit of an ordered queue is to
    /// change, or a queue without a capacity is to have one: then the queue is as it was.
    pub fn apply(self) -> Result<(), BuildError> {
        let Self { shared, edits } = self;
        shared.change(|request| edits.into_iter().for_each(|edit| edit(request)))
    }
}

impl<P: Platform> fmt::Debug for Change<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("queue", &self.shared.name())
            .field("edits", &self.edits.len())
            .finish()
    }
}

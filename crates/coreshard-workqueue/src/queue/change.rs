//! Changes of a queue's attributes.

use std::fmt;
use std::sync::Arc;

use coreshard_platform::{Host, Platform};
use coreshard_topology::{CpuSet, Scope, ShardSize};

use super::shared::Shared;
use crate::base::error::BuildError;
use crate::config::attributes::Priority;
use crate::config::request::{MaxActive, Request};

/// A change of a live queue; see [`Workqueue::change`](crate::Workqueue::change). Attributes that are not named stay as they
/// are.
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

    /// Sets which CPUs share a pool.
    pub fn scope(self, scope: Scope) -> Self {
        self.with(move |request| request.scope = scope)
    }

    /// Sets the wanted size of a cache shard, in cores, at least 1.
    pub fn shard_size(self, cores: usize) -> Self {
        self.with(move |request| request.shard_size = ShardSize::new(cores))
    }

    /// Sets whether workers must stay in their pod.
    pub fn strict(self, strict: bool) -> Self {
        self.with(move |request| request.strict = strict)
    }

    /// Sets the CPUs whose pods serve the queue; `None` for all usable CPUs.
    pub fn cpu_mask(self, cpus: impl Into<Option<CpuSet>>) -> Self {
        let cpus = cpus.into();
        self.with(move |request| request.mask = cpus)
    }

    /// Sets the workers' nice value; `None` for that of the process or of the priority.
    pub fn nice(self, nice: impl Into<Option<i8>>) -> Self {
        let nice = nice.into();
        self.with(move |request| request.nice = nice)
    }

    /// Sets the priority.
    pub fn priority(self, priority: Priority) -> Self {
        self.with(move |request| request.priority = priority)
    }

    /// Sets how many items may be in the pools at once; `None` for no limit. Items that are already there stay, even if they
    /// exceed the new limit. Items that were queued without a limit are not counted.
    pub fn max_active(self, items: impl Into<Option<usize>>) -> Self {
        let limit = items.into().map_or(MaxActive::Unlimited, MaxActive::Total);
        self.with(move |request| request.max_active = limit)
    }

    /// Sets the limit like [`max_active`](Self::max_active), but splits it among the nodes.
    pub fn max_active_by_node(self, items: usize) -> Self {
        self.with(move |request| request.max_active = MaxActive::ByNode(items))
    }

    /// Sets the limit like [`max_active`](Self::max_active), but for each pod.
    pub fn max_active_of_each_pod(self, items: usize) -> Self {
        self.with(move |request| request.max_active = MaxActive::EachPod(items))
    }

    /// Sets how many items may wait to begin, for a queue that was built with a [`capacity`](crate::Builder::capacity). Items
    /// that already wait stay, even if they exceed the new capacity.
    pub fn capacity(self, items: usize) -> Self {
        self.with(move |request| request.capacity = Some(items))
    }

    /// Applies the change. Items queued earlier run in the pools that they were queued to; later items use the new attributes.
    /// No item is lost or runs twice, and an ordered queue keeps its order. May be called while other threads queue, and inside
    /// an item.
    ///
    /// The new pools' first workers are running when this returns. The old pools' workers exit when their last item has
    /// finished.
    ///
    /// # Errors
    /// Fails as [`Builder::build`](crate::Builder::build) does. Also fails for a new limit of an ordered queue, or a capacity
    /// for a queue that was built without one. The queue is unchanged on an error.
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

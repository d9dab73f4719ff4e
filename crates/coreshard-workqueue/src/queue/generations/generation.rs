//! A generation: a queue's links for a period, one to each pool of a set.

use std::sync::Arc;

use coreshard_platform::Platform;

use crate::base::error::RefusedReason;
use crate::base::target::Target;
use crate::config::request::MaxActive;
use crate::pool::{PoolSet, Route};
use crate::queue::link::{Limits, PoolLink, QueueCore};

/// The limiter that the links of a generation lead through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Free,
    One,
    OnePerNode,
    OnePerPod,
}

impl Admission {
    pub(crate) fn of<P: Platform>(limits: &Limits<P>) -> Self {
        match limits.asked() {
            MaxActive::ByNode(_) => Self::OnePerNode,
            MaxActive::EachPod(_) => Self::OnePerPod,
            _ if limits.limits() => Self::One,
            _ => Self::Free,
        }
    }
}

/// It is created once, behind an `Arc`, and then only read: producers and workers access it at any time. The mutable state of a
/// generation is kept under the lock of the generations.
pub(crate) struct Generation<P: Platform> {
    /// A copy of the set's routes, which saves an indirection.
    routes: Arc<[Route]>,
    /// By pod. A pool link's own words are shared by producers and workers.
    pub(crate) links: Box<[PoolLink<P>]>,
    pub(crate) set: Arc<PoolSet<P>>,
    pub(crate) admission: Admission,
}

impl<P: Platform> Generation<P> {
    /// Created closed, until it is published. `None` if a pool serves as many queues as it can.
    pub(crate) fn new(
        set: &Arc<PoolSet<P>>,
        core: &Arc<QueueCore<P>>,
        limits: &mut Limits<P>,
    ) -> Option<Arc<Self>> {
        let admission = Admission::of(limits);
        let links: Box<[PoolLink<P>]> = set
            .pools()
            .zip(set.pods.iter())
            .map(|(pool, pod)| {
                let limiter = (admission != Admission::Free).then(|| limits.limiter(pod));
                PoolLink::new(Arc::clone(pool), Arc::clone(core), limiter)
            })
            .collect::<Option<_>>()?;
        let (routes, set) = (Arc::clone(set.routes()), Arc::clone(set));
        let made = Arc::new(Self { routes, links, set, admission });
        // At their final address: moving the box would invalidate the pools' pointers to them under Rust's aliasing rules for
        // boxes, though the addresses would not change.
        made.links.iter().for_each(PoolLink::settle);
        made.links.iter().for_each(PoolLink::close);
        Some(made)
    }

    /// Returns the pod and the injector of the CPU that the caller runs on. CPUs that the set does not serve are routed to a
    /// pod near them.
    #[inline]
    pub(crate) fn route_here(&self) -> (usize, usize) {
        // CPUs added since the set was made (hotplug) go to the first pod.
        self.routes
            .get(P::current_cpu().index())
            .map_or((0, 0), |route| (route.pod as usize, route.injector as usize))
    }

    pub(crate) fn route(&self, target: Target) -> Result<(usize, usize), RefusedReason> {
        match target {
            Target::Here => Ok(self.route_here()),
            Target::Cpu(cpu) => self.set.route_to(cpu).ok_or(RefusedReason::NoSuchCpu(cpu)),
            Target::Node(node) => {
                self.set.route_to_node(node).ok_or(RefusedReason::NoSuchNode(node))
            }
        }
    }

    pub(crate) fn close(&self) {
        self.links.iter().for_each(PoolLink::close);
    }

    pub(crate) fn open(&self) {
        self.links.iter().for_each(PoolLink::open);
    }

    pub(crate) fn watch(&self) {
        self.links.iter().for_each(PoolLink::watch);
    }

    pub(crate) fn unwatch(&self) {
        self.links.iter().for_each(PoolLink::unwatch);
    }

    pub(crate) fn done(&self) -> u64 {
        self.links.iter().map(PoolLink::done).sum()
    }

    pub(crate) fn queued(&self) -> u64 {
        self.links.iter().map(PoolLink::queued).sum()
    }

    pub(crate) fn relayed(&self) -> u64 {
        self.links.iter().map(PoolLink::relayed).sum()
    }

    /// Returns how many accepted items have not finished. Exact at some moment during the call: `done` is read first, so an
    /// item that moves meanwhile can only make the result larger.
    pub(crate) fn in_flight(&self) -> u64 {
        let done = self.done();
        self.queued().saturating_sub(done)
    }
}

//! The pools of one set of attributes, one for each pod, and its users.
//!
//! A set's memory lives as long as a thread may still access it: a producer may briefly hold on to the links of earlier
//! generations of a queue, and finds them closed. Its *workers* live while a [`Lease`] exists: they exit with the last one,
//! and start again with the next.

use std::sync::Arc;

use coreshard_platform::{Lock, Platform, SpawnError};
use coreshard_topology::{CpuId, NodeId, Pods, Topology};

use super::current::CurrentWorker;
use super::pool::Pool;
use crate::config::attributes::Attributes;

pub(crate) struct PoolSet<P: Platform> {
    pub(crate) attributes: Arc<Attributes>,
    pub(crate) pods: Pods,
    pools: Box<[Arc<Pool<P>>]>,
    /// By the platform's CPU id: the pod and injector for an item queued on that CPU.
    routes: Arc<[Route]>,
    /// By CPU id: the injector of each CPU of the topology.
    injectors: Box<[u8]>,
    users: Lock<P, Users>,
}

/// A pod, and an injector of its pool.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) pod: u32,
    pub(crate) injector: u32,
}

/// The users of a set.
enum Users {
    None,
    Some(usize),
    /// The last lease has ended: workers are exiting.
    Leaving {
        /// A caller waits for them, and records when they have exited.
        awaited: bool,
    },
}

/// A set's workers run while one is held.
pub(crate) struct Lease<P: Platform> {
    set: Arc<PoolSet<P>>,
    /// It was returned: dropping it does nothing.
    ended: bool,
}

impl<P: Platform> PoolSet<P> {
    /// Makes a set whose pools run; the lease is the first.
    pub(crate) fn lease_new(
        attributes: Arc<Attributes>,
        pods: Pods,
        pools: Box<[Arc<Pool<P>>]>,
        routes: Arc<[Route]>,
        injectors: Box<[u8]>,
    ) -> Lease<P> {
        let users = Lock::new(Users::Some(1));
        Lease::of(Arc::new(Self { attributes, pods, pools, routes, injectors, users }))
    }

    /// Returns a lease, and starts workers again if there are none. `None` while some are still exiting.
    ///
    /// # Errors
    /// If a worker cannot be started; the workers started before it are told to exit.
    pub(crate) fn lease(self: &Arc<Self>) -> Result<Option<Lease<P>>, SpawnError> {
        let mut users = self.users.lock();
        self.see_who_is_gone(&mut users);
        match &mut *users {
            Users::Leaving { .. } => return Ok(None),
            Users::Some(count) => *count += 1,
            Users::None => {
                for (at, pool) in self.pools.iter().enumerate() {
                    if let Err(error) = pool.start_first() {
                        self.pools[..at].iter().for_each(|pool| pool.tell_to_go());
                        *users = Users::Leaving { awaited: false };
                        return Err(error);
                    }
                }
                *users = Users::Some(1);
            }
        }
        Ok(Some(Lease::of(Arc::clone(self))))
    }

    /// Ends a lease. Returns true if it was the last: the workers were told to exit. Does not wait for them.
    fn leave(&self) -> bool {
        let mut users = self.users.lock();
        match &mut *users {
            Users::Some(1) => *users = Users::Leaving { awaited: false },
            Users::Some(count) => {
                *count -= 1;
                return false;
            }
            Users::None | Users::Leaving { .. } => unreachable!("this lease was counted"),
        }
        drop(users);
        self.pools.iter().for_each(|pool| pool.tell_to_go());
        true
    }

    /// After [`Lease::end`]: waits until the workers have exited, unless they are needed again. Must not be
    /// called under a lock that an item may be waiting for, since this waits for that item. A worker that calls this
    /// does not wait for itself.
    pub(crate) fn wait_until_gone(&self) {
        let waits_here = match &mut *self.users.lock() {
            Users::Leaving { awaited } => !std::mem::replace(awaited, true),
            Users::None | Users::Some(_) => return,
        };
        let event = &self.pools[0].event;
        if waits_here {
            self.pools.iter().for_each(|pool| pool.wait_until_gone());
            *self.users.lock() = Users::None;
            event.notify();
        } else {
            event.wait_until(None, || !matches!(*self.users.lock(), Users::Leaving { .. }));
        }
    }

    /// True while workers are exiting.
    pub(crate) fn is_leaving(&self) -> bool {
        let mut users = self.users.lock();
        self.see_who_is_gone(&mut users);
        matches!(*users, Users::Leaving { .. })
    }

    fn see_who_is_gone(&self, users: &mut Users) {
        if matches!(users, Users::Leaving { awaited: false })
            && self.pools.iter().all(|pool| pool.is_gone())
        {
            *users = Users::None;
        }
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = &Arc<Pool<P>>> {
        self.pools.iter()
    }

    /// True if the worker belongs to one of these pools.
    pub(crate) fn has(&self, worker: CurrentWorker<'_, P>) -> bool {
        Arc::ptr_eq(&worker.pool().attributes, &self.attributes)
    }

    /// Workers that may run at once.
    pub(crate) fn worker_limit(&self) -> usize {
        self.pools.iter().map(|pool| pool.place.limit).sum()
    }

    /// Tells each pool about the others, the nearest first, so that its workers can help the others with forked work. At equal
    /// distance they start with the next after themselves. The pools of a strict set stay apart.
    pub(crate) fn introduce(&self, topology: &Topology) {
        let place = |pool: &Arc<Pool<P>>| {
            let first = pool.place.cpus.iter().next();
            first.and_then(|cpu| topology.cpu(cpu)).map(|cpu| (cpu.llc, cpu.node))
        };
        let places: Vec<_> = self.pools.iter().map(place).collect();
        let others = if self.attributes.strict { 0 } else { self.pools.len().saturating_sub(1) };
        for (at, pool) in self.pools.iter().enumerate() {
            let mut others: Vec<usize> =
                (1..=others).map(|step| (at + step) % self.pools.len()).collect();
            others.sort_by_key(|&other| match (places[at], places[other]) {
                (Some((llc, _)), Some((other_llc, _))) if llc == other_llc => 0,
                (Some((_, node)), Some((_, other_node))) if node == other_node => 1,
                _ => 2,
            });
            pool.set_neighbours(Some(
                others.iter().map(|&at| Arc::clone(&self.pools[at])).collect(),
            ));
        }
    }

    /// Routes by the platform's CPU ids.
    pub(crate) fn routes(&self) -> &Arc<[Route]> {
        &self.routes
    }

    /// The pod of `cpu`, and its injector there.
    pub(crate) fn route_to(&self, cpu: CpuId) -> Option<(usize, usize)> {
        let pod = self.pods.pod_of(cpu)?;
        Some((pod.index(), usize::from(self.injectors[cpu.index()])))
    }

    /// A pod on `node`, and an injector there.
    pub(crate) fn route_to_node(&self, node: NodeId) -> Option<(usize, usize)> {
        let cpu = P::current_cpu().index();
        let (here, injector) = self
            .routes
            .get(cpu)
            .map_or((0, 0), |route| (route.pod as usize, route.injector as usize));
        if self.pools[here].place.node == Some(node) {
            return Some((here, injector));
        }
        let on_node =
            || (0..self.pools.len()).filter(|pod| self.pools[*pod].place.node == Some(node));
        let pod = on_node().nth(cpu % on_node().count().max(1))?;
        Some((pod, cpu % self.pools[pod].injectors()))
    }
}

impl<P: Platform> Lease<P> {
    fn of(set: Arc<PoolSet<P>>) -> Self {
        Self { set, ended: false }
    }

    /// Ends it. If it was the last, workers are told to exit, and the set is returned: see
    /// [`PoolSet::wait_until_gone`].
    pub(crate) fn end(mut self) -> Option<Arc<PoolSet<P>>> {
        self.ended = true;
        self.set.leave().then(|| Arc::clone(&self.set))
    }

    pub(crate) fn set(&self) -> &Arc<PoolSet<P>> {
        &self.set
    }
}

impl<P: Platform> Clone for Lease<P> {
    fn clone(&self) -> Self {
        if let Users::Some(count) = &mut *self.set.users.lock() {
            *count += 1;
        }
        Self::of(Arc::clone(&self.set))
    }
}

impl<P: Platform> Drop for Lease<P> {
    fn drop(&mut self) {
        if !self.ended {
            self.set.leave();
        }
    }
}

impl<P: Platform> Drop for PoolSet<P> {
    fn drop(&mut self) {
        // They hold references to one another. A team's pools keep them until it ends, which is not waited for.
        let pools = self.pools.iter().filter(|pool| !pool.is_team());
        pools.for_each(|pool| drop(pool.set_neighbours(None)));
    }
}

//! State shared by a runtime's queues: the machine, and its pools by their attributes.

use std::ops::Range;
use std::sync::{Arc, Weak};

use coreshard_platform::user::User;
use coreshard_platform::{Lock, Platform, SleepingLock, Time};
use coreshard_topology::{CpuId, CpuSet, Pods, Scope, Topology};

use crate::base::canary::{Canary, planted};
use crate::base::error::{BuildError, BuildErrorKind, ShutdownTimeout};
use crate::base::event::Event;
use crate::base::returned::Returned;
use crate::config::attributes::{Attributes, Hooks, Place, Priority};
use crate::config::request::Request;
use crate::config::team::{OfTeam, TeamSpec};
use crate::insight::Wanted;
use crate::insight::stats::QueueStats;
use crate::pool::{
    Follower, Lease, MAX_INJECTORS, Monitor, NameMember, Pool, PoolSet, PoolSettings, Route,
    StartMember,
};
use crate::timers::Timers;

/// Returns the CPUs that may be used now.
pub(crate) type Probe = Box<User<dyn Fn() -> Option<CpuSet> + Send + Sync>>;

/// The nice value of high-priority queues' workers, the same as the kernel's (`HIGHPRI_NICE_LEVEL`).
const HIGH_PRIORITY_NICE: i8 = -20;

/// The kernel's range of nice values; it clamps other values to this range.
const NICE: std::ops::RangeInclusive<i8> = -20..=19;

/// The most permits that a word can count while leaving room for as many that are let in beyond them.
const MAX_CAPACITY: usize = 1 << 48;

pub(crate) struct Machine<P: Platform> {
    pub(crate) topology: Topology,
    pub(crate) usable: Lock<P, CpuSet>,
    pub(crate) cpu_quota: Option<f64>,
    /// How many workers run at once on all usable CPUs, if that was set.
    pub(crate) workers: Option<usize>,
    /// The platform's CPUs under the topology, if the topology is virtual.
    pub(crate) laid_over: Option<Vec<CpuId>>,
    pub(crate) settings: PoolSettings,
    /// The hooks of queues that have none of their own.
    pub(crate) hooks: Hooks,
    /// The prefix of the workers' names.
    pub(crate) thread_names: Arc<str>,
    pub(crate) insight: Wanted,
    pub(crate) event: Arc<Event<P>>,
    pub(crate) monitor: Arc<Monitor<P>>,
    pub(crate) timers: Arc<Timers<P>>,
    pub(crate) registry: SleepingLock<P, Registry<P>>,
    pub(crate) probe: Option<Probe>,
    /// The process that the machine belongs to, as [`Platform::process_generation`] counts them.
    pub(crate) process_generation: u32,
}

/// Items that were collected from a stopped queue, and how many of its items have not finished.
pub(crate) type Collected = (Vec<Returned>, u64);

/// A queue of this machine.
pub(crate) trait Queue: Send + Sync {
    /// Adapts to a change of the usable CPUs.
    fn follow_cpus(self: Arc<Self>) -> Result<(), BuildError>;
    /// Closes the queue.
    fn shut_down(&self);
    /// Closes the queue because one of its items panicked.
    fn close_after_panic(&self) {}
    /// Closes the queue and begins nothing more; [`Self::collect`] follows.
    fn stop(&self);
    /// Waits for the items that have begun, or until `deadline`, and returns the others.
    fn collect(&self, deadline: Time) -> Collected;
    /// Waits until nothing is in flight, or until `deadline`.
    fn wait_empty(&self, deadline: Option<Time>) -> Result<(), ShutdownTimeout>;
    fn stats(&self) -> QueueStats;
}

pub(crate) struct Registry<P: Platform> {
    pub(crate) sets: Vec<Weak<PoolSet<P>>>,
    pub(crate) queues: Vec<Weak<dyn Queue>>,
    pub(crate) closed: bool,
}

impl<P: Platform> Registry<P> {
    /// Adds a queue, and removes the queues that have ended.
    pub(crate) fn list(&mut self, queue: Weak<dyn Queue>) {
        self.queues.retain(|queue| queue.strong_count() > 0);
        self.queues.push(queue);
    }
}

/// Returns the queues or sets that still exist. They must be dropped outside the registry's lock: the last holder of one waits
/// for threads, and drops hooks, which are user code.
pub(crate) fn alive<T: ?Sized>(all: &[Weak<T>]) -> Vec<Arc<T>> {
    all.iter().filter_map(Weak::upgrade).collect()
}

impl<P: Platform> Machine<P> {
    /// Returns true in the child of a fork, which does not have the runtime's threads.
    pub(crate) fn is_forked(&self) -> bool {
        P::process_generation() != self.process_generation
    }

    /// Rejects a mask that names CPUs which cannot be used.
    pub(crate) fn check_mask(&self, mask: Option<&CpuSet>) -> Result<(), BuildErrorKind> {
        let Some(mask) = mask else { return Ok(()) };
        if mask.is_empty() {
            return Err(BuildErrorKind::EmptyMask);
        }
        let usable = self.usable.lock().clone();
        if !mask.is_subset(&usable) {
            let cpus = mask.difference(&usable);
            return Err(BuildErrorKind::CpusNotUsable { cpus, usable });
        }
        Ok(())
    }

    /// Continues on these CPUs; see [`Runtime::set_usable`].
    pub(crate) fn set_usable(&self, cpus: CpuSet) -> Result<(), BuildError> {
        let online = self.topology.online();
        let broken = if self.is_forked() {
            Some(BuildErrorKind::Forked)
        } else if cpus.is_empty() {
            Some(BuildErrorKind::EmptyMask)
        } else if !cpus.is_subset(online) {
            let cpus = cpus.difference(online);
            Some(BuildErrorKind::CpusNotUsable { cpus, usable: online.clone() })
        } else {
            None
        };
        if let Some(kind) = broken {
            return Err(BuildError::new(format!("runtime on {}", self.topology.name()), kind));
        }
        let before = std::mem::replace(&mut *self.usable.lock(), cpus.clone());
        if before != cpus {
            tracing::info!(%before, now = %cpus, "the usable CPUs have changed");
        }
        let queues = alive(&self.registry.lock().queues);
        let results: Vec<_> = queues.into_iter().map(Queue::follow_cpus).collect();
        results.into_iter().collect()
    }

    /// Resolves a request on this machine as it is now.
    pub(crate) fn attributes(&self, request: &Request) -> Result<Attributes, BuildErrorKind> {
        let usable = self.usable.lock().clone();
        if request.shard_size.was_corrected() {
            return Err(BuildErrorKind::ShardSizeZero);
        }
        if let Some(nice) = request.nice.filter(|nice| !NICE.contains(nice)) {
            return Err(BuildErrorKind::Nice(nice));
        }
        if request.max_active.is_zero() {
            return Err(BuildErrorKind::MaxActiveZero);
        }
        match request.capacity {
            Some(0) => return Err(BuildErrorKind::CapacityZero),
            Some(items) if items > MAX_CAPACITY => return Err(BuildErrorKind::CapacityTooLarge),
            _ => {}
        }
        // The usable CPUs of the mask, or all usable ones if none is left, as in the kernel.
        let mask = match &request.mask {
            None => usable,
            Some(mask) if mask.is_disjoint(&usable) => {
                tracing::warn!(
                    queue = %request.name, %mask, %usable,
                    "no CPU of a queue's mask can be used any more; it uses all that can"
                );
                usable
            }
            Some(mask) => mask.intersection(&usable),
        };
        let nice = match request.priority {
            Priority::Normal => request.nice,
            Priority::High => request.nice.or(Some(HIGH_PRIORITY_NICE)),
        };
        Ok(Attributes {
            scope: request.scope,
            shard_cores: request.shard_size.cores(),
            mask,
            strict: request.strict,
            nice,
            priority: request.priority,
            wake: request.wake,
            intake: request.intake,
            stack_bytes: request.stack_bytes,
            rescuer: request.rescuer,
            hooks: request.hooks.clone(),
            team: None,
        })
    }

    /// Leases the pools with these attributes, and starts the missing ones.
    pub(crate) fn lease(
        &self,
        attributes: Attributes,
        request: &Request,
    ) -> Result<Lease<P>, BuildErrorKind> {
        match self.try_lease(attributes.clone(), request) {
            // Threads that are exiting may still count against the limit, so retry once they have exited.
            Err(BuildErrorKind::Worker(_)) if self.monitor.wait_for_leavers(&self.event) => {
                self.try_lease(attributes, request)
            }
            outcome => outcome,
        }
    }

    fn try_lease(
        &self,
        attributes: Attributes,
        request: &Request,
    ) -> Result<Lease<P>, BuildErrorKind> {
        let known: Vec<_>;
        let mut registry = self.registry.lock();
        if registry.closed {
            return Err(BuildErrorKind::ShutDown);
        }
        registry.sets.retain(|set| set.strong_count() > 0);
        known = alive(&registry.sets);
        for set in known.iter().filter(|set| *set.attributes == attributes) {
            if let Some(lease) = set.lease().map_err(BuildErrorKind::Worker)? {
                return Ok(lease);
            }
        }
        let lease = self.start_pools(attributes, request)?;
        registry.sets.push(Arc::downgrade(lease.set()));
        Ok(lease)
    }

    /// Starts a team's pools with their members. `name_of` and `start` are called under no lock.
    pub(crate) fn start_team(
        &self,
        request: &Request,
        team: Arc<TeamSpec>,
        name_of: NameMember<'_>,
        start: Option<StartMember<'_>>,
    ) -> Result<Lease<P>, BuildErrorKind> {
        let attributes = Attributes { team: Some(OfTeam(team)), ..self.attributes(request)? };
        if self.registry.lock().closed {
            return Err(BuildErrorKind::ShutDown);
        }
        let lease = self.start_pools(attributes, request)?;
        self.registry.lock().sets.push(Arc::downgrade(lease.set()));
        lease.set().man_team(name_of, start).map_err(BuildErrorKind::Worker)?;
        Ok(lease)
    }

    fn start_pools(
        &self,
        attributes: Attributes,
        request: &Request,
    ) -> Result<Lease<P>, BuildErrorKind> {
        let mask = &attributes.mask;
        let scope = match attributes.scope {
            Scope::Smt if planted(Canary::SplitPair) => Scope::Cpu,
            scope => scope,
        };
        let members = attributes.team.as_ref().map(|team| team.0.members);
        let pods_in = |scope| {
            Pods::new(&self.topology, mask, scope, request.shard_size).map_err(BuildErrorKind::Pods)
        };
        let mut pods = pods_in(scope)?;
        // Each pod of a team needs a member.
        for &wider in Scope::ALL.iter().filter(|wider| **wider > scope) {
            if pods.len() <= members.unwrap_or(usize::MAX) {
                break;
            }
            pods = pods_in(wider)?;
        }
        let roam = self.platform_cpus(mask);
        let injectors = injectors(&pods, self.highest_cpu());
        let attributes = Arc::new(attributes);
        let routes = self.route_of_each_cpu(&pods, &injectors);
        let injector_by_cpu: Arc<[u8]> = routes.iter().map(|route| route.injector as u8).collect();
        let limits = self.worker_limits(&pods);
        let mut pools: Vec<Arc<Pool<P>>> = Vec::with_capacity(pods.len());
        let members = members.map(|members| {
            members_of_pods(members, pods.iter().map(|pod| pod.cpus.len()).collect())
        });
        for (at, (pod, limit)) in pods.iter().zip(limits).enumerate() {
            let home = self.platform_cpus(&pod.cpus);
            let members = members.as_ref().map(|members| members[at].clone());
            let place = Place {
                pod: pod.id,
                cpus: pod.cpus.clone(),
                node: pod.node.filter(|_| self.laid_over.is_none()),
                roam: if attributes.strict { home.clone() } else { roam.clone() },
                home,
                // A team gets as many threads as were requested, even more than there are CPUs: its members may block
                // unannounced.
                limit: members.as_ref().map_or(limit, |members| members.len()),
                members: members.clone().unwrap_or_default(),
                injector_by_cpu: Arc::clone(&injector_by_cpu),
                thread_names: Arc::clone(&self.thread_names),
            };
            tracing::info!(
                scope = %attributes.scope, pod = %pod.id, cpus = %pod.cpus,
                worker_limit = place.limit, "pool"
            );
            let attributes = Arc::clone(&attributes);
            let event = Arc::clone(&self.event);
            let most_workers = members.map_or(self.settings.most_workers, |members| members.len());
            let settings = PoolSettings { most_workers, ..self.settings };
            match Pool::start(place, attributes, settings, event, &self.monitor) {
                Ok(pool) => pools.push(pool),
                Err(error) => {
                    pools.iter().for_each(|pool| pool.tell_to_go());
                    return Err(BuildErrorKind::Worker(error));
                }
            }
        }
        let lease = PoolSet::lease_new(attributes, pods, pools.into(), routes, injectors);
        lease.set().introduce(&self.topology);
        Ok(lease)
    }

    /// Returns how many workers each pod's pool may run at once, by pod.
    fn worker_limits(&self, pods: &Pods) -> Vec<usize> {
        let usable = self.usable.lock().len();
        let pod_cpus: Vec<usize> = pods.iter().map(|pod| pod.cpus.len()).collect();
        match (self.workers, self.cpu_quota) {
            (Some(workers), _) => {
                shared_out(workers, &pod_cpus, usable, self.settings.most_workers)
            }
            (None, None) => pod_cpus,
            // A pod's share of the quota, rounded up: at least one, at most its CPUs.
            (None, Some(quota)) => pod_cpus
                .into_iter()
                .map(|cpus| {
                    let share = quota * cpus as f64 / usable as f64;
                    (share.ceil() as usize).clamp(1, cpus)
                })
                .collect(),
        }
    }

    /// Maps `cpus` of the topology to the platform's CPUs.
    fn platform_cpus(&self, cpus: &CpuSet) -> CpuSet {
        match &self.laid_over {
            None => cpus.clone(),
            Some(real) => cpus.iter().map(|cpu| real[cpu.index() % real.len()]).collect(),
        }
    }

    fn route_of_each_cpu(&self, pods: &Pods, injectors: &[u8]) -> Arc<[Route]> {
        let mut routes = vec![None; 1 + self.highest_cpu()];
        for cpu in self.topology.cpus() {
            let Some(pod) = pods.pod_of(cpu.id) else { continue };
            let real = match &self.laid_over {
                None => cpu.id,
                Some(real) => real[cpu.id.index() % real.len()],
            };
            let injector = u32::from(injectors[cpu.id.index()]);
            routes[real.index()].get_or_insert(Route { pod: pod.0, injector });
        }
        // A CPU outside the mask is routed to the pod of the nearest CPU inside it.
        (0..routes.len())
            .map(|at| {
                let pod =
                    || self.nearest_pod(CpuId(at as u32), pods).unwrap_or((at % pods.len()) as u32);
                routes[at].unwrap_or_else(|| Route { pod: pod(), injector: 0 })
            })
            .collect()
    }

    fn nearest_pod(&self, cpu: CpuId, pods: &Pods) -> Option<u32> {
        let here = self.topology.cpu(cpu).filter(|_| self.laid_over.is_none())?;
        let served = || {
            self.topology.cpus().iter().filter_map(|other| Some((other, pods.pod_of(other.id)?)))
        };
        served()
            .find(|(other, _)| other.llc == here.llc)
            .or_else(|| served().find(|(other, _)| other.node == here.node))
            .map(|(_, pod)| pod.0)
    }

    fn highest_cpu(&self) -> usize {
        let real = self.laid_over.iter().flatten().map(|cpu| cpu.index());
        self.topology.cpus().iter().map(|cpu| cpu.id.index()).chain(real).max().unwrap_or(0)
    }
}

/// Divides `workers` for `usable` CPUs among pods with the given numbers of CPUs. Remainders go to the pods at which the
/// running sum falls behind most, so that all pods of all usable CPUs together have `workers`, except those whose share is less
/// than one worker or more than `most`.
fn shared_out(workers: usize, pod_cpus: &[usize], usable: usize, most: usize) -> Vec<usize> {
    let upto = |cpus: usize| workers.saturating_mul(cpus) / usable.max(1);
    let mut before = 0;
    pod_cpus
        .iter()
        .map(|cpus| {
            let share = upto(before + cpus) - upto(before);
            before += cpus;
            share.clamp(1, most)
        })
        .collect()
}

/// Assigns the members of a team to pods: at least one to each, otherwise in proportion to the pods' CPUs.
fn members_of_pods(members: usize, pod_cpus: Vec<usize>) -> Vec<Range<usize>> {
    let mut counts = vec![1; pod_cpus.len()];
    for _ in pod_cpus.len()..members {
        // To the pod that leaves each of its members the largest part of a CPU.
        let next = (0..counts.len()).min_by(|&one, &other| {
            let load =
                |pod: usize| (counts[pod] + 1) * pod_cpus[if pod == one { other } else { one }];
            load(one).cmp(&load(other))
        });
        next.into_iter().for_each(|pod| counts[pod] += 1);
    }
    let mut first = 0;
    counts
        .into_iter()
        .map(|count| {
            first += count;
            first - count..first
        })
        .collect()
}

/// Returns the injector of each CPU in its pod's pool: as many injectors as CPUs, up to a limit, then in turn.
fn injectors(pods: &Pods, highest_cpu: usize) -> Box<[u8]> {
    let mut injectors = vec![0; highest_cpu + 1];
    for pod in pods.iter() {
        for (at, cpu) in pod.cpus.iter().enumerate() {
            injectors[cpu.index()] = (at % MAX_INJECTORS) as u8;
        }
    }
    injectors.into()
}

impl<P: Platform> Follower for Machine<P> {
    fn follow(&self) {
        // A probe that panics gives no answer; its panic was printed.
        let Some(probe) = &self.probe else { return };
        let Ok(Some(cpus)) = probe.call(|probe| probe()) else { return };
        let cpus = cpus.intersection(self.topology.online());
        if cpus.is_empty() || *self.usable.lock() == cpus {
            return;
        }
        if let Err(error) = self.set_usable(cpus) {
            tracing::warn!(%error, "a queue could not leave CPUs that were removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{members_of_pods, shared_out};

    #[test]
    fn each_pod_has_a_member_and_large_ones_more() {
        assert_eq!(members_of_pods(4, vec![2, 2]), [0..2, 2..4]);
        assert_eq!(members_of_pods(5, vec![8, 2]), [0..4, 4..5]);
        assert_eq!(members_of_pods(2, vec![8, 8]), [0..1, 1..2]);
    }

    #[test]
    fn workers_are_shared_out_by_cpus() {
        assert_eq!(shared_out(64, &[2], 2, 512), [64]);
        assert_eq!(shared_out(64, &[8, 8], 16, 512), [32, 32]);
        assert_eq!(shared_out(7, &[4, 4, 4], 12, 512), [2, 2, 3], "they add up");
        assert_eq!(shared_out(8, &[4, 12], 16, 512), [2, 6]);
        assert_eq!(shared_out(2, &[1, 1, 1, 1], 4, 512), [1, 1, 1, 1], "at least one each");
        assert_eq!(shared_out(64, &[1], 2, 512), [32], "a queue on half of the CPUs");
        assert_eq!(
            shared_out(4_000, &[2, 2], 4, 512),
            [512, 512],
            "as many as a pool has room for"
        );
        assert_eq!(shared_out(usize::MAX, &[1], 1, 8), [8]);
    }
}

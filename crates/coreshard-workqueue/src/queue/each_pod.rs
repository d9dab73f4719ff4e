//! Something that is to be done once in each pod.

use std::collections::BTreeMap;

use coreshard_platform::Platform;
use coreshard_topology::{Pod, PodId};

use super::workqueue::Workqueue;
use crate::base::error::{Refused, RefusedReason};
use crate::base::target::Target;
use crate::insight::Label;
use crate::insight::stats::PoolId;
use crate::pool::worker_here;

impl<P: Platform> Workqueue<P> {
    /// Calls `body` once in each of the queue's pods, on a worker there, and returns what it returned, by pod:
    /// to make or read what a pod's workers share, such as a cache of theirs.
    ///
    /// Not once on each worker, as rayon's `broadcast`: workers come and go. What each of them needs is made by
    /// a [hook](crate::Hooks::on_start). And for each CPU only where the queue's scope is [`Cpu`](coreshard_topology::Scope::Cpu), which the kernel's
    /// `schedule_on_each_cpu()` is like.
    ///
    /// Where the queue's pods change meanwhile ([`Runtime::set_usable`](crate::Runtime::set_usable), [`change`](Self::change)), the results are those
    /// of the pods that it has at the end, and `body` may have been called in others as well, which are gone by then.
    ///
    /// Each call is an item of the queue; but inside one of its items, the caller's own pod is seen to by
    /// the caller. The call waits until all are over, as [`scope`](Self::scope) does, and helps with none of them.
    ///
    /// # Errors
    /// If the queue takes no more, maybe after some calls; or inside an item of this queue, where
    /// it has a limit or an order.
    ///
    /// # Panics
    /// With what the first call of `body` to panic threw, after all of them.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_topology::{Scope, Topology};
    /// # use coreshard_workqueue::{Runtime, current};
    /// # let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1")?;
    /// # let runtime = Runtime::<Host>::builder(topology).laid_over(coreshard_platform::affinity()?).build()?;
    /// let queue = runtime.workqueue().scope(Scope::Cache).build()?;
    /// let pools = queue.on_each_pod(|pod| {
    ///     let here = current::<Host>().expect("a worker");
    ///     assert_eq!(here.pod(), pod);
    ///     here.pool()
    /// }).expect("the queue is open");
    /// assert_eq!(pools, [queue.stats().pools[0].id, queue.stats().pools[1].id]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("broadcast", "schedule_on_each_cpu"))]
    #[track_caller]
    pub fn on_each_pod<F, R>(&self, body: F) -> Result<Vec<R>, Refused>
    where
        F: Fn(PodId) -> R + Sync + Send,
        R: Send,
    {
        if self.shared().holds_turn() {
            return Err(RefusedReason::WouldDeadlock.into());
        }
        let mut results = BTreeMap::new();
        loop {
            let set = self.shared().set();
            let pods: Vec<_> = set.pods.iter().zip(set.pools().map(|pool| pool.id)).collect();
            self.on_pods(&pods, &body, &mut results)?;
            if pods.iter().all(|(_, pool)| results.contains_key(pool)) {
                let result = |(_, pool): &(_, PoolId)| results.remove(pool);
                return Ok(pods.iter().filter_map(result).collect());
            }
            // Its pods have changed meanwhile.
        }
    }

    /// Calls `body` on a worker of each pool that has no result yet, where the queue has that pool still.
    fn on_pods<F, R>(
        &self,
        pods: &[(&Pod, PoolId)],
        body: &F,
        results: &mut BTreeMap<PoolId, R>,
    ) -> Result<(), RefusedReason>
    where
        F: Fn(PodId) -> R + Sync + Send,
        R: Send,
    {
        let is_here = |pool| worker_here::<P>().is_some_and(|here| here.pool == pool);
        let waiter = self.waiter().filter(|waiter| self.shared().is_part_of_item(waiter));
        let mut made: Vec<_> = pods.iter().map(|_| None).collect();
        let queued = self.scope(|scope| {
            let mut own = None;
            for ((pod, pool), result) in pods.iter().zip(&mut made) {
                if results.contains_key(pool) {
                    continue;
                }
                if waiter.is_some() && is_here(*pool) {
                    own = Some((pod.id, result));
                    continue;
                }
                let cpu = pod.cpus.iter().next().expect("a pod has CPUs");
                let work = move || *result = is_here(*pool).then(|| body(pod.id));
                match scope.queue_there(Target::Cpu(cpu), Label::item::<F>(), work) {
                    Ok(()) | Err(RefusedReason::NoSuchCpu(_)) => {}
                    Err(reason) => return Err(reason),
                }
            }
            if let Some((pod, result)) = own {
                *result = Some(body(pod));
            }
            Ok(())
        });
        let made = pods.iter().zip(made).filter_map(|((_, pool), made)| Some((*pool, made?)));
        results.extend(made);
        queued
    }
}

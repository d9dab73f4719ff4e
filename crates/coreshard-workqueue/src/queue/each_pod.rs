//! Something that is to be done once in each pod.

use coreshard_platform::Platform;
use coreshard_topology::PodId;

use super::workqueue::Workqueue;
use crate::base::error::{Refused, RefusedReason};
use crate::base::target::Target;
use crate::insight::Label;
use crate::pool::worker_here;

impl<P: Platform> Workqueue<P> {
    /// Calls `body` once in each of the queue's pods, on a worker there, and returns what it returned, by pod:
    /// to make or read what a pod's workers share, such as a cache of theirs.
    ///
    /// Not once on each worker, as rayon's `broadcast`: workers come and go. What each of them needs is made by
    /// a [hook](crate::Hooks::on_start). And for each CPU only where the queue's scope is [`Cpu`](coreshard_topology::Scope::Cpu), which the kernel's
    /// `schedule_on_each_cpu()` is like.
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
        let set = self.shared().set();
        let mut results: Vec<Option<R>> = set.pods.iter().map(|_| None).collect();
        let waiter = self.waiter();
        let own_pod = waiter
            .filter(|waiter| self.shared().is_part_of_item(waiter))
            .and_then(|_| worker_here::<P>())
            .map(|here| here.pod);
        if self.shared().holds_turn() {
            return Err(RefusedReason::WouldDeadlock.into());
        }
        let queued: Result<(), RefusedReason> = self.scope(|scope| {
            let (mut own, body) = (None, &body);
            for (pod, result) in set.pods.iter().zip(&mut results) {
                if own_pod == Some(pod.id) {
                    own = Some((pod.id, result));
                    continue;
                }
                let cpu = pod.cpus.iter().next().expect("a pod has CPUs");
                let work = move || *result = Some(body(pod.id));
                scope.queue_there(Target::Cpu(cpu), Label::item::<F>(), work)?;
            }
            if let Some((pod, result)) = own {
                *result = Some(body(pod));
            }
            Ok(())
        });
        queued?;
        Ok(results.into_iter().flatten().collect())
    }
}

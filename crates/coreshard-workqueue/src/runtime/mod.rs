//! The runtime: a machine's topology, limits and settings.

mod builder;
mod current;
#[cfg(feature = "hyper")]
mod hyper_timer;
mod runtime_builder;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use coreshard_platform::{Host, Platform};
use coreshard_topology::{CpuSet, Topology};

use crate::base::error::{BuildError, BuildErrorKind, ShutdownTimeout};
use crate::config::request::Request;
use crate::config::team::TeamSpec;
use crate::insight::stats::RuntimeStats;
use crate::pool::{Lease, NameMember, StartMember};
use crate::queue::machine::{Machine, Queue, alive};
use crate::queue::{Backlog, Shared, Workqueue};
use crate::timers::{self, Sleep, SleepError, Timeout, Timers};
pub use builder::Builder;
pub(crate) use builder::MIN_STACK_BYTES;
pub use current::{Current, current};
pub use runtime_builder::RuntimeBuilder;

/// A topology, limits and settings, and the pools shared by the queues that are built here.
///
/// Most programs need one, and the crate `coreshard` has one for the process. Clones are handles to the same runtime; worker
/// threads live as long as the queues they serve. After the last handles of the runtime and its queues were dropped, a detached
/// task that still waits, or a [`Sleep`] of the runtime, keeps two sleeping threads: the monitor and the timekeeper. They exit
/// afterwards.
pub struct Runtime<P: Platform = Host> {
    machine: Arc<Machine<P>>,
}

impl<P: Platform> RuntimeBuilder<P> {
    /// Creates the runtime. Starts no threads; queues do.
    ///
    /// # Errors
    /// Fails if no CPU is usable, a CPU to be used does not exist, the quota is not a number above 0, or the number or the
    /// maximum of workers is 0.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.workers(8).build()?;
    /// let queue = runtime.workqueue().name("mail").build()?;
    /// queue.queue(|| println!("sent"))?;
    /// let error = coreshard::runtime_builder()?.max_workers(0).build().unwrap_err();
    /// assert!(error.to_string().contains("max_workers is 0; at least 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    pub fn build(self) -> Result<Runtime<P>, BuildError> {
        let what = format!("runtime on {}", self.topology().name());
        let machine = self.into_machine().map_err(|kind| BuildError::new(what, kind))?;
        Ok(Runtime { machine })
    }
}

impl<P: Platform> Runtime<P> {
    /// Returns a builder for a runtime on `topology`.
    ///
    /// # Examples
    /// ```
    /// use coreshard::{Runtime, Topology};
    ///
    /// let runtime = Runtime::builder(Topology::host()?).build()?;
    /// let queue = runtime.workqueue().build()?;
    /// queue.queue(|| println!("on a runtime of its own"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(topology: Topology) -> RuntimeBuilder<P> {
        RuntimeBuilder::new(topology)
    }

    /// Returns the topology.
    ///
    /// # Examples
    /// ```
    /// let machine = coreshard::runtime()?.topology();
    /// println!("{} cores, {} last-level caches", machine.cores(), machine.llcs());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn topology(&self) -> &Topology {
        &self.machine.topology
    }

    /// Returns the CPUs that queues without a mask use.
    ///
    /// # Examples
    /// ```
    /// let cpus = coreshard::runtime()?.usable();
    /// assert!(!cpus.is_empty());
    /// println!("this process may use {cpus}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn usable(&self) -> CpuSet {
        if self.machine.is_forked() {
            // The lock may be held by a thread that does not exist in this process.
            let usable = self.machine.usable.try_lock().map(|usable| usable.clone());
            return usable.unwrap_or_else(|| {
                let online = self.machine.topology.online();
                match P::process_cpus().filter(|_| self.machine.laid_over.is_none()) {
                    Some(allowed) => online.intersection(&allowed),
                    None => online.clone(),
                }
            });
        }
        self.machine.usable.lock().clone()
    }

    /// Returns statistics of all queues and pools of the runtime so far.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime()?;
    /// let queue = runtime.workqueue().name("mail").build()?;
    /// for queue in runtime.stats().queues {
    ///     println!("{}: {} items in flight", queue.name, queue.in_flight());
    /// }
    /// # drop(queue);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> RuntimeStats {
        if self.machine.is_forked() {
            // The workers do not exist here, and locks may have been held when the process forked.
            return RuntimeStats { queues: Vec::new(), pools: Vec::new() };
        }
        let (queues, sets) = {
            let registry = self.machine.registry.lock();
            (alive(&registry.queues), alive(&registry.sets))
        };
        // Not under the lock: the last holder of a queue or a set waits for threads.
        RuntimeStats {
            queues: queues.iter().map(|queue| queue.stats()).collect(),
            pools: sets.iter().flat_map(|set| set.pools()).map(|pool| pool.stats()).collect(),
        }
    }

    /// Continues on other CPUs: CPUs that were taken offline, or removed from the process's affinity or cpuset, are no longer
    /// used, and CPUs that returned are used again. Each queue's pods are computed anew, and the queue moves to them as by
    /// [`Workqueue::change`]: items that were queued before run in the pools that they were queued to, and no item is lost. A
    /// queue with a mask uses the remaining CPUs of the mask. If none remains, it uses all CPUs, with a warning, until CPUs of
    /// the mask return.
    ///
    /// # Errors
    /// Fails if `cpus` is empty or names CPUs that the topology does not have; nothing is changed then. Also fails if workers
    /// for a queue's new pools cannot be started: that queue stays with its old pools, the others have moved.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.build()?;
    /// let queue = runtime.workqueue().name("mail").build()?;
    /// let all = runtime.usable();
    /// let first = all.iter().next().expect("there is one").to_string();
    /// runtime.set_usable(first.parse()?)?; // the others are for somebody else now
    /// queue.queue(|| println!("on the one that is left"))?;
    /// runtime.set_usable(all)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_usable(&self, cpus: CpuSet) -> Result<(), BuildError> {
        self.machine.set_usable(cpus)
    }

    /// Returns the quota of CPU time, in CPUs.
    ///
    /// # Examples
    /// ```
    /// match coreshard::runtime()?.cpu_quota() {
    ///     Some(cpus) => println!("a container with {cpus} CPUs"),
    ///     None => println!("no quota"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cpu_quota(&self) -> Option<f64> {
        self.machine.cpu_quota
    }

    /// Accepts no more queues and no more work, and waits until all accepted work has finished, or for `timeout`.
    ///
    /// # Errors
    /// Fails if work is left when the timeout elapses. The work continues, and the call may be repeated. A process that was
    /// forked from the runtime's has no threads to wait for, and the call has no effect.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = coreshard::runtime_builder()?.build()?;
    /// let queue = runtime.workqueue().name("mail").build()?;
    /// queue.queue(|| println!("sent, since it was accepted"))?;
    /// runtime.shutdown(Duration::from_secs(60))?;
    /// assert!(queue.queue(|| ()).is_err() && runtime.workqueue().build().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(&self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        if self.machine.is_forked() {
            // A forked process has no threads to run the remaining work or to be waited for.
            return Ok(());
        }
        let deadline = P::now() + timeout;
        let queues = self.close();
        queues.iter().for_each(|queue| queue.shut_down());
        let left = queues
            .iter()
            .filter_map(|queue| queue.wait_empty(Some(deadline)).err())
            .map(|error| error.in_flight())
            .sum();
        if left == 0 { Ok(()) } else { Err(ShutdownTimeout::new(left)) }
    }

    /// Shuts all queues down at once, each as by [`Workqueue::shutdown_now`], and accepts no new ones. Work that has not begun
    /// is returned, sleeping and waiting futures are dropped, and work that has begun is waited for, for `timeout` in all.
    ///
    /// The items are returned queue by queue, the oldest queue first. A [`Sleep`] in another executor's future continues; so do
    /// teams, which end with their handles.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = coreshard::runtime_builder()?.build()?;
    /// let mails = runtime.workqueue().name("mails").ordered().build()?;
    /// let beats = runtime.workqueue().name("beats").build()?;
    /// let (open, opened) = std::sync::mpsc::channel::<()>();
    /// # let (begun, begins) = std::sync::mpsc::channel();
    /// mails.queue(move || {
    ///     # begun.send(()).unwrap();
    ///     _ = opened.recv()
    /// })?;
    /// # begins.recv()?;
    /// mails.queue(|| println!("sent after all"))?;
    /// let later = coreshard::Work::new(|_| println!("an hour has passed"));
    /// later.queue_after(&beats, Duration::from_secs(3600))?;
    ///
    /// let backlog = runtime.shutdown_now(Duration::from_millis(5));
    /// assert_eq!((backlog.len(), backlog.in_flight()), (1, 1));
    /// assert!(!later.is_pending() && runtime.delayed_items() == 0);
    /// assert!(runtime.workqueue().build().is_err());
    /// drop(open);
    /// backlog.for_each(|mail| mail.run());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("shutdownNow", "shutdown_background"))]
    pub fn shutdown_now(&self, timeout: Duration) -> Backlog {
        let deadline = P::now() + timeout;
        // A forked process has no thread that has begun any work.
        let queues = if self.machine.is_forked() { Vec::new() } else { self.close() };
        // All are stopped first, so that none begins its items while another one is waited for.
        queues.iter().for_each(|queue| queue.stop());
        let collected = queues.iter().map(|queue| queue.collect(deadline));
        Backlog::of(collected.fold((Vec::new(), 0), |(mut items, in_flight), (more, left)| {
            items.extend(more);
            (items, in_flight + left)
        }))
    }

    /// Accepts no new queues; returns the existing ones.
    fn close(&self) -> Vec<Arc<dyn Queue>> {
        let mut registry = self.machine.registry.lock();
        registry.closed = true;
        alive(&registry.queues)
    }

    /// Returns a future that completes after `duration`, under any executor.
    ///
    /// # Errors
    /// Fails if `duration` exceeds the clock's range, or no timekeeper thread can be started.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// # use futures_lite::future::block_on;
    ///
    /// let asleep = coreshard::runtime()?.sleep(Duration::from_millis(1))?;
    /// block_on(asleep);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sleep(&self, duration: Duration) -> Result<Sleep<P>, SleepError> {
        timers::sleep(self.timers(), duration)
    }

    /// Runs `future` with a time limit, under any executor. Yields its output, or [`Elapsed`](crate::Elapsed), with `future`
    /// dropped, if the time elapses first. A `duration` beyond the clock's range means no limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use futures_lite::future::block_on;
    ///
    /// let runtime = coreshard::runtime()?;
    /// let quick = runtime.timeout(Duration::from_secs(60), async { 7 })?;
    /// assert_eq!(block_on(quick)?, 7);
    /// let late = runtime.timeout(Duration::from_millis(1), std::future::pending::<()>())?;
    /// assert!(block_on(late).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if no timekeeper thread can be started, or this process was forked from the runtime's: `future` is then dropped.
    pub fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<Timeout<F, P>, SleepError> {
        timers::timeout(self.timers(), duration, future)
    }

    /// Returns how many items and futures wait for their time.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = coreshard::runtime_builder()?.build()?;
    /// let queue = runtime.workqueue().build()?;
    /// let later = coreshard::Work::new(|_| println!("an hour has passed"));
    /// later.queue_after(&queue, Duration::from_secs(3600))?;
    /// assert_eq!(runtime.delayed_items(), 1);
    /// later.cancel();
    /// assert_eq!(runtime.delayed_items(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delayed_items(&self) -> usize {
        if self.machine.is_forked() { 0 } else { self.machine.timers.len() }
    }

    pub(crate) fn timers(&self) -> &Arc<Timers<P>> {
        &self.machine.timers
    }

    /// Returns how many workers run at once on all usable CPUs.
    pub(crate) fn workers(&self) -> usize {
        let machine = &self.machine;
        let cpus = machine.usable.lock().len();
        let by_quota =
            machine.cpu_quota.map_or(cpus, |quota| (quota.ceil() as usize).clamp(1, cpus));
        machine.workers.unwrap_or(by_quota)
    }

    /// Lists `queue` among the runtime's queues while it exists.
    pub(crate) fn list(&self, queue: Weak<dyn Queue>) {
        self.machine.registry.lock().list(queue);
    }

    pub(crate) fn start_team(
        &self,
        request: Request,
        team: Arc<TeamSpec>,
        name_of: NameMember<'_>,
        start: Option<StartMember<'_>>,
    ) -> Result<Lease<P>, BuildError> {
        let fail = |kind| BuildError::new(format!("team {:?}", request.name), kind);
        if self.machine.is_forked() {
            return Err(fail(BuildErrorKind::Forked));
        }
        self.machine.start_team(&request, team, name_of, start).map_err(fail)
    }

    // Compiled in the crate that names the platform, and not again in each crate that uses that one.
    #[inline(never)]
    pub(crate) fn make_queue(&self, request: Request) -> Result<Workqueue<P>, BuildError> {
        let what = format!("workqueue {:?}", request.name);
        self.try_make_queue(request).map_err(|kind| BuildError::new(what, kind))
    }

    fn try_make_queue(&self, request: Request) -> Result<Workqueue<P>, BuildErrorKind> {
        let machine = &self.machine;
        if machine.is_forked() {
            return Err(BuildErrorKind::Forked);
        }
        if request.is_contradictory {
            return Err(BuildErrorKind::OrderedLimit);
        }
        machine.check_mask(request.mask.as_ref())?;
        let attributes = machine.attributes(&request)?;
        let lease = machine.lease(attributes, &request)?;
        let shared = Shared::new(request, lease, Arc::clone(machine));
        let shared = shared.ok_or(BuildErrorKind::TooManyQueues)?;
        let mut registry = machine.registry.lock();
        if registry.closed {
            drop(registry);
            return Err(BuildErrorKind::ShutDown);
        }
        registry.list(Arc::downgrade(&shared) as _);
        drop(registry);
        Ok(Workqueue::from_shared(shared))
    }
}

impl<P: Platform> Clone for Runtime<P> {
    fn clone(&self) -> Self {
        Self { machine: Arc::clone(&self.machine) }
    }
}

impl<P: Platform> fmt::Debug for Runtime<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("topology", &self.machine.topology.name())
            .field("usable", &self.usable())
            .field("cpu_quota", &self.machine.cpu_quota)
            .finish_non_exhaustive()
    }
}

//! A machine as a program uses it: topology, limits and settings.

mod builder;
mod current;
#[cfg(feature = "hyper")]
mod hyper_timer;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use coreshard_platform::user::User;
use coreshard_platform::{Host, Lock, Platform, SleepingLock};
use coreshard_topology::{CpuId, CpuSet, Topology};

use crate::base::error::{BuildError, BuildErrorKind, ShutdownTimeout};
use crate::base::event::Event;
use crate::config::attributes::Hooks;
use crate::config::request::Request;
use crate::config::team::TeamSpec;
use crate::insight::stats::RuntimeStats;
use crate::insight::trouble::{Trouble, Watchdog};
use crate::insight::{Sampling, Wanted};
use crate::pool::{Lease, MAX_WORKERS, Monitor, NameMember, PoolSettings, StartMember};
use crate::queue::machine::{Machine, Probe, Queue, Registry, alive};
use crate::queue::{Backlog, Shared, Workqueue};
use crate::task;
use crate::timers::{self, Sleep, SleepError, Timeout, Timers};
pub use builder::Builder;
pub(crate) use builder::MIN_STACK_BYTES;
pub use current::{Current, current};

/// A topology, limits and settings, and the pools that the queues made here share.
///
/// Most programs need one, and the crate `coreshard` has one for the process. Clones are handles
/// to the same runtime; worker threads live as long as the queues they serve. What is left behind keeps two threads,
/// which sleep: where the last handles of runtime and queues are dropped while a detached task waits for something, or
/// anybody holds a [`Sleep`] of the runtime's, its monitor and its timekeeper end after that.
pub struct Runtime<P: Platform = Host> {
    machine: Arc<Machine<P>>,
}

/// Makes a [`Runtime`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct RuntimeBuilder<P: Platform = Host> {
    topology: Topology,
    usable: Option<CpuSet>,
    cpu_quota: Option<f64>,
    workers: Option<usize>,
    hooks: Hooks,
    thread_names: String,
    laid_over: Option<CpuSet>,
    measure_lock: bool,
    idle_timeout: Duration,
    insight: Wanted,
    most_workers: usize,
    most_workers_per_pool: usize,
    watch: Watchdog,
    probe: Option<Probe>,
    _platform: std::marker::PhantomData<P>,
}

impl<P: Platform> fmt::Debug for RuntimeBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder")
            .field("topology", &self.topology.name())
            .field("usable", &self.usable)
            .field("cpu_quota", &self.cpu_quota)
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}

impl<P: Platform> RuntimeBuilder<P> {
    /// The CPUs of the topology that may be used. Default: those that the process may use, by its main
    /// thread's affinity; all of them on a simulated machine, and on one that is [laid over](Self::laid_over) others.
    ///
    /// # Examples
    /// ```
    /// let cpus = coreshard::runtime()?.usable();
    /// let one = cpus.iter().next().expect("there is one").to_string();
    /// let runtime = coreshard::runtime_builder()?.usable(one.parse()?).build()?;
    /// assert_eq!(runtime.usable().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn usable(mut self, cpus: CpuSet) -> Self {
        self.usable = Some(cpus);
        self
    }

    /// How many CPUs' worth of time the process may use, as a cgroup's quota says. Pools then
    /// have their share of so many workers, at least one each. It must be above 0, else
    /// [`build`](Self::build) fails. Default: no quota.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.cpu_quota(1.5).build()?;
    /// assert_eq!(runtime.cpu_quota(), Some(1.5));
    /// assert!(coreshard::runtime_builder()?.cpu_quota(0.0).build().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "cgroup")]
    pub fn cpu_quota(mut self, cpus: f64) -> Self {
        self.cpu_quota = Some(cpus);
        self
    }

    /// How many workers run at once, in the pools of each set of attributes; also more than there are
    /// CPUs, for items that block without saying so ([`blocking`](crate::blocking)), or fewer. Default: one for each CPU,
    /// or as the [`cpu_quota`](Self::cpu_quota) says, which has no say in it where this is given.
    ///
    /// The pools of a set share them out by their CPUs: with 8 workers on pods of 4 and 12 CPUs, 2 and 6 run. A pool
    /// has one at least, so there may be more where pods are many, and 512 at most. A queue on some of the
    /// runtime's CPUs has its CPUs' share. Workers that are blocked do not count;
    /// [`max_workers_per_pool`](Self::max_workers_per_pool) and [`max_workers`](Self::max_workers) are the bounds with them, and hold here as well.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_topology::{Scope, Topology};
    /// # use coreshard_workqueue::Runtime;
    /// let topology = Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// let runtime = Runtime::<Host>::builder(topology).workers(64).build()?;
    /// let queue = runtime.workqueue().scope(Scope::System).build()?;
    /// assert_eq!(queue.stats().total().worker_limit, 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("num_threads", "worker_threads"))]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Hooks of all queues that have none of their own; see [`Builder::hooks`]. Default: none.
    ///
    /// # Examples
    /// ```
    /// use coreshard::Hooks;
    ///
    /// let hooks = Hooks::new().on_start(|pod| println!("a worker of pod {pod} begins"));
    /// let runtime = coreshard::runtime_builder()?.hooks(hooks).build()?;
    /// runtime.workqueue().build()?.queue(|| ())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// `hooks` as well, inside of those that were given before.
    ///
    /// # Examples
    /// ```
    /// use coreshard::Hooks;
    ///
    /// let counts = Hooks::new().on_start(|_| println!("one more"));
    /// let names = Hooks::new().on_start(|pod| println!("in pod {pod}"));
    /// let runtime = coreshard::runtime_builder()?.add_hooks(counts).add_hooks(names).build()?;
    /// runtime.workqueue().build()?.queue(|| println!("after both"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = self.hooks.and(hooks);
        self
    }

    /// What the names of workers' threads begin with, before scope, pod and number (`cs-shard0:1`). The
    /// kernel shows 15 bytes of a name, so a long prefix leaves nothing of the rest; bytes that are
    /// zero are left out. Default: `cs-`.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_topology::{Scope, Topology};
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// let runtime = Runtime::<Host>::builder(topology).thread_names("mail-").build()?;
    /// let queue = runtime.workqueue().scope(Scope::System).build()?;
    /// let name = queue.submit(|| std::fs::read_to_string("/proc/thread-self/comm"))?.join()?;
    /// assert!(name?.starts_with("mail-sys0:"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_names(mut self, prefix: impl Into<String>) -> Self {
        self.thread_names = prefix.into().replace('\0', "");
        self
    }

    /// Lays the topology, which is another machine's, over these CPUs of this one: its pods have
    /// pools of their own, whose workers are pinned to real CPUs in turn. Default: the topology
    /// is this machine's.
    ///
    /// # Examples
    /// ```
    /// use coreshard::{Runtime, Scope, Topology};
    ///
    /// // A machine of two caches on the CPUs that are here: its pods, in a test.
    /// let machine = Topology::from_synthetic("pack:1 l3:2 core:2 pu:1")?;
    /// let here = coreshard::runtime()?.usable();
    /// let runtime = Runtime::builder(machine).laid_over(here).build()?;
    /// let queue = runtime.workqueue().scope(Scope::Cache).build()?;
    /// assert_eq!(queue.stats().pools.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn laid_over(mut self, cpus: CpuSet) -> Self {
        self.laid_over = Some(cpus);
        self
    }

    /// Whether pools measure how long their lock is held, at the cost of reading the clock twice
    /// each time. Default: no.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.measure_lock_holds(true).build()?;
    /// let queue = runtime.workqueue().intake(coreshard::Intake::Locked).build()?;
    /// queue.queue(|| ())?;
    /// queue.flush()?;
    /// assert!(queue.stats().total().lock_holds > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn measure_lock_holds(mut self, measure: bool) -> Self {
        self.measure_lock = measure;
        self
    }

    /// Measures how long items wait and run, in all queues that do not say otherwise; see
    /// [`Builder::times`]. Default: no.
    ///
    /// # Examples
    /// ```
    /// use coreshard::Sampling;
    ///
    /// let runtime = coreshard::runtime_builder()?.times(Sampling::default()).build()?;
    /// let queue = runtime.workqueue().build()?;
    /// assert_eq!(queue.stats().times.expect("it measures").sampling, Sampling::default());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn times(mut self, sampling: Sampling) -> Self {
        self.insight.times = Some(sampling);
        self
    }

    /// Whether items and futures have `tracing` spans, in all queues that do not say otherwise;
    /// see [`Builder::spans`]. Default: no.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.spans(true).build()?;
    /// runtime.workqueue().build()?.queue(|| println!("inside a span"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spans(mut self, spans: bool) -> Self {
        self.insight.spans = spans;
        self
    }

    /// How long a worker sleeps without work before it ends; each pool keeps one. Default: 10 s.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = coreshard::runtime_builder()?.idle_timeout(Duration::from_secs(1)).build()?;
    /// # drop(runtime);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// How many workers the runtime may have in all; rescuers ([`Builder::rescuer`]) are not
    /// counted. A queue whose first workers are too many is not made; a pool that needs one more
    /// goes on with those it has, and tells of it. At least 1. Default: no limit.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.max_workers(64).build()?;
    /// let queue = runtime.workqueue().scope(coreshard::Scope::System).build()?;
    /// assert!(queue.stats().total().workers <= 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_workers(mut self, workers: usize) -> Self {
        self.most_workers = workers;
        self
    }

    /// How many workers a pool may have where most of them are blocked, at least 1; more than 512, which is the
    /// default, are 512.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.max_workers_per_pool(16).build()?;
    /// let queue = runtime.workqueue().build()?;
    /// assert!(queue.stats().pools.iter().all(|pool| pool.workers <= 16));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_workers_per_pool(mut self, workers: usize) -> Self {
        self.most_workers_per_pool = workers.min(MAX_WORKERS);
        self
    }

    /// How much CPU time an item may use while others wait before its worker is taken out of the
    /// count of those that run, so that another one takes over, and it is told of; zero for no
    /// limit. Default: 10 ms.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// // Items that compute for 50 ms are common here.
    /// let runtime =
    ///     coreshard::runtime_builder()?.cpu_intensive_threshold(Duration::from_millis(50)).build()?;
    /// # drop(runtime);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cpu_intensive_threshold(mut self, cpu_time: Duration) -> Self {
        self.watch.cpu_intensive = (!cpu_time.is_zero()).then_some(cpu_time);
        self
    }

    /// For how long a pool may have waiting items, and begin none, before it is told of, with a
    /// report of all pools; zero for ever. Default: 30 s.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = coreshard::runtime_builder()?
    ///     .stall_after(Duration::from_secs(5))
    ///     .on_trouble(|trouble| eprintln!("{trouble}"))
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stall_after(mut self, time: Duration) -> Self {
        self.watch.stall_after = (!time.is_zero()).then_some(time);
        self
    }

    /// Called with every [`Trouble`], one after the other, on a thread of the runtime's that nothing else
    /// depends on (`cs-trouble`). While it is at one, nobody is told of the next; more than 64 that wait are not told. The runtime owns it, so one that owns the runtime is never freed, and nor
    /// is the runtime. Default: `tracing` alone is told.
    ///
    /// # Examples
    /// ```
    /// use coreshard::Trouble;
    ///
    /// let runtime = coreshard::runtime_builder()?
    ///     .on_trouble(|trouble| match trouble {
    ///         Trouble::CpuHog(hog) => eprintln!("{} takes {:?}", hog.function, hog.cpu_time),
    ///         other => eprintln!("{other}"),
    ///     })
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_trouble(mut self, handler: impl Fn(&Trouble) + Send + Sync + 'static) -> Self {
        self.watch.on_trouble = Some(Arc::new(User::new(handler)));
        self
    }

    /// Asks `probe` about once a second, while there is work, which CPUs may be used, and follows
    /// it as [`Runtime::set_usable`] does. `None` is no answer, and nor is a panic. It is called on a
    /// thread of the runtime's, `cs-background`; while it is at it, it is not asked again. Default: nothing is followed.
    ///
    /// # Examples
    /// ```
    /// // A file says which CPUs are this program's; where it cannot be read, nothing changes.
    /// let runtime = coreshard::runtime_builder()?
    ///     .follow_cpus(|| std::fs::read_to_string("/etc/mail/cpus").ok()?.trim().parse().ok())
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn follow_cpus(
        mut self,
        probe: impl Fn() -> Option<CpuSet> + Send + Sync + 'static,
    ) -> Self {
        self.probe = Some(Box::new(User::new(probe)));
        self
    }

    /// Makes the runtime. Starts no thread: queues do.
    ///
    /// # Errors
    /// Where there is no usable CPU, one that is to be used does not exist, the quota is no number
    /// above 0, or no worker is to run, or there may be none.
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
        let what = format!("runtime on {}", self.topology.name());
        self.try_build().map_err(|kind| BuildError::new(what, kind))
    }

    fn try_build(self) -> Result<Runtime<P>, BuildErrorKind> {
        let online = self.topology.online();
        let usable = match self.usable {
            Some(named) => named,
            // Workers of an emulated machine run on the CPUs that it is laid over.
            None if self.laid_over.is_some() => online.clone(),
            None => match P::process_cpus() {
                Some(allowed) if online.is_disjoint(&allowed) => {
                    let kind =
                        BuildErrorKind::CpusNotUsable { cpus: online.clone(), usable: allowed };
                    return Err(kind);
                }
                Some(allowed) => online.intersection(&allowed),
                None => online.clone(),
            },
        };
        let laid_over: Option<Vec<CpuId>> = self.laid_over.map(|cpus| cpus.iter().collect());
        if usable.is_empty() || laid_over.as_ref().is_some_and(Vec::is_empty) {
            return Err(BuildErrorKind::EmptyMask);
        }
        if !usable.is_subset(online) {
            let cpus = usable.difference(online);
            let kind = BuildErrorKind::CpusNotUsable { cpus, usable: online.clone() };
            return Err(kind);
        }
        if let Some(cpus) = self.cpu_quota.filter(|cpus| cpus.is_nan() || *cpus <= 0.0) {
            return Err(BuildErrorKind::Quota(cpus));
        }
        let numbers = [
            ("workers", self.workers.unwrap_or(usize::MAX)),
            ("max_workers", self.most_workers),
            ("max_workers_per_pool", self.most_workers_per_pool),
        ];
        if let Some((which, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
            return Err(BuildErrorKind::WorkersZero(which));
        }
        let real_cpus = laid_over.as_ref().map_or(usable.len(), Vec::len);
        let settings = PoolSettings {
            measure_lock: self.measure_lock,
            idle_timeout: self.idle_timeout,
            // On one CPU, whoever would bring work cannot run while a worker watches for it.
            may_spin: P::idlers_may_spin()
                && real_cpus > 1
                && self.cpu_quota.is_none_or(|quota| quota > 1.0),
            most_workers: self.most_workers_per_pool,
            trusts_at_once: false,
        };
        let machine = Machine {
            topology: self.topology,
            usable: Lock::new(usable),
            cpu_quota: self.cpu_quota,
            workers: self.workers,
            hooks: self.hooks,
            thread_names: self.thread_names.into(),
            laid_over,
            settings,
            insight: self.insight,
            event: Arc::new(Event::new()),
            monitor: Arc::new(Monitor::new(self.watch, self.most_workers)),
            probe: self.probe,
            timers: Arc::new(Timers::new(task::wake_own::<P>)),
            registry: SleepingLock::new(Registry {
                sets: Vec::new(),
                queues: Vec::new(),
                closed: false,
            }),
            process_generation: P::process_generation(),
        };
        let machine = Arc::new(machine);
        if machine.probe.is_some() {
            let follower: Weak<Machine<P>> = Arc::downgrade(&machine);
            machine.monitor.set_follower(follower);
        }
        Ok(Runtime { machine })
    }
}

impl<P: Platform> Runtime<P> {
    /// A runtime on `topology`.
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
        RuntimeBuilder {
            topology,
            usable: None,
            cpu_quota: None,
            workers: None,
            hooks: Hooks::default(),
            thread_names: "cs-".to_owned(),
            laid_over: None,
            measure_lock: false,
            idle_timeout: Duration::from_secs(10),
            insight: Wanted::default(),
            most_workers: usize::MAX,
            most_workers_per_pool: MAX_WORKERS,
            watch: Watchdog::default(),
            probe: None,
            _platform: std::marker::PhantomData,
        }
    }

    /// The topology.
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

    /// The CPUs that queues without a mask use.
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
            // The lock may be held by nobody who is here.
            let usable = self.machine.usable.try_lock().map(|usable| usable.clone());
            return usable.unwrap_or_else(|| self.machine.topology.online().clone());
        }
        self.machine.usable.lock().clone()
    }

    /// What all queues and pools of the runtime have done so far.
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
            // The workers are not here, and nor is whoever held a lock when the process forked.
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

    /// Goes on with other CPUs: those that were taken offline, or out of the process's affinity or
    /// cpuset, are used no more, those that came back are. Each queue's pods are computed anew, and
    /// it moves over as by [`Workqueue::change`]: items that were queued before run in the pools
    /// that they were queued to, and nothing is lost. A queue with a mask uses what is left of it,
    /// and where nothing is left all CPUs, with a warning; its mask is in force again when its CPUs
    /// are back.
    ///
    /// # Errors
    /// Where `cpus` is empty or names CPUs that the topology does not have: nothing is changed
    /// then. Where workers for a queue's new pools cannot be had: that queue stays with its old
    /// ones, the others have moved.
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

    /// The quota of CPU time, in CPUs.
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

    /// Takes no more queues and no more work, and waits until all that was accepted is over, or
    /// for `timeout`.
    ///
    /// # Errors
    /// Where work is left when the time is over. It goes on, and the call may be made again. In a process that was forked
    /// from the runtime's there is nobody to wait for, and nothing is done.
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
            // Nobody is there to run what is left, or to be waited for.
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

    /// Shuts all queues down at once, each as by [`Workqueue::shutdown_now`], and takes no new ones: what has not begun
    /// comes back, what sleeps or waits is dropped, and what has begun is waited for, for `timeout` in all.
    ///
    /// The items come queue by queue, in the order in which the queues were made. A [`Sleep`] of another executor's future
    /// is that one's, and goes on; so do teams, which end with their handles.
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
        // In a forked process nobody is there who has begun anything.
        let queues = if self.machine.is_forked() { Vec::new() } else { self.close() };
        // All first, so that none begins what it has while another one is waited for.
        queues.iter().for_each(|queue| queue.stop());
        let collected = queues.iter().map(|queue| queue.collect(deadline));
        Backlog::of(collected.fold((Vec::new(), 0), |(mut items, in_flight), (more, left)| {
            items.extend(more);
            (items, in_flight + left)
        }))
    }

    /// Takes no new queues; has those that are there.
    fn close(&self) -> Vec<Arc<dyn Queue>> {
        let mut registry = self.machine.registry.lock();
        registry.closed = true;
        alive(&registry.queues)
    }

    /// A future that ends after `duration`, under any executor.
    ///
    /// # Errors
    /// Where the clock ends before, or no thread can be had that watches the clock.
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

    /// Gives `future` so long, under any executor: what it yields, or [`Elapsed`](crate::Elapsed), with `future`
    /// dropped, when the time is over before. Where the clock ends before that, there is no limit.
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
    /// Where no thread can be had that watches the clock, or this process was forked from the runtime's:
    /// `future` is dropped then.
    pub fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<Timeout<F, P>, SleepError> {
        timers::timeout(self.timers(), duration, future)
    }

    /// Items and futures that wait for their time.
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

    /// How many workers are to run at once on all CPUs that may be used.
    pub(crate) fn workers(&self) -> usize {
        let machine = &self.machine;
        let cpus = machine.usable.lock().len();
        let by_quota =
            machine.cpu_quota.map_or(cpus, |quota| (quota.ceil() as usize).clamp(1, cpus));
        machine.workers.unwrap_or(by_quota)
    }

    /// Tells of `queue` among the others, as long as it is there.
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

    // With its own code in the crate that names the platform, and not once more in each that uses that one.
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

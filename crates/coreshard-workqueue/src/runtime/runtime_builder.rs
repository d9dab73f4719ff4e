//! The builder of a runtime.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use coreshard_platform::user::User;
use coreshard_platform::{Host, Lock, Platform, SleepingLock};
use coreshard_topology::{CpuId, CpuSet, Topology};

use crate::base::error::BuildErrorKind;
use crate::base::event::Event;
use crate::config::attributes::Hooks;
use crate::insight::diagnostic::{Diagnostic, Watchdog};
use crate::insight::{Sampling, Wanted};
use crate::pool::{MAX_WORKERS, Monitor, PoolSettings};
use crate::queue::machine::{Machine, Probe, Registry};
use crate::task;
use crate::timers::Timers;

/// Configures and builds a [`Runtime`](crate::Runtime).
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
    pub(super) fn new(topology: Topology) -> Self {
        Self {
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

    fn with(mut self, edit: impl FnOnce(&mut Self)) -> Self {
        edit(&mut self);
        self
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Sets the CPUs of the topology that may be used. Default: the CPUs that the process may use, by its main thread's
    /// affinity; all CPUs on a simulated machine, and on one that is [laid over](Self::laid_over) others.
    ///
    /// # Examples
    /// ```
    /// let cpus = coreshard::runtime()?.usable();
    /// let one = cpus.iter().next().expect("there is one").to_string();
    /// let runtime = coreshard::runtime_builder()?.usable(one.parse()?).build()?;
    /// assert_eq!(runtime.usable().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn usable(self, cpus: CpuSet) -> Self {
        self.with(|wanted| wanted.usable = Some(cpus))
    }

    /// Sets the quota of CPU time, in CPUs, as a cgroup's quota does. Each pool then runs its share of that many workers, at
    /// least one. The quota must be above 0, otherwise [`build`](Self::build) fails. Default: no quota.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.cpu_quota(1.5).build()?;
    /// assert_eq!(runtime.cpu_quota(), Some(1.5));
    /// assert!(coreshard::runtime_builder()?.cpu_quota(0.0).build().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "cgroup")]
    pub fn cpu_quota(self, cpus: f64) -> Self {
        self.with(|wanted| wanted.cpu_quota = Some(cpus))
    }

    /// Sets how many workers run at once, in the pools of each set of attributes. It may exceed the number of CPUs, for items
    /// that block without using [`blocking`](crate::blocking), or be lower. Default: one for each CPU, or the
    /// [`cpu_quota`](Self::cpu_quota), which is ignored if this is set.
    ///
    /// The pools of a set divide the workers by their CPUs: with 8 workers on pods of 4 and 12 CPUs, 2 and 6 run. A pool has at
    /// least one, so there may be more if there are many pods, and at most 512. A queue that uses only some CPUs has their
    /// share. Blocked workers do not count; [`max_workers_per_pool`](Self::max_workers_per_pool) and
    /// [`max_workers`](Self::max_workers) limit the number including them, and apply here as well.
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
    pub fn workers(self, workers: usize) -> Self {
        self.with(|wanted| wanted.workers = Some(workers))
    }

    /// Sets the hooks of all queues that have none of their own; see [`Builder::hooks`](crate::Builder::hooks). Default: none.
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
    pub fn hooks(self, hooks: Hooks) -> Self {
        self.with(|wanted| wanted.hooks = hooks)
    }

    /// Adds `hooks`, which run inside the ones that were set before.
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

    /// Sets the prefix of the worker threads' names, before scope, pod and number (`cs-shard0:1`). The kernel shows 15 bytes of
    /// a name, so a long prefix hides the rest; zero bytes are removed. Default: `cs-`.
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
    pub fn thread_names(self, prefix: impl Into<String>) -> Self {
        self.with(|wanted| wanted.thread_names = prefix.into().replace('\0', ""))
    }

    /// Lays the topology of another machine over these CPUs of this one: its pods have separate pools, whose workers are pinned
    /// to real CPUs in turn. Default: the topology is this machine's.
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
    pub fn laid_over(self, cpus: CpuSet) -> Self {
        self.with(|wanted| wanted.laid_over = Some(cpus))
    }

    /// Sets whether pools measure how long their lock is held, at the cost of reading the clock twice each time. Default: no.
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
    pub fn measure_lock_holds(self, measure: bool) -> Self {
        self.with(|wanted| wanted.measure_lock = measure)
    }

    /// Measures how long items wait and run, in all queues without a setting of their own; see
    /// [`Builder::times`](crate::Builder::times). Default: no.
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
    pub fn times(self, sampling: Sampling) -> Self {
        self.with(|wanted| wanted.insight.times = Some(sampling))
    }

    /// Sets whether items and futures have `tracing` spans, in all queues without a setting of their own; see
    /// [`Builder::spans`](crate::Builder::spans). Default: no.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.spans(true).build()?;
    /// runtime.workqueue().build()?.queue(|| println!("inside a span"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spans(self, spans: bool) -> Self {
        self.with(|wanted| wanted.insight.spans = spans)
    }

    /// Sets how long a worker sleeps without work before it exits; each pool keeps one. Default: 10 s.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = coreshard::runtime_builder()?.idle_timeout(Duration::from_secs(1)).build()?;
    /// # drop(runtime);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn idle_timeout(self, timeout: Duration) -> Self {
        self.with(|wanted| wanted.idle_timeout = timeout)
    }

    /// Sets the maximum number of the runtime's workers, at least 1; rescuers ([`Builder::rescuer`](crate::Builder::rescuer))
    /// are not counted. A queue whose first workers would exceed it is not built. A pool that needs one more worker continues
    /// with those it has, and reports it. Default: no limit.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.max_workers(64).build()?;
    /// let queue = runtime.workqueue().scope(coreshard::Scope::System).build()?;
    /// assert!(queue.stats().total().workers <= 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_workers(self, workers: usize) -> Self {
        self.with(|wanted| wanted.most_workers = workers)
    }

    /// Sets the maximum number of workers of a pool, including blocked ones, at least 1. Default, and upper bound: 512.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.max_workers_per_pool(16).build()?;
    /// let queue = runtime.workqueue().build()?;
    /// assert!(queue.stats().pools.iter().all(|pool| pool.workers <= 16));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_workers_per_pool(self, workers: usize) -> Self {
        self.with(|wanted| wanted.most_workers_per_pool = workers.min(MAX_WORKERS))
    }

    /// Sets how much CPU time an item may use while others wait. Beyond it, the item's worker no longer counts as running, so
    /// that another worker takes over, and a diagnostic is reported. Zero for no limit. Default: 10 ms.
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
    pub fn cpu_intensive_threshold(self, cpu_time: Duration) -> Self {
        self.with(|wanted| wanted.watch.cpu_intensive = (!cpu_time.is_zero()).then_some(cpu_time))
    }

    /// Sets how long a pool may have waiting items and begin none before a stall is reported, with a report of all pools; zero
    /// for never. Default: 30 s.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = coreshard::runtime_builder()?
    ///     .stall_after(Duration::from_secs(5))
    ///     .on_diagnostic(|diagnostic| eprintln!("{diagnostic}"))
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stall_after(self, time: Duration) -> Self {
        self.with(|wanted| wanted.watch.stall_after = (!time.is_zero()).then_some(time))
    }

    /// Sets a handler that is called with every [`Diagnostic`], one after the other, on a separate thread of the runtime
    /// (`cs-trouble`). During a call further diagnostics wait; when 64 are waiting, later ones are discarded. The runtime owns
    /// the handler: if the handler owns the runtime, neither is ever freed. Default: only `tracing` reports them.
    ///
    /// # Examples
    /// ```
    /// use coreshard::Diagnostic;
    ///
    /// let runtime = coreshard::runtime_builder()?
    ///     .on_diagnostic(|diagnostic| match diagnostic {
    ///         Diagnostic::CpuHog(hog) => eprintln!("{} takes {:?}", hog.function, hog.cpu_time),
    ///         other => eprintln!("{other}"),
    ///     })
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_diagnostic(self, handler: impl Fn(&Diagnostic) + Send + Sync + 'static) -> Self {
        self.with(|wanted| wanted.watch.on_diagnostic = Some(Arc::new(User::new(handler))))
    }

    /// Calls `probe` about once a second, while there is work, to determine the usable CPUs, and follows its result as
    /// [`Runtime::set_usable`](crate::Runtime::set_usable) does. `None` and panics are ignored. It is called on a thread of the
    /// runtime, `cs-background`, and never concurrently with itself. Default: no probe.
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
    pub fn follow_cpus(self, probe: impl Fn() -> Option<CpuSet> + Send + Sync + 'static) -> Self {
        self.with(|wanted| wanted.probe = Some(Box::new(User::new(probe))))
    }

    /// Checks the settings, and creates the machine.
    pub(super) fn into_machine(self) -> Result<Arc<Machine<P>>, BuildErrorKind> {
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
            // With one CPU, a producer cannot run while a worker spins.
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
        Ok(machine)
    }
}

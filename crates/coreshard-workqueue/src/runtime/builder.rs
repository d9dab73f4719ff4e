//! The builder of a workqueue.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use coreshard_platform::user::User;
use coreshard_platform::{Host, Platform};
use coreshard_topology::{CpuSet, Scope, ShardSize};

use super::Runtime;
use crate::base::error::BuildError;
use crate::base::variants::Intake;
use crate::base::variants::Wake;
use crate::config::attributes::{Hooks, Priority};
use crate::config::request::{MaxActive, PanicPolicy, Request};
use crate::insight::Sampling;
use crate::queue::Workqueue;

/// The stack that a worker itself needs, with room for small items: a debug build overflows 24 KiB.
pub(crate) const MIN_STACK_BYTES: usize = 64 << 10;

/// Configures and builds a [`Workqueue`]. Queues with equal attributes share their pools and worker threads; the name,
/// `max_active` and the panic handler are separate for each queue.
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder<'runtime, P: Platform = Host> {
    runtime: &'runtime Runtime<P>,
    request: Request,
}

impl<P: Platform> fmt::Debug for Builder<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { name, scope, shard_size, strict, capacity, .. } = &self.request;
        f.debug_struct("Builder")
            .field("name", name)
            .field("scope", scope)
            .field("shard_size", shard_size)
            .field("strict", strict)
            .field("capacity", capacity)
            .finish_non_exhaustive()
    }
}

impl<P: Platform> Runtime<P> {
    /// Returns a builder for a workqueue on this runtime.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.build()?;
    /// let queue = runtime.workqueue().name("mail").build()?;
    /// assert_eq!(runtime.stats().queues[0].name, "mail");
    /// # drop(queue);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "alloc_workqueue")]
    pub fn workqueue(&self) -> Builder<'_, P> {
        Builder::new(self)
    }

    /// Returns the default attributes of a queue.
    pub(crate) fn request(&self, name: String) -> Request {
        Request {
            name,
            scope: Scope::CacheShard,
            shard_size: ShardSize::default(),
            strict: false,
            mask: None,
            nice: None,
            priority: Priority::default(),
            max_active: MaxActive::Unlimited,
            capacity: None,
            is_serial: false,
            is_contradictory: false,
            wake: Wake::default(),
            intake: Intake::default(),
            hooks: self.machine.hooks.clone(),
            stack_bytes: None,
            rescuer: None,
            panic_handler: None,
            panic_policy: PanicPolicy::default(),
            insight: self.machine.insight,
        }
    }
}

impl<'runtime, P: Platform> Builder<'runtime, P> {
    pub(crate) fn new(runtime: &'runtime Runtime<P>) -> Self {
        let request = runtime.request("unnamed".to_owned());
        Self { runtime, request }
    }

    /// Sets the name for reports and errors. Default: `unnamed`.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("mail").build()?;
    /// assert_eq!(queue.stats().name, "mail");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(self, name: impl Into<String>) -> Self {
        self.with(|request| request.name = name.into())
    }

    /// Sets which CPUs share a pool. Default: [`Scope::CacheShard`].
    ///
    /// # Examples
    /// ```
    /// use coreshard::Scope;
    ///
    /// // One pool for the whole machine: few CPUs bring work, in bursts, for all.
    /// let queue = coreshard::workqueue()?.scope(Scope::System).build()?;
    /// assert_eq!(queue.stats().pools.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scope(self, scope: Scope) -> Self {
        self.with(|request| request.scope = scope)
    }

    /// Sets the wanted size of a cache shard, in cores, at least 1. Default: 8.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.scope(coreshard::Scope::CacheShard).shard_size(4).build()?;
    /// println!("{} pools, of up to 4 cores each", queue.stats().pools.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shard_size(self, cores: usize) -> Self {
        self.with(|request| request.shard_size = ShardSize::new(cores))
    }

    /// Sets whether the queue's work stays in its pods: workers never leave their pod, and help no other. Default: no.
    ///
    /// By default a worker starts in its pod and returns to it, for at least 5 ms, but the kernel may move it out while the pod
    /// is full. If a pod has more waiting items than its workers can run soon, idle workers of the nearest other pods run some
    /// of them, on their own CPUs ([`PoolStats::guests`](crate::PoolStats::guests) counts their visits).
    ///
    /// A process that an item starts inherits the CPUs of its worker, unless the item calls
    /// [`ChildCommand::inherit_from_process`](coreshard_platform::ChildCommand::inherit_from_process).
    ///
    /// # Examples
    /// ```
    /// // A pool for each CPU, whose worker stays there: as the kernel's per-CPU queues.
    /// let queue = coreshard::workqueue()?.scope(coreshard::Scope::Cpu).strict(true).build()?;
    /// let cpu = coreshard::runtime()?.usable().iter().next().expect("there is one");
    /// queue.queue_on(cpu, move || println!("on {cpu}, and nowhere else"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("affn_strict", "pin"))]
    pub fn strict(self, strict: bool) -> Self {
        self.with(|request| request.strict = strict)
    }

    /// Sets the CPUs whose pods serve this queue. Default: all usable CPUs.
    ///
    /// # Examples
    /// ```
    /// let all = coreshard::runtime()?.usable();
    /// let first = all.iter().next().expect("there is one").to_string();
    /// let queue = coreshard::workqueue()?.name("logs").cpu_mask(first.parse()?).build()?;
    /// assert_eq!(queue.stats().total().worker_limit, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("affinity", "taskset"))]
    pub fn cpu_mask(self, cpus: CpuSet) -> Self {
        self.with(|request| request.mask = Some(cpus))
    }

    /// Sets the nice value of the workers, −20 to 19. Default: that of the process's main thread. Lower values need a
    /// privilege.
    ///
    /// Workers inherit nothing from the thread that builds the queue or starts them later: scheduling policy, signal mask and
    /// timer slack are also the main thread's, as far as that is allowed. (Without CAP_SYS_NICE or RLIMIT_NICE, workers that a
    /// niced thread starts stay as nice as it is.) If a program blocks signals in its main thread at the start, to wait for
    /// them in one thread, they are blocked in every worker. Otherwise its handlers may be called on workers.
    ///
    /// # Examples
    /// ```
    /// // Lets everything else on the machine go first.
    /// let queue = coreshard::workqueue()?.name("scrubber").nice(19).build()?;
    /// queue.queue(|| println!("when nobody else has anything to do"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nice(self, nice: i8) -> Self {
        self.with(|request| request.nice = Some(nice))
    }

    /// Limits how many items of this queue are in the pools at once; further items wait in order of arrival. Default: no limit.
    ///
    /// The limit counts items, not threads: a loop or a [`join`](crate::join) inside an item still uses other workers, unless
    /// the queue has [`serial_items`](Self::serial_items). A limit costs a lock that all the queue's items pass.
    ///
    /// # Examples
    /// ```
    /// // However many files wait, four are open at once.
    /// let queue = coreshard::workqueue()?.name("files").max_active(4).build()?;
    /// for file in 0..100 {
    ///     queue.queue(move || println!("file {file}"))?;
    /// }
    /// assert!(queue.stats().active <= 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("semaphore", "concurrency limit"))]
    pub fn max_active(self, items: usize) -> Self {
        self.limit(MaxActive::Total(items))
    }

    /// Limits the items like [`max_active`](Self::max_active), but splits the limit among the nodes, so that the queue's items
    /// share no cache line between nodes. Each node's share is proportional to its CPUs, rounded up, but at least
    /// min(`items`, 8): that many items that wait for one another always make progress, wherever they were queued. The shares
    /// may sum to more than `items`. (The rule of Linux' kernel/workqueue.c since 6.9.)
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("files").max_active_by_node(32).build()?;
    /// queue.queue(|| println!("one of at most 32 of its node"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_active_by_node(self, items: usize) -> Self {
        self.limit(MaxActive::ByNode(items))
    }

    /// Limits the items like [`max_active`](Self::max_active), but for each pod: with
    /// [`Scope::Cpu`](coreshard_topology::Scope::Cpu) and [`strict`](Self::strict), for each CPU. The limits of two pods are
    /// independent, and share no cache line.
    ///
    /// # Examples
    /// ```
    /// use coreshard::Scope;
    ///
    /// let queue = coreshard::workqueue()?.scope(Scope::Cpu).strict(true).max_active_of_each_pod(1).build()?;
    /// queue.queue(|| println!("the only one on this CPU"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_active_of_each_pod(self, items: usize) -> Self {
        self.limit(MaxActive::EachPod(items))
    }

    /// Runs one item at a time, in queueing order, whatever pools they run in.
    ///
    /// This applies to items, not to threads: a loop or a [`join`](crate::join) inside an item still uses other workers, unless
    /// the queue has [`serial_items`](Self::serial_items).
    ///
    /// # Examples
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// let queue = coreshard::workqueue()?.name("journal").ordered().build()?;
    /// let journal = Arc::new(Mutex::new(Vec::new()));
    /// for entry in 0..100 {
    ///     let journal = Arc::clone(&journal);
    ///     queue.queue(move || journal.lock().unwrap().push(entry))?;
    /// }
    /// queue.flush()?;
    /// assert!(journal.lock().unwrap().is_sorted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("alloc_ordered_workqueue", "FIFO"))]
    pub fn ordered(self) -> Self {
        self.limit(MaxActive::Ordered)
    }

    /// Runs each item on one thread: the pieces of a loop and the halves of a [`join`](crate::join) inside it stay on its
    /// worker. With [`max_active`](Self::max_active) or [`ordered`](Self::ordered) the limit then also bounds threads. Default:
    /// `false`.
    ///
    /// Items that a [`scope`](Workqueue::scope) queues are separate items, and count against the limit.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("licences").max_active(1).serial_items(true).build()?;
    /// let threads = queue.submit(|| {
    ///     let here = || std::thread::current().id();
    ///     coreshard::join(here, here)
    /// })?;
    /// let (first, second) = threads.join()?;
    /// assert_eq!(first, second);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn serial_items(self, is_serial: bool) -> Self {
        self.with(|request| request.is_serial = is_serial)
    }

    /// Sets how many items may wait in the queue: items that were accepted and have not begun. The queue's memory is then
    /// bounded by this and by the running items, which [`max_active`](Self::max_active) bounds. Default: no bound.
    ///
    /// If the queue is full, [`queue`](Workqueue::queue), `submit`, `spawn`, `scope` and `install` wait for room, first come,
    /// first served; [`try_queue`](Workqueue::try_queue), `try_submit` and `try_spawn` return an error;
    /// [`queue_async`](Workqueue::queue_async) is a future. Later producers never overtake waiting ones. Work that was accepted
    /// earlier and cannot wait is let in beyond the capacity, and counts as well: a [`Work`](crate::Work), which is pending at
    /// most once, and a task's polls after the first.
    ///
    /// A producer that waits inside an item gives its worker's place away. If that could not help, the wait is rejected
    /// ([`WouldDeadlock`](crate::RefusedReason::WouldDeadlock)): inside an item of the queue if the queue has a limit or an
    /// order, and on the last worker of its pools that could make progress.
    ///
    /// All items of such a queue pass one shared word, in and out, and an item of more than 8 bytes is allocated. A queue
    /// without a capacity has neither cost.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// let queue = runtime.workqueue().name("requests").capacity(64).build()?;
    /// for request in 0..1000 {
    ///     queue.queue(move || drop(request))?; // waits while 64 wait
    /// }
    /// assert!(queue.stats().capacity_used <= 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("backpressure", "bounded"))]
    pub fn capacity(self, items: usize) -> Self {
        self.with(|request| request.capacity = Some(items))
    }

    fn with(mut self, edit: impl FnOnce(&mut Request)) -> Self {
        edit(&mut self.request);
        self
    }

    fn limit(mut self, limit: MaxActive) -> Self {
        let before = std::mem::replace(&mut self.request.max_active, limit);
        let is_ordered = |limit| limit == MaxActive::Ordered;
        self.request.is_contradictory |=
            before != MaxActive::Unlimited && is_ordered(before) != is_ordered(limit);
        self
    }

    /// Sets the priority of the pools that serve the queue. Default: [`Priority::Normal`].
    ///
    /// # Examples
    /// ```
    /// use coreshard::Priority;
    ///
    /// // It needs a privilege; a program that may do without asks again.
    /// let urgent = || coreshard::workqueue().map(|builder| builder.name("heartbeats"));
    /// let queue = match urgent()?.priority(Priority::High).build() {
    ///     Ok(queue) => queue,
    ///     Err(error) => {
    ///         eprintln!("{error}");
    ///         urgent()?.build()?
    ///     }
    /// };
    /// queue.queue(|| println!("not behind the common items"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "WQ_HIGHPRI")]
    pub fn priority(self, priority: Priority) -> Self {
        self.with(|request| request.priority = priority)
    }

    /// Sets what happens to the queue when an item panics and no handle reports the panic. Default: [`PanicPolicy::GoOn`].
    ///
    /// # Examples
    /// ```
    /// use coreshard::{PanicPolicy, RefusedReason};
    ///
    /// let queue = coreshard::workqueue()?.name("ledger").panic_policy(PanicPolicy::CloseQueue);
    /// let queue = queue.panic_handler(|_thrown| eprintln!("the ledger is closed")).build()?;
    /// queue.queue(|| panic!("the sums differ"))?;
    /// while queue.stats().in_flight() > 0 {
    ///     std::thread::yield_now();
    /// }
    /// assert_ne!(queue.queue(|| ()).unwrap_err().reason(), RefusedReason::ShutDown);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn panic_policy(self, policy: PanicPolicy) -> Self {
        self.with(|request| request.panic_policy = policy)
    }

    /// Sets when a chosen worker is woken. Default: [`Wake::Coalesced`].
    ///
    /// # Examples
    /// ```
    /// // To measure what the oldest variant costs on this machine.
    /// let queue = coreshard::workqueue()?.wake(coreshard::Wake::UnderLock).build()?;
    /// queue.queue(|| ())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wake(self, wake: Wake) -> Self {
        self.with(|request| request.wake = wake)
    }

    /// Sets how items enter a pool. Default: [`Intake::LockFree`].
    ///
    /// # Examples
    /// ```
    /// // To measure what the oldest variant costs on this machine.
    /// let queue = coreshard::workqueue()?.intake(coreshard::Intake::Locked).build()?;
    /// queue.queue(|| ())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn intake(self, intake: Intake) -> Self {
        self.with(|request| request.intake = intake)
    }

    /// Sets functions that run first and last on each worker's thread. The pools own them: a hook that owns a handle to the
    /// queue keeps the queue alive forever. Default: the runtime's ([`RuntimeBuilder::hooks`](crate::RuntimeBuilder::hooks)).
    ///
    /// # Examples
    /// ```
    /// use coreshard::Hooks;
    ///
    /// let hooks = Hooks::new()
    ///     .on_start(|pod| println!("a worker of pod {pod} begins"))
    ///     .on_stop(|pod| println!("a worker of pod {pod} ends"));
    /// let queue = coreshard::workqueue()?.name("plugins").hooks(hooks).build()?;
    /// queue.queue(|| println!("after the first hook"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hooks(self, hooks: Hooks) -> Self {
        self.with(|request| request.hooks = hooks)
    }

    /// Adds `hooks`, which run inside the existing ones: the runtime's, or the ones set by [`hooks`](Self::hooks). If hooks
    /// exist already, the queue shares its pools only with queues built from this same builder's hooks, so set hooks for many
    /// queues on the runtime.
    ///
    /// # Examples
    /// ```
    /// use coreshard::Hooks;
    ///
    /// let connects = Hooks::new().on_start(|_| println!("a connection for this worker"));
    /// let queue = coreshard::workqueue()?.name("database").add_hooks(connects).build()?;
    /// queue.queue(|| println!("after the runtime's hooks and this one"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_hooks(mut self, hooks: Hooks) -> Self {
        self.request.hooks = self.request.hooks.and(hooks);
        self
    }

    /// Sets the size of the workers' stacks, in bytes; values below 64 KiB, which a worker itself needs, are raised to that.
    /// Default: the platform's.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("parser").stack_bytes(16 << 20).build()?;
    /// queue.queue(|| println!("may recurse deeply"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "stack_size")]
    pub fn stack_bytes(self, bytes: usize) -> Self {
        self.with(|request| request.stack_bytes = Some(bytes.max(MIN_STACK_BYTES)))
    }

    /// Sets whether the queue's pools have a worker in reserve, beyond all limits on workers. It helps out when one more worker
    /// is needed and cannot be started, so the queue makes progress when others stall for lack of threads. Such a queue shares
    /// its pools with no other. Corresponds to the kernel's `WQ_MEM_RECLAIM`. Default: no.
    ///
    /// # Examples
    /// ```
    /// // Writes back what frees memory: it goes on also where no thread can be started.
    /// let queue = coreshard::workqueue()?.name("write-back").rescuer(true).build()?;
    /// queue.queue(|| println!("dirty pages are written"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "WQ_MEM_RECLAIM")]
    pub fn rescuer(mut self, wanted: bool) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        self.request.rescuer = wanted.then(|| NUMBERS.fetch_add(1, Relaxed));
        self
    }

    /// Sets a function that is called once with an item's panic, unless the item's handle reports it: on the worker's thread,
    /// or on the thread that dropped the handle. Panics from destructors that the queue runs are reported there as well. The
    /// queue owns the function: if it owns a handle to the queue, it keeps the queue alive forever. Default: an error through
    /// `tracing`. The worker continues in any case.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (tell, told) = mpsc::channel();
    /// let tells = move |thrown: Box<dyn std::any::Any + Send>| {
    ///     drop(tell.send(thrown.downcast_ref::<&str>().copied()));
    /// };
    /// let queue = coreshard::workqueue()?.name("plugins").panic_handler(tells).build()?;
    /// queue.queue(|| panic!("nobody waits for this item"))?;
    /// assert_eq!(told.recv()?, Some("nobody waits for this item"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn panic_handler(
        self,
        handler: impl Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    ) -> Self {
        self.with(|request| request.panic_handler = Some(Arc::new(User::new(handler))))
    }

    /// Measures how long the queue's items wait and run, for [`QueueStats::times`]. Default: the runtime's setting, which is
    /// off unless set. [`Sampling`] describes the cost.
    ///
    /// [`QueueStats::times`]: crate::QueueStats::times
    ///
    /// # Examples
    /// ```
    /// use coreshard::Sampling;
    ///
    /// let queue = coreshard::workqueue()?.name("requests").times(Sampling::EVERY_ITEM).build()?;
    /// queue.queue(|| println!("handled"))?;
    /// queue.flush()?;
    /// let times = queue.stats().times.expect("it measures");
    /// assert_eq!(times.run.samples(), 1);
    /// println!("p99: waited {:?}, ran {:?}", times.delay.quantile(0.99), times.run.quantile(0.99));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn times(self, sampling: Sampling) -> Self {
        self.with(|request| request.insight.times = Some(sampling))
    }

    /// Sets whether each item and each future of the queue has a `tracing` span, as shown by tokio-console. Default: the
    /// runtime's setting, which is off unless set. A span costs hundreds of nanoseconds if a subscriber listens, and an
    /// allocation.
    ///
    /// # Examples
    /// ```
    /// // With a subscriber such as console-subscriber's, tokio-console shows each item.
    /// let queue = coreshard::workqueue()?.name("requests").spans(true).build()?;
    /// queue.queue(|| println!("inside a span"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spans(self, spans: bool) -> Self {
        self.with(|request| request.insight.spans = spans)
    }

    /// Builds the queue; its pools' first workers are running when this returns.
    ///
    /// # Errors
    /// Fails if:
    ///
    /// - the mask is empty or names a CPU that is not usable,
    /// - the nice value is out of range,
    /// - `max_active`, `capacity` or the shard size is 0,
    /// - `max_active` is set on an ordered queue,
    /// - a thread cannot be started with the requested affinity and nice value, or
    /// - the runtime is shut down.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("mail").build()?;
    /// queue.queue(|| println!("sent"))?;
    /// let error = coreshard::workqueue()?.name("none").max_active(0).build().unwrap_err();
    /// assert!(error.to_string().contains("max_active"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Workqueue<P>, BuildError> {
        self.runtime.make_queue(self.request)
    }
}

//! What a workqueue is to be.

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

/// What a worker needs for itself, with room for small items: a debug build's overflows 24 KiB.
pub(crate) const MIN_STACK_BYTES: usize = 64 << 10;

/// Makes a [`Workqueue`]. Queues with equal attributes share their pools and worker threads; the
/// name, `max_active` and the panic handler are a queue's own.
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
    /// Makes a workqueue on this runtime.
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

    /// What is asked of a queue by default.
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

    /// A name for reports and errors. Default: `unnamed`.
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

    /// Which CPUs share a pool. Default: [`Scope::CacheShard`].
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

    /// The wanted size of a cache shard, in cores, at least 1. Default: 8.
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

    /// Keeps the queue's work in its pods: workers never leave theirs, and help no other. Default: no.
    ///
    /// By default a worker starts in its pod and returns to it, for 5 ms at least, but the kernel may move it out while the pod
    /// is full. And if a pod has more waiting items than its workers can run soon, idle workers of the nearest other pods run some
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

    /// The CPUs whose pods serve this queue. Default: all that are usable.
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

    /// The nice value of the workers, −20 to 19. Default: that of the process, which is its main
    /// thread's. Values below it need a privilege.
    ///
    /// Of the thread that builds the queue workers have nothing, whoever starts them later: scheduling
    /// policy, signal mask and timer slack are the main thread's, too, as far as that is allowed. (Without
    /// CAP_SYS_NICE or RLIMIT_NICE, workers that a niced thread starts stay as nice as it is.) So a
    /// program that blocks signals in its main thread before all, to wait for them in one thread, finds
    /// them blocked in every worker; and one that does not may have its handlers called on workers.
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

    /// Limits how many items of this queue are in the pools at once; further ones wait in the order
    /// in which they came. Default: no limit.
    ///
    /// The limit counts items, not threads: a loop or a [`join`](crate::join) inside an item still uses other workers, unless the
    /// queue has [`serial_items`](Self::serial_items). A limit costs a lock that all the queue's items pass.
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

    /// As [`max_active`](Self::max_active), but split among the nodes, so that the queue's items
    /// share no line of memory between nodes. Each node's share is its share of the queue's CPUs,
    /// rounded up, but at least min(`items`, 8): so many items that wait for one another always
    /// get on, wherever they were queued. The shares may sum to more than `items`. (The rule of
    /// Linux' kernel/workqueue.c since 6.9.)
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

    /// As [`max_active`](Self::max_active), but of each pod: with [`Scope::Cpu`](coreshard_topology::Scope::Cpu) and [`strict`](Self::strict), of each CPU.
    /// Items of other pods do not wait for their turn, and share no line of memory with this pod's for it.
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

    /// Runs one item at a time, in the order in which they were queued, whatever pools they run in.
    ///
    /// That holds for items, not for threads: a loop or a [`join`](crate::join) inside an item still uses other workers, unless
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
    /// worker. With [`max_active`](Self::max_active) or [`ordered`](Self::ordered) the limit then bounds threads as well.
    /// Default: `false`.
    ///
    /// What a [`scope`](Workqueue::scope) queues is an item of its own, and counts against the limit.
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

    /// How many items may wait in the queue: were accepted, and have not begun. So the queue's memory is
    /// bounded by this and by what runs, which [`max_active`](Self::max_active) bounds. Default: no bound.
    ///
    /// In a full queue [`queue`](Workqueue::queue), `submit`, `spawn`, `scope` and `install` wait for room, first come, first
    /// served; [`try_queue`](Workqueue::try_queue), `try_submit` and `try_spawn` refuse; [`queue_async`](Workqueue::queue_async) is a future. Nobody
    /// overtakes those that wait. What cannot wait, and was there before, is let in beyond the capacity, and
    /// counts as well: a [`Work`](crate::Work), pending once at most, and a task's polls after the first.
    ///
    /// Who waits inside an item gives its worker's place away. Where that could not help, the wait is refused
    /// ([`WouldDeadlock`](crate::RefusedReason::WouldDeadlock)): inside an item of the queue where that has a limit or an order, and on the
    /// last worker of its pools that would go on.
    ///
    /// All items of such a queue pass one shared word, in and out, and one of more than 8 bytes is
    /// allocated. A queue without a capacity has nothing of it.
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

    /// Whose pools serve the queue. Default: [`Priority::Normal`].
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

    /// What becomes of the queue when an item panics and no handle tells of it. Default:
    /// [`PanicPolicy::GoOn`].
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

    /// When a chosen worker is woken. Default: [`Wake::Coalesced`].
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

    /// How items enter a pool. Default: [`Intake::LockFree`].
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

    /// Functions that run first and last on each worker's thread. The pools own them: one that owns a handle
    /// to the queue keeps it for ever. Default: the runtime's ([`RuntimeBuilder::hooks`](crate::RuntimeBuilder::hooks)).
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

    /// `hooks` as well, inside of those that there are: the runtime's, or those of [`hooks`](Self::hooks). Where
    /// there are some, the queue shares its pools with no other that was not built from this very builder's hooks:
    /// what many queues are to have belongs to the runtime.
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

    /// The size of the workers' stacks, in bytes; less than 64 KiB, which a worker needs for itself, is taken for
    /// that. Default: the platform's.
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

    /// Whether the queue's pools have a worker in reserve, beyond all limits on workers, that helps
    /// out when one more worker is needed and cannot be had: so the queue gets on where others
    /// stand still for want of threads. Such a queue shares its pools with no other. As the
    /// kernel's `WQ_MEM_RECLAIM`. Default: no.
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

    /// Called with what an item threw, once, unless the item's handle tells it: on the worker's thread,
    /// or on the one that dropped the handle. What destructors throw that run on the queue's behalf comes
    /// here, too. The queue owns it: one that owns a handle to the queue keeps it for ever. Default: an error through `tracing`. The worker goes on in any case.
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

    /// Measures how long the queue's items wait and run, for [`QueueStats::times`]. Default: as the
    /// runtime says, and that is not at all unless told otherwise. What it costs is told at
    /// [`Sampling`].
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

    /// Whether each item of the queue, and each future, has a `tracing` span such as tokio-console
    /// shows. Default: as the runtime says, and that is no unless told otherwise. A span costs
    /// hundreds of nanoseconds where somebody listens, and an allocation.
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

    /// Makes the queue; its pools' first workers run when this returns.
    ///
    /// # Errors
    /// Where the mask is empty or names a CPU that is not usable, the nice value is none, `max_active`, `capacity` or the shard size is 0, the first of
    /// these is asked for beside an order, a thread cannot be had with the affinity and nice value asked for, or the runtime is shut down.
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

//! The attributes that two queues must have in common to share their pools.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use coreshard_platform::Platform;
use coreshard_platform::user::User;
use coreshard_topology::{CpuId, CpuSet, NodeId, PodId, Scope};

use super::reactor::SharedReactor;
use super::team::OfTeam;
use crate::base::variants::Intake;
use crate::base::variants::Wake;

/// The pools that serve a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Priority {
    /// The shared ones.
    #[default]
    Normal,
    /// Separate pools, whose workers have nice −20 unless the queue sets another value, so that items do not wait behind
    /// normal ones, for a worker or for CPU time. Like the kernel's `WQ_HIGHPRI`. A process that an item starts inherits the
    /// nice value, unless the item calls
    /// [`ChildCommand::inherit_from_process`](coreshard_platform::ChildCommand::inherit_from_process).
    High,
}

/// A hook of the user.
pub(crate) type Hook = Arc<User<dyn Fn(PodId) + Send + Sync>>;

/// Code that worker threads run besides items: first, last, and while they are idle.
///
/// Queues share their pools if their hooks are clones of one another: make them once, and clone them.
///
/// ```
/// use coreshard::Hooks;
///
/// let counted = Hooks::new()
///     .on_start(|pod| println!("a worker of pod {pod} begins"))
///     .on_stop(|pod| println!("a worker of pod {pod} ends"));
/// let mail = coreshard::workqueue()?.name("mail").hooks(counted.clone()).build()?;
/// let news = coreshard::workqueue()?.name("news").hooks(counted).build()?;
/// assert_eq!(mail.stats().pools[0].id, news.stats().pools[0].id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Hooks {
    pub(crate) on_start: Option<Hook>,
    pub(crate) on_stop: Option<Hook>,
    pub(crate) reactor: Option<SharedReactor>,
}

impl Hooks {
    /// No hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `hook` on each worker's thread before its first item, with the worker's pod; after the hooks that were given
    /// before.
    #[must_use]
    pub fn on_start(self, hook: impl Fn(PodId) + Send + Sync + 'static) -> Self {
        self.and(Self { on_start: Some(Arc::new(User::new(hook))), ..Self::new() })
    }

    /// Runs `hook` on each worker's thread after its last item, with the worker's pod; before the hooks that were given
    /// before. The worker no longer counts as running; the end of its pool waits for it.
    #[must_use]
    pub fn on_stop(self, hook: impl Fn(PodId) + Send + Sync + 'static) -> Self {
        self.and(Self { on_stop: Some(Arc::new(User::new(hook))), ..Self::new() })
    }

    /// Combines these hooks with `inner`: at the start `inner` runs after these, at the end before them. Each is called,
    /// even if another one panics.
    #[must_use]
    pub fn and(self, inner: Self) -> Self {
        Self {
            on_start: one_after_the_other(self.on_start, inner.on_start),
            on_stop: one_after_the_other(inner.on_stop, self.on_stop),
            reactor: inner.reactor.or(self.reactor),
        }
    }

    /// Idle workers wait in `reactor` instead of sleeping: one at a time, of all the pools that have these hooks. The next
    /// item wakes the worker in the reactor first, so work that becomes ready in the reactor runs on the worker that sees it.
    ///
    /// While all workers are busy, one of them polls the reactor after every 64 items or so, and at the latest after the
    /// item that it runs some 4 ms later. In each [`Wake`] variant the reactor is woken after the pool's lock was released.
    /// A panic of the reactor is reported (`tracing`), and the reactor is not used any more: work that waits in it waits for
    /// ever. If [`Reactor::wake`](crate::Reactor::wake) panics instead of waking it, the worker inside also waits for ever.
    ///
    /// # Examples
    /// Workers wait for a channel's messages themselves:
    /// ```
    /// use std::sync::mpsc::{Receiver, Sender, channel};
    /// use std::sync::{Arc, Mutex};
    ///
    /// use coreshard_workqueue::{Hooks, Reactor, SharedReactor};
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    ///
    /// struct Messages {
    ///     to: Mutex<Sender<Option<u32>>>,
    ///     from: Mutex<Receiver<Option<u32>>>,
    ///     sum: Arc<Mutex<u32>>,
    /// }
    ///
    /// impl Reactor for Messages {
    ///     fn wait(&self) {
    ///         if let Ok(Some(message)) = self.from.lock().unwrap().recv() {
    ///             *self.sum.lock().unwrap() += message;
    ///         }
    ///     }
    ///     fn poll(&self) {
    ///         if let Ok(Some(message)) = self.from.lock().unwrap().try_recv() {
    ///             *self.sum.lock().unwrap() += message;
    ///         }
    ///     }
    ///     fn wake(&self) {
    ///         let _ = self.to.lock().unwrap().send(None);
    ///     }
    /// }
    ///
    /// let (to, from) = channel();
    /// let sum = Arc::new(Mutex::new(0));
    /// let messages = Messages { to: Mutex::new(to.clone()), from: Mutex::new(from), sum: Arc::clone(&sum) };
    /// let hooks = Hooks::new().reactor(SharedReactor::new(messages));
    /// let queue = runtime.workqueue().name("messages").hooks(hooks).build()?;
    /// (1..=10).for_each(|message| to.send(Some(message)).unwrap());
    /// while *sum.lock().unwrap() != 55 {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Wake`]: crate::Wake
    #[must_use]
    pub fn reactor(mut self, reactor: SharedReactor) -> Self {
        self.reactor = Some(reactor);
        self
    }
}

/// A single hook is kept unchanged, so that it stays equal to its clones.
fn one_after_the_other(first: Option<Hook>, second: Option<Hook>) -> Option<Hook> {
    match (first, second) {
        (Some(first), Some(second)) => Some(Arc::new(User::new(move |pod| {
            let thrown = [&first, &second].map(|hook| hook.call(|hook| hook(pod)).err());
            if let Some(thrown) = thrown.into_iter().flatten().next() {
                thrown.resume();
            }
        }))),
        (first, second) => first.or(second),
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("on_start", &self.on_start.is_some())
            .field("on_stop", &self.on_stop.is_some())
            .field("reactor", &self.reactor)
            .finish()
    }
}

fn same_hook(one: &Option<Hook>, other: &Option<Hook>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other)),
        _ => false,
    }
}

impl PartialEq for Hooks {
    /// Hooks are equal if they are clones of one another.
    fn eq(&self, other: &Self) -> bool {
        same_hook(&self.on_start, &other.on_start)
            && same_hook(&self.on_stop, &other.on_stop)
            && self.reactor == other.reactor
    }
}

/// The attributes of a set of pools. Queues with equal attributes share one set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attributes {
    pub(crate) scope: Scope,
    pub(crate) shard_cores: usize,
    pub(crate) mask: CpuSet,
    pub(crate) strict: bool,
    pub(crate) nice: Option<i8>,
    pub(crate) priority: Priority,
    pub(crate) wake: Wake,
    pub(crate) intake: Intake,
    pub(crate) stack_bytes: Option<usize>,
    /// Pools with a rescuer belong to a single queue, whose number this is: other queues' items must not
    /// occupy the rescuer.
    pub(crate) rescuer: Option<u64>,
    pub(crate) hooks: Hooks,
    /// The team that has the pool to itself.
    pub(crate) team: Option<OfTeam>,
}

/// The CPUs and limits of one pool.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) pod: PodId,
    /// The pod's CPUs, by the topology's ids.
    pub(crate) cpus: CpuSet,
    pub(crate) node: Option<NodeId>,
    /// The pod's CPUs, by the platform's ids; a different set if the topology is virtual.
    pub(crate) home: CpuSet,
    /// The CPUs that a worker may be moved to when its pod is full; its home if the queue is strict.
    pub(crate) roam: CpuSet,
    /// How many workers may run at once.
    pub(crate) limit: usize,
    /// Of a team: the indices of the pool's members among all.
    pub(crate) members: Range<usize>,
    /// The intake's injector for each CPU of the platform, by id; shared by all pools of a set.
    pub(crate) injector_by_cpu: Arc<[u8]>,
    /// The prefix of its workers' names.
    pub(crate) thread_names: Arc<str>,
}

impl Place {
    /// The injector of the CPU that the caller runs on.
    #[inline]
    pub(crate) fn injector_here<P: Platform>(&self) -> usize {
        self.injector_of(P::current_cpu())
    }

    /// The injector for a CPU of the platform.
    #[inline]
    pub(crate) fn injector_of(&self, cpu: CpuId) -> usize {
        self.injector_by_cpu.get(cpu.index()).map_or(0, |injector| usize::from(*injector))
    }
}

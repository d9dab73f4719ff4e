//! Errors. Each names the object, the given value and the accepted values.

use std::any::Any;
use std::fmt;

use coreshard_platform::SpawnError;
use coreshard_platform::user::Thrown;
use coreshard_topology::{CpuId, CpuSet, NodeId, PodsError};

use super::by_value::ByValue;

/// An item that a queue has rejected: the reason and, if it was passed by value, the item.
///
/// It works with `?`: it is [`Send`], [`Sync`] and `'static` if the item is [`Send`] and `'static`, since
/// the item can only be accessed by value. If the item borrows, or has other owners, the error has no item and is
/// `Refused<()>`; [`without_item`](Self::without_item) converts any other error to that.
pub struct Refused<F = ()> {
    item: ByValue<F>,
    reason: RefusedReason,
}

/// The reason why an item was rejected. No part of it has run.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedReason {
    /// The queue, or its runtime, is shut down or is being shut down: it accepts nothing more, permanently. Stop
    /// producing, or make another queue.
    ShutDown,
    /// The queue is *not* shut down. A thread is inside [`drain`](crate::Workqueue::drain), and until that
    /// returns, only the queue's own items can queue more. Queue it again when the drain has finished, or use
    /// [`flush`](crate::Workqueue::flush) instead, which rejects nothing.
    Draining,
    /// An item of the queue panicked, and the queue's policy ([`PanicPolicy`](crate::PanicPolicy)) is to accept nothing more
    /// after that. Make another queue.
    Panicked,
    /// This process was forked from the one that has the queue's workers. Make a runtime and a queue in this
    /// process, after the fork.
    Forked,
    /// No CPU of the queue has this id. [`Runtime::usable`](crate::Runtime::usable) lists the valid ones,
    /// unless the queue has its own mask.
    NoSuchCpu(CpuId),
    /// No pod of the queue is on this node. Queue it without naming a node, or widen the queue's mask.
    NoSuchNode(NodeId),
    /// The wait could never end. Either an item of the queue would wait for the new one, which could not begin before that
    /// item has finished, because the queue runs one at a time. Or the queue is full, and the caller that would wait for
    /// room is an item that the waiting items depend on: it has the queue's turn, or occupies the last unblocked worker of its
    /// pool.
    WouldDeadlock,
    /// The queue has as many waiting items as its [`Builder::capacity`](crate::Builder::capacity), and the call does not wait
    /// for room.
    Full,
}

impl<F> Refused<F> {
    pub(crate) fn new(item: F, reason: RefusedReason) -> Self {
        Self { item: ByValue::new(item), reason }
    }

    /// Returns the item (a closure or a future) unchanged.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = coreshard::workqueue()?.name("closed").build()?;
    /// queue.shutdown(Duration::from_secs(1))?;
    /// let refused = queue.submit(|| 7).unwrap_err();
    /// assert_eq!(refused.reason(), coreshard::RefusedReason::ShutDown);
    /// assert_eq!(refused.into_item()(), 7, "it is called here instead");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_item(self) -> F {
        self.item.into_value()
    }

    /// Drops the item and returns the reason as an error.
    ///
    /// ```
    /// fn start(queue: &coreshard::Workqueue, name: String) -> Result<(), coreshard::Refused> {
    ///     queue.queue(move || println!("{name}")).map_err(coreshard::Refused::without_item)
    /// }
    /// # let queue = coreshard::workqueue()?.build()?;
    /// # start(&queue, "item".to_owned())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn without_item(self) -> Refused {
        Refused::new((), self.reason)
    }

    /// Returns why it was rejected.
    pub fn reason(&self) -> RefusedReason {
        self.reason
    }
}

impl<F> From<Refused<F>> for RefusedReason {
    /// The item is dropped.
    fn from(refused: Refused<F>) -> Self {
        refused.reason
    }
}

impl From<RefusedReason> for Refused {
    fn from(reason: RefusedReason) -> Self {
        Self::new((), reason)
    }
}

impl fmt::Display for RefusedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShutDown => f.write_str(
                "the workqueue is shut down and accepts no more work; build another one, or stop \
                producing",
            ),
            Self::Draining => f.write_str(
                "the workqueue is being drained, not shut down, and only its items can queue more until \
                the drain has finished; queue it again then, or wait with flush instead of drain",
            ),
            Self::Panicked => f.write_str(
                "an item of the workqueue panicked, and its policy is to accept no more work then; \
                build a new one",
            ),
            Self::Forked => f.write_str(
                "this process was forked from the one that has the workqueue's workers; make a \
                 runtime and a queue in this process, after the fork",
            ),
            Self::NoSuchCpu(cpu) => write!(
                f,
                "CPU {cpu} is not a CPU of the workqueue; name one of its CPUs, or none"
            ),
            Self::NoSuchNode(node) => write!(
                f,
                "no pod of the workqueue lies on node {node}; name another node, or none"
            ),
            Self::WouldDeadlock => f.write_str(
                "an item of the workqueue would wait for it, but it cannot begin before that item has finished: \
                the workqueue runs one at a time, or is full and no other worker can make room; call the \
                closure directly, queue it without waiting, or use another queue",
            ),
            Self::Full => f.write_str(
                "the workqueue is full; drop this item, queue it later, or wait for room with `queue` or \
                `queue_async`",
            ),
        }
    }
}

coreshard_topology::readable_debug!(RefusedReason);

impl std::error::Error for RefusedReason {}

impl<F> fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

coreshard_topology::readable_debug!(<F> Refused<F>);

impl<F> std::error::Error for Refused<F> {}

/// An error of building a runtime or a workqueue.
pub struct BuildError {
    what: String,
    kind: BuildErrorKind,
}

#[derive(Debug)]
pub(crate) enum BuildErrorKind {
    EmptyMask,
    CpusNotUsable {
        cpus: CpuSet,
        usable: CpuSet,
    },
    Quota(f64),
    /// A setting for a number of workers, by its name in [`RuntimeBuilder`](crate::RuntimeBuilder).
    WorkersZero(&'static str),
    Nice(i8),
    ShardSizeZero,
    MaxActiveZero,
    CapacityZero,
    CapacityTooLarge,
    CapacityFixed,
    Pods(PodsError),
    Worker(SpawnError),
    OrderedLimit,
    Forked,
    ShutDown,
    TooManyQueues,
}

impl BuildError {
    /// True if this process was forked from the one with the workers.
    pub fn is_forked(&self) -> bool {
        matches!(self.kind, BuildErrorKind::Forked)
    }

    /// Returns the error of a thread start, or the error unchanged if it is another.
    pub(crate) fn into_thread_error(self) -> Result<SpawnError, Self> {
        match self.kind {
            BuildErrorKind::Worker(error) => Ok(error),
            kind => Err(Self { kind, ..self }),
        }
    }

    pub(crate) fn new(what: impl Into<String>, kind: BuildErrorKind) -> Self {
        Self { what: what.into(), kind }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.what)?;
        match &self.kind {
            BuildErrorKind::EmptyMask => {
                f.write_str("its CPU mask is empty; at least one usable CPU is needed")
            }
            BuildErrorKind::Quota(cpus) => {
                write!(
                    f,
                    "its CPU quota is {cpus}; a number of CPUs above 0 is needed, such as 0.5"
                )
            }
            BuildErrorKind::CpusNotUsable { cpus, usable } => {
                write!(f, "its CPU mask names CPUs {cpus}, but usable are only CPUs {usable}")
            }
            BuildErrorKind::MaxActiveZero => {
                f.write_str("max_active is 0; at least 1 is needed, and no limit is the default")
            }
            BuildErrorKind::WorkersZero(which) => {
                write!(f, "{which} is 0; at least 1 is needed")
            }
            BuildErrorKind::Nice(nice) => {
                write!(f, "its workers' nice value is {nice}: expected -20 to 19")
            }
            BuildErrorKind::ShardSizeZero => {
                f.write_str("its shard size is 0; at least 1 core is needed, and 8 are the default")
            }
            BuildErrorKind::CapacityZero => {
                f.write_str("its capacity is 0; at least 1 is needed, and no bound is the default")
            }
            BuildErrorKind::CapacityTooLarge => {
                f.write_str("its capacity is above 2^48; leave it out for no bound")
            }
            BuildErrorKind::CapacityFixed => f.write_str(
                "a capacity can be neither added to a queue nor removed from it after it was built; only \
                its size can be changed",
            ),
            BuildErrorKind::Pods(error) => error.fmt(f),
            BuildErrorKind::Worker(error) => error.fmt(f),
            BuildErrorKind::Forked => f.write_str(
                "this process was forked from the one that has the runtime's workers; make a \
                 runtime in this process, after the fork",
            ),
            BuildErrorKind::OrderedLimit => f.write_str(
                "an ordered queue runs one item at a time and takes no limit: leave out one of the two",
            ),
            BuildErrorKind::ShutDown => f.write_str("its runtime is shut down"),
            BuildErrorKind::TooManyQueues => f.write_str(
                "16,384 queues with the same attributes already share its pools, which is the maximum: \
                drop some, or use one of them for several purposes",
            ),
        }
    }
}

coreshard_topology::readable_debug!(BuildError);

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            BuildErrorKind::Pods(error) => Some(error),
            BuildErrorKind::Worker(error) => Some(error),
            _ => None,
        }
    }
}

/// The time limit of a shutdown expired before all work had finished. No work was dropped: accepted items
/// continue, and the call may be repeated. In a process that was forked from the one with the workers
/// the call does not wait, since the work never finishes there ([`is_forked`](Self::is_forked)).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShutdownTimeout {
    in_flight: u64,
    is_forked: bool,
}

impl ShutdownTimeout {
    pub(crate) fn new(in_flight: u64) -> Self {
        Self { in_flight, is_forked: false }
    }

    pub(crate) fn forked(in_flight: u64) -> Self {
        Self { in_flight, is_forked: true }
    }

    /// Accepted items that had not finished when the time expired. This may include items that a busy worker has just
    /// finished, since workers count several at once.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// True if this process was forked from the one with the workers.
    pub fn is_forked(&self) -> bool {
        self.is_forked
    }
}

impl fmt::Display for ShutdownTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_flight {
            _ if self.is_forked => f.write_str(
                "the workqueue's items never finish in this process, which was forked from the one that has its \
                workers; shut it down there, and drop the handle here",
            ),
            1 => f.write_str(
                "1 work item was still in flight when the shutdown timed out; it continues, and the \
                shutdown may be repeated",
            ),
            many => write!(
                f,
                "{many} work items were still in flight when the shutdown timed out; they continue, and \
                the shutdown may be repeated"
            ),
        }
    }
}

coreshard_topology::readable_debug!(ShutdownTimeout);

impl std::error::Error for ShutdownTimeout {}

/// A wait that could never end: an item waits for its own queue, or a forked process for workers
/// that it does not have.
#[derive(Clone, PartialEq, Eq)]
pub struct WouldDeadlock {
    queue: String,
    kind: DeadlockKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeadlockKind {
    /// For the whole queue to reach this state.
    Inside(&'static str),
    /// For an item of the queue that comes after the caller's.
    Behind,
    /// For the caller's own item.
    Own,
    Forked(&'static str),
}

impl WouldDeadlock {
    pub(crate) fn inside(queue: &str, what: &'static str) -> Self {
        Self { queue: queue.to_owned(), kind: DeadlockKind::Inside(what) }
    }

    pub(crate) fn behind(queue: String) -> Self {
        Self { queue, kind: DeadlockKind::Behind }
    }

    pub(crate) fn own(queue: String) -> Self {
        Self { queue, kind: DeadlockKind::Own }
    }

    /// The text without the queue's name.
    pub(crate) fn as_str(&self) -> &'static str {
        match self.kind {
            DeadlockKind::Forked(_) => "this process was forked from the one that has the workers",
            DeadlockKind::Inside(_) => "an item of a workqueue waits for all of its items",
            DeadlockKind::Behind => {
                "an item of a workqueue that runs one at a time waits for one behind it"
            }
            DeadlockKind::Own => "an item of a workqueue waits for itself",
        }
    }

    pub(crate) fn forked(queue: &str, what: &'static str) -> Self {
        Self { queue: queue.to_owned(), kind: DeadlockKind::Forked(what) }
    }

    /// True if this process was forked from the one with the workers.
    pub fn is_forked(&self) -> bool {
        matches!(self.kind, DeadlockKind::Forked(_))
    }
}

impl fmt::Display for WouldDeadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, kind } = self;
        match kind {
            DeadlockKind::Forked(what) => write!(
                f,
                "workqueue {queue:?} cannot be {what} here: this process was forked from the one \
                 that has its workers; make a runtime and a queue after the fork"
            ),
            DeadlockKind::Inside(what) => write!(
                f,
                "workqueue {queue:?} cannot be {what} inside one of its items: the call would wait for \
                that item; wait outside the queue, or in an item of another one"
            ),
            DeadlockKind::Own => write!(
                f,
                "an item of workqueue {queue:?} waits for itself, or a job that it waits for does; wait for it outside \
                the item"
            ),
            DeadlockKind::Behind => write!(
                f,
                "an item of workqueue {queue:?}, which runs one at a time, waits for a later item, but \
                that cannot begin before the first has finished; the later item still runs, but wait for \
                it outside the queue, or in an item of another one"
            ),
        }
    }
}

coreshard_topology::readable_debug!(WouldDeadlock);

impl std::error::Error for WouldDeadlock {}

/// A wait with a time-out for all items of a queue ended before they had finished. The queue is unchanged, and
/// the items continue.
#[derive(Clone, PartialEq, Eq)]
pub struct WaitError {
    kind: WaitErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WaitErrorKind {
    TimeOver { in_flight: u64 },
    Deadlock(WouldDeadlock),
}

impl WaitError {
    pub(crate) fn time_over(in_flight: u64) -> Self {
        Self { kind: WaitErrorKind::TimeOver { in_flight } }
    }

    /// True if the time expired; false if the wait could never have ended.
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind, WaitErrorKind::TimeOver { .. })
    }

    /// Items of the queue that had not finished when the time expired, counted like [`ShutdownTimeout::in_flight`]; 0 for
    /// another reason.
    pub fn in_flight(&self) -> u64 {
        match self.kind {
            WaitErrorKind::TimeOver { in_flight } => in_flight,
            WaitErrorKind::Deadlock(_) => 0,
        }
    }
}

impl From<WouldDeadlock> for WaitError {
    fn from(deadlock: WouldDeadlock) -> Self {
        Self { kind: WaitErrorKind::Deadlock(deadlock) }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            WaitErrorKind::Deadlock(deadlock) => deadlock.fmt(f),
            WaitErrorKind::TimeOver { in_flight: 1 } => f.write_str(
                "1 work item was still in flight when the wait timed out; it continues, and the queue accepts more",
            ),
            WaitErrorKind::TimeOver { in_flight } => write!(
                f,
                "{in_flight} work items were still in flight when the wait timed out; they continue, and the \
                queue accepts more"
            ),
        }
    }
}

coreshard_topology::readable_debug!(WaitError);

impl std::error::Error for WaitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            WaitErrorKind::Deadlock(deadlock) => Some(deadlock),
            WaitErrorKind::TimeOver { .. } => None,
        }
    }
}

/// The result of a wait for an item in a process that was forked from the item's: there the item never
/// finishes. [`Panic::into_payload`](crate::Panic::into_payload) holds it; [`join`](crate::join), `install` and `scope` panic
/// with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Forked;

impl Forked {
    /// Panics with it.
    #[cold]
    pub(crate) fn throw() -> ! {
        Thrown::new(Box::new(Self)).resume()
    }

    fn as_str(&self) -> &str {
        "this process was forked from the one that runs the item, which never ends here; submit it \
         in this process, to a queue that was made after the fork"
    }
}

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

coreshard_topology::readable_debug!(Forked);

impl std::error::Error for Forked {}

/// The result of a wait for an item that was dropped before it began: its queue was shut down by
/// [`shutdown_now`](crate::Workqueue::shutdown_now), which returns such items, and the item was then dropped.
/// [`Panic::into_payload`](crate::Panic::into_payload) holds it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dropped;

impl Dropped {
    fn as_str(&self) -> &str {
        "the item was dropped before anybody had begun it: its queue was shut down at once, which hands back \
         what has not begun"
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

coreshard_topology::readable_debug!(Dropped);

impl std::error::Error for Dropped {}

/// A panic payload, to be inspected if its type may be shared.
pub(crate) trait Payload {
    fn get<T: Any + Sync>(&self) -> Option<&T>;
}

impl Payload for dyn Any + Send {
    fn get<T: Any + Sync>(&self) -> Option<&T> {
        self.downcast_ref()
    }
}

impl Payload for ByValue<Thrown> {
    fn get<T: Any + Sync>(&self) -> Option<&T> {
        self.downcast_ref()
    }
}

/// The message of a panic payload, if it is a text or a type of this crate.
pub(crate) fn message_of<T: Payload + ?Sized>(payload: &T) -> &str {
    payload
        .get::<&str>()
        .copied()
        .or_else(|| payload.get::<String>().map(String::as_str))
        .or_else(|| payload.get::<Forked>().map(Forked::as_str))
        .or_else(|| payload.get::<Dropped>().map(Dropped::as_str))
        .or_else(|| payload.get::<WouldDeadlock>().map(WouldDeadlock::as_str))
        .unwrap_or("(something that is not a text)")
}

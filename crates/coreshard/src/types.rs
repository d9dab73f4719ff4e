//! The work queue's types and functions on this machine.

use coreshard_platform::Host;

// Structs are re-exported, so that their methods are in this crate's documentation; the default platform is the host.
// Types whose constructors have no argument that determines the platform are aliases: Rust cannot infer the parameter
// there, and ignores defaults in inference.

/// A queue of work items, which run on the workers of pools that follow the machine's caches.
///
/// It is a handle: `clone` returns another handle to the same queue, and dropping the last one runs the accepted items
/// and blocks until they have finished. Created by [`workqueue`](crate::workqueue) on the process's runtime, or by
/// [`Runtime::workqueue`](Runtime::workqueue) on another one.
///
/// ```
/// let queue = coreshard::workqueue()?.name("thumbnails").build()?;
/// queue.queue(|| println!("on a worker near this CPU"))?;
/// assert_eq!(queue.submit(|| 6 * 7)?.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | to | call |
/// |---|---|
/// | run a closure without waiting | [`queue`](Workqueue::queue), [`queue_on`](Workqueue::queue_on) a CPU,
/// [`queue_on_node`](Workqueue::queue_on_node), [`try_queue`](Workqueue::try_queue),
/// [`queue_async`](Workqueue::queue_async) |
/// | get its result | [`submit`](Workqueue::submit), [`try_submit`](Workqueue::try_submit); blocking:
/// [`install`](Workqueue::install) |
/// | lend it data | [`scope`](Workqueue::scope), [`try_scope`](Workqueue::try_scope), [`scope_async`](Workqueue::scope_async), [`install`](Workqueue::install) |
/// | loop over elements | [`for_each_mut`](Workqueue::for_each_mut), [`for_each_range`](Workqueue::for_each_range), [`for_each_chunk`](Workqueue::for_each_chunk), [`try_for_each`](Workqueue::try_for_each), [`map_collect`](Workqueue::map_collect), [`map_reduce`](Workqueue::map_reduce) |
/// | run something in each pool | [`on_each_pod`](Workqueue::on_each_pod) |
/// | run a future | [`spawn`](Workqueue::spawn), [`try_spawn`](Workqueue::try_spawn) |
/// | wait for queued items | [`flush`](Workqueue::flush), [`flush_timeout`](Workqueue::flush_timeout),
/// [`drain`](Workqueue::drain), [`drain_timeout`](Workqueue::drain_timeout) |
/// | pause or change it | [`freeze`](Workqueue::freeze), [`thaw`](Workqueue::thaw), [`change`](Workqueue::change) |
/// | end it | [`shutdown`](Workqueue::shutdown), [`shutdown_now`](Workqueue::shutdown_now), or drop the last handle |
/// | inspect it | [`stats`](Workqueue::stats), [`name`](Workqueue::name) |
///
/// Use [`Work`] for items that run repeatedly or later. The [`guide`](crate::guide) has programs for common tasks.
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::Workqueue;

/// Operations on [`EmbeddedWork`](crate::EmbeddedWork)s: reusable items in the caller's memory, for bindings of other
/// languages.
pub type EmbeddedWorks = coreshard_workqueue::EmbeddedWorks<Host>;

/// Lets another worker run until it is dropped; see [`blocking`].
pub type Blocking = coreshard_workqueue::Blocking<Host>;

/// A change of a live queue; see [`Workqueue::change`](Workqueue::change).
///
/// ```
/// let queue = coreshard::workqueue()?.name("mail").max_active(4).build()?;
/// queue.change().scope(coreshard::Scope::Numa).max_active(16).apply()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::Change;

/// Builds a [`Workqueue`]: attributes, then [`build`](Builder::build).
///
/// ```
/// use coreshard::Scope;
///
/// let queue = coreshard::workqueue()?.name("mail").scope(Scope::Cache).max_active(16).build()?;
/// # drop(queue);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | about | attributes |
/// |---|---|
/// | where it runs | [`scope`](Builder::scope), [`shard_size`](Builder::shard_size), [`strict`](Builder::strict), [`cpu_mask`](Builder::cpu_mask) |
/// | how urgent it is | [`nice`](Builder::nice), [`priority`](Builder::priority), [`rescuer`](Builder::rescuer) |
/// | how much at once | [`max_active`](Builder::max_active), [`max_active_by_node`](Builder::max_active_by_node), [`ordered`](Builder::ordered), [`capacity`](Builder::capacity) |
/// | panics | [`panic_handler`](Builder::panic_handler), [`panic_policy`](Builder::panic_policy) |
/// | workers | [`hooks`](Builder::hooks), [`stack_bytes`](Builder::stack_bytes) |
/// | measurements and reports | [`name`](Builder::name), [`times`](Builder::times), [`spans`](Builder::spans) |
/// | variants to compare | [`wake`](Builder::wake), [`intake`](Builder::intake) |
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::Builder;

/// A future that completes after a time; created by [`Runtime::sleep`](Runtime::sleep).
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::Sleep;

/// A future with a time limit; created by [`timeout`](crate::timeout).
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::Timeout;

/// Requests cancellation of the work that checks it, and of all child tokens.
///
/// ```
/// let service = coreshard::CancellationToken::new();
/// let request = service.child_token();
/// service.cancel();
/// assert!(request.is_cancelled());
/// ```
///
/// | to | call |
/// |---|---|
/// | create one | [`new`](Self::new), [`child_token`](Self::child_token), `clone` |
/// | cancel | [`cancel`](Self::cancel) |
/// | check, in an item | [`is_cancelled`](Self::is_cancelled) |
/// | wait, in a future | [`cancelled`](Self::cancelled), [`run_until_cancelled`](Self::run_until_cancelled) |
pub type CancellationToken = coreshard_workqueue::CancellationToken<Host>;

/// Completes once its token is cancelled; created by [`CancellationToken::cancelled`](CancellationToken::cancelled).
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::WaitForCancellation;

/// A machine with limits and settings, on which queues are created.
///
/// The process has one ([`runtime`](crate::runtime())), and most programs need no other. Clones are handles to it.
/// Worker threads live as long as the queues that they serve.
///
/// ```
/// let runtime = coreshard::runtime_builder()?.workers(2).build()?;
/// let queue = runtime.workqueue().name("mail").build()?;
/// queue.queue(|| println!("on a runtime of its own"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | to | call |
/// |---|---|
/// | create queues | [`workqueue`](Self::workqueue) |
/// | wait for a time | [`sleep`](Self::sleep), [`timeout`](Self::timeout) |
/// | inspect the machine | [`topology`](Self::topology), [`usable`](Self::usable), [`cpu_quota`](Self::cpu_quota) |
/// | use other CPUs | [`set_usable`](Self::set_usable) |
/// | inspect all queues and pools | [`stats`](Self::stats), [`delayed_items`](Self::delayed_items) |
/// | end all queues | [`shutdown`](Self::shutdown) |
pub type Runtime = coreshard_workqueue::Runtime<Host>;

/// Builds a [`Runtime`]: settings, then [`build`](RuntimeBuilder::build).
///
/// [`runtime_builder`](crate::runtime_builder) returns one set to the CPUs that this process may use.
///
/// ```
/// let builder = coreshard::runtime_builder()?.workers(8).max_workers(64).thread_names("mail-");
/// let runtime = builder.on_diagnostic(|diagnostic| eprintln!("{diagnostic}")).build()?;
/// # drop(runtime);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | about | settings |
/// |---|---|
/// | CPUs | [`usable`](RuntimeBuilder::usable), [`cpu_quota`](RuntimeBuilder::cpu_quota), [`follow_cpus`](RuntimeBuilder::follow_cpus), [`laid_over`](RuntimeBuilder::laid_over) |
/// | workers | [`workers`](RuntimeBuilder::workers), [`max_workers`](RuntimeBuilder::max_workers), [`max_workers_per_pool`](RuntimeBuilder::max_workers_per_pool), [`idle_timeout`](RuntimeBuilder::idle_timeout), [`hooks`](RuntimeBuilder::hooks), [`thread_names`](RuntimeBuilder::thread_names) |
/// | diagnostics | [`on_diagnostic`](RuntimeBuilder::on_diagnostic), [`cpu_intensive_threshold`](RuntimeBuilder::cpu_intensive_threshold), [`stall_after`](RuntimeBuilder::stall_after) |
/// | measurements | [`times`](RuntimeBuilder::times), [`spans`](RuntimeBuilder::spans),
/// [`measure_lock_holds`](RuntimeBuilder::measure_lock_holds) |
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::RuntimeBuilder;

/// Queues an item when there is room; created by [`Workqueue::queue_async`](Workqueue::queue_async).
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::QueueAsync;

/// Room for a later item in a queue with a [`capacity`](Builder::capacity); created by
/// [`Workqueue::try_reserve`](Workqueue::try_reserve).
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::Reservation;

/// Completes when there is room in a queue; created by [`Workqueue::reserve_async`](Workqueue::reserve_async).
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::ReserveAsync;

/// The handle to the result of an item; created by [`Workqueue::submit`](Workqueue::submit).
///
/// A thread [`join`](JoinHandle::join)s it, and a future awaits it. The item also runs if the handle is dropped.
///
/// ```
/// let queue = coreshard::workqueue()?.name("sums").build()?;
/// let sum = queue.submit(|| (1..=10).sum::<u32>())?;
/// assert_eq!(sum.join()?, 55);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | to | call |
/// |---|---|
/// | wait | [`join`](JoinHandle::join), [`join_timeout`](JoinHandle::join_timeout), `.await` |
/// | check | [`is_finished`](JoinHandle::is_finished) |
/// | take the item back | [`cancel`](JoinHandle::cancel) |
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::JoinHandle;

/// An item that [`JoinHandle::cancel`](JoinHandle::cancel) removed before it started. [`run`](CancelledItem::run) or
/// drop it.
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::CancelledItem;

/// Tasks that are awaited together. Dropping it cancels them.
///
/// ```
/// # use futures_lite::future::block_on;
/// let queue = coreshard::workqueue()?.name("shards").build()?;
/// let mut set = coreshard::JoinSet::new();
/// for shard in 0..4 {
///     set.spawn(&queue, async move { shard })?;
/// }
/// while let Some(answer) = block_on(set.join_next()) {
///     println!("{}", answer?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | to | call |
/// |---|---|
/// | add a future, or a task | [`spawn`](JoinSet::spawn), [`add`](JoinSet::add) |
/// | wait for the next to complete | [`join_next`](JoinSet::join_next), [`poll_join_next`](JoinSet::poll_join_next) |
/// | abort or detach all | [`abort_all`](JoinSet::abort_all), [`detach_all`](JoinSet::detach_all) |
/// | inspect | [`len`](JoinSet::len), [`is_empty`](JoinSet::is_empty) |
pub type JoinSet<T> = coreshard_workqueue::JoinSet<T, Host>;

/// A scope whose items may borrow data from outside it; see [`Workqueue::scope`](Workqueue::scope).
///
/// ```
/// let queue = coreshard::workqueue()?.name("text").build()?;
/// let (text, mut lines) = ("to be\nor not", 0);
/// let words = queue.scope(|scope| {
///     scope.queue(|| lines = text.lines().count()).expect("the queue is open");
///     scope.submit(|| text.split_whitespace().count()).expect("the queue is open").join()
/// });
/// assert_eq!((lines, words?), (2, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::WorkScope;

/// The handle to the result of a scope's item; created by [`WorkScope::submit`](WorkScope::submit).
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::ScopedJoinHandle;

/// A reusable item: allocated once, and queued any number of times, now or later. It is pending at most once, and never
/// runs on two workers at once.
///
/// ```
/// use std::time::Duration;
///
/// let queue = coreshard::workqueue()?.name("write-back").build()?;
/// let write_back = coreshard::Work::new(|_work| println!("dirty pages are written"));
/// write_back.queue_after(&queue, Duration::from_secs(60))?;
/// write_back.flush()?; // runs it now, and waits for it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | to | call |
/// |---|---|
/// | queue it | [`queue`](Self::queue), [`queue_on`](Self::queue_on), [`queue_on_node`](Self::queue_on_node) |
/// | queue it later | [`queue_after`](Self::queue_after), [`queue_to`](Self::queue_to); also if it is pending:
/// [`modify_delay`](Self::modify_delay), [`modify_to`](Self::modify_to) |
/// | wait for it | [`flush`](Self::flush) |
/// | cancel it | [`cancel`](Self::cancel), [`cancel_and_wait`](Self::cancel_and_wait) |
/// | prevent queueing | [`disable`](Self::disable), [`disable_and_wait`](Self::disable_and_wait),
/// [`enable`](Self::enable) |
/// | inspect | [`is_pending`](Self::is_pending), [`is_running`](Self::is_running),
/// [`disable_depth`](Self::disable_depth), [`function`](Self::function) |
pub type Work = coreshard_workqueue::Work<Host>;

/// Work at a fixed rate, until it is stopped or dropped.
///
/// ```
/// use std::time::Duration;
/// use coreshard::{MissedTick, Periodic};
///
/// let queue = coreshard::workqueue()?.name("beats").build()?;
/// let beat = Periodic::start(&queue, Duration::from_secs(1), MissedTick::Skip, || println!("a beat"))?;
/// beat.stop_and_wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::Periodic;

/// Calls `work`, which may block. On a worker, another worker runs meanwhile. See [`coreshard_workqueue::blocking`].
///
/// # Examples
/// ```
/// let queue = coreshard::workqueue()?.name("files").build()?;
/// let version = queue.submit(|| coreshard::blocking(|| std::fs::read_to_string("/proc/version")))?;
/// println!("{}", version.join()??);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("spawn_blocking", "block_in_place"))]
pub fn blocking<R>(work: impl FnOnce() -> R) -> R {
    coreshard_workqueue::blocking::<Host, R>(work)
}

/// Runs waiting items of the worker, inside an item that computes for long; see [`coreshard_workqueue::yield_item`].
///
/// ```
/// let queue = coreshard::workqueue()?.name("primes").build()?;
/// let count = queue.submit(|| {
///     let mut primes = 0;
///     for number in 2..20_000_u32 {
///         primes += u32::from((2..number).take_while(|by| by * by <= number).all(|by| number % by != 0));
///         if number % 1_000 == 0 {
///             coreshard::yield_item();
///         }
///     }
///     primes
/// })?;
/// queue.queue(|| println!("does not wait for the whole computation"))?;
/// assert_eq!(count.join()?, 2_262);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn yield_item() -> bool {
    coreshard_workqueue::yield_item::<Host>()
}

/// The worker that the calling code runs on; see [`coreshard_workqueue::Current`].
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::Current;

/// Returns the worker, pool and queue of the calling code; `None` on a thread that is not a worker. See
/// [`coreshard_workqueue::current`].
///
/// ```
/// let queue = coreshard::workqueue()?.name("mail").build()?;
/// let name = queue.submit(|| coreshard::current().expect("a worker").queue_name())?.join()?;
/// assert_eq!(name.as_deref(), Some("mail"));
/// assert!(coreshard::current().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Handle::current")]
#[inline]
pub fn current() -> Option<Current> {
    coreshard_workqueue::current::<Host>()
}

/// Yields after 128 calls in one poll, in a task that seldom waits. See [`coreshard_workqueue::consume_budget`].
///
/// ```
/// let queue = coreshard::workqueue()?.name("sums").build()?;
/// let sum = queue.spawn(async {
///     let mut sum = 0_u64;
///     for number in 0..100_000 {
///         sum += number;
///         coreshard::consume_budget().await;
///     }
///     assert_eq!(sum, 4_999_950_000);
/// })?;
/// queue.queue(|| println!("does not wait for the whole computation"))?;
/// # while !sum.is_finished() { std::thread::yield_now() }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn consume_budget() -> coreshard_workqueue::ConsumeBudget<Host> {
    coreshard_workqueue::consume_budget::<Host>()
}

/// A fixed number of threads, each with an index; created by [`team`](crate::team()).
///
/// A [`Workqueue`] has as many workers as are useful, and replaces blocked ones. A team has a fixed number of
/// members. It is for programs that index scratch memory by thread, run something on each thread, or were written for a
/// thread pool. The package in `adapters/rayon-core` provides rayon's interface on it.
///
/// ```
/// let team = coreshard::team("render")?.members(4).build()?;
/// let mut squares = vec![0; 4];
/// team.scope(|scope| {
///     for (index, square) in squares.iter_mut().enumerate() {
///         scope.spawn(move |_| *square = index * index);
///     }
/// });
/// assert_eq!(squares, [0, 1, 4, 9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Team = coreshard_workqueue::Team<Host>;

/// Builds a [`Team`]: settings of its threads, then [`build`](TeamBuilder::build).
///
/// ```
/// let team = coreshard::team("render")?.members(2).stack_bytes(4 << 20).build()?;
/// assert_eq!(team.members(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::TeamBuilder;

/// The scope of spawned work that may borrow; see [`Team::scope`](Team::scope).
///
/// ```
/// fn double_all<'scope>(scope: &coreshard::TeamScope<'scope>, numbers: &'scope mut [u32]) {
///     for number in numbers {
///         scope.spawn(move |_| *number *= 2);
///     }
/// }
///
/// let mut numbers = [1, 2, 3];
/// coreshard::team("doubles")?.members(2).build()?.scope(|scope| double_all(scope, &mut numbers));
/// assert_eq!(numbers, [2, 4, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Details
#[doc(inline)]
pub use coreshard_workqueue::TeamScope;

//! How a worker that waits for something other than work hands over its place.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use coreshard_platform::{Host, Platform, Time};

use super::context::with_context;
use super::current::{CurrentWorker, WaitKind};
use super::pool::Pool;
use super::roster::Blocked;
use super::team::patience;
use crate::base::latch::Latch;

/// Calls `work`, which may block, and lets another worker run meanwhile.
///
/// On a worker's thread, the pool counts this worker as blocked until `work` returns, and at once
/// wakes or starts another one if one more may run. Elsewhere it just calls `work`.
///
/// # Examples
/// ```
/// let queue = coreshard::workqueue()?.name("files").build()?;
/// let version = queue.submit(|| coreshard::blocking(|| std::fs::read_to_string("/proc/version")))?;
/// println!("{}", version.join()??);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn blocking<P: Platform, R>(work: impl FnOnce() -> R) -> R {
    let _blocking = Blocking::<P>::begin();
    work()
}

/// As [`blocking`], for a caller that has no closure: from [`begin`](Self::begin) until it is dropped, on the same thread. If
/// it outlives the item that began it, it ends when its worker looks for the next one.
///
/// # Examples
/// ```
/// let queue = coreshard::workqueue()?.name("files").build()?;
/// let version = queue.submit(|| {
///     let _blocking = coreshard::Blocking::begin();
///     std::fs::read_to_string("/proc/version")
/// })?;
/// println!("{}", version.join()??);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "another worker goes on until this is dropped"]
pub struct Blocking<P: Platform = Host> {
    _stand_in: Option<StandIn<P>>,
    /// Not `Send`: it is this thread that is blocked.
    _here: PhantomData<*const ()>,
}

impl<P: Platform> Blocking<P> {
    /// Lets another worker run from here on, if this thread is a worker that is not blocked already.
    ///
    /// # Examples
    /// As [`Blocking`].
    pub fn begin() -> Self {
        let worker = with_context::<P, _>(|context| (Arc::clone(&context.pool), context.index));
        let stand_in = worker.and_then(|(pool, worker)| StandIn::begin(pool, worker));
        Self { _stand_in: stand_in, _here: PhantomData }
    }
}

impl<P: Platform> fmt::Debug for Blocking<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").finish_non_exhaustive()
    }
}

/// As [`blocking`], if another worker of the pool exists or is being started, and can go on meanwhile. Otherwise
/// `work` is not called.
pub(crate) fn blocking_if_relieved<P: Platform, R>(work: impl FnOnce() -> R) -> Option<R> {
    let worker = with_context::<P, _>(|context| (Arc::clone(&context.pool), context.index));
    let stand_in = worker.and_then(|(pool, worker)| StandIn::begin(pool, worker));
    if stand_in.as_ref().is_some_and(|stand_in| !stand_in.pool.lock_state().goes_on()) {
        return None;
    }
    Some(work())
}

/// While it lives, this thread's worker counts as blocked.
struct StandIn<P: Platform> {
    pool: Arc<Pool<P>>,
    worker: usize,
    /// The number of the hand-over, unique in its pool.
    hand_over: u64,
    /// The process that it counts in.
    process_generation: u32,
}

impl<P: Platform> StandIn<P> {
    /// Returns `None` if the worker does not count as running: an outer call covers it, or it is inside a hook, first or last.
    fn begin(pool: Arc<Pool<P>>, worker: usize) -> Option<Self> {
        let mut state = pool.lock_state();
        if matches!(state.roster.blocked_as(worker), Blocked::Declared | Blocked::Leaving)
            || state.roster.stands_by(worker)
        {
            return None;
        }
        let hand_overs = &mut state.cold_mut().counters.hand_overs;
        *hand_overs += 1;
        let hand_over = *hand_overs;
        state.set_blocked(worker, Blocked::Declared);
        state.roster.declare_blocked(worker, hand_over);
        let (kick, spare) = state.find_stand_in(&pool);
        pool.unlock_and_kick(state, kick);
        // Possibly no worker is left for new work.
        pool.monitor.notice_work();
        pool.accounts.count_hand_over(pool.slots.get(worker));
        if let Some(spare) = spare {
            pool.start_spare(spare);
        }
        Some(Self { pool, worker, hand_over, process_generation: P::process_generation() })
    }
}

impl<P: Platform> Drop for StandIn<P> {
    fn drop(&mut self) {
        if P::process_generation() != self.process_generation {
            // `work` forked the process: the thread that holds the pool's lock may not exist here.
            return;
        }
        // The pool may now run one worker more than its limit; the next that looks for work parks.
        self.pool.lock_state().roster.end_declared(self.worker, self.hand_over);
    }
}

/// Lets other items go first that wait for this worker. Call it now and then inside an item that computes for long. Returns
/// true if other work was waiting.
///
/// An item cannot be put back into its queue, and no other item is run on top of it, since that might need a lock that this
/// one holds. So the worker's *place* is given away. If an item or a forked job waits in its pool, the worker counts as
/// blocked, another worker of the pool is woken or started in its place, and this thread yields its CPU to it
/// (sched_yield(2)). From then on both run, and the kernel shares the CPUs between them, until this item has finished. Then
/// its worker parks, if the pool has more than it may run. However often an item yields, it has one stand-in. The pool's
/// monitor does the same for an item that computes for 10 ms; this is sooner, and the item is not reported as a CPU hog.
///
/// Do not call it while you hold a lock that other items take. They would start at once and wait for it, and each that is
/// found waiting gets a stand-in as well.
///
/// If nothing waits, the call takes the pool's lock once. On a thread that is not a worker it yields the CPU, and returns
/// false. Inside a future, [`yield_now`](crate::yield_now) is better: a future can be put back.
///
/// # Examples
/// ```
/// let queue = coreshard::workqueue()?.name("primes").build()?;
/// let sum = queue.submit(|| {
///     (0..100_u64).map(|part| {
///         coreshard::yield_item();
///         (0..1_000).map(|number| part * number).sum::<u64>()
///     }).sum::<u64>()
/// })?;
/// assert_eq!(sum.join()?, 2_472_525_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn yield_item<P: Platform>() -> bool {
    let Some(pool) = with_context::<P, _>(|context| Arc::clone(&context.pool)) else {
        P::yield_now();
        return false;
    };
    let others_wait = {
        let mut state = pool.lock_state();
        state.has_work(&pool)
    };
    if others_wait {
        blocking::<P, _>(P::yield_now);
    }
    others_wait
}

/// This thread's worker, if it is a team member.
fn member_here<P: Platform>() -> Option<CurrentWorker<'static, P>> {
    CurrentWorker::<P>::here().filter(|worker| worker.pool().is_team())
}

/// Waits until `done` is open; no other thread waits for it. Returns false in a process that was forked since the latch was
/// made: there it may never open.
pub(crate) fn wait_for_workers<P: Platform>(done: &Latch<P>) -> bool {
    match member_here::<P>() {
        Some(member) => done.is_open() || member.wait_in_team(done, WaitKind::OF_PART),
        None => blocking::<P, _>(|| done.wait()),
    }
}

/// As [`wait_for_workers`], until `deadline` and for something that other threads wait for as well. `wait` waits until a time,
/// or without limit, and returns whether it has happened. Returns false if it has not.
pub(crate) fn wait_in_turns<P: Platform>(
    deadline: Option<Time>,
    mut wait: impl FnMut(Option<Time>) -> bool,
) -> bool {
    let Some(member) = member_here::<P>() else { return blocking::<P, _>(|| wait(deadline)) };
    let mut waits = 0;
    loop {
        let turn_ends = P::now() + patience(waits);
        let until = deadline.map_or(turn_ends, |deadline| deadline.min(turn_ends));
        if blocking::<P, _>(|| wait(Some(until))) {
            return true;
        }
        if deadline.is_some_and(|deadline| P::now() >= deadline) {
            return false;
        }
        waits = if member.run_mail() || member.run_unawaited() { 0 } else { waits + 1 };
    }
}

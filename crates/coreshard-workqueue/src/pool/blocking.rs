//! A worker that waits for something else than work hands its place over.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use coreshard_platform::{Host, Platform};

use super::context::with_context;
use super::pool::Pool;
use super::state::{Blocked, Kick, State};

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

/// What [`blocking`] does, for a caller that has no closure: from [`begin`](Self::begin) until it is dropped, on the
/// same thread. Where it outlives the item that it was begun in, it ends when its worker looks for the next one.
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
    /// It is this thread that is blocked.
    _here: PhantomData<*const ()>,
}

impl<P: Platform> Blocking<P> {
    /// Lets another worker run from here on, where this thread is a worker that is not blocked already.
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

/// As [`blocking`], where another worker of the pool is there, or comes, to go on meanwhile. Else
/// nothing is called.
pub(crate) fn blocking_if_relieved<P: Platform, R>(work: impl FnOnce() -> R) -> Option<R> {
    let worker = with_context::<P, _>(|context| (Arc::clone(&context.pool), context.index));
    let stand_in = worker.and_then(|(pool, worker)| StandIn::begin(pool, worker));
    if stand_in.as_ref().is_some_and(|stand_in| !stand_in.pool.lock().goes_on()) {
        return None;
    }
    Some(work())
}

/// While it lives, this thread's worker counts as blocked.
struct StandIn<P: Platform> {
    pool: Arc<Pool<P>>,
    worker: usize,
    /// Which hand-over it is: no two of a pool are the same.
    hand_over: u64,
    /// In which process it counts.
    process_generation: u32,
}

impl<P: Platform> StandIn<P> {
    /// `None` where the worker is not counted among those that run: the outermost call answers for it,
    /// or it is inside a hook, first or last.
    fn begin(pool: Arc<Pool<P>>, worker: usize) -> Option<Self> {
        let mut state = pool.lock();
        if matches!(state.blocked_as[worker], Blocked::Declared | Blocked::Leaving)
            || state.stands_by(worker)
        {
            return None;
        }
        state.set_blocked(worker, Blocked::Declared);
        let cold = state.cold_mut();
        cold.counters.hand_overs += 1;
        let hand_over = cold.counters.hand_overs;
        cold.declared[worker] = hand_over;
        let (kick, spare) = state.find_stand_in(&pool);
        pool.unlock_and_kick(state, kick);
        // Perhaps nobody is left to do what comes.
        pool.monitor.notice_work();
        pool.count_hand_over(worker);
        if let Some(spare) = spare {
            pool.start_spare(spare);
        }
        Some(Self { pool, worker, hand_over, process_generation: P::process_generation() })
    }
}

impl<P: Platform> Drop for StandIn<P> {
    fn drop(&mut self) {
        if P::process_generation() != self.process_generation {
            // The wait forked: whoever holds the pool's lock may not be here.
            return;
        }
        // The pool may now run one more than its limit; the next that looks for work lies down.
        self.pool.lock().end_hand_over(self.worker, self.hand_over);
    }
}

impl<P: Platform> State<P> {
    /// Where it has ended already, by a look for another item, the index may be blocked for another reason, or another
    /// thread's.
    fn end_hand_over(&mut self, worker: usize, hand_over: u64) {
        let is_declared = self.blocked_as[worker] == Blocked::Declared;
        if is_declared && self.cold().declared[worker] == hand_over {
            self.set_blocked(worker, Blocked::No);
        }
    }

    /// After a worker was blocked: who takes its place, and does what is left or what comes.
    pub(super) fn find_stand_in(&mut self, pool: &Pool<P>) -> (Option<Kick>, Option<usize>) {
        self.tell_of_thieves(pool);
        let left = self.has_work_for(pool, 1);
        let kick = self.pass_on(pool, left);
        let spare = if kick.is_none() { self.reserve_spare(pool) } else { None };
        (kick.or_else(|| self.call_rescuer()), spare)
    }

    /// True if a worker is there that does not wait inside an item, or is on its way.
    fn goes_on(&self) -> bool {
        self.active() > 0 || self.idle_count() > 0 || self.starting > 0
    }

    /// True if something waits that one of so many more workers would do.
    pub(super) fn has_work_for(&mut self, pool: &Pool<P>, more: usize) -> bool {
        self.items_wait(pool) || self.may_steal(pool, more) && pool.has_forks()
    }

    /// True if an item waits, in the intake or in a claim, or a forked job.
    pub(super) fn has_work(&mut self, pool: &Pool<P>) -> bool {
        self.items_wait(pool) || pool.has_forks()
    }

    /// True if an item waits, in the intake or in a claim.
    pub(super) fn items_wait(&mut self, pool: &Pool<P>) -> bool {
        pool.has_open_items() || self.has_queued(pool)
    }
}

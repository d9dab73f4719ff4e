//! The additional parts of a team's pool: mail, the jobs that members run while they wait, and how the team ends.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, AtomicPointer, Platform};

use super::jobs::ListedJob;
use super::pool::{Pool, PoolGuard};
use super::shared::TeamBoard;
use super::slots::WorkerSlot;
use super::state::State;
use crate::base::latch::Latch;
use crate::base::variants::Wake;

/// How long no member must run before a waiting one runs any job it finds.
const NOBODY_RUNS: Duration = Duration::from_millis(40);

/// How long a member waits at first, and at most, before it runs jobs that no caller waits for.
const PATIENCE: Duration = Duration::from_millis(8);
const MAX_DOUBLINGS: u32 = 3;

/// That time, after this many waits in vain.
pub(super) fn patience(waits: u32) -> Duration {
    PATIENCE * (1 << waits.min(MAX_DOUBLINGS))
}

/// Ends the team as soon as nothing is left to do in any of its pools.
pub(super) fn end<P: Platform>(pool: &Pool<P>) {
    pool.lock_state().roster.ending = true;
    pool.board.iter().for_each(|board| board.begin_end());
    end_if_over(pool);
}

/// Ends a team that is to end, if there is nothing to do in any of its pools. A member that parks calls this
/// afterwards, so the last one to park ends the team.
pub(super) fn end_if_over<P: Platform>(pool: &Pool<P>) {
    let others = pool.neighbours();
    let others = others.iter().flat_map(|others| others.iter()).map(|pool| &**pool);
    let mut pools: Vec<&Pool<P>> = std::iter::once(pool).chain(others).collect();
    // All take their locks in this order.
    pools.sort_by_key(|pool| pool.place.members.start);
    let mut states: Vec<_> = pools.iter().map(|pool| pool.lock_state()).collect();
    if !pools.iter().zip(&mut states).all(|(pool, state)| is_over(pool, state)) {
        return;
    }
    let stop = |(pool, state): (&&Pool<P>, &mut PoolGuard<'_, P>)| {
        state.roster.stopping = true;
        state.take_sleepers(pool)
    };
    let sleepers: Vec<_> = pools.iter().zip(&mut states).map(stop).collect();
    drop(states);
    for (pool, sleepers) in pools.iter().zip(sleepers) {
        // They hold references to one another.
        let others = pool.set_neighbours(None);
        sleepers.into_iter().for_each(|worker| pool.wake(worker));
        drop(others);
    }
}

/// True if nothing is left to do in a pool of a team that is to end, and no member looks for work.
fn is_over<P: Platform>(pool: &Pool<P>, state: &mut State<P>) -> bool {
    let is_makers = pool.place.members.start == 0 && !state.cold().has_lost_maker;
    let has_maker = pool.team().is_some_and(|team| team.has_current_thread && is_makers);
    // It stops already if its first member could not be started.
    state.roster.stopping
        || state.roster.ending
            && state.active() == 0
            && state.roster.starting == 0
            && state.roster.blocked() == usize::from(has_maker)
            && !state.has_work(pool)
            && !pool.has_mail()
}

/// Wakes a member that sleeps inside its work and satisfies `is_meant`. Under the pool's lock.
fn call_waiter<P: Platform>(
    pool: &Pool<P>,
    _state: &mut State<P>,
    is_meant: impl Fn(&WorkerSlot<P>) -> bool,
) {
    for (_, slot) in pool.slots.each() {
        // SAFETY: a sleeper removes its latch under the lock, before it leaves the latch.
        if let Some(latch) = unsafe { slot.waits_at.load(Relaxed).as_ref() }
            && is_meant(slot)
        {
            latch.nudge();
            return;
        }
    }
}

/// No member of this pool has run for this long, though there is work. Unless other members of the team run, one that
/// waits runs any job it finds. The jobs that members wait for may depend on it (on a message of the other half of a join,
/// say).
pub(super) fn call_last_resort<P: Platform>(pool: &Pool<P>, stood_still: Duration) {
    let runs_elsewhere = || {
        let others = pool.neighbours();
        others.iter().flat_map(|others| others.iter()).any(|pool| pool.lock_state().active() > 0)
    };
    if stood_still < NOBODY_RUNS || runs_elsewhere() {
        return;
    }
    call_waiter(pool, &mut pool.lock_state(), |slot| {
        slot.is_last_resort.store(1, SeqCst);
        true
    });
}

/// Injects a job from a thread that is not a worker of the pool.
pub(crate) fn inject<P: Platform>(pool: &Pool<P>, job: ListedJob<P>) {
    pool.thieves.inject(job, pool.place.injector_here::<P>(), || pool.slots.get(0));
    let Some(board) = &pool.board else { return pool.call_beside_here() };
    pool.monitor.notice_work();
    pool.call_beside_here();
    // SeqCst pairs with the SeqCst in `OpenWait::begin`: if a member announces its open wait and then finds no job here, a
    // thread that injects one later sees the announcement.
    if board.open_waits.load(SeqCst) > 0 {
        call_waiter(pool, &mut pool.lock_state(), |slot| slot.waits_elsewhere.load(Relaxed) != 0);
    }
}

/// Sends a job to one of the pool's members, which alone may run it; the job is not made if that member's thread has ended.
/// Returns a member that sleeps: the caller [calls](call_member) it, or lets another thread do so.
#[must_use]
pub(crate) fn mail<P: Platform>(
    pool: &Pool<P>,
    member: usize,
    job: impl FnOnce() -> ListedJob<P>,
) -> Option<usize> {
    let slot = pool.slots.get(member - pool.place.members.start);
    let mut state = pool.lock_state();
    if member == 0 && state.cold().has_lost_maker {
        return None;
    }
    if let Some(board) = &pool.board {
        board.mailed.fetch_add(1, SeqCst);
    }
    slot.mail.push(job());
    // SAFETY: a sleeper removes its latch under the lock, before it leaves the latch.
    if let Some(latch) = unsafe { slot.waits_at.load(Relaxed).as_ref() } {
        latch.nudge();
    }
    let kick = state.choose_for_mail(pool);
    let sleeper = match pool.attributes.wake {
        Wake::UnderLock => {
            pool.unlock_and_kick(state, kick);
            None
        }
        Wake::AfterUnlock | Wake::Coalesced => {
            drop(state);
            kick.map(|kick| pool.place.members.start + kick.worker)
        }
    };
    pool.monitor.notice_work();
    sleeper
}

/// Wakes a member that [`mail`] has returned, exactly once.
pub(crate) fn call_member<P: Platform>(pool: &Pool<P>, member: usize) {
    with_pool_of(pool, member, |pool| pool.wake(member - pool.place.members.start));
}

/// Calls `with` with the pool of this member, of the same team.
pub(crate) fn with_pool_of<P: Platform, R>(
    pool: &Pool<P>,
    member: usize,
    with: impl FnOnce(&Pool<P>) -> R,
) -> R {
    if pool.place.members.contains(&member) {
        return with(pool);
    }
    let others = pool.neighbours();
    let pool = others.iter().flat_map(|pools| pools.iter());
    let pool = pool.into_iter().find(|pool| pool.place.members.contains(&member));
    with(pool.unwrap_or_else(|| unreachable!("the team has this member")))
}

/// While it lives, a member runs injected jobs in its wait.
pub(super) struct OpenWait<'thread, P: Platform> {
    slot: &'thread WorkerSlot<P>,
    board: &'thread TeamBoard<P>,
    before: u32,
}

impl<'thread, P: Platform> OpenWait<'thread, P> {
    pub(super) fn begin(slot: &'thread WorkerSlot<P>, board: &'thread TeamBoard<P>) -> Self {
        let before = slot.waits_elsewhere.swap(1, Relaxed);
        board.open_waits.fetch_add(1, SeqCst);
        Self { slot, board, before }
    }
}

impl<P: Platform> Drop for OpenWait<'_, P> {
    fn drop(&mut self) {
        self.slot.waits_elsewhere.store(self.before, Relaxed);
        self.board.open_waits.fetch_sub(1, SeqCst);
    }
}

/// While it lives, a member that sleeps inside its work is woken for its mail.
pub(super) struct SleepsAt<'thread, P: Platform> {
    pool: &'thread Pool<P>,
    slot: &'thread WorkerSlot<P>,
}

impl<'thread, P: Platform> SleepsAt<'thread, P> {
    /// Returns `None` if the worker is not in a team.
    pub(super) fn begin(
        pool: &'thread Pool<P>,
        slot: &'thread WorkerSlot<P>,
        latch: &Latch<P>,
    ) -> Option<Self> {
        if !pool.is_team() {
            return None;
        }
        let sleeps_at = Self { pool, slot };
        sleeps_at.set(ptr::from_ref(latch).cast_mut());
        Some(sleeps_at)
    }

    fn set(&self, latch: *mut Latch<P>) {
        let _state = self.pool.lock_state();
        self.slot.waits_at.store(latch, Relaxed);
    }
}

impl<P: Platform> Drop for SleepsAt<'_, P> {
    fn drop(&mut self) {
        self.set(ptr::null_mut());
    }
}

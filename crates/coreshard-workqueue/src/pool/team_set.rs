//! How a team begins and ends: in all of its pools.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::user;
use coreshard_platform::{AtomicInt, Platform, SpawnError, ThreadSpec};

use super::pool::Pool;
use super::set::PoolSet;
use super::state::{Blocked, ThreadSlot};

/// What a member's thread is called.
pub(crate) type NameMember<'name> = &'name mut dyn FnMut(usize) -> Option<String>;

/// Gets a thread for a member: its index, whether it has a name of its own, what the thread is to be, and what it runs.
pub(crate) type StartMember<'start> = &'start mut dyn FnMut(
    usize,
    bool,
    ThreadSpec,
    Box<dyn FnOnce() + Send>,
) -> Result<(), SpawnError>;

/// What became of a start that the program was given.
const BEING_STARTED: u32 = 0;
/// It was accepted, and the member is to come.
const DUE: u32 = 1;
const CAME: u32 = 2;
/// Nobody runs it.
const DROPPED: u32 = 3;

/// In a member's body, until that is called.
struct Coming<P: Platform> {
    pool: Arc<Pool<P>>,
    index: usize,
    is_due: Arc<P::AtomicU32>,
}

impl<P: Platform> Coming<P> {
    /// On its thread: it counts among those that run.
    fn comes(self) {
        self.is_due.store(CAME, Relaxed);
        self.pool.lock().set_blocked(self.index, Blocked::No);
    }
}

impl<P: Platform> Drop for Coming<P> {
    fn drop(&mut self) {
        // Relaxed: the lock orders what follows.
        let dropped = |before| self.is_due.compare_exchange(before, DROPPED, Relaxed, Relaxed);
        if dropped(BEING_STARTED).is_err() && dropped(DUE).is_ok() {
            self.pool.never_comes(self.index);
        }
    }
}

impl<P: Platform> PoolSet<P> {
    /// Starts a team's members, by their index, each on a thread that `start` gets, or on one of the platform's.
    ///
    /// # Errors
    /// Where one cannot be had; the others go with the lease, and this thread is none.
    pub(crate) fn man_team(
        &self,
        name_of: NameMember<'_>,
        mut start: Option<StartMember<'_>>,
    ) -> Result<(), SpawnError> {
        // A hook of the first may send to all.
        self.pools().for_each(|pool| pool.make_room_for_members());
        let man = || self.pools().try_for_each(|pool| pool.man_team(name_of, &mut start));
        // A user's names and starts may throw.
        let outcome = user::call(man);
        if !matches!(outcome, Ok(Ok(()))) {
            self.pools().for_each(|pool| pool.lose_this_thread());
        }
        outcome.unwrap_or_else(|thrown| thrown.resume())
    }
}

impl<P: Platform> Pool<P> {
    /// Each member has its slot, so that it can be sent to, before any is there.
    pub(super) fn make_room_for_members(&self) {
        let _state = self.lock();
        (0..self.place.members.len()).for_each(|index| self.ensure_slot(index));
    }

    pub(super) fn man_team(
        self: &Arc<Self>,
        name_of: NameMember<'_>,
        start: &mut Option<StartMember<'_>>,
    ) -> Result<(), SpawnError> {
        for member in self.place.members.clone() {
            // A user's: before anything is reserved.
            let name = name_of(member).map(|name| name.replace('\0', ""));
            self.start_member(member, name, start)?;
        }
        Ok(())
    }

    fn start_member(
        self: &Arc<Self>,
        member: usize,
        name: Option<String>,
        start: &mut Option<StartMember<'_>>,
    ) -> Result<(), SpawnError> {
        let index = {
            let mut state = self.lock();
            let index = state.reserve_worker(self);
            state.starting += u16::from(index.is_some());
            if let Some(index) = index.filter(|_| start.is_some()) {
                // When it comes is the program's business: it does not run until then.
                state.set_blocked(index, Blocked::Declared);
            }
            index
        };
        let Some(index) = index else {
            return Err(SpawnError::refused(
                format!("member {member} of a team"),
                io::Error::other(
                    "the runtime has as many workers as it may have; allow it more with max_workers, or drop a team",
                ),
            ));
        };
        debug_assert_eq!(index, member - self.place.members.start, "none has gone");
        if member == 0 && self.team().is_some_and(|team| team.has_current_thread) {
            self.adopt_this_thread();
            return Ok(());
        }
        let (has_name, mut thrown) = (name.is_some(), None);
        let is_due = Arc::new(P::AtomicU32::new(BEING_STARTED));
        let by = |spec, body| match start {
            None => P::spawn(spec, body).map(ThreadSlot::Here),
            Some(start) => {
                // A user's: what was reserved is given back, whatever it throws.
                let coming = Coming { pool: Arc::clone(self), index, is_due: Arc::clone(&is_due) };
                let body = Box::new(move || {
                    coming.comes();
                    body();
                });
                let outcome = user::call(|| start(member, has_name, spec, body));
                let outcome = outcome.unwrap_or_else(|panic| {
                    thrown = Some(panic);
                    Err(SpawnError::refused("a member", io::Error::other("its start panicked")))
                });
                outcome.map(|()| ThreadSlot::Elsewhere)
            }
        };
        let (outcome, _) = self.start_worker_by(index, name, by);
        if let Some(thrown) = thrown {
            thrown.resume();
        }
        if outcome.is_ok()
            && is_due.compare_exchange(BEING_STARTED, DUE, Relaxed, Relaxed) == Err(DROPPED)
        {
            self.never_comes(index);
        }
        outcome
    }

    /// A member whose start was accepted, and dropped, or whose own thread has ended: the team is without it.
    #[cold]
    pub(super) fn never_comes(&self, index: usize) {
        let mut state = self.lock();
        state.retire_worker(index);
        // No other member has its index.
        let cold = state.cold_mut();
        cold.free.retain(|free| *free != index);
        cold.threads[index] = ThreadSlot::Late;
        state.stopping |= state.ending && state.alive == 0;
        let ending = state.ending;
        drop(state);
        if ending {
            self.end_team_if_over();
        }
    }

    /// The team is to end: as soon as nothing is left to do in any of its pools.
    pub(super) fn end_team(&self) {
        self.lock().ending = true;
        self.is_ending.store(1, Relaxed);
        self.end_team_if_over();
    }

    /// Ends a team that is to end, where nobody has anything to do in any of its pools. Whoever lies down asks for that
    /// afterwards, so the last one finds it so.
    pub(super) fn end_team_if_over(&self) {
        let others = self.neighbours.lock().clone();
        let others = others.iter().flat_map(|others| others.iter()).map(|pool| &**pool);
        let mut pools: Vec<&Self> = std::iter::once(self).chain(others).collect();
        // All take their locks in this order.
        pools.sort_by_key(|pool| pool.place.members.start);
        let mut states: Vec<_> = pools.iter().map(|pool| pool.lock()).collect();
        if !pools.iter().zip(&mut states).all(|(pool, state)| state.is_over(pool)) {
            return;
        }
        let sleepers: Vec<_> =
            pools.iter().zip(&mut states).map(|(pool, state)| state.end_team(pool)).collect();
        drop(states);
        for (pool, sleepers) in pools.iter().zip(sleepers) {
            // They held one another.
            let others = pool.neighbours.lock().take();
            sleepers.into_iter().for_each(|worker| pool.wake(worker));
            drop(others);
        }
    }
}

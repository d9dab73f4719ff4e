//! How a team begins and ends: in all of its pools.

use std::sync::Arc;
use std::{io, mem};

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Platform, SpawnError, ThreadSpec};

use super::pool::Pool;
use super::set::PoolSet;
use super::state::ThreadSlot;
use super::worker::Worker;

/// What a member's thread is called.
pub(crate) type NameMember<'name> = &'name mut dyn FnMut(usize) -> Option<String>;

/// Gets a thread for a member: its index, whether it has a name of its own, what the thread is to be, and what it runs.
pub(crate) type StartMember<'start> = &'start mut dyn FnMut(
    usize,
    bool,
    ThreadSpec,
    Box<dyn FnOnce() + Send>,
) -> Result<(), SpawnError>;

impl<P: Platform> PoolSet<P> {
    /// Starts a team's members, by their index, each on a thread that `start` gets, or on one of the platform's.
    ///
    /// # Errors
    /// Where one cannot be had; the others go with the lease.
    pub(crate) fn man_team(
        &self,
        name_of: NameMember<'_>,
        mut start: Option<StartMember<'_>>,
    ) -> Result<(), SpawnError> {
        self.pools().try_for_each(|pool| pool.man_team(name_of, &mut start))
    }
}

impl<P: Platform> Pool<P> {
    fn man_team(
        self: &Arc<Self>,
        name_of: NameMember<'_>,
        start: &mut Option<StartMember<'_>>,
    ) -> Result<(), SpawnError> {
        for member in self.place.members.clone() {
            // A user's: before anything is reserved.
            let name = name_of(member);
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
        let by = |spec, body| match start {
            None => P::spawn(spec, body).map(ThreadSlot::Here),
            Some(start) => {
                // A user's: what was reserved is given back, whatever it throws.
                let outcome = user::call(|| start(member, has_name, spec, body));
                let outcome = outcome.unwrap_or_else(|panic| {
                    thrown = Some(panic);
                    Err(SpawnError::refused("a member", io::Error::other("its start panicked")))
                });
                outcome.map(|()| ThreadSlot::Elsewhere)
            }
        };
        let (outcome, _) = self.start_worker_by(index, name, by);
        thrown.map(Thrown::resume);
        outcome
    }

    /// The team is to end: as soon as nothing is left to do in any of its pools.
    pub(super) fn end_team(&self) {
        self.lock().ending = true;
        let others = self.neighbours.lock().clone();
        let others = others.iter().flat_map(|others| others.iter()).map(|pool| &**pool);
        end_if_over(self, others, None);
    }
}

/// Ends a team, where nothing is left to do in any of its pools. `last` is the one member that looks for something, by its
/// index in `pool`; it goes itself. False if something is left.
fn end_if_over<'pool, P: Platform>(
    pool: &'pool Pool<P>,
    others: impl Iterator<Item = &'pool Pool<P>>,
    last: Option<usize>,
) -> bool {
    let mut pools: Vec<&Pool<P>> = std::iter::once(pool).chain(others).collect();
    // All take them in this order.
    pools.sort_by_key(|pool| pool.place.members.start);
    let mut states: Vec<_> = pools.iter().map(|pool| pool.lock()).collect();
    let looking = |at: usize| usize::from(last.is_some() && std::ptr::eq(pools[at], pool));
    let is_over = |(at, state): (usize, &mut _)| {
        let state: &mut super::pool::PoolGuard<'_, P> = state;
        state.is_over(pools[at], looking(at))
    };
    if !states.iter_mut().enumerate().all(is_over) {
        return false;
    }
    let mut sleepers = Vec::new();
    for (at, state) in states.iter_mut().enumerate() {
        if let Some(last) = last.filter(|_| looking(at) > 0) {
            state.let_go(last);
        }
        sleepers.push(state.end_team(pools[at]));
    }
    drop(mem::take(&mut states));
    for (pool, sleepers) in pools.iter().zip(sleepers) {
        // They held one another.
        pool.set_neighbours(None);
        sleepers.into_iter().for_each(|worker| pool.wake(worker));
    }
    true
}

impl<P: Platform> Worker<'_, P> {
    /// Of a team that is to end: if this is the last member that has something to do, which it has not, all go, and
    /// this one is off its list. False else.
    pub(super) fn ends_team(&self) -> bool {
        let pool = self.pool;
        let may_be_last = {
            let mut state = pool.lock();
            state.rejoin(self.index);
            state.is_over(pool, 1)
        };
        let others = self.current().neighbours().iter().map(|pool| &**pool);
        may_be_last && end_if_over(pool, others, Some(self.index))
    }
}

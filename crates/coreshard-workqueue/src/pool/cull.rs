//! The end of a worker that has been idle for long.

use coreshard_platform::Platform;

use super::pool::PoolGuard;
use super::worker::Worker;
use crate::base::bits::bits;
use crate::base::canary::{Canary, planted};

impl<P: Platform> Worker<'_, P> {
    /// After the idle time: takes this worker off its list, unless it was chosen meanwhile, or is
    /// the last that sleeps.
    pub(super) fn may_leave(&self, mut state: PoolGuard<'_, P>) -> bool {
        let pool = self.pool;
        if pool.is_team() {
            return false;
        }
        let others_sleep =
            state.idle.iter().any(|idle| *idle != self.index && state.kicked != Some(*idle))
                || bits(state.runner_ups).any(|other| other != self.index);
        if state.designated == Some(self.index) {
            if !others_sleep {
                return false;
            }
            // Another takes the place, if no producer has read the name yet.
            if state.recall_designated(pool).is_none() {
                return false;
            }
            state.let_go(self.index);
            let kick = state.appoint_designated(pool);
            pool.unlock_and_kick(state, kick);
            return true;
        }
        if state.is_runner_up(self.index) {
            // Where nobody is designated, the one that was is being woken, or somebody runs: who comes next to the
            // lock appoints another.
            if state.designated.is_none() || state.recall_runner_up(pool, self.index).is_none() {
                return false;
            }
            state.let_go(self.index);
            return true;
        }
        let listed = state.idle.contains(&self.index) && state.kicked != Some(self.index)
            || planted(Canary::CullRace);
        if !listed || !(others_sleep || state.designated.is_some()) {
            return false;
        }
        state.idle.retain(|idle| *idle != self.index);
        state.let_go(self.index);
        true
    }
}

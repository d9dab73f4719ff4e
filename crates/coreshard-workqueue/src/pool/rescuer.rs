//! The rescuer: a worker that is there from the start, beyond all limits, and stands by until the
//! pool needs one more and cannot have it. Then it is a worker like all others, until one of these
//! sleeps: the pool has somebody again. After the kernel's rescuer.

use coreshard_platform::Platform;

use super::pool::Pool;
use super::state::{Kick, RESCUER, Rescuer, State, ThreadSlot};
use super::worker::Worker;

impl<P: Platform> State<P> {
    /// Calls the rescuer, if a worker was refused since this was last asked.
    pub(super) fn call_rescuer(&mut self) -> Option<Kick> {
        let wanted = std::mem::take(&mut self.spare_refused);
        if !wanted || self.rescuer != Rescuer::StandsBy || self.stopping {
            return None;
        }
        self.rescuer = Rescuer::Called;
        self.alive += 1;
        self.cold_mut().counters.rescues += 1;
        Some(Kick { worker: RESCUER, steer_to: None })
    }

    /// Lets a rescuer go that stands by: the caller wakes it.
    pub(super) fn dismiss_rescuer(&mut self) -> Option<usize> {
        if self.rescuer != Rescuer::StandsBy {
            return None;
        }
        self.rescuer = Rescuer::Leaving;
        Some(RESCUER)
    }

    /// True if this index is the rescuer's, and it counts as no worker.
    pub(super) fn stands_by(&self, worker: usize) -> bool {
        worker == RESCUER && !matches!(self.rescuer, Rescuer::None | Rescuer::Called)
    }

    /// True if no rescuer's thread is there.
    pub(super) fn has_no_rescuer(&self) -> bool {
        matches!(self.rescuer, Rescuer::None | Rescuer::Gone)
    }

    /// True if this index is the rescuer's, and it counts as a worker.
    pub(super) fn is_called(&self, worker: usize) -> bool {
        worker == RESCUER && self.rescuer == Rescuer::Called
    }

    /// A place for the rescuer of a pool that starts, if it is to have one and that is not there. The
    /// first index is the rescuer's.
    pub(super) fn reserve_rescuer(&mut self, pool: &Pool<P>) -> Option<usize> {
        pool.attributes.rescuer?;
        match self.rescuer {
            Rescuer::None => {
                let index = self.claim_index(pool);
                assert_eq!(index, Some(RESCUER), "the first index is the rescuer's");
            }
            Rescuer::Gone => self.cold_mut().threads[RESCUER] = ThreadSlot::Coming,
            // Of a former life of the pool, which it has ended itself: it is still at it.
            Rescuer::StandsBy | Rescuer::Called | Rescuer::Leaving => return None,
        }
        self.rescuer = Rescuer::StandsBy;
        Some(RESCUER)
    }
}

impl<P: Platform> Pool<P> {
    /// True if this index is its rescuer's.
    pub(super) fn is_rescuers(&self, worker: usize) -> bool {
        worker == RESCUER && self.attributes.rescuer.is_some()
    }
}

impl<P: Platform> Worker<'_, P> {
    pub(super) fn is_rescuer(&self) -> bool {
        self.pool.is_rescuers(self.index)
    }

    /// Waits until the rescuer is called. False if this is none, or the pool stops.
    pub(super) fn stand_by(&self) -> bool {
        if !self.is_rescuer() {
            return false;
        }
        {
            let mut state = self.pool.lock();
            if state.rescuer == Rescuer::StandsBy && state.stopping {
                state.rescuer = Rescuer::Leaving;
                return false;
            }
        }
        // One permit for each that calls or dismisses it, and each is taken here: one that was left would
        // end a later sleep, of which nobody else knows.
        self.slot.parker.park();
        self.pool.lock().rescuer == Rescuer::Called
    }
}

//! The reserve: a worker that is there from the start, beyond all limits, and stands by until the
//! pool needs one more and cannot have it. Then it is a worker like all others, until one of these
//! sleeps: the pool has somebody again. After the kernel's rescuer.

use coreshard_platform::Platform;

use super::Pool;
use super::kick::Kick;
use super::state::{Handle, State};
use super::worker::Worker;

/// The reserve's index, in the pools that have one.
pub(super) const RESERVE: usize = 0;

/// Whether a pool has a reserve, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserve {
    /// The pool is to have none, or was never started.
    None,
    /// Its thread is not there.
    Gone,
    /// It waits to be called, and counts as no worker.
    StandsBy,
    /// It works.
    Called,
    /// It ends, and counts as no worker; its slot is still its own.
    Leaving,
}

impl<P: Platform> State<P> {
    /// Calls the reserve, if a worker was refused since this was last asked.
    pub(super) fn call_reserve(&mut self) -> Option<Kick> {
        let wanted = std::mem::take(&mut self.spare_refused);
        if !wanted || self.reserve != Reserve::StandsBy || self.stopping {
            return None;
        }
        self.reserve = Reserve::Called;
        self.alive += 1;
        self.cold_mut().counters.rescues += 1;
        Some(Kick { worker: RESERVE, steer_to: None })
    }

    /// Lets a reserve go that stands by: the caller wakes it.
    pub(super) fn dismiss_reserve(&mut self) -> Option<usize> {
        if self.reserve != Reserve::StandsBy {
            return None;
        }
        self.reserve = Reserve::Leaving;
        Some(RESERVE)
    }

    /// True if this index is the reserve's, and it counts as no worker.
    pub(super) fn stands_by(&self, worker: usize) -> bool {
        worker == RESERVE && !matches!(self.reserve, Reserve::None | Reserve::Called)
    }

    /// True if no reserve's thread is there.
    pub(super) fn has_no_reserve(&self) -> bool {
        matches!(self.reserve, Reserve::None | Reserve::Gone)
    }

    /// True if this index is the reserve's, and it counts as a worker.
    pub(super) fn is_called(&self, worker: usize) -> bool {
        worker == RESERVE && self.reserve == Reserve::Called
    }

    /// A place for the reserve of a pool that starts, if it is to have one and that is not there. The
    /// first index is the reserve's.
    pub(super) fn reserve_the_reserve(&mut self, pool: &Pool<P>) -> Option<usize> {
        pool.attributes.rescuer?;
        match self.reserve {
            Reserve::None => {
                let index = self.claim_index(pool);
                assert_eq!(index, Some(RESERVE), "the first index is the reserve's");
            }
            Reserve::Gone => self.cold_mut().threads[RESERVE] = Handle::Coming,
            // Of a former life of the pool, which it has ended itself: it is still at it.
            Reserve::StandsBy | Reserve::Called | Reserve::Leaving => return None,
        }
        self.reserve = Reserve::StandsBy;
        Some(RESERVE)
    }
}

impl<P: Platform> Worker<'_, P> {
    pub(super) fn is_reserve(&self) -> bool {
        self.index == RESERVE && self.pool.attributes.rescuer.is_some()
    }

    /// Waits until the reserve is called. False if this is none, or the pool stops.
    pub(super) fn stand_by(&self) -> bool {
        if !self.is_reserve() {
            return false;
        }
        {
            let mut state = self.pool.lock();
            if state.reserve == Reserve::StandsBy && state.stopping {
                state.reserve = Reserve::Leaving;
                return false;
            }
        }
        // One permit for each that calls or dismisses it, and each is taken here: one that was left would
        // end a later sleep, of which nobody else knows.
        self.slot.parker.park();
        self.pool.lock().reserve == Reserve::Called
    }
}

//! The reserve: a worker that is there from the start, beyond all limits, and stands by until the
//! pool needs one more and cannot have it. Then it is a worker like all others, until one of these
//! sleeps: the pool has somebody again. After the kernel's rescuer.

use coreshard_platform::{Platform, SpawnError};

use super::Pool;
use super::kick::Kick;
use super::state::State;
use super::worker::Worker;

/// The reserve's index, in the pools that have one.
pub(super) const RESERVE: usize = 0;

/// Whether a pool has a reserve, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserve {
    None,
    /// It waits to be called, and counts as no worker.
    StandsBy,
    /// It works.
    Called,
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

    /// True if this index is the reserve's, and it stands by.
    pub(super) fn stands_by(&self, worker: usize) -> bool {
        worker == RESERVE && self.reserve == Reserve::StandsBy
    }
}

impl<P: Platform> Pool<P> {
    /// Starts the reserve of a pool without workers.
    pub(super) fn start_reserve(self: &std::sync::Arc<Self>) -> Result<(), SpawnError> {
        if self.attributes.rescuer.is_none() {
            return Ok(());
        }
        {
            let mut state = self.lock();
            if state.cold().threads.is_empty() {
                let index = state.claim_index(self);
                assert_eq!(index, Some(RESERVE), "the first index is the reserve's");
            }
            state.reserve = Reserve::StandsBy;
        }
        self.start_worker(RESERVE)
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
        loop {
            {
                let state = self.pool.lock();
                match state.reserve {
                    Reserve::Called => return true,
                    Reserve::StandsBy if state.stopping => return false,
                    Reserve::StandsBy => {}
                    Reserve::None => return false,
                }
            }
            self.desk.parker.park();
        }
    }
}

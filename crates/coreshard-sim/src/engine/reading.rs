//! Read-side sections: the engine knows which are open, so a grace period is over when none is.

use super::state::current;
use super::tso::drain_own_stores;
use super::turn::with;

pub(crate) fn begin_reading() {
    if let Some(sim) = current() {
        with(sim, |sim| sim.readings += 1);
    }
}

pub(crate) fn end_reading() {
    if let Some(sim) = current() {
        with(sim, |sim| sim.readings -= 1);
    }
}

/// As where a thread has every CPU pass a barrier, its own among them.
pub(crate) fn try_grace_period() -> bool {
    drain_own_stores();
    current().is_some_and(|sim| with(sim, |sim| sim.readings == 0))
}

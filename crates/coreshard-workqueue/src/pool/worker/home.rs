//! How a worker comes back to its pod.

use std::time::Duration;

use coreshard_platform::{Platform, Time};

use crate::config::attributes::Place;
use crate::insight::diagnostic::say;

/// How long a worker that was brought home may not be moved out again. It may be as soon as it sleeps after that: the kernel
/// moves it away from other threads that compute in its pod.
const STAY_AT_HOME: Duration = Duration::from_millis(5);

/// Where a worker was of late.
pub(super) struct Homing {
    /// How often it was brought back, and has not said so.
    came_back: u64,
    /// Since when it may not leave its pod, having been brought back to it.
    stays_since: Option<Time>,
}

impl Homing {
    pub(super) fn new() -> Self {
        Self { came_back: 0, stays_since: None }
    }

    /// How often the worker was brought back since the last call.
    #[inline]
    pub(super) fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.came_back)
    }

    /// Comes home, if the kernel has moved this worker out of its pod, and stays for a while: if the waker keeps
    /// the pod's CPUs busy, as a producer does that waits for each item on a pool of its own CPU, each wake-up would lead
    /// it out again, at the price of two migrations and two calls.
    pub(super) fn return_to<P: Platform>(&mut self, place: &Place) {
        if place.home == place.roam {
            return;
        }
        let moved = if let Some(since) = self.stays_since {
            if P::now() - since < STAY_AT_HOME {
                return;
            }
            self.stays_since = None;
            P::set_affinity(&place.roam)
        } else if place.home.contains(P::current_cpu()) {
            return;
        } else {
            P::set_affinity(&place.home).map(|()| {
                self.came_back += 1;
                self.stays_since = Some(P::now());
            })
        };
        if let Err(error) = moved {
            say(|| {
                tracing::warn!(pod = %place.pod, %error, "a worker cannot be brought home, or let out");
            });
        }
    }
}

//! How a worker returns to its pod.

use std::time::Duration;

use coreshard_platform::{Platform, Time};

use crate::config::attributes::Place;
use crate::insight::diagnostic::say;

/// How long a worker that was brought back may not leave its pod. When it sleeps after that, it may leave again: the kernel
/// moves it away from other threads that compute in its pod.
const STAY_AT_HOME: Duration = Duration::from_millis(5);

/// A worker's recent moves out of its pod.
pub(super) struct Homing {
    /// How often it was brought back since the last report.
    came_back: u64,
    /// Start of the time during which it may not leave its pod, after it was brought back.
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

    /// Brings the worker back, if the kernel has moved it out of its pod, and confines it there for a while. The waker may
    /// keep the pod's CPUs busy, like a producer that waits for each item on a pool of one CPU. Then each wake-up would
    /// move the worker out again, at the cost of two migrations and two system calls.
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

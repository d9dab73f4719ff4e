//! The platforms on which a contention runs.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

use coreshard_platform::{Host, Platform, thread_cpu_wait};

use crate::platform::Sim;

/// A platform that can compute for a given time.
pub trait Stage: Platform {
    /// Computes for `ns` nanoseconds, without an access to shared memory.
    fn spend(ns: f64);

    /// Returns the time in nanoseconds if reading it is free; otherwise 0.
    fn free_clock_ns() -> u64 {
        0
    }

    /// Returns how long the calling thread has waited for a CPU in nanoseconds, if that is known.
    fn waited_for_cpu_ns() -> Option<u64> {
        None
    }

    /// Reports that the program has advanced.
    fn round_is_done() {}
}

impl Stage for Sim {
    fn spend(ns: f64) {
        if ns > 0.0 {
            Self::compute(Duration::from_nanos(ns.round() as u64));
        }
    }

    fn free_clock_ns() -> u64 {
        Self::virtual_time().as_nanos() as u64
    }

    fn round_is_done() {
        Self::progress();
    }
}

impl Stage for Host {
    fn spend(ns: f64) {
        turns((ns / ns_of_turn()).round() as u64);
    }

    fn waited_for_cpu_ns() -> Option<u64> {
        u64::try_from(thread_cpu_wait()?.as_nanos()).ok()
    }
}

/// Computes for a number of turns, each of which depends on the one before.
fn turns(count: u64) {
    let mut value = count;
    for _ in 0..count {
        value = black_box(value.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1));
    }
    black_box(value);
}

/// Returns how long a turn takes on this machine: the shortest of several measurements, as others were
/// interrupted.
fn ns_of_turn() -> f64 {
    static NS: OnceLock<f64> = OnceLock::new();
    const TURNS: u64 = 200_000;
    *NS.get_or_init(|| {
        let measure = || {
            let start = Host::now();
            turns(TURNS);
            Host::now().ns_since(start) as f64 / TURNS as f64
        };
        (0..9).map(|_| measure()).fold(f64::INFINITY, f64::min).max(0.01)
    })
}

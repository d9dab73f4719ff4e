//! Interruptions of a thread that does not yield its CPU: interrupts and, in a virtual machine, the host.

use std::time::Duration;

use coreshard_platform::{Platform, SpawnError};
use coreshard_topology::CpuId;

use super::measure::on;

/// How long the clock is read.
const WATCHED: Duration = Duration::from_millis(10);
/// Shorter gaps are noise of the clock and the caches.
const LEAST_NS: u64 = 2_000;
/// In longer gaps, another thread has run.
const MOST_NS: u64 = 400_000;

/// Gaps between two readings of the clock that far exceed the duration of a reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interruptions {
    pub(super) watched_ns: f64,
    pub(super) count: u64,
    pub(super) lost_ns: f64,
}

pub(super) fn watch<P: Platform>(cpu: CpuId) -> Result<Interruptions, SpawnError> {
    let watch = || {
        let start = P::now();
        let (mut last, mut found) = (start, Interruptions::default());
        while last - start < WATCHED {
            let now = P::now();
            let gap_ns = now.ns_since(last);
            if (LEAST_NS..=MOST_NS).contains(&gap_ns) {
                found.count += 1;
                found.lost_ns += gap_ns as f64;
            }
            last = now;
        }
        Interruptions { watched_ns: last.ns_since(start) as f64, ..found }
    };
    Ok(on::<P, _>(cpu, None, watch)?())
}

//! How fast cores compute alone, and while others do.

use std::hint::black_box;

use coreshard_platform::{Platform, SpawnError};
use coreshard_topology::CpuId;

use super::places::Places;
use super::samples::ClockSamples;
use crate::crew::Crew;

/// Iterations of some three cycles: a few milliseconds, long enough for a change of the clock to take effect.
const TIMES: u64 = 2_000_000;

/// Three independent chains of three instructions: three instructions a cycle.
fn compute(times: u64) -> u64 {
    let (mut one, mut two, mut three) = (1_u64, 2_u64, 3_u64);
    for _ in 0..times {
        one = black_box(one) ^ (one << 7);
        two = black_box(two) ^ (two << 9);
        three = black_box(three) ^ (three << 8);
    }
    one ^ two ^ three
}

/// Returns how long the computation takes on each of the CPUs at once, on average.
fn computed_ns<P: Platform>(cpus: &[CpuId]) -> Result<f64, SpawnError> {
    let mut crew = Crew::<P, u64>::new(cpus.len());
    for cpu in cpus {
        crew.spawn_on(*cpu, format!("calibrate-{cpu}"), || {
            let start = P::now();
            black_box(compute(TIMES));
            P::now().ns_since(start)
        })?;
    }
    let all_ns: u64 = crew.run().results.into_iter().sum();
    Ok(all_ns as f64 / cpus.len() as f64)
}

/// Measures a round.
pub(super) fn measure<P: Platform>(
    places: &Places,
    into: &mut ClockSamples,
) -> Result<(), SpawnError> {
    let all = &places.cores_first[..];
    let alone_ns = computed_ns::<P>(&all[..1])?;
    // Computation takes no simulated time.
    if alone_ns < 1_000.0 {
        return Ok(());
    }
    let cores_ns = computed_ns::<P>(&all[..places.cores])?;
    into.alone.push(alone_ns);
    into.cores.push(cores_ns / alone_ns);
    if all.len() > places.cores {
        into.siblings.push(computed_ns::<P>(all)? / cores_ns);
    }
    Ok(())
}

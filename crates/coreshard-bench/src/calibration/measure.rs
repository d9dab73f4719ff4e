//! Measuring helpers: repetitions, durations and CPUs.

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Lock, Platform, SpawnError, ThreadHandle, ThreadSpec};
use coreshard_results::Calibration;
use coreshard_topology::CpuId;

use crate::crew::{Crew, pinned};

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds. Each round measures every figure once.
    pub rounds: usize,
    /// How often a short operation is repeated in one measurement.
    pub repeats: u64,
    /// The size in bytes of the memory walked to measure accesses beyond the caches.
    pub memory_bytes: usize,
}

impl Default for Effort {
    /// 15 rounds: one or two seconds in total on a small machine.
    fn default() -> Self {
        Self { rounds: 15, repeats: 2_000, memory_bytes: 128 << 20 }
    }
}

/// How long CPUs are idle before they are woken.
pub(super) const BRIEF_REST: Duration = Duration::from_nanos(Calibration::BRIEF_REST_NS);
/// Durations between the brief and the short one, to find where the next idle state begins.
pub(super) const RESTS_BETWEEN: [Duration; 3] =
    [Duration::from_micros(40), Duration::from_micros(80), Duration::from_micros(160)];
pub(super) const SHORT_REST: Duration = Duration::from_nanos(Calibration::SHORT_REST_NS);
pub(super) const LONG_REST: Duration = Duration::from_millis(5);

/// Calls `body` on a new thread on `cpu`. Returns a function that waits for its result.
pub(super) fn on<P: Platform, R: Send + 'static>(
    cpu: CpuId,
    nice: Option<i8>,
    body: impl FnOnce() -> R + Send + 'static,
) -> Result<impl FnOnce() -> R, SpawnError> {
    let result = Arc::new(Lock::<P, Option<R>>::new(None));
    let theirs = Arc::clone(&result);
    let spec = ThreadSpec { nice, ..pinned(format!("calibrate-{cpu}"), cpu) };
    let run = move || {
        let value = body();
        *theirs.lock() = Some(value);
    };
    let thread = P::spawn(spec, Box::new(run))?;
    Ok(move || {
        thread.join();
        let value = result.lock().take();
        value.expect("a thread that has ended has left its result")
    })
}

/// Calls `body` on a thread on `cpu` beside a `companion` on another thread. Both begin when both have
/// started. Returns the result of `body` when both have ended.
pub(super) fn beside<P: Platform, R: Send + 'static>(
    (companions_cpu, nice): (CpuId, Option<i8>),
    companion: impl FnOnce() + Send + 'static,
    cpu: CpuId,
    body: impl FnOnce() -> R + Send + 'static,
) -> Result<R, SpawnError> {
    let mut crew = Crew::<P, R>::new(2);
    let name = format!("calibrate-{companions_cpu}");
    crew.spawn(ThreadSpec { nice, ..pinned(name, companions_cpu) }, |gate| {
        if gate.pass() {
            companion();
            gate.leave();
        }
    })?;
    crew.spawn_on(cpu, format!("calibrate-{cpu}"), body)?;
    Ok(crew.run().results.remove(0))
}

/// Returns the nanoseconds per call over `times` calls.
pub(super) fn each_ns<P: Platform>(times: u64, mut call: impl FnMut()) -> f64 {
    // One call to touch all memory first.
    call();
    let start = P::now();
    (0..times).for_each(|_| call());
    P::now().ns_since(start) as f64 / times as f64
}

/// Returns for each number below `of` its successor in a random cycle of all of them: Sattolo's algorithm.
pub(super) fn cycle(of: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..of as u32).collect();
    let mut random = fastrand::Rng::with_seed(1);
    for at in (1..of).rev() {
        order.swap(at, random.usize(..at));
    }
    order
}

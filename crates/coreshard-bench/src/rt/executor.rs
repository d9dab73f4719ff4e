//! The executor that a real-time benchmark runs on.

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Platform, RealTime};
use coreshard_rt::{Degradation, Executor, Priority, Rung};

use crate::error::BenchError;
use crate::machine::BenchMachine;

/// The executor's options, and how to treat missing features.
#[derive(Clone, Copy, Debug)]
pub struct ExecutorSettings {
    /// The layout of its index.
    pub variant: Rung,
    /// The highest priority of the benchmark's tasks.
    pub priority: Priority,
    /// Whether to lock the process's memory.
    pub lock_memory: bool,
    /// Whether to measure at normal priority if no other is granted. The results say so.
    pub allow_degraded: bool,
}

/// Starts an executor on the machine's CPUs. Also returns its missing features, in sentences.
pub(super) fn executor<P: RealTime>(
    machine: &BenchMachine,
    settings: ExecutorSettings,
    priorities: &[Priority],
) -> Result<(Executor<P>, Vec<String>), BenchError> {
    let builder = Executor::<P>::builder(&machine.topology)
        .cpus(machine.usable.clone())
        .rung(settings.variant)
        .lock_memory(settings.lock_memory)
        // Compressors have large stack frames.
        .stack_bytes(2 << 20)
        // The watchdog would wake up in between, and the measured tasks have no budget.
        .watchdog_period(None)
        .priorities(priorities.iter().copied());
    if settings.allow_degraded {
        let (executor, degradations) = builder.build_degraded()?;
        Ok((executor, degradations.iter().map(Degradation::to_string).collect()))
    } else {
        Ok((builder.build()?, Vec::new()))
    }
}

/// Waits until the caller has the last reference to `shared`: finished tasks drop theirs a moment after they
/// have reported.
pub(super) fn released<P: Platform, T>(shared: &Arc<T>) {
    while Arc::strong_count(shared) > 1 {
        P::sleep(Duration::from_micros(100));
    }
}

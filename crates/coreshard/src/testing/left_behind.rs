//! Detects what a test left behind in its simulated process.

use std::time::Duration;

use coreshard_platform::Platform;
use coreshard_sim::Sim;

use crate::test_machine::SimulatedProcess;

/// Time limit for background activities to end, in virtual time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the delayed items of the process's runtime and sleeping futures.
pub(super) fn delayed() -> usize {
    SimulatedProcess::runtime().map_or(0, |runtime| runtime.delayed_items())
}

/// Describes what is left at the program's end.
pub(super) fn left_behind() -> Option<String> {
    let runtime = SimulatedProcess::runtime()?;
    SimulatedProcess::end_joins();
    let deadline = Sim::now() + PATIENCE;
    loop {
        // Delayed items keep their queue, and a program may end before they run.
        if runtime.delayed_items() > 0 {
            return None;
        }
        let stats = runtime.stats();
        if stats.pools.is_empty() {
            return None;
        }
        if Sim::now() >= deadline {
            let names: Vec<String> =
                stats.queues.iter().map(|queue| format!("{:?}", queue.name)).collect();
            let names = names.join(", ");
            return Some(format!(
                "queues are left at the test's end, with their workers: {names}. A handle still exists, possibly in a static, in a cycle of references, or in an item that waits in the queue"
            ));
        }
        Sim::sleep(PATIENCE / 100);
    }
}

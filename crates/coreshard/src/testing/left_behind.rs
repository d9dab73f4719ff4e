//! What a test has left behind of its simulated process.

use std::time::Duration;

use coreshard_platform::Platform;
use coreshard_sim::Sim;

use crate::test_machine::SimulatedProcess;

/// How long what ends in the background may take, of virtual time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Delayed items of the process's runtime, and futures that sleep.
pub(super) fn delayed() -> usize {
    SimulatedProcess::runtime().map_or(0, |runtime| runtime.delayed_items())
}

/// At the program's end: what is left, in words.
pub(super) fn left_behind() -> Option<String> {
    let runtime = SimulatedProcess::runtime()?;
    SimulatedProcess::end_joins();
    let deadline = Sim::now() + PATIENCE;
    loop {
        // What waits for its time keeps its queue, and a program may end before that.
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
                "queues are left at the test's end, and so are their workers: {names}. Something holds a handle to \
                 them: a static, a cycle of references, an item that holds the queue that it waits in?"
            ));
        }
        Sim::sleep(PATIENCE / 100);
    }
}

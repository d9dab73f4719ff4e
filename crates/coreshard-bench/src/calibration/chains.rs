//! The computing time of a program between two accesses to shared memory.
//!
//! A simulated machine knows the cost of each access, and treats the code between accesses as free. So a
//! program on one CPU, without any waiting, takes longer on the machine than in its simulation. The
//! difference divided by the number of accesses is the computing time between two of them.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use coreshard_platform::{AtomicInt, Parker, Platform};
use coreshard_results::Figure;
use coreshard_topology::Topology;
use coreshard_workqueue::{Runtime, Workqueue};

use crate::error::BenchError;
use crate::spread::figure;

/// The number of concurrent chains: this many items wait while one runs.
const CHAINS: u64 = 16;

struct Chains<P: Platform> {
    /// Chains that have not finished.
    left: P::AtomicU64,
    over: Parker<P>,
}

/// Queues the next item of a chain that has `left` of them.
fn go_on<P: Platform>(queue: Workqueue<P>, chains: Arc<Chains<P>>, left: u64) {
    if left == 0 {
        if chains.left.fetch_sub(1, AcqRel) == 1 {
            chains.over.unpark();
        }
        return;
    }
    let next = queue.clone();
    let sent = queue.queue(move || go_on(next, chains, left - 1));
    assert!(sent.is_ok(), "the queue is open as long as its items run");
}

/// Measures how long an item takes that queues its successor, on one CPU: `rounds` times with `items` items.
///
/// # Errors
/// If no runtime can be created on that CPU.
pub fn item_chains<P: Platform>(
    one_cpu: &Topology,
    items: u64,
    rounds: usize,
) -> Result<Figure, BenchError> {
    let runtime = Runtime::<P>::builder(one_cpu.clone()).build()?;
    let queue = runtime.workqueue().build()?;
    let each = items.div_ceil(CHAINS);
    let mut samples = Vec::with_capacity(rounds);
    // One more round, to touch all memory first.
    for round in 0..=rounds {
        let chains = Arc::new(Chains { left: P::AtomicU64::new(CHAINS), over: Parker::new() });
        let start = P::now();
        for _ in 0..CHAINS {
            go_on(queue.clone(), Arc::clone(&chains), each);
        }
        while chains.left.load(Relaxed) > 0 {
            chains.over.park();
        }
        let took_ns = P::now().ns_since(start) as f64 / (each * CHAINS) as f64;
        if round > 0 {
            samples.push(took_ns);
        }
    }
    Ok(figure(samples))
}

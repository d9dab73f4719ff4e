//! What a program computes between two accesses to shared memory.
//!
//! A simulated machine knows what each access costs, and lets what lies between them cost nothing. So the
//! same program, on one CPU, where nobody is waited for, takes longer on the machine than in its simulation:
//! what is missing, divided by the number of accesses, is what a program computes between two of them.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use coreshard_platform::{AtomicInt, Parker, Platform};
use coreshard_results::Figure;
use coreshard_topology::Topology;
use coreshard_workqueue::{Runtime, Workqueue};

use crate::error::BenchError;
use crate::spread::figure;

/// Chains at a time: as many items wait while one runs.
const CHAINS: u64 = 16;

struct Chains<P: Platform> {
    /// Chains that go on.
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

/// How long an item takes that queues the item after it, on one CPU. Measured `rounds` times with `items`
/// items.
///
/// # Errors
/// Where there is no runtime to be had on that CPU.
pub fn item_chains<P: Platform>(
    one_cpu: &Topology,
    items: u64,
    rounds: usize,
) -> Result<Figure, BenchError> {
    let runtime = Runtime::<P>::builder(one_cpu.clone()).build()?;
    let queue = runtime.workqueue().build()?;
    let each = items.div_ceil(CHAINS);
    let mut samples = Vec::with_capacity(rounds);
    // Once more, for what is touched first.
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

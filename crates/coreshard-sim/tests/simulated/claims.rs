//! How often many workers of one pool take its lock.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::{CpuId, Scope};
use coreshard_workqueue::Runtime;

const PRODUCERS: u32 = 72;
const ITEMS: u64 = 60;

/// Returns the holds of the single pool's lock per item, if a producer on each CPU has one item outstanding.
fn holds_per_item(machine: &Machine) -> f64 {
    let runtime = Runtime::<Sim>::builder(machine.topology().clone())
        .measure_lock_holds(true)
        .build()
        .unwrap();
    let queue = runtime.workqueue().scope(Scope::Cache).build().unwrap();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|cpu| {
            let queue = queue.clone();
            let affinity = Some([CpuId(cpu)].into_iter().collect());
            let body = move || {
                let done = Arc::new(<Sim as Platform>::AtomicU64::new(0));
                for item in 0..ITEMS {
                    let told = Arc::clone(&done);
                    queue
                        .queue(move || {
                            told.fetch_add(1, Release);
                        })
                        .unwrap();
                    while done.load(Acquire) == item {
                        Sim::spin_hint();
                    }
                }
            };
            Sim::spawn(ThreadSpec { affinity, ..ThreadSpec::default() }, Box::new(body)).unwrap()
        })
        .collect();
    producers.into_iter().for_each(ThreadHandle::join);
    let holds: u64 = queue.stats().pools.iter().map(|pool| pool.lock_holds).sum();
    queue.shutdown(Duration::from_secs(1)).unwrap();
    holds as f64 / (u64::from(PRODUCERS) * ITEMS) as f64
}

/// A worker that has waited for the lock takes the items of several producers; otherwise there would be more
/// than one hold per item.
#[test]
#[ignore = "at night: simulates 72 CPUs"]
fn many_workers_of_one_pool_take_its_lock_less_often_than_there_are_items_at_night() {
    let machine = Machine::named("grace").unwrap();
    let by_seed = |seed| {
        let machine = machine.clone();
        Simulation::new(&machine.clone()).seed(seed).run(move || holds_per_item(&machine)).unwrap()
    };
    let mut holds: Vec<f64> = (0..3).map(|seed| by_seed(seed).value).collect();
    holds.sort_unstable_by(f64::total_cmp);
    assert!(holds[1] < 0.9, "{holds:?} holds for each item");
}

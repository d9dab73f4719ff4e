//! Delays run in order, without a thread for each.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use coreshard_platform::Host;
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Runtime, Work};
use testing::NEVER;

/// Longer than the test runs.
const LONG: Duration = Duration::from_secs(3_600);
/// Uses a million timers with `CORESHARD_STRESS_TIMERS=1000000`.
#[test]
fn many_delays_cost_one_thread_and_come_in_order() {
    testing::own_process!();
    let count: u64 = std::env::var("CORESHARD_STRESS_TIMERS")
        .map_or(50_000, |text| text.parse().expect("a number of timers"));
    let runtime = Runtime::<Host>::builder(Topology::host().unwrap()).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).max_active(1).build().unwrap();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    queue.submit(|| ()).unwrap().join().unwrap();
    let before = threads();

    let works: Vec<_> = (0..count)
        .map(|at| {
            let work = Work::new(|_| ());
            // In no particular order.
            let delay = LONG + Duration::from_millis(at.wrapping_mul(0x9e37_79b9) % 1_000_000);
            work.queue_after(&queue, delay).unwrap();
            work
        })
        .collect();
    assert_eq!(runtime.delayed_items() as u64, count);
    assert!(threads() <= before + 1, "the timekeeper alone");
    works.iter().step_by(2).for_each(|work| assert!(work.cancel()));

    let order = Arc::new(Mutex::new(Vec::new()));
    // Armed in no particular order, all within one sleep of the timekeeper.
    let soon: Vec<_> = (0..50_u64)
        .map(|at| at * 7 % 50)
        .map(|at| {
            let order = Arc::clone(&order);
            let work = Work::new(move |_| order.lock().unwrap().push(at));
            work.queue_after(&queue, Duration::from_millis(200 + at * 2)).unwrap();
            work
        })
        .collect();
    let started = Instant::now();
    while soon.iter().any(Work::is_pending) {
        assert!(started.elapsed() < NEVER, "in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
    queue.drain().unwrap();
    assert!(order.lock().unwrap().iter().copied().eq(0..50), "{order:?}");
    works.iter().skip(1).step_by(2).for_each(|work| assert!(work.cancel()));
    assert_eq!(runtime.delayed_items(), 0);
}

//! Items with undeclared waits, in a pool whose workers have just returned from declared waits.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Runtime, Workqueue, blocking};
use testing::NEVER;

/// Queues this many items that wait, with a declaration, until the returned flag is set.
pub(crate) fn queue_waits(queue: &Workqueue<Host>, items: usize) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..items {
        let stop = Arc::clone(&stop);
        let wait = move || {
            blocking::<Host, _>(|| {
                while !stop.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        };
        queue.queue(wait).unwrap();
    }
    stop
}

#[test]
fn items_that_wait_for_one_another_all_begin_after_others_have_waited() {
    for round in 0..50 {
        let topology = Topology::from_synthetic("package:1 core:2 pu:1").unwrap();
        let real = coreshard_platform::affinity().unwrap();
        let builder = Runtime::<Host>::builder(topology).laid_over(real);
        let runtime = builder.max_workers_per_pool(8).build().unwrap();
        let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
        let stop = queue_waits(&queue, 8);
        let behind = queue.submit(|| 7).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        stop.store(true, SeqCst);
        assert_eq!(behind.join().unwrap(), 7);
        let (arrive, arrived) = mpsc::channel();
        let mut releases = Vec::new();
        for _ in 0..4 {
            let (arrive, (release, released)) = (arrive.clone(), mpsc::channel::<()>());
            releases.push(release);
            let wait = move || {
                arrive.send(()).unwrap();
                let _ = released.recv();
            };
            queue.queue(wait).unwrap();
        }
        let all = (0..4).all(|_| arrived.recv_timeout(NEVER).is_ok());
        let stats = queue.stats();
        drop(releases);
        assert!(all, "round {round}: an item has not begun: {stats:#?}");
    }
}

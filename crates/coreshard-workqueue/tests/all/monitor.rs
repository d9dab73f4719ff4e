//! Workers that wait inside an item without declaring it do not hold up other items.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{Scope, Topology, Usable};
use coreshard_workqueue::{Intake, Runtime, Wake, Workqueue, blocking};

fn runtime() -> Runtime<Host> {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap().cpus().clone();
    Runtime::builder(topology).usable(usable).build().unwrap()
}

fn one_pool(runtime: &Runtime<Host>, intake: Intake, wake: Wake) -> Workqueue<Host> {
    runtime.workqueue().scope(Scope::System).intake(intake).wake(wake).build().unwrap()
}

/// More items than workers run at once, and all wait for one another: this ends only if the monitor notices that they wait.
#[test]
fn items_that_wait_for_one_another_without_saying_so_all_get_a_worker() {
    let runtime = runtime();
    for intake in Intake::ALL {
        for wake in Wake::ALL {
            let queue = one_pool(&runtime, intake, wake);
            let items = queue.stats().total().worker_limit + 10;
            let all_here = Arc::new(Barrier::new(items));
            let handles: Vec<_> = (0..items)
                .map(|_| {
                    let all_here = Arc::clone(&all_here);
                    queue.submit(move || all_here.wait().is_leader()).unwrap()
                })
                .collect();
            let leaders = handles.into_iter().map(|handle| handle.join().unwrap());
            assert_eq!(leaders.filter(|is_leader| *is_leader).count(), 1);
            let total = queue.stats().total();
            assert!(total.presumed_blocked > 0, "{intake} {wake}: {total:?}");
            queue.drain().unwrap();
        }
    }
}

/// A worker that was presumed blocked counts again when it looks for work. Nested declarations of a
/// wait count once.
#[test]
fn who_was_put_aside_counts_again() {
    let runtime = runtime();
    for intake in Intake::ALL {
        let queue = one_pool(&runtime, intake, Wake::default());
        let inside = Arc::new(AtomicUsize::new(0));
        for _ in 0..40 {
            let inside = Arc::clone(&inside);
            let work = move || {
                inside.fetch_add(1, SeqCst);
                std::thread::sleep(Duration::from_millis(10));
                blocking::<Host, _>(|| {
                    blocking::<Host, _>(|| std::thread::sleep(Duration::from_millis(1)));
                });
                inside.fetch_sub(1, SeqCst);
            };
            queue.queue(work).unwrap();
        }
        queue.drain().unwrap();
        assert_eq!(inside.load(SeqCst), 0);
        let total = queue.stats().total();
        assert_eq!(total.blocked_workers, 0, "{total:?}");
        assert_eq!(queue.submit(|| 7).unwrap().join().unwrap(), 7);
    }
}

//! A queue is frozen, drained, changed and dropped while other threads queue items that panic and fork: no
//! hang, no lost item, no leak. The tests count the captures of items; `ci/memcheck.sh` runs this file under
//! valgrind, which finds other leaks.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use coreshard_platform::Host;
use coreshard_topology::{CpuSet, Scope, Topology};
use coreshard_workqueue::{Intake, Runtime, Work, Workqueue, join};
use testing::NEVER;

/// A machine of two caches with two cores each, laid over the real CPUs.
fn runtime() -> Runtime<Host> {
    let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1").unwrap();
    let real: CpuSet = coreshard_platform::affinity().unwrap();
    Runtime::builder(topology).laid_over(real).build().unwrap()
}

/// The numbers of accepted and finished items.
#[derive(Default)]
struct Counts {
    accepted: AtomicUsize,
    ran: AtomicUsize,
    panics: AtomicUsize,
}

fn sum_of(depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let (a, b) = join::<Host, _, _>(|| sum_of(depth - 1), || sum_of(depth - 1));
    a + b
}

/// Queues items of each kind until `stop`; every accepted one holds `counts`.
fn queue_until(stop: &AtomicBool, queue: &Workqueue<Host>, counts: &Arc<Counts>) {
    let again = Arc::clone(counts);
    let work = Work::<Host>::new(move |_| {
        again.ran.fetch_add(1, SeqCst);
    });
    for round in 0_u32.. {
        if stop.load(SeqCst) {
            break;
        }
        let (held, ballast) = (Arc::clone(counts), [u64::from(round); 6]);
        let accepted = match round % 5 {
            0 => queue
                .queue(move || {
                    assert_eq!(sum_of(3), 8);
                    held.ran.fetch_add(1, SeqCst);
                })
                .is_ok(),
            1 => queue
                .queue(move || {
                    assert_eq!(ballast, [u64::from(round); 6]);
                    held.ran.fetch_add(1, SeqCst);
                    resume_unwind(Box::new(ballast));
                })
                .is_ok(),
            2 => queue.submit(move || held.ran.fetch_add(1, SeqCst)).is_ok(),
            3 => queue
                .spawn(async move {
                    held.ran.fetch_add(1, SeqCst);
                })
                .map(|task| task.detach())
                .is_ok(),
            // An item that was cancelled did not run.
            _ => {
                work.queue(queue).is_ok_and(|queued| queued)
                    && (!round.is_multiple_of(2) || !work.cancel())
            }
        };
        counts.accepted.fetch_add(usize::from(accepted), SeqCst);
        if round.is_multiple_of(64) {
            thread::yield_now();
        }
    }
}

/// Calls `act` on a queue while two threads queue, repeatedly. Then all accepted items must run once,
/// and their captures must be dropped.
fn under_load(act: impl Fn(&Workqueue<Host>)) {
    for intake in Intake::ALL {
        let (runtime, counts) = (runtime(), Arc::new(Counts::default()));
        let panics = Arc::clone(&counts);
        let queue = runtime
            .workqueue()
            .scope(Scope::Cache)
            .intake(intake)
            .panic_handler(move |payload| {
                assert!(payload.is::<[u64; 6]>());
                panics.panics.fetch_add(1, SeqCst);
            })
            .build()
            .unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|threads| {
            for _ in 0..2 {
                let queue = queue.clone();
                threads.spawn(|| {
                    // The producer's handle is dropped when the producer ends.
                    queue_until(&stop, &{ queue }, &counts);
                });
            }
            while counts.accepted.load(SeqCst) == 0 {
                thread::yield_now();
            }
            for _ in 0..10 {
                act(&queue);
                thread::sleep(Duration::from_micros(500));
            }
            stop.store(true, SeqCst);
        });
        drop(queue);
        let (accepted, ran) = (counts.accepted.load(SeqCst), counts.ran.load(SeqCst));
        assert_eq!(ran, accepted, "of {accepted} accepted");
        drop(runtime);
        // The monitor may still be scanning the queue's past pools.
        let started = Instant::now();
        while Arc::strong_count(&counts) > 1 {
            assert!(started.elapsed() < NEVER, "a finished item leaks its captures");
            thread::yield_now();
        }
    }
}

#[test]
fn a_queue_that_is_frozen_and_thawed_loses_nothing() {
    under_load(|queue| {
        queue.freeze().unwrap();
        thread::sleep(Duration::from_micros(200));
        queue.thaw().unwrap();
    });
}

#[test]
fn a_queue_that_is_dropped_while_it_is_frozen_loses_nothing() {
    under_load(|queue| queue.freeze().unwrap());
}

#[test]
fn a_queue_that_is_drained_and_flushed_loses_nothing() {
    under_load(|queue| {
        queue.drain().unwrap();
        queue.flush().unwrap();
    });
}

#[test]
fn a_queue_that_is_changed_loses_nothing() {
    let scopes = [Scope::Cpu, Scope::System, Scope::Cache];
    let next = AtomicUsize::new(0);
    under_load(|queue| {
        let scope = scopes[next.fetch_add(1, SeqCst) % scopes.len()];
        queue.change().scope(scope).apply().unwrap();
    });
}

#[test]
fn a_queue_that_is_shut_down_loses_nothing_that_it_accepted() {
    under_load(|queue| queue.shutdown(Duration::from_secs(60)).unwrap());
}

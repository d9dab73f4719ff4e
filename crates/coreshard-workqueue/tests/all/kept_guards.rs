//! A guard of [`Blocking`] that outlives the item it was begun in: forgotten, kept for a later item, or by the thread until it ends.

use std::cell::RefCell;
use std::mem::forget;
use std::sync::{Arc, Mutex};

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Blocking, Diagnostic, Runtime, Workqueue, blocking, join};
use testing::{NEVER, wait_until};

type Guard = Blocking<Host>;
type Heard = Arc<Mutex<Vec<Diagnostic>>>;

thread_local! {
    static KEPT: RefCell<Vec<Guard>> = const { RefCell::new(Vec::new()) };
}

fn keep(guard: Guard) {
    KEPT.with_borrow_mut(|kept| kept.push(guard));
}

fn drop_kept() {
    // Dropped outside of the borrow.
    drop(KEPT.take());
}

/// A queue on a machine of one cache with four CPUs, and its diagnostics.
fn queue() -> (Runtime<Host>, Workqueue<Host>, Heard) {
    let topology = Topology::from_synthetic("package:1 l3:1 core:4 pu:1").unwrap();
    let heard = Heard::default();
    let log = Arc::clone(&heard);
    let runtime = Runtime::builder(topology)
        .laid_over(affinity().unwrap())
        .on_diagnostic(move |trouble| log.lock().unwrap().push(trouble.clone()))
        .build()
        .unwrap();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    (runtime, queue, heard)
}

/// Asserts that queued items run, that no worker counts as blocked afterwards, and that no bug is reported.
fn assert_goes_on(queue: &Workqueue<Host>, heard: &Heard) {
    let handles: Vec<_> = (0..300).map(|number| queue.submit(move || number).unwrap()).collect();
    for (number, handle) in handles.into_iter().enumerate() {
        let run = handle.join_timeout(NEVER);
        assert_eq!(run.expect("the item runs").unwrap(), number);
    }
    queue.flush().unwrap();
    // A worker that sleeps has looked for items since.
    wait_until("no worker is blocked", || {
        let total = queue.stats().total();
        total.blocked_workers == 0 && total.idle_workers == total.workers
    });
    let heard = heard.lock().unwrap();
    let is_bug = |trouble: &&Diagnostic| matches!(trouble, Diagnostic::Bug(_));
    assert_eq!(heard.iter().filter(is_bug).count(), 0, "{heard:?}");
}

fn run(queue: &Workqueue<Host>, times: usize, item: impl Fn() + Copy + Send + 'static) {
    for _ in 0..times {
        queue.submit(item).unwrap().join().unwrap();
    }
}

#[test]
fn a_forgotten_guard_ends_with_its_workers_next_look_for_items() {
    for times in [1, 2, 5, 60] {
        let (_runtime, queue, heard) = queue();
        run(&queue, times, || forget(Guard::begin()));
        assert_goes_on(&queue, &heard);
    }
}

#[test]
fn a_guard_that_a_thread_keeps_ends_so_too_and_nothing_with_the_thread() {
    for times in [1, 5, 60] {
        let (runtime, queue, heard) = queue();
        run(&queue, times, || keep(Guard::begin()));
        assert_goes_on(&queue, &heard);
        // The workers exit, and their thread-local values are dropped while others have their places.
        drop(queue);
        let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
        assert_goes_on(&queue, &heard);
        runtime.shutdown(NEVER).unwrap();
    }
}

#[test]
fn a_guard_that_is_dropped_by_a_later_item_leaves_that_items_own_alone() {
    let (_runtime, queue, heard) = queue();
    for _ in 0..50 {
        run(&queue, 4, || keep(Guard::begin()));
        let handles = [(); 4].map(|()| {
            let item = || {
                blocking::<Host, _>(|| {
                    drop_kept();
                    std::thread::yield_now();
                });
                drop_kept();
            };
            queue.submit(item).unwrap()
        });
        for handle in handles {
            handle.join().unwrap();
        }
    }
    assert_goes_on(&queue, &heard);
}

#[test]
fn halves_that_forget_their_guards_end_and_so_does_who_waits_for_them() {
    let (_runtime, queue, heard) = queue();
    for _ in 0..100 {
        let item = || {
            let half = || forget(Guard::begin());
            join::<Host, _, _>(half, || join::<Host, _, _>(half, half));
            blocking::<Host, _>(std::thread::yield_now);
        };
        let handles = [(); 8].map(|()| queue.submit(item).unwrap());
        for handle in handles {
            handle.join().unwrap();
        }
    }
    assert_goes_on(&queue, &heard);
}

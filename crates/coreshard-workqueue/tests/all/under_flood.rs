//! Operations on a queue finish although other threads queue items faster than the workers run them: none waits for a pause.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Builder, Intake, Runtime, Work, Workqueue};
use testing::NEVER;

/// Items after which the flood ends if the operation has not finished. Several times the largest observed number.
const MOST: usize = 2_000_000;

type Operation = fn(&Runtime<Host>, &Workqueue<Host>);

const OPERATIONS: [(&str, Operation); 17] = [
    ("freeze and thaw", |_, queue| {
        queue.freeze().unwrap();
        thread::sleep(Duration::from_millis(5));
        queue.thaw().unwrap();
    }),
    ("raise a limit", |_, queue| {
        queue.change().max_active(1).apply().unwrap();
        thread::sleep(Duration::from_millis(5));
        queue.change().max_active(64).apply().unwrap();
    }),
    ("take a limit away", |_, queue| {
        queue.change().max_active(1).apply().unwrap();
        thread::sleep(Duration::from_millis(5));
        queue.change().max_active(None).apply().unwrap();
    }),
    ("change the scope", |_, queue| queue.change().scope(Scope::Cpu).apply().unwrap()),
    ("change the CPUs", |runtime, _| {
        runtime
            .set_usable(runtime.topology().cpus().iter().take(1).map(|cpu| cpu.id).collect())
            .unwrap();
    }),
    ("submit and join", |_, queue| queue.submit(|| ()).unwrap().join().unwrap()),
    ("install", |_, queue| queue.install(|| ()).unwrap()),
    ("scope", |_, queue| queue.scope(|scope| scope.queue(|| ()).unwrap())),
    ("a loop", |_, queue| queue.for_each_range(0..1_000, |_| ()).unwrap()),
    ("flush a reusable item", |_, queue| {
        let work = Work::new(|_| ());
        work.queue(queue).unwrap();
        work.flush().unwrap();
    }),
    ("cancel a reusable item", |_, queue| {
        let work = Work::new(|_| ());
        work.queue(queue).unwrap();
        work.cancel_and_wait().unwrap();
    }),
    ("wait for a delayed item", |_, queue| {
        let work = Work::new(|_| ());
        work.queue_after(queue, Duration::from_millis(1)).unwrap();
        work.flush().unwrap();
    }),
    ("flush", |_, queue| queue.flush().unwrap()),
    ("drain", |_, queue| queue.drain().unwrap()),
    ("statistics", |_, queue| _ = queue.stats()),
    ("shut down", |_, queue| queue.shutdown(NEVER).unwrap()),
    ("shut down at once", |_, queue| _ = queue.shutdown_now(NEVER)),
];

/// Limits on items of a queue that run at once: none, two, or one in order.
const LIMITS: [(&str, Limit); 3] = [
    ("without a limit", |builder| builder),
    ("two at once", |builder| builder.max_active(2)),
    ("in order", |builder| builder.ordered()),
];

type Limit = fn(Builder<Host>) -> Builder<Host>;

#[test]
fn no_operation_waits_for_a_flood_to_end() {
    for (limit_name, limit) in LIMITS {
        for intake in Intake::ALL {
            for (name, operation) in OPERATIONS {
                // An ordered queue has no other limit.
                if limit_name == "in order" && name.contains("limit") {
                    continue;
                }
                let topology = Topology::from_synthetic("package:1 core:2 pu:1").unwrap();
                let builder = Runtime::<Host>::builder(topology).laid_over(affinity().unwrap());
                let runtime = builder.build().unwrap();
                let builder = runtime.workqueue().scope(Scope::Cache).intake(intake);
                let queue = limit(builder).build().unwrap();
                // The queue may be shut down.
                let again = || queue.queue(|| ()).unwrap_or_else(|_| thread::yield_now());
                let queued = until_it_is_over(again, || operation(&runtime, &queue));
                assert!(
                    queued < MOST,
                    "{name}, {intake:?}, {limit_name}: {queued} were queued meanwhile"
                );
            }
        }
    }
}

type WorkOperation = fn(&Work<Host>, &Workqueue<Host>);

const WORK_OPERATIONS: [(&str, WorkOperation); 6] = [
    ("flush", |work, _| _ = work.flush().unwrap()),
    ("cancel", |work, _| _ = work.cancel()),
    ("cancel and wait", |work, _| _ = work.cancel_and_wait().unwrap()),
    ("disable and wait", |work, _| _ = work.disable_and_wait().unwrap()),
    ("delay", |work, queue| _ = work.modify_delay(queue, Duration::from_micros(100)).unwrap()),
    ("delay and flush", |work, queue| {
        work.modify_delay(queue, Duration::from_micros(100)).unwrap();
        work.flush().unwrap();
    }),
];

#[test]
fn no_operation_waits_until_others_queue_a_reusable_item_no_more() {
    for (name, operation) in WORK_OPERATIONS {
        let topology = Topology::from_synthetic("package:1 core:2 pu:1").unwrap();
        let builder = Runtime::<Host>::builder(topology).laid_over(affinity().unwrap());
        let queue = builder.build().unwrap().workqueue().scope(Scope::Cache).build().unwrap();
        let work = Work::new(|_| ());
        let queued = until_it_is_over(|| _ = work.queue(&queue), || operation(&work, &queue));
        assert!(queued < MOST, "{name}: it was queued {queued} times meanwhile");
    }
}

/// Returns how many calls of `again` three threads made before `operation` returned.
fn until_it_is_over(again: impl Fn() + Sync, operation: impl Fn()) -> usize {
    let (done, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let flood = || {
        while !is_over.load(SeqCst) && done.fetch_add(1, SeqCst) < MOST {
            again();
        }
    };
    thread::scope(|threads| {
        (0..3).for_each(|_| _ = threads.spawn(flood));
        thread::sleep(Duration::from_millis(2));
        operation();
        is_over.store(true, SeqCst);
    });
    done.load(SeqCst)
}

//! Pools beside the program's own queues, on one runtime. Only for this rayon-core; the other files test guarantees that the
//! published one also has.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;

use crate::support::{next, pool, thrown};
use coreshard::{Workqueue, current};
use rayon_core::current_thread_index;

fn queue(name: &str) -> Workqueue {
    coreshard::workqueue().unwrap().name(name).build().unwrap()
}

fn queue_here() -> Option<String> {
    current()?.queue_name()
}

#[test]
fn on_a_queues_worker_joins_are_its() {
    let queue = queue("joins");
    let asked = queue
        .install(|| rayon_core::join_context(|a| (a.migrated(), queue_here()), |_| queue_here()));
    let here = Some("joins".to_owned());
    assert_eq!(asked.unwrap(), ((false, here.clone()), here));
}

#[test]
fn on_a_queues_worker_scopes_are_its() {
    let queue = queue("scopes");
    let count = AtomicUsize::new(0);
    // A part that another worker has taken does not know its queue's name.
    let spawned = || {
        assert!(queue_here().is_none_or(|name| name == "scopes"));
        count.fetch_add(1, SeqCst);
    };
    let asked = queue.install(|| {
        rayon_core::scope(|scope| {
            assert_eq!(queue_here().as_deref(), Some("scopes"));
            spawned();
            scope.spawn(|scope| {
                spawned();
                scope.spawn(|_| spawned());
            });
        });
        rayon_core::in_place_scope_fifo(|scope| scope.spawn_fifo(|_| spawned()));
    });
    asked.unwrap();
    assert_eq!(count.into_inner(), 4);
}

#[test]
fn on_a_queues_worker_spawned_work_is_its() {
    let queue = queue("spawns");
    let (say, hear) = channel();
    let both = move || {
        let again = say.clone();
        rayon_core::spawn(move || say.send(queue_here()).unwrap());
        rayon_core::spawn_fifo(move || again.send(queue_here()).unwrap());
    };
    queue.queue(both).unwrap();
    for _ in 0..2 {
        assert_eq!(next(&hear).as_deref(), Some("spawns"));
    }
}

/// A queue has no fixed threads: its workers have no index, and a broadcast uses the global pool.
#[test]
fn on_a_queues_worker_broadcasts_are_the_global_pools() {
    let queue = queue("broadcasts");
    let global = rayon_core::current_num_threads();
    let (index, threads, indexes) = queue
        .install(|| {
            let indexes = rayon_core::broadcast(|thread| {
                assert_ne!(queue_here().as_deref(), Some("broadcasts"));
                thread.index()
            });
            (current_thread_index(), rayon_core::current_num_threads(), indexes)
        })
        .unwrap();
    assert_eq!(index, None);
    assert!(threads > 0);
    assert!(indexes.into_iter().eq(0..global));
}

#[test]
fn a_queues_worker_waits_for_a_pool() {
    let (queue, pool) = (queue("waits"), pool(1));
    let answer = queue.install(|| pool.install(|| rayon_core::join(|| 40, || 2)));
    assert_eq!(answer.unwrap(), (40, 2));
}

/// Items that a pool's thread has queued on a queue run on that queue's workers, which have no index in the pool.
#[test]
fn a_pools_thread_queues() {
    let (queue, pool) = (queue("queued"), pool(2));
    let asked = pool.install(|| {
        let asked = queue.submit(|| (queue_here(), current_thread_index())).unwrap();
        asked.join().unwrap()
    });
    assert_eq!(asked, (Some("queued".to_owned()), None));
}

#[test]
fn panics_cross() {
    let (queue, pool) = (queue("panics"), pool(1));
    let join = || {
        pool.install(|| {
            queue.install(|| _ = rayon_core::join(|| (), || panic!("hello"))).unwrap();
        });
    };
    assert_eq!(thrown(join), "hello");
}

/// Many calls at once, all from the queue to the pool, without a cycle of waits.
#[test]
fn all_at_once() {
    let (queue, pool) = (queue("at once"), pool(3));
    let count = AtomicUsize::new(0);
    let add = || {
        count.fetch_add(1, SeqCst);
    };
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..50 {
                    let call = || {
                        rayon_core::join(add, add);
                        pool.install(add);
                        pool.scope(|scope| scope.spawn(|_| add()));
                    };
                    queue.install(call).unwrap();
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 4 * 50 * 4);
}

/// Two pools and a queue that are all busy: each runs as many threads as alone. A worker of the queue that seems blocked or
/// computes for long gets a replacement. On a busy machine, this also happens to workers that wait for a CPU.
#[test]
#[expect(clippy::print_stdout, reason = "the figure is what it is run for by hand")]
fn two_pools_and_a_queue_run_what_each_has() {
    let (queue, pools) = (queue("beside pools"), [pool(2), pool(2)]);
    let cpus = rayon_core::current_num_threads();
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let compute = || {
        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
        (0..20_000_u64).for_each(|number| _ = std::hint::black_box(number));
        running.fetch_sub(1, SeqCst);
    };
    let spawn_all = || rayon_core::scope(|scope| (0..500).for_each(|_| scope.spawn(|_| compute())));
    std::thread::scope(|threads| {
        for pool in &pools {
            threads.spawn(|| pool.install(spawn_all));
        }
        threads.spawn(|| queue.install(spawn_all).unwrap());
    });
    let most = most.into_inner();
    let told = queue.stats().total();
    let stand_ins = (told.presumed_blocked + told.cpu_hogs) as usize;
    println!(
        "{most} at once, with two pools of two threads and a queue on {cpus} CPUs, and {stand_ins} stand-ins"
    );
    assert!(
        most <= 2 + 2 + cpus + stand_ins,
        "{most} at once on {cpus} CPUs, {stand_ins} stand-ins"
    );
}

//! Scopes, spawned jobs, installs and broadcasts: work that enters a pool from inside and outside.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use rayon::{Scope, ThreadPoolBuilder};

use crate::case::{Demo, Lap, Scale, case};
use crate::random::stirred;

pub fn demos() -> Vec<Demo> {
    vec![
        Demo::new("scope-tree", "each job of one scope spawns two more", scope_tree),
        Demo::new("scope-nested", "each job opens a scope with two jobs", scope_nested),
        Demo::new("scope-flat", "one scope, many jobs, spawned by its body", scope_flat),
        Demo::new("scope-fifo", "the same, first in, first out", scope_fifo),
        Demo::new("spawn", "jobs of the pool, results by channel", spawn),
        Demo::new(
            "install",
            "many small installs, one after the other, from a thread outside",
            install,
        ),
        Demo::new(
            "install-many",
            "small installs from eight threads outside at once",
            install_many,
        ),
        Demo::new("broadcast", "a call on each thread of the pool, many times", broadcast),
        Demo::new("pools", "a pool is built, used and dropped, several times", pools),
    ]
}

/// The work of a job in these demos.
fn work(number: u64) -> u64 {
    stirred(number, 50) >> 32
}

fn work_of_all(count: u64) -> u64 {
    (0..count).map(work).sum()
}

/// The job `number` of a binary tree with `count` jobs, laid out like a heap.
fn tree<'scope>(scope: &Scope<'scope>, sum: &'scope AtomicU64, number: u64, count: u64) {
    sum.fetch_add(work(number), Ordering::Relaxed);
    for child in [2 * number + 1, 2 * number + 2] {
        if child < count {
            scope.spawn(move |scope| tree(scope, sum, child, count));
        }
    }
}

fn scope_tree(scale: Scale) -> Lap {
    case(
        scale.of(60_000, 500) as u64,
        |count| {
            let sum = AtomicU64::new(0);
            rayon::scope(|scope| tree(scope, &sum, 0, count));
            sum.into_inner()
        },
        work_of_all,
    )
}

fn scope_nested(scale: Scale) -> Lap {
    fn below(sum: &AtomicU64, number: u64, count: u64) {
        sum.fetch_add(work(number), Ordering::Relaxed);
        if 2 * number + 1 >= count {
            return;
        }
        rayon::scope(|scope| {
            for child in [2 * number + 1, 2 * number + 2] {
                if child < count {
                    scope.spawn(move |_| below(sum, child, count));
                }
            }
        });
    }
    case(
        scale.of(60_000, 500) as u64,
        |count| {
            let sum = AtomicU64::new(0);
            below(&sum, 0, count);
            sum.into_inner()
        },
        work_of_all,
    )
}

fn scope_flat(scale: Scale) -> Lap {
    case(
        scale.of(60_000, 500) as u64,
        |count| {
            let sum = &AtomicU64::new(0);
            rayon::scope(|scope| {
                for number in 0..count {
                    scope.spawn(move |_| {
                        sum.fetch_add(work(number), Ordering::Relaxed);
                    });
                }
            });
            sum.load(Ordering::Relaxed)
        },
        work_of_all,
    )
}

fn scope_fifo(scale: Scale) -> Lap {
    case(
        scale.of(60_000, 500) as u64,
        |count| {
            let sum = &AtomicU64::new(0);
            rayon::scope_fifo(|scope| {
                for number in 0..count {
                    scope.spawn_fifo(move |_| {
                        sum.fetch_add(work(number), Ordering::Relaxed);
                    });
                }
            });
            sum.load(Ordering::Relaxed)
        },
        work_of_all,
    )
}

fn spawn(scale: Scale) -> Lap {
    case(
        scale.of(60_000, 500) as u64,
        |count| {
            let (sender, results) = mpsc::channel();
            for number in 0..count {
                let sender = sender.clone();
                rayon::spawn(move || {
                    sender.send(work(number)).expect("the receiver waits for all")
                });
            }
            drop(sender);
            results.iter().sum()
        },
        work_of_all,
    )
}

fn install(scale: Scale) -> Lap {
    let pool = ThreadPoolBuilder::new().build().expect("a pool");
    case(
        scale.of(5_000, 200) as u64,
        move |count| (0..count).map(|number| pool.install(|| work(number))).sum(),
        work_of_all,
    )
}

fn install_many(scale: Scale) -> Lap {
    const THREADS: u64 = 8;
    let pool = ThreadPoolBuilder::new().build().expect("a pool");
    case(
        THREADS * scale.of(1_500, 30) as u64,
        move |count| {
            let each = count / THREADS;
            std::thread::scope(|scope| {
                let pool = &pool;
                let threads: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        let numbers = thread * each..(thread + 1) * each;
                        scope.spawn(move || {
                            numbers.map(|number| pool.install(|| work(number))).sum::<u64>()
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).sum()
            })
        },
        work_of_all,
    )
}

fn broadcast(scale: Scale) -> Lap {
    case(
        scale.of(3_000, 50) as u64,
        |times| {
            (0..times)
                .map(|number| {
                    let told = rayon::broadcast(|context| work(number) + context.index() as u64);
                    let indices: u64 = (0..rayon::current_num_threads() as u64).sum();
                    (told.iter().sum::<u64>() - indices) / told.len() as u64
                })
                .sum::<u64>()
        },
        work_of_all,
    )
}

fn pools(scale: Scale) -> Lap {
    case(
        scale.of(100, 10) as u64,
        |count| {
            (0..count)
                .map(|number| {
                    let pool = ThreadPoolBuilder::new().num_threads(4).build().expect("a pool");
                    pool.install(|| rayon::join(|| work(number), || ()).0)
                })
                .sum()
        },
        work_of_all,
    )
}

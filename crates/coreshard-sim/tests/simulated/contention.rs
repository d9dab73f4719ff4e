//! The cost of contended operations, compared with published measurements by the number of CPUs.
//!
//! In nanoseconds per operation and thread: medians of github.com/travisdowns/concurrency-hierarchy-bench
//! (results/skl, icl, g2-16), and for the Xeon operations per second of shubhankar-gambhir.github.io, "What
//! Does a Lock Actually Cost?", converted to the same unit. The machines' files say which of their numbers
//! were fitted to which of these curves.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, ThreadHandle};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::CpuId;

use crate::machines::{GRAVITON_1, GRAVITON_2, ICE_LAKE, SKYLAKE, XEON_6130};
use crate::programs::locks::{mutex, spin};
use crate::programs::{self, Line, Operation, add, compare_exchange_loop, pinned, ticket_lock};

/// Each point within a quarter.
const CLOSE: f64 = 0.25;

fn check(text: &str, name: &str, operation: Operation, off: f64, published: &[(u32, f64)]) {
    let machine = Machine::from_toml(name, text).unwrap();
    for (threads, published) in published {
        let run =
            Simulation::new(&machine).seed(1).run(|| programs::contended_ns(*threads, operation));
        let found = run.unwrap().value;
        let ratio = found / published - 1.0;
        assert!(
            ratio.abs() <= off,
            "{name}, {threads} threads: {found:.0} ns, published {published}"
        );
    }
}

#[test]
fn a_contended_add_takes_what_was_published() {
    check(SKYLAKE, "skylake", add, CLOSE, &[(1, 7.0), (2, 44.0), (3, 70.0), (4, 96.0)]);
    check(ICE_LAKE, "ice lake", add, CLOSE, &[(1, 6.0), (2, 33.0), (3, 49.0), (4, 70.0)]);
    let published =
        [(1, 5.0), (2, 17.0), (3, 26.0), (4, 35.0), (8, 76.0), (12, 115.0), (16, 150.0)];
    check(GRAVITON_2, "graviton 2", add, CLOSE, &published);
    let published = [(1, 8.6), (2, 124.0), (4, 192.0), (8, 328.0), (16, 593.0), (32, 1_100.0)];
    check(XEON_6130, "xeon 6130", add, CLOSE, &published);
}

#[test]
fn a_compare_exchange_loop_takes_what_was_published() {
    check(SKYLAKE, "skylake", compare_exchange_loop, CLOSE, &[(2, 109.0), (3, 227.0), (4, 347.0)]);
    // A quarter too fast: the cost of a failed attempt beyond its transfer is at most 4 ns, as on the
    // Skylake.
    let published = [(2, 103.0), (3, 171.0), (4, 267.0)];
    check(ICE_LAKE, "ice lake", compare_exchange_loop, 0.3, &published);
    let published =
        [(1, 8.0), (2, 52.0), (3, 84.0), (4, 116.0), (8, 323.0), (12, 508.0), (16, 639.0)];
    check(GRAVITON_2, "graviton 2", compare_exchange_loop, CLOSE, &published);
}

#[test]
fn a_ticket_lock_takes_what_was_published() {
    check(SKYLAKE, "skylake", ticket_lock, CLOSE, &[(2, 215.0), (3, 346.0), (4, 489.0)]);
    check(ICE_LAKE, "ice lake", ticket_lock, CLOSE, &[(2, 202.0), (3, 361.0), (4, 519.0)]);
    let published = [(1, 12.0), (2, 266.0), (4, 682.0), (8, 1_996.0), (12, 4_046.0), (16, 6_841.0)];
    check(GRAVITON_2, "graviton 2", ticket_lock, CLOSE, &published);
}

/// With up to four threads the model is off by up to a factor of two (on the Graviton 2: 149 ns with two,
/// published 309; on the Skylake 244 with three, published 178). The result depends on whether a thread that
/// finds the lock taken sleeps, or finds it free just before; the published curve also goes up and down. With
/// all sixteen threads it is two fifths too slow.
#[test]
fn a_mutex_takes_what_was_published_where_many_want_it() {
    check(GRAVITON_2, "graviton 2", mutex, CLOSE, &[(3, 307.0), (5, 438.0), (8, 995.0)]);
    check(GRAVITON_2, "graviton 2", mutex, 0.45, &[(16, 2_020.0)]);
}

/// Each waiter loads the word once for each hand-over, and the first to load is not delayed by the others.
#[test]
fn a_spin_lock_takes_what_was_published_where_many_want_it() {
    let published = [(6, 648.0), (8, 1_028.0), (10, 1_520.0), (12, 2_038.0), (15, 2_873.0)];
    check(GRAVITON_2, "graviton 2", spin, CLOSE, &published);
}

/// Cores without such instructions: a load, and a store that fails if the line was taken meanwhile.
#[test]
fn atomics_of_load_and_store_exclusive_take_what_was_published() {
    let published = [(3, 86.0), (4, 105.0), (6, 258.0), (8, 410.0), (12, 809.0), (16, 1_372.0)];
    check(GRAVITON_1, "graviton 1", add, CLOSE, &published);
    let published = [(2, 55.0), (4, 175.0), (6, 390.0), (8, 641.0), (12, 1_309.0)];
    check(GRAVITON_1, "graviton 1", compare_exchange_loop, CLOSE, &published);
}

/// Returns how often a thread that has just found a lock taken finds it free at its next attempt, while the
/// owner waits for the line to release the lock and take it again.
fn overtaken(text: &str, rounds: u64) -> f64 {
    let machine = Machine::from_toml("m", text).unwrap();
    let run = Simulation::new(&machine).seed(1).run(move || {
        let (lock, taken) = (Arc::new(Line::new()), Arc::new(Line::new()));
        let is_over = Arc::new(Line::new());
        let owner = {
            let (lock, is_over) = (Arc::clone(&lock), Arc::clone(&is_over));
            pinned(CpuId(0), move || {
                while is_over.word.load(Acquire) == 0 {
                    if lock.word.swap(1, Acquire) == 0 {
                        lock.word.store(0, Release);
                    }
                }
            })
        };
        let counted = Arc::clone(&taken);
        let other = pinned(CpuId(1), move || {
            let takes = |lock: &Line| {
                let takes = lock.word.swap(1, Acquire) == 0;
                if takes {
                    lock.word.store(0, Release);
                }
                takes
            };
            for round in 0..rounds {
                // Each round begins at another moment of the owner's loop.
                Sim::compute(Duration::from_nanos(500 + round * 37 % 101));
                if !takes(&lock) {
                    taken.other.fetch_add(1, Relaxed);
                    taken.word.fetch_add(u64::from(takes(&lock)), Relaxed);
                }
            }
            is_over.word.store(1, Release);
        });
        owner.join();
        other.join();
        counted.word.load(Relaxed) as f64 / counted.other.load(Relaxed) as f64
    });
    run.unwrap().value
}

/// As measured: a thread that releases a lock and takes it again is overtaken once in seven times.
#[test]
fn who_takes_its_lock_again_is_seldom_overtaken() {
    for text in [SKYLAKE, ICE_LAKE, XEON_6130] {
        let share = overtaken(text, 2_000);
        assert!((0.05..0.3).contains(&share), "overtaken {share:.2} of the times");
    }
}

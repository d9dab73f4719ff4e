//! Programs on many schedules, and with faults.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard::testing::simulated::{self, CancellationToken};
use coreshard::testing::{Check, Checked, Fault, Machine, Preemption, Schedule, block_on, check};

use crate::programs::{AskError, Cache, Server, ask, longest, pipeline};

/// Each kind of switching. With the latter, locks of the standard library must not be used.
const SWITCHING: [Preemption; 2] = [Preemption::AtWaits, Preemption::Anywhere];

/// A queue whose items queue other items, and a count of the items that ran.
fn tree(items: u32) {
    let queue = simulated::workqueue().unwrap().name("tree").build().unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    for _ in 0..items {
        let (next, runs) = (queue.clone(), Arc::clone(&runs));
        queue
            .queue(move || {
                runs.fetch_add(1, SeqCst);
                let runs = Arc::clone(&runs);
                next.queue(move || drop(runs.fetch_add(1, SeqCst).to_string())).unwrap();
            })
            .unwrap();
    }
    queue.drain().unwrap();
    assert_eq!(runs.load(SeqCst), 2 * items);
}

#[test]
fn a_cache_writes_each_change_once() {
    let checked = Check::new().seeds(50).faults(Fault::ALL).run(|| {
        let queue = simulated::workqueue().unwrap().name("cache").build().unwrap();
        let callers = simulated::workqueue().unwrap().name("callers").build().unwrap();
        let written = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&written);
        let cache =
            Arc::new(Cache::new(&queue, move |changes| list.lock().unwrap().extend(changes)));
        for change in 0..20 {
            let cache = Arc::clone(&cache);
            callers.queue(move || cache.add(change)).unwrap();
        }
        callers.drain().unwrap();
        cache.flush_now();
        let mut written = std::mem::take(&mut *written.lock().unwrap());
        written.sort_unstable();
        assert_eq!(written, (0..20).collect::<Vec<_>>());
    });
    assert_eq!(checked.runs, 50);
    assert!(checked.items > 50 * 20, "{checked:?}");
}

#[test]
fn a_client_gets_its_answer_or_gives_up() {
    Check::new().seeds(30).faults(Fault::ALL).run(|| {
        let queue = simulated::workqueue().unwrap().name("client").build().unwrap();
        let soon = Some(Duration::from_millis(10));
        let stop = CancellationToken::new();
        let answered = queue.spawn(ask(Server::new([None, soon]), 3, stop.child_token())).unwrap();
        let given_up = queue.spawn(ask(Server::new([]), 2, stop.child_token())).unwrap();
        assert_eq!(block_on(answered), Ok(2));
        assert_eq!(block_on(given_up), Err(AskError::GaveUp { tries: 2 }));
        let stopped = queue.spawn(ask(Server::new([]), 2, stop.child_token())).unwrap();
        stop.cancel();
        assert_eq!(block_on(stopped), Err(AskError::Cancelled));
    });
}

#[test]
fn a_pipeline_adds_up_and_keeps_its_capacity() {
    Check::new().seeds(30).faults(Fault::ALL).run(|| assert_eq!(pipeline(30, 3), 9_455));
}

#[test]
fn scopes_borrow_and_end() {
    for preemption in SWITCHING {
        Check::new().seeds(30).preemption(preemption).faults(Fault::ALL).run(|| {
            let queue = simulated::workqueue().unwrap().name("texts").build().unwrap();
            assert_eq!(longest(&queue, &["one", "three", "seven", "two"]), 5);
            let (left, right) = simulated::join(|| 6 * 7, || 7 * 8);
            assert_eq!((left, right), (42, 56));
        });
    }
}

#[test]
fn no_item_is_lost_where_threads_do_not_start() {
    for preemption in SWITCHING {
        let faults = [Fault::ThreadStarts, Fault::CpusOffline];
        let checked = Check::new().seeds(60).preemption(preemption).faults(faults).run(|| tree(40));
        assert_eq!(checked.items, 60 * 80, "{preemption:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run_and_another_one_is_not() {
    for preemption in SWITCHING {
        let traces: Vec<Vec<Checked>> = (0..2)
            .map(|_| {
                let of_seed = |seed| {
                    // Earlier heap contents are not part of a run.
                    let _other = vec![1_u8; 1 + seed as usize * 1_000];
                    let check = Check::new().first_seed(seed).seeds(1).preemption(preemption);
                    check.faults(Fault::ALL).run(|| {
                        tree(20);
                        assert_eq!(simulated::join(|| 1, || 2), (1, 2));
                    })
                };
                (0..20).map(of_seed).collect()
            })
            .collect();
        assert_eq!(traces[0], traces[1], "{preemption:?}");
        let mut hashes: Vec<u64> = traces[0].iter().map(|checked| checked.trace_hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 20, "{preemption:?}");
    }
}

#[test]
fn a_lock_of_the_standard_library_may_be_held_over_a_queueing() {
    check(|| {
        let queue = simulated::workqueue().unwrap().name("locked").build().unwrap();
        let list = Arc::new(Mutex::new(Vec::new()));
        let add = |number: u32| {
            let (queue, list) = (queue.clone(), Arc::clone(&list));
            move || {
                let mut held = list.lock().unwrap();
                held.push(number);
                let list = Arc::clone(&list);
                queue.queue(move || list.lock().unwrap().push(number + 100)).unwrap();
            }
        };
        let held = list.lock().unwrap();
        (0..30).for_each(|number| queue.queue(add(number)).unwrap());
        drop(held);
        queue.drain().unwrap();
        assert_eq!(list.lock().unwrap().len(), 60);
    });
}

#[test]
fn what_comes_in_which_order_differs_among_seeds() {
    let orders = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&orders);
    Check::new().seeds(40).run(move || {
        let queue = simulated::workqueue().unwrap().name("order").build().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..4 {
            let order = Arc::clone(&order);
            queue.queue(move || order.lock().unwrap().push(number)).unwrap();
        }
        queue.drain().unwrap();
        kept.lock().unwrap().push(order.lock().unwrap().clone());
    });
    let mut orders = orders.lock().unwrap().clone();
    assert_eq!(orders.len(), 40);
    orders.sort_unstable();
    orders.dedup();
    assert!(orders.len() >= 5, "{orders:?}");
}

#[test]
fn machines_and_schedules_can_be_chosen() {
    let machine = Machine::named("grace").unwrap();
    Check::new().seeds(2).machine(machine).run(|| {
        assert_eq!(simulated::runtime().unwrap().topology().cores(), 72);
        tree(10);
    });
    let seen = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&seen);
    Check::new().seeds(5).cpus(1).schedule(Schedule::Timed).run(move || {
        let queue = simulated::workqueue().unwrap().name("one").build().unwrap();
        assert_eq!(queue.stats().total().worker_limit, 1);
        counter.fetch_add(1, SeqCst);
    });
    assert_eq!(seen.load(SeqCst), 5);
}

#[test]
fn a_program_may_configure_its_runtime_in_each_run() {
    Check::new().seeds(3).run(|| {
        simulated::configure(|builder| builder.workers(2)).unwrap();
        let queue = simulated::workqueue().unwrap().build().unwrap();
        assert_eq!(queue.stats().total().worker_limit, 2);
        let again = simulated::configure(|builder| builder).unwrap_err().to_string();
        assert!(again.contains("check.rs"), "{again}");
    });
}

/// Each run leaves little behind, and no scarce resources of simulations.
#[test]
fn many_runs_that_leave_delayed_work_behind_are_no_problem() {
    let checked = Check::new().seeds(600).cpus(2).run(|| {
        let queue = simulated::workqueue().unwrap().name("later").build().unwrap();
        let work = simulated::Work::new(|_| ());
        work.queue_after(&queue, Duration::from_secs(7_200)).unwrap();
        assert_eq!(simulated::join(|| 1, || 2), (1, 2));
    });
    assert_eq!(checked.runs, 600);
}

/// Neither waits with means that the simulator knows, and both only check this crate's words.
#[test]
fn a_program_may_look_again_and_again() {
    Check::new().seeds(5).run(|| {
        let queue = simulated::workqueue().unwrap().name("full").capacity(1).build().unwrap();
        let handle = queue.submit(|| 1).unwrap();
        while !handle.is_finished() {
            std::hint::spin_loop();
        }
        for _ in 0..3 {
            while queue.try_queue(|| ()).is_err() {
                std::hint::spin_loop();
            }
        }
    });
}

#[test]
fn a_check_runs_as_many_seeds_as_are_asked_for_and_not_none() {
    let runs = |check: Check| check.run(|| tree(2)).runs;
    assert_eq!(runs(Check::new().first_seed(u64::MAX).seeds(3)), 3);
    assert_eq!(runs(Check::new().first_seed(u64::MAX - 1).seeds(1)), 1);
    let none = std::panic::catch_unwind(|| Check::new().seeds(0).run(|| panic!("not even once")));
    let message = *none.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("number of seeds 0"), "{message}");
}

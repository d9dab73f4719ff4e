//! The guarantees of `join`, `install` and the loops, for all intakes and wake policies.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{CpuSet, Scope, Topology};
use coreshard_workqueue::{Intake, RefusedReason, Runtime, Wake, Work, Workqueue};
use testing::spin_until;

fn join<A, B: Send>(a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B) {
    coreshard_workqueue::join::<Host, A, B>(a, b)
}

/// A queue on a machine of one package with four cores, laid over the real CPUs.
fn on_all_rungs(scope: Scope, test: impl Fn(&Workqueue<Host>)) {
    let topology = Topology::from_synthetic("package:1 l3:1 core:4 pu:1").unwrap();
    let host = Topology::host().unwrap();
    let real: CpuSet = coreshard_platform::affinity().unwrap().intersection(host.online());
    let runtime = Runtime::<Host>::builder(topology).laid_over(real).build().unwrap();
    for intake in Intake::ALL {
        for wake in Wake::ALL {
            let builder = runtime.workqueue().intake(intake).wake(wake).scope(scope);
            test(&builder.build().unwrap());
        }
    }
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn both_halves_are_run_and_both_results_come_back() {
    on_all_rungs(Scope::System, |queue| {
        assert_eq!(queue.install(|| fib(20)).unwrap(), 6_765);
        let text = String::from("borrowed");
        let (length, first) = queue.install(|| join(|| text.len(), || &text[..1])).unwrap();
        assert_eq!((length, first), (8, "b"));
    });
}

#[test]
fn off_a_worker_a_join_is_two_calls() {
    assert_eq!(fib(15), 610);
    let here = thread::current().id();
    let ids = join(|| thread::current().id(), || thread::current().id());
    assert_eq!(ids, (here, here));
}

#[test]
fn an_idle_worker_of_the_pod_takes_the_second_half() {
    on_all_rungs(Scope::System, |queue| {
        let run = AtomicBool::new(false);
        let halves = || join(|| spin_until(|| run.load(SeqCst)), || run.store(true, SeqCst));
        queue.install(halves).unwrap();
    });
}

#[test]
fn an_idle_worker_of_another_pod_takes_it_if_there_is_none_in_its_own() {
    on_all_rungs(Scope::Cpu, |queue| {
        let run = AtomicBool::new(false);
        let halves = || join(|| spin_until(|| run.load(SeqCst)), || run.store(true, SeqCst));
        queue.install(halves).unwrap();
    });
}

#[test]
fn what_a_strict_queue_forks_stays_in_its_pod() {
    fn pods(levels: u32) -> Vec<String> {
        if levels == 0 {
            thread::sleep(Duration::from_micros(50));
            let name = thread::current().name().unwrap().to_owned();
            return vec![name.split(':').next().unwrap().to_owned()];
        }
        let (mut left, right) = join(|| pods(levels - 1), || pods(levels - 1));
        left.extend(right);
        left
    }
    let topology = Topology::from_synthetic("package:1 l3:1 core:4 pu:1").unwrap();
    let real: CpuSet = coreshard_platform::affinity().unwrap();
    let runtime = Runtime::<Host>::builder(topology).laid_over(real).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::Cpu).strict(true).build().unwrap();
    let mut pods = queue.install(|| pods(6)).unwrap();
    assert_eq!(pods.len(), 64);
    pods.dedup();
    assert_eq!(pods.len(), 1, "{pods:?}");
}

#[test]
fn four_long_leaves_run_at_once_on_four_workers() {
    for scope in [Scope::System, Scope::Cpu] {
        on_all_rungs(scope, |queue| {
            let here = AtomicUsize::new(0);
            let meet = || {
                here.fetch_add(1, SeqCst);
                spin_until(|| here.load(SeqCst) == 4);
            };
            queue.install(|| join(|| join(meet, meet), || join(meet, meet))).unwrap();
        });
    }
}

#[test]
fn an_item_that_comes_while_others_fork_is_run_at_once() {
    on_all_rungs(Scope::System, |queue| {
        let (inside, item_ran) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let wait = || {
            inside.fetch_add(1, SeqCst);
            spin_until(|| item_ran.load(SeqCst));
        };
        thread::scope(|threads| {
            threads.spawn(|| queue.install(|| join(wait, wait)).unwrap());
            spin_until(|| inside.load(SeqCst) == 2);
            let ran = Arc::clone(&item_ran);
            queue.queue(move || ran.store(true, SeqCst)).unwrap();
        });
    });
}

#[test]
fn a_drain_does_not_wait_for_what_others_fork() {
    let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
    let real: CpuSet = coreshard_platform::affinity().unwrap();
    let runtime = Runtime::<Host>::builder(topology).laid_over(real).build().unwrap();
    let (forking, other) =
        (runtime.workqueue().build().unwrap(), runtime.workqueue().build().unwrap());
    let [busy, forked, drained] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    thread::scope(|threads| {
        // One worker is busy with the other queue's item until there is a job to steal.
        let (begun, until) = (Arc::clone(&busy), Arc::clone(&forked));
        let item = move || {
            begun.store(true, SeqCst);
            spin_until(|| until.load(SeqCst));
        };
        other.queue(item).unwrap();
        spin_until(|| busy.load(SeqCst));
        threads.spawn(|| {
            let first = || {
                forked.store(true, SeqCst);
                spin_until(|| drained.load(SeqCst));
            };
            forking.install(|| join(first, || spin_until(|| drained.load(SeqCst)))).unwrap();
        });
        other.drain().unwrap();
        drained.store(true, SeqCst);
    });
}

#[test]
fn a_recursion_deeper_than_any_stack_of_jobs_is_right() {
    fn depth(left: usize) -> usize {
        if left == 0 {
            return 0;
        }
        let (a, b) = join(|| depth(left - 1), || 1);
        a + b
    }
    on_all_rungs(Scope::System, |queue| {
        assert_eq!(queue.install(|| depth(2_000)).unwrap(), 2_000);
    });
}

#[test]
fn what_either_half_throws_comes_out_when_neither_runs() {
    on_all_rungs(Scope::System, |queue| {
        let over = Arc::new(AtomicUsize::new(0));
        struct Over(Arc<AtomicUsize>);
        impl Drop for Over {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let caught = |work: &(dyn Fn() + Sync)| {
            let outcome = catch_unwind(AssertUnwindSafe(|| queue.install(work).unwrap()));
            *outcome.unwrap_err().downcast::<&str>().unwrap()
        };
        // The second half is dropped unrun, or was stolen and is waited for.
        let held = || Over(Arc::clone(&over));
        assert_eq!(
            caught(&|| {
                let mine = held();
                join(|| panic!("first"), move || drop(mine));
            }),
            "first"
        );
        assert_eq!(over.load(SeqCst), 1);
        assert_eq!(
            caught(&|| {
                join(held, || panic!("second"));
            }),
            "second"
        );
        assert_eq!(over.load(SeqCst), 2, "the first half's result was dropped");
        // With a second half that is certainly stolen.
        let begun = AtomicBool::new(false);
        assert_eq!(
            caught(&|| {
                begun.store(false, SeqCst);
                join(
                    || spin_until(|| begun.load(SeqCst)),
                    || {
                        begun.store(true, SeqCst);
                        panic!("thief")
                    },
                );
            }),
            "thief"
        );
        let began = AtomicBool::new(false);
        assert_eq!(
            caught(&|| {
                let mine = held();
                join(
                    || {
                        spin_until(|| began.load(SeqCst));
                        panic!("first, though stolen")
                    },
                    || {
                        began.store(true, SeqCst);
                        thread::sleep(Duration::from_millis(2));
                        drop(mine);
                    },
                );
            }),
            "first, though stolen"
        );
        assert_eq!(over.load(SeqCst), 3, "the stolen half had finished first");
        assert_eq!(queue.install(|| fib(10)).unwrap(), 55, "the workers still work");
    });
}

/// Runs `job` on another worker than the caller, as a job that the caller forks.
fn stolen<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    let (here, began) = (thread::current().id(), AtomicBool::new(false));
    let run = || {
        assert_ne!(thread::current().id(), here);
        began.store(true, SeqCst);
        job()
    };
    join(|| spin_until(|| began.load(SeqCst)), run).1
}

#[test]
fn what_a_stolen_job_may_not_wait_for_is_an_error_there_too() {
    on_all_rungs(Scope::System, |queue| {
        let (told, errors) = mpsc::channel();
        let inside = queue.clone();
        let work = Work::<Host>::new(move |work| {
            let errors = stolen(|| {
                // Stolen once more: the check follows the chain of frames.
                let deeper = stolen(|| work.cancel_and_wait().unwrap_err().to_string());
                [
                    work.flush().unwrap_err().to_string(),
                    work.disable_and_wait().unwrap_err().to_string(),
                    inside.flush().unwrap_err().to_string(),
                    inside.drain().unwrap_err().to_string(),
                    deeper,
                ]
            });
            told.send(errors).unwrap();
        });
        assert!(work.queue(queue).unwrap());
        let errors = errors.recv().unwrap();
        for (error, sentence) in errors.iter().zip([
            "its own function waits",
            "its own function waits",
            "inside one of its items",
            "inside one of its items",
            "its own function waits",
        ]) {
            assert!(error.contains(sentence), "{error}");
        }
        work.flush().unwrap();
        assert_eq!(work.disable_depth(), 0);
    });
}

#[test]
fn what_is_installed_elsewhere_may_not_wait_for_the_item_that_waits_for_it() {
    let runtime = Runtime::<Host>::builder(Topology::host().unwrap()).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let elsewhere = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
    let (told, errors) = mpsc::channel();
    let inside = queue.clone();
    let work = Work::<Host>::new(move |work| {
        let installed = elsewhere.install(|| {
            [work.flush().unwrap_err().to_string(), inside.drain().unwrap_err().to_string()]
        });
        told.send(installed.map_err(|refused| refused.reason()).unwrap()).unwrap();
    });
    assert!(work.queue(&queue).unwrap());
    let errors = errors.recv().unwrap();
    assert!(errors[0].contains("its own function waits"), "{errors:?}");
    assert!(errors[1].contains("inside one of its items"), "{errors:?}");
    work.flush().unwrap();
}

#[test]
fn an_install_inside_an_item_is_a_call_and_elsewhere_goes_to_a_worker() {
    on_all_rungs(Scope::System, |queue| {
        let outside = thread::current().id();
        let (outer, inner) = queue
            .install(|| (thread::current().id(), queue.install(|| thread::current().id()).unwrap()))
            .unwrap();
        assert_eq!(outer, inner);
        assert_ne!(outer, outside);
    });
}

#[test]
fn what_is_installed_on_a_closed_queue_is_not_called() {
    on_all_rungs(Scope::System, |queue| {
        queue.shutdown(Duration::from_secs(60)).unwrap();
        let cargo = String::from("cargo");
        let refused = queue.install(|| cargo.len()).unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::ShutDown);
        let mut elements = [1, 2, 3];
        let refused = queue.for_each_mut(&mut elements, |element| *element += 1).unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::ShutDown);
        assert_eq!(elements, [1, 2, 3]);
        assert!(queue.for_each_range(0..3, |_| ()).is_err());
    });
}

#[test]
fn a_loop_covers_every_element_once() {
    on_all_rungs(Scope::Cpu, |queue| {
        for len in [0, 1, 2, 3, 1_000, 4_097] {
            let mut elements = vec![0_u32; len];
            queue.for_each_mut(&mut elements, |element| *element += 1).unwrap();
            assert!(elements.iter().all(|&count| count == 1), "{len} elements");
            let counts: Vec<_> = (0..len).map(|_| AtomicUsize::new(0)).collect();
            let count = |range: std::ops::Range<usize>| {
                assert!(!range.is_empty());
                counts[range].iter().for_each(|count| {
                    count.fetch_add(1, SeqCst);
                });
            };
            queue.for_each_range(0..len, count).unwrap();
            assert!(counts.iter().all(|count| count.load(SeqCst) == 1), "{len} numbers");
        }
    });
}

#[test]
fn a_loop_whose_body_panics_ends_with_that_panic() {
    on_all_rungs(Scope::System, |queue| {
        let body = |range: std::ops::Range<usize>| assert!(!range.contains(&700), "seven hundred");
        let looped = AssertUnwindSafe(|| queue.for_each_range(0..1_000, body).unwrap());
        let payload = catch_unwind(looped).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "seven hundred");
    });
}

#[test]
fn many_threads_fork_at_once() {
    let items = if cfg!(debug_assertions) { 16 } else { 22 };
    on_all_rungs(Scope::Cpu, |queue| {
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for n in 10..items {
                        assert_eq!(queue.install(|| fib(n)).unwrap(), fib(n));
                    }
                });
            }
        });
        queue.drain().unwrap();
        let stats = queue.stats();
        assert_eq!(stats.queued, stats.run);
    });
}

//! The guarantees of reusable items, one test for each.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use coreshard_platform::Host;
use coreshard_topology::{CpuId, NodeId, Scope, Topology, Usable};
use coreshard_workqueue::{
    Intake, MissedTick, Periodic, RefusedReason, Runtime, Target, WorkErrorReason, Workqueue,
};
use testing::{NEVER, wait_until};

type Work = coreshard_workqueue::Work<Host>;

/// Longer than the tests run.
const LONG: Duration = Duration::from_secs(3_600);

fn runtime() -> Runtime<Host> {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap();
    Runtime::builder(topology).usable(usable.cpus().clone()).build().unwrap()
}

/// A queue without a limit, one with a limit, and an ordered one, with both intakes.
fn on_all_queues(test: impl Fn(&Workqueue<Host>)) {
    let runtime = runtime();
    for intake in Intake::ALL {
        for most in [None, Some(4), Some(1)] {
            let builder = runtime.workqueue().name("all").scope(Scope::System).intake(intake);
            let builder = match most {
                Some(most) => builder.max_active(most),
                None => builder,
            };
            test(&builder.build().unwrap());
        }
    }
}

/// An item that reports when it has begun, and runs until it is told to end.
fn held() -> (Work, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let work = Work::new(move |_| {
        begin.send(()).unwrap();
        let _ = ended.recv();
    });
    (work, begun, end)
}

#[test]
fn a_pending_item_is_not_queued_again() {
    on_all_queues(|queue| {
        let (work, begun, end) = held();
        assert!(!work.is_pending() && !work.is_running());
        assert!(work.queue(queue).unwrap());
        begun.recv_timeout(NEVER).unwrap();
        assert!(work.is_running() && !work.is_pending());
        assert!(work.queue(queue).unwrap(), "it runs, and so is not pending");
        assert!(work.is_running() && work.is_pending());
        assert!(!work.queue(queue).unwrap());
        end.send(()).unwrap();
        begun.recv_timeout(NEVER).unwrap();
        end.send(()).unwrap();
        assert!(work.flush().is_ok());
        queue.drain().unwrap();
        assert!(!work.is_pending() && !work.is_running());
        assert!(begun.try_recv().is_err(), "it ran twice");
    });
}

#[test]
fn an_item_never_runs_on_two_workers_at_once() {
    let runtime = runtime();
    let queues: Vec<_> = [Scope::System, Scope::Cpu, Scope::Smt]
        .into_iter()
        .flat_map(|scope| {
            let plain = runtime.workqueue().scope(scope).build().unwrap();
            let limited = runtime.workqueue().scope(scope).max_active(3).build().unwrap();
            [plain, limited]
        })
        .collect();
    let (inside, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let counter = Arc::clone(&runs);
    let own = queues.clone();
    let work = Work::new(move |work| {
        assert!(!inside.swap(true, SeqCst), "two at once");
        let run = counter.fetch_add(1, SeqCst);
        // From inside itself, on each of the queues in turn.
        if run % 3 == 0 {
            work.queue(&own[run as usize % own.len()]).unwrap();
        }
        std::hint::black_box((0..200).sum::<u64>());
        assert!(inside.swap(false, SeqCst));
    });
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let (work, queues) = (work.clone(), queues.clone());
            std::thread::spawn(move || {
                let mut queued = 0;
                for round in 0..4_000 {
                    queued +=
                        u64::from(work.queue(&queues[(round + thread) % queues.len()]).unwrap());
                }
                queued
            })
        })
        .collect();
    let queued: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    wait_until("it rests", || !work.flush().unwrap());
    assert!(runs.load(SeqCst) >= queued, "each queueing runs");
    queues.iter().for_each(|queue| queue.drain().unwrap());
}

#[test]
fn what_was_written_before_a_refused_queueing_is_seen_by_the_coming_run() {
    let runtime = runtime();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let (message, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (from, to) = (Arc::clone(&message), Arc::clone(&seen));
    let work = Work::new(move |_| to.store(from.load(Relaxed), Relaxed));
    let mut refused = 0_u64;
    for number in 1..=20_000 {
        message.store(number, Relaxed);
        refused += u64::from(!work.queue(&queue).unwrap());
        if number % 7 == 0 {
            work.flush().unwrap();
            assert_eq!(seen.load(Relaxed), number, "{refused} were refused");
        }
    }
}

#[test]
fn an_item_may_queue_itself() {
    on_all_queues(|queue| {
        let runs = Arc::new(AtomicUsize::new(0));
        let (counter, own) = (Arc::clone(&runs), queue.clone());
        let work = Work::new(move |work| {
            if counter.fetch_add(1, SeqCst) < 499 {
                assert!(work.queue(&own).unwrap());
                assert!(!work.queue(&own).unwrap(), "once is enough");
            }
        });
        work.queue(queue).unwrap();
        // A drain also waits for items that its items queue.
        queue.drain().unwrap();
        assert_eq!(runs.load(SeqCst), 500);
    });
}

#[test]
fn an_item_may_free_itself() {
    on_all_queues(|queue| {
        let cargo = Arc::new(());
        let kept: Arc<Mutex<Option<Work>>> = Arc::new(Mutex::new(None));
        let (own, held, (tell, told)) = (Arc::clone(&kept), Arc::clone(&cargo), mpsc::channel());
        let work = Work::new(move |_| {
            let last = own.lock().unwrap().take();
            drop(last);
            // The function's captures are still alive.
            tell.send(Arc::strong_count(&held)).unwrap();
        });
        *kept.lock().unwrap() = Some(work);
        let borrowed = kept.lock().unwrap().clone().unwrap();
        borrowed.queue(queue).unwrap();
        drop(borrowed);
        assert_eq!(told.recv_timeout(NEVER).unwrap(), 2);
        queue.drain().unwrap();
        assert_eq!(Arc::strong_count(&cargo), 1, "and are dropped after it");
    });
}

#[test]
fn a_cancelled_item_does_not_run_and_can_be_queued_again() {
    on_all_queues(|queue| {
        let (blocker, begun, end) = held();
        let runs = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&runs);
        let work = Work::new(move |_| {
            counter.fetch_add(1, SeqCst);
        });
        assert!(!work.cancel(), "there was nothing to cancel");
        blocker.queue(queue).unwrap();
        begun.recv_timeout(NEVER).unwrap();
        for _ in 0..10 {
            work.queue(queue).unwrap();
            work.cancel();
        }
        assert!(!work.is_pending());
        end.send(()).unwrap();
        queue.drain().unwrap();
        let cancelled = runs.load(SeqCst);
        assert!(cancelled <= 10, "only if a second worker was quicker");
        assert!(work.queue(queue).unwrap());
        work.flush().unwrap();
        assert_eq!(runs.load(SeqCst), cancelled + 1);
    });
}

#[test]
fn what_cancelled_queueings_hold_is_let_go_of_when_a_worker_comes_by() {
    let runtime = runtime();
    let queue = runtime.workqueue().build().unwrap();
    queue.freeze().unwrap();
    let held = Arc::new(());
    let own = Arc::clone(&held);
    let work = Work::new(move |_| assert_eq!(Arc::strong_count(&own), 2));
    for cancels in 1..=1_000 {
        assert!(work.queue(&queue).unwrap() && work.cancel());
        assert_eq!(queue.stats().waiting, cancels, "a place each");
        // A delayed queueing leaves none.
        assert!(work.queue_after(&queue, NEVER).unwrap() && work.cancel());
    }
    assert_eq!((queue.stats().waiting, runtime.delayed_items()), (1_000, 0));
    drop(work);
    assert_eq!(Arc::strong_count(&held), 2, "the void queueings hold the item");
    queue.thaw().unwrap();
    queue.drain().unwrap();
    assert_eq!(queue.stats().waiting, 0);
    assert_eq!(Arc::strong_count(&held), 1, "and release it");
}

#[test]
fn a_cancel_that_waits_returns_after_the_run() {
    on_all_queues(|queue| {
        let (begin, begun) = mpsc::channel();
        let over = Arc::new(AtomicBool::new(false));
        let (told, own) = (Arc::clone(&over), queue.clone());
        let work = Work::new(move |work| {
            begin.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            // It cannot queue itself again once it is being cancelled.
            let _ = work.queue(&own);
            told.store(true, SeqCst);
        });
        work.queue(queue).unwrap();
        begun.recv_timeout(NEVER).unwrap();
        work.cancel_and_wait().unwrap();
        assert!(over.load(SeqCst) && !work.is_running() && !work.is_pending());
        assert_eq!(work.disable_depth(), 0);
    });
}

#[test]
fn disables_nest() {
    on_all_queues(|queue| {
        let runs = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&runs);
        let work = Work::new(move |_| {
            counter.fetch_add(1, SeqCst);
        });
        assert_eq!(work.enable().unwrap_err().reason(), WorkErrorReason::NotDisabled);
        assert!(!work.disable().unwrap());
        assert!(!work.disable_and_wait().unwrap());
        assert_eq!(work.disable_depth(), 2);
        let error = work.queue(queue).unwrap_err();
        assert_eq!(error.reason(), WorkErrorReason::Disabled);
        assert!(error.to_string().contains("enable"), "{error}");
        assert!(work.modify_delay(queue, LONG).is_err());
        assert!(!work.enable().unwrap());
        assert!(work.queue(queue).is_err());
        assert!(work.enable().unwrap());
        assert!(work.queue(queue).unwrap());
        work.flush().unwrap();
        assert_eq!(runs.load(SeqCst), 1);
        work.queue_after(queue, LONG).unwrap();
        assert!(work.disable().unwrap(), "it was pending");
        assert!(!work.is_pending());
    });
}

#[test]
fn a_flush_from_inside_the_item_is_an_error() {
    on_all_queues(|queue| {
        let (tell, told) = mpsc::channel();
        let work = Work::new(move |work| {
            let errors = [
                work.flush().map(drop),
                work.cancel_and_wait().map(drop),
                work.disable_and_wait().map(drop),
            ];
            tell.send(errors).unwrap();
        });
        work.queue(queue).unwrap();
        for result in told.recv_timeout(NEVER).unwrap() {
            let error = result.unwrap_err();
            assert_eq!(error.reason(), WorkErrorReason::WouldDeadlock);
            assert!(error.to_string().contains("wait elsewhere"), "{error}");
        }
        assert!(work.disable_depth() == 0);
    });
}

#[test]
fn a_flush_of_what_waits_behind_the_caller_is_an_error() {
    let runtime = runtime();
    let queue = runtime.workqueue().max_active(1).build().unwrap();
    let behind = Work::new(|_| ());
    let (own, work) = (queue.clone(), behind.clone());
    let handle = queue
        .submit(move || {
            work.queue(&own).unwrap();
            work.flush().unwrap_err()
        })
        .unwrap();
    let error = handle.join().unwrap();
    assert_eq!(error.reason(), WorkErrorReason::WouldDeadlock);
    // The queue has a limit of one, but is not ordered.
    let text = error.to_string();
    assert!(text.contains("runs one at a time") && !text.contains("ordered"), "{text}");
    // An item of another queue may wait for it.
    let other = runtime.workqueue().build().unwrap();
    let (own, work) = (queue.clone(), behind.clone());
    let handle = other
        .submit(move || {
            work.queue(&own).unwrap();
            work.flush().map_err(|error| error.reason())
        })
        .unwrap();
    handle.join().unwrap().unwrap();
}

#[test]
fn a_zero_delay_queues_at_once() {
    on_all_queues(|queue| {
        let work = Work::new(|_| ());
        assert!(work.queue_after(queue, Duration::ZERO).unwrap());
        queue.drain().unwrap();
        assert!(!work.is_pending(), "the drain has waited for it");
    });
}

#[test]
fn a_delayed_item_runs_after_its_delay() {
    on_all_queues(|queue| {
        let (tell, told) = mpsc::channel();
        let work = Work::new(move |_| tell.send(Instant::now()).unwrap());
        let (started, delay) = (Instant::now(), Duration::from_millis(3));
        assert!(work.queue_after(queue, delay).unwrap());
        assert!(!work.queue_after(queue, Duration::ZERO).unwrap(), "it is pending");
        let ran = told.recv_timeout(NEVER).unwrap();
        assert!(ran.duration_since(started) >= delay, "not before its time");
    });
}

#[test]
fn a_delay_can_be_changed_cancelled_and_brought_forward() {
    on_all_queues(|queue| {
        let (tell, told) = mpsc::channel();
        let work = Work::new(move |_| tell.send(()).unwrap());
        assert!(!work.modify_delay(queue, LONG).unwrap(), "it was not pending");
        assert!(work.is_pending());
        assert!(work.modify_delay(queue, Duration::from_micros(1)).unwrap());
        told.recv_timeout(NEVER).unwrap();
        wait_until("it rests", || !work.flush().unwrap());

        work.queue_after(queue, LONG).unwrap();
        assert!(work.cancel());
        assert!(!work.cancel());

        work.queue_after(queue, LONG).unwrap();
        assert!(work.flush().unwrap(), "a flush does not wait for the hour");
        told.try_recv().unwrap();
        assert!(work.modify_delay(queue, LONG).is_ok());
        assert!(work.modify_delay(queue, Duration::ZERO).unwrap(), "at once");
        told.recv_timeout(NEVER).unwrap();
        assert!(told.try_recv().is_err());
    });
}

#[test]
fn a_delay_beyond_the_clock_is_an_error() {
    let runtime = runtime();
    let queue = runtime.workqueue().build().unwrap();
    let work = Work::new(|_| ());
    for result in [
        work.queue_after(&queue, Duration::MAX).map(drop),
        work.modify_delay(&queue, Duration::from_nanos(u64::MAX)).map(drop),
        Periodic::start(&queue, Duration::MAX, MissedTick::Skip, || ()).map(drop),
        Periodic::start(&queue, Duration::ZERO, MissedTick::Skip, || ()).map(drop),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.reason(), WorkErrorReason::BeyondClock, "{error}");
    }
    assert!(!work.is_pending());
}

#[test]
fn a_refused_queueing_leaves_the_item_as_it_was() {
    let runtime = runtime();
    let queue = runtime.workqueue().build().unwrap();
    let work = Work::new(|_| ());
    let error = work.queue_on(&queue, CpuId(9_999)).unwrap_err();
    let reason = WorkErrorReason::Refused(RefusedReason::NoSuchCpu(CpuId(9_999)));
    assert_eq!(error.reason(), reason);
    assert!(error.to_string().contains("9999"), "{error}");
    queue.shutdown(NEVER).unwrap();
    let error = work.queue(&queue).unwrap_err();
    assert_eq!(error.reason(), WorkErrorReason::Refused(RefusedReason::ShutDown));
    assert!(!work.is_pending());
    let other = runtime.workqueue().build().unwrap();
    assert!(work.queue(&other).unwrap());
    work.flush().unwrap();
}

#[test]
fn a_queueing_that_its_queue_refuses_is_never_found_pending() {
    let runtime = runtime();
    let (open, closed) =
        (runtime.workqueue().build().unwrap(), runtime.workqueue().build().unwrap());
    closed.shutdown(NEVER).unwrap();
    let (message, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (from, to) = (Arc::clone(&message), Arc::clone(&seen));
    let work = Work::new(move |_| to.store(from.load(SeqCst), SeqCst));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                assert!(!matches!(work.queue(&closed), Ok(true)));
                assert!(work.modify_delay(&closed, Duration::ZERO).is_err());
            }
        });
        let end = Instant::now() + Duration::from_millis(300);
        let mut lost = None;
        for number in 1_u64.. {
            if lost.is_some() || Instant::now() > end {
                break;
            }
            message.store(number, SeqCst);
            let queued = work.queue(&open).unwrap();
            if number % 64 != 0 && queued {
                continue;
            }
            work.flush().unwrap();
            lost = (seen.load(SeqCst) < number).then_some((number, queued));
        }
        is_over.store(true, SeqCst);
        assert_eq!(lost, None, "(number, queued): the missing run");
    });
}

#[test]
fn what_cannot_be_replaced_stays_pending() {
    let runtime = runtime();
    let (open, closed) =
        (runtime.workqueue().build().unwrap(), runtime.workqueue().build().unwrap());
    closed.shutdown(NEVER).unwrap();
    let (tell, told) = mpsc::channel();
    let work = Work::new(move |_| tell.send(()).unwrap());
    for delay in [Duration::ZERO, Duration::from_secs(3_600)] {
        open.freeze().unwrap();
        assert!(work.queue_after(&open, delay).unwrap());
        let error = work.modify_delay(&closed, Duration::ZERO).unwrap_err();
        assert_eq!(error.reason(), WorkErrorReason::Refused(RefusedReason::ShutDown));
        assert!(work.is_pending(), "{delay:?}");
        open.thaw().unwrap();
        // An item that was not delayed may have finished by now.
        assert!(work.flush().unwrap() || delay.is_zero());
        told.recv_timeout(NEVER).unwrap();
    }
}

#[test]
fn a_delayed_item_whose_queue_is_shut_down_is_void() {
    let runtime = runtime();
    let queue = runtime.workqueue().build().unwrap();
    let work = Work::new(|_| panic!("it must not run"));
    work.queue_after(&queue, Duration::from_millis(2)).unwrap();
    queue.shutdown(NEVER).unwrap();
    wait_until("its delay has elapsed", || !work.is_pending());
}

#[test]
fn a_delay_keeps_its_queue_alive() {
    let runtime = runtime();
    let (tell, told) = mpsc::channel();
    let work = Work::new(move |_| tell.send(()).unwrap());
    let queue = runtime.workqueue().build().unwrap();
    work.queue_after(&queue, Duration::from_millis(2)).unwrap();
    drop(queue);
    told.recv_timeout(NEVER).unwrap();
}

#[test]
fn an_item_that_panics_can_be_queued_again() {
    let runtime = runtime();
    let panics = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&panics);
    let handler = move |_| {
        counter.fetch_add(1, SeqCst);
    };
    let queue = runtime.workqueue().panic_handler(handler).build().unwrap();
    let work = Work::new(|_| resume_unwind(Box::new("deliberate")));
    for round in 1..=3 {
        assert!(work.queue(&queue).unwrap());
        work.flush().unwrap();
        queue.drain().unwrap();
        assert_eq!(panics.load(SeqCst), round);
    }
}

#[test]
fn periodic_work_ticks_until_it_is_stopped() {
    let runtime = runtime();
    let queue = runtime.workqueue().build().unwrap();
    for missed in [MissedTick::Burst, MissedTick::Skip, MissedTick::Delay] {
        let ticks = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&ticks);
        let tick = move || {
            if counter.fetch_add(1, SeqCst) == 2 {
                // It continues after a panic and a delay of several periods.
                std::thread::sleep(Duration::from_millis(5));
                resume_unwind(Box::new("deliberate"));
            }
        };
        let periodic = Periodic::start(&queue, Duration::from_millis(1), missed, tick).unwrap();
        wait_until("it ticks", || ticks.load(SeqCst) >= 8);
        periodic.stop_and_wait().unwrap();
        let stopped = ticks.load(SeqCst);
        assert_eq!(periodic.skipped_ticks() > 0, missed == MissedTick::Skip, "{missed:?}");
        assert!(!periodic.work().is_pending() && !periodic.work().is_running());
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(ticks.load(SeqCst), stopped);
    }
    let ticks = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&ticks);
    let tick = move || {
        counter.fetch_add(1, SeqCst);
    };
    drop(Periodic::start(&queue, Duration::from_micros(50), MissedTick::Skip, tick).unwrap());
    queue.drain().unwrap();
    wait_until("its function is dropped", || Arc::strong_count(&ticks) == 1);
}

/// Four CPUs in as many pods, and a queue on them.
fn pods_of_one() -> (Runtime<Host>, Workqueue<Host>) {
    let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1").unwrap();
    let runtime = Runtime::builder(topology);
    let runtime = runtime.laid_over(coreshard_platform::affinity().unwrap()).build().unwrap();
    let queue = runtime.workqueue().name("pods").scope(Scope::Cpu).build().unwrap();
    (runtime, queue)
}

#[test]
fn a_target_that_the_queue_has_not_is_refused_before_its_time() {
    let (_runtime, queue) = pods_of_one();
    for target in [Target::Cpu(CpuId(99)), Target::Node(NodeId(7))] {
        for delay in [Duration::ZERO, Duration::from_millis(1), LONG] {
            let work = Work::new(|_| panic!("it must not run"));
            let refused =
                [work.queue_to(&queue, target, delay), work.modify_to(&queue, target, delay)];
            for refused in refused {
                let error = refused.unwrap_err();
                assert!(error.to_string().contains("of the workqueue"), "{error}");
            }
            assert!(!work.is_pending() && !work.flush().unwrap());
        }
    }
    // A queueing that is pending stays.
    let (work, begun, end) = held();
    assert!(work.queue_after(&queue, Duration::from_millis(5)).unwrap());
    work.modify_to(&queue, Target::Cpu(CpuId(99)), LONG).unwrap_err();
    begun.recv_timeout(NEVER).unwrap();
    drop(end);
}

#[test]
fn a_target_that_goes_before_its_time_loses_nothing() {
    let (runtime, queue) = pods_of_one();
    let ran = Arc::new(AtomicUsize::new(0));
    let work = || {
        let ran = Arc::clone(&ran);
        Work::new(move |_| _ = ran.fetch_add(1, SeqCst))
    };
    let (timed, flushed) = (work(), work());
    let target = Target::Cpu(CpuId(3));
    assert!(timed.queue_to(&queue, target, Duration::from_millis(20)).unwrap());
    assert!(flushed.queue_to(&queue, target, LONG).unwrap());
    runtime.set_usable("0-1".parse().unwrap()).unwrap();
    assert!(flushed.flush().unwrap());
    wait_until("both have run", || ran.load(SeqCst) == 2);
    assert!(work().queue_to(&queue, target, LONG).is_err(), "the queue no longer has it");
}

/// Fails if each call leaves one more worker waiting for the run to end.
#[test]
fn an_item_that_is_queued_anew_while_it_runs_occupies_one_worker_at_most() {
    let runtime = runtime();
    for is_limited in [false, true] {
        let builder = runtime.workqueue();
        let builder = if is_limited { builder.max_active(2) } else { builder };
        let queue = builder.build().unwrap();
        let other = runtime.workqueue().build().unwrap();
        let workers = other.stats().total().workers;
        let (begun, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (begins, goes_on) = (Arc::clone(&begun), Arc::clone(&go));
        let runs = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&runs);
        let work = Work::new(move |_| {
            begins.store(true, SeqCst);
            while !goes_on.load(SeqCst) {
                std::thread::yield_now();
            }
            counter.fetch_add(1, SeqCst);
        });
        work.queue(&queue).unwrap();
        wait_until("it runs", || begun.load(SeqCst));
        for call in 0..200 {
            if call % 2 == 0 {
                work.modify_delay(&queue, Duration::ZERO).unwrap();
            } else {
                work.cancel();
                work.queue(&queue).unwrap();
            }
            // Workers look for items, and find the queued one.
            other.submit(|| ()).unwrap().join().unwrap();
        }
        let total = other.stats().total();
        assert!(total.workers <= workers.max(total.worker_limit) + 3, "{total:?}");
        go.store(true, SeqCst);
        work.flush().unwrap();
        queue.shutdown(Duration::from_secs(30)).unwrap();
        assert_eq!(runs.load(SeqCst), 2);
    }
}

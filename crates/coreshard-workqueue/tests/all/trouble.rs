//! CPU hogs, stalls, limits on workers, the rescuer, and CPUs that are removed: one test for each guarantee.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use coreshard_platform::{Host, affinity};
use coreshard_topology::{CpuId, CpuSet, Scope, Topology, Usable};
use coreshard_workqueue::{
    Diagnostic, Runtime, RuntimeBuilder, Work, Workqueue, blocking, current,
};
use testing::{NEVER, wait_until};

use crate::told_of_waits::queue_waits;

fn real_cpus() -> CpuSet {
    Usable::host(&Topology::host().unwrap()).unwrap().cpus().clone()
}

fn builder() -> RuntimeBuilder<Host> {
    Runtime::builder(Topology::host().unwrap()).usable(real_cpus())
}

/// Collects a runtime's diagnostics.
fn listen(builder: RuntimeBuilder<Host>) -> (Runtime<Host>, Arc<Mutex<Vec<Diagnostic>>>) {
    let heard: Arc<Mutex<Vec<Diagnostic>>> = Arc::default();
    let log = Arc::clone(&heard);
    let builder = builder.on_diagnostic(move |trouble| {
        log.lock().unwrap().push(trouble.clone());
        std::panic::resume_unwind(Box::new("a handler that panics ends nothing"));
    });
    (builder.build().unwrap(), heard)
}

fn spin_until(stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        std::hint::spin_loop();
    }
}

/// As many items as the pool may run at once spin until one that waits behind them has run.
#[test]
fn a_cpu_hog_is_taken_out_of_the_count_and_reported_with_its_function() {
    let (runtime, heard) = listen(builder());
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let other = runtime.workqueue().scope(Scope::System).build().unwrap();
    let limit = queue.stats().total().worker_limit;
    let since = Instant::now();
    // A spinning thread may still have to wait, for example for a translation if its processor is emulated. Then it is
    // presumed blocked.
    while queue.stats().total().cpu_hogs == 0 {
        let total = queue.stats().total();
        assert!(since.elapsed() < NEVER, "no hog was found: {total:?}");
        let stop = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&stop);
        let hog = Work::new(move |_| spin_until(&own));
        hog.queue(&queue).unwrap();
        for _ in 1..limit {
            let stop = Arc::clone(&stop);
            queue.queue(move || spin_until(&stop)).unwrap();
        }
        let end = Arc::clone(&stop);
        queue.submit(move || end.store(true, SeqCst)).unwrap().join().unwrap();
        queue.drain().unwrap();
    }
    // Counted for this queue, and not for another one on the same pool.
    assert_eq!(queue.stats().tally.cpu_hogs, queue.stats().total().cpu_hogs);
    assert_eq!(other.stats().tally.cpu_hogs, 0);
    assert_eq!(other.stats().total().cpu_hogs, queue.stats().total().cpu_hogs, "one pool");
    wait_until("it is told", || {
        heard.lock().unwrap().iter().any(|trouble| match trouble {
            Diagnostic::CpuHog(hog) => {
                assert!(hog.cpu_time >= Duration::from_millis(10), "{hog}");
                assert!(trouble.to_string().contains(hog.function), "{trouble}");
                hog.function.contains("trouble::a_cpu_hog_is_taken_out")
            }
            _ => false,
        })
    });
    // It counts again.
    wait_until("no worker is blocked", || queue.stats().total().blocked_workers == 0);
}

/// More items than CPUs, which compute for several times the threshold: they get as many threads as CPUs, plus one
/// replacement. (One more for a look in between; an earlier version used twice as many.)
#[test]
fn long_items_get_no_more_threads_than_are_of_use() {
    let topology = Topology::from_synthetic("package:1 l3:1 core:6 pu:1").unwrap();
    let runtime = Runtime::<Host>::builder(topology).laid_over(real_cpus()).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let limit = queue.stats().total().worker_limit;
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    for _ in 0..40 {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        let long = move || {
            most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
            let used = || coreshard_platform::thread_cpu_time();
            let before = used();
            while used() - before < Duration::from_millis(25) {}
            running.fetch_sub(1, SeqCst);
        };
        queue.queue(long).unwrap();
    }
    queue.drain().unwrap();
    let most = most.load(SeqCst);
    assert!(most <= limit + 3, "{most} items at once, on {limit} CPUs");
}

/// Long parts of a loop: only other parts wait behind them.
#[test]
fn long_parts_of_a_loop_are_no_hogs() {
    let (runtime, heard) = listen(builder().cpu_intensive_threshold(Duration::from_millis(1)));
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let parts = 8 * queue.stats().total().worker_limit;
    queue
        .for_each_range(0..parts, |_| {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        })
        .unwrap();
    assert_eq!(queue.stats().total().cpu_hogs, 0);
    assert!(heard.lock().unwrap().is_empty(), "{heard:?}");
}

/// One half of a long item forks all the time, and the other does not: jobs wait all the time, and only the worker that forked
/// them begins any.
#[test]
fn a_long_item_that_forks_is_no_hog_and_stalls_nobody() {
    fn forks(levels: u32) {
        if levels > 0 {
            coreshard_workqueue::join::<Host, _, _>(|| forks(levels - 1), || forks(levels - 1));
        }
    }
    let builder = builder().workers(2).cpu_intensive_threshold(Duration::from_millis(1));
    let (runtime, heard) = listen(builder.stall_after(Duration::from_millis(300)));
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let began = Instant::now();
    let time_is_left = || began.elapsed() < Duration::from_millis(700);
    let forking = || {
        while time_is_left() {
            forks(12)
        }
    };
    let computing = || {
        while time_is_left() {
            std::hint::spin_loop()
        }
    };
    queue.install(|| coreshard_workqueue::join::<Host, _, _>(forking, computing)).unwrap();
    assert_eq!(queue.stats().total().cpu_hogs, 0);
    assert!(heard.lock().unwrap().is_empty(), "{heard:?}");
}

/// Many items that hog a CPU with one function are reported with exponential backoff.
#[test]
fn a_function_that_hogs_again_and_again_is_told_less_and_less_often() {
    let (runtime, heard) = listen(builder().cpu_intensive_threshold(Duration::from_millis(1)));
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let items = 40;
    for _ in 0..items {
        let spin = || {
            let clock = coreshard_platform::thread_cpu_time();
            while coreshard_platform::thread_cpu_time() - clock < Duration::from_millis(12) {}
        };
        queue.queue(spin).unwrap();
    }
    queue.drain().unwrap();
    let hogs = queue.stats().total().cpu_hogs;
    assert!(hogs > 2, "{hogs}");
    let times = || -> Vec<u64> {
        let heard = heard.lock().unwrap();
        let times = heard.iter().filter_map(|trouble| match trouble {
            Diagnostic::CpuHog(hog) => Some(hog.times),
            _ => None,
        });
        times.collect()
    };
    wait_until("all are reported", || times().len() as u32 > hogs.ilog2());
    let times = times();
    assert!(times.iter().all(|times| times.is_power_of_two()), "{times:?}");
    let heard = heard.lock().unwrap();
    assert_eq!(times.len() as u32, hogs.ilog2() + 1, "{heard:?} of {hogs}");
}

/// All workers wait, declared or not, and no further one may be started.
#[test]
fn a_pool_without_progress_is_told_with_all_that_runs() {
    let stall_after = Duration::from_millis(20);
    let (runtime, heard) = listen(builder().max_workers_per_pool(2).stall_after(stall_after));
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    for _ in 0..2 {
        let released = Arc::clone(&released);
        let wait = move || {
            let _ = blocking::<Host, _>(|| released.lock().unwrap().recv());
        };
        queue.queue(wait).unwrap();
    }
    let waiting = queue.submit(|| 1).unwrap();
    // A slow machine may have reported one before, while the workers were starting.
    let stall_of_two = |trouble: &Diagnostic| match trouble {
        Diagnostic::Stall(stall) if stall.pools[0].running.len() == 2 => Some(stall.clone()),
        _ => None,
    };
    wait_until("the stall is reported", || {
        heard.lock().unwrap().iter().find_map(stall_of_two).is_some()
    });
    {
        let heard = heard.lock().unwrap();
        let stall = heard.iter().find_map(stall_of_two).unwrap();
        assert!(stall.stalled_for >= stall_after);
        assert_eq!(stall.pools.len(), 1);
        assert!(stall.pools[0].has_waiting_items);
        for item in &stall.pools[0].running {
            assert!(item.is_blocked);
            assert!(item.function.contains("a_pool_without_progress"), "{}", item.function);
        }
        let text = stall.to_string();
        assert!(text.contains("has begun none") && text.contains("blocked"), "{text}");
        let told = |trouble: &&Diagnostic| matches!(trouble, Diagnostic::NoWorker(_));
        assert!(heard.iter().any(|trouble| told(&trouble)), "and that no worker can be started");
    }
    drop(release);
    waiting.join().unwrap();
    queue.drain().unwrap();
    assert!(queue.stats().total().refused_workers > 0);
}

#[test]
fn a_pool_never_has_more_workers_than_it_may() {
    let runtime = builder().max_workers_per_pool(3).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..60 {
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        let work = move || {
            most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
            blocking::<Host, _>(|| std::thread::sleep(Duration::from_micros(500)));
            inside.fetch_sub(1, SeqCst);
        };
        queue.queue(work).unwrap();
    }
    queue.drain().unwrap();
    assert!(most.load(SeqCst) <= 3, "{most:?}");
    assert!(queue.stats().total().workers <= 3);
}

#[test]
fn a_queue_whose_workers_are_too_many_is_not_made_and_says_why() {
    let machine = Topology::from_synthetic("pack:1 l3:1 core:8 pu:1").unwrap();
    let builder = Runtime::<Host>::builder(machine).laid_over(real_cpus());
    let runtime = builder.max_workers(4).build().unwrap();
    let error = runtime.workqueue().name("wide").scope(Scope::Cpu).build().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\"wide\"") && text.contains("max_workers"), "{text}");
    // The workers started for it have exited, and a smaller queue can be built.
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    assert_eq!(queue.submit(|| 4).unwrap().join().unwrap(), 4);
    let other = runtime.workqueue().scope(Scope::System).strict(true).build().unwrap();
    drop((queue, other));
    // Workers that have exited are not counted any more.
    for _ in 0..8 {
        let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
        queue.submit(|| ()).unwrap().join().unwrap();
    }
}

/// The only worker that the pool may have waits for a later item: the rescuer runs that.
fn depends_on_the_next(queue: &Workqueue<Host>) {
    for _ in 0..20 {
        let (tell, told) = mpsc::channel();
        let first = queue.submit(move || blocking::<Host, _>(|| told.recv_timeout(NEVER))).unwrap();
        queue.queue(move || tell.send(7).unwrap()).unwrap();
        assert_eq!(first.join().unwrap(), Ok(7));
    }
}

#[test]
fn a_rescuer_keeps_a_queue_going_when_no_worker_can_be_had() {
    let runtime = builder().max_workers_per_pool(1).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).rescuer(true).build().unwrap();
    depends_on_the_next(&queue);
    let total = queue.stats().total();
    assert!(total.rescues > 0, "{total:?}");
    // Each item asks whether its worker is the rescuer: exactly one is.
    let ((tell, told), (answer, answered)) = (mpsc::channel(), mpsc::channel());
    let is_rescuer = || current::<Host>().expect("a worker").is_rescuer();
    let first = move || {
        let other = blocking::<Host, _>(|| told.recv_timeout(NEVER)).unwrap();
        answer.send((is_rescuer(), other)).unwrap();
    };
    queue.queue(first).unwrap();
    queue.queue(move || tell.send(is_rescuer()).unwrap()).unwrap();
    let (one, other) = answered.recv_timeout(NEVER).unwrap();
    assert_ne!(one, other);
    queue.drain().unwrap();
    // The pool counts calls of the rescuer, the queue the items that it ran.
    let (calls, items) = (queue.stats().total().rescues, queue.stats().tally.rescues);
    assert!(calls > 0 && items > 0 && items <= 40, "{calls} calls, {items} items");
    wait_until("the rescuer stands by again", || {
        let total = queue.stats().total();
        total.workers == 1 && total.idle_workers == 1 || {
            queue.queue(|| ()).unwrap();
            false
        }
    });
    depends_on_the_next(&queue);
    // It moves with the queue, and no other queue uses its pools.
    queue.change().strict(true).apply().unwrap();
    depends_on_the_next(&queue);
    queue.change().strict(false).apply().unwrap();
    depends_on_the_next(&queue);
    let other = runtime.workqueue().scope(Scope::System).build().unwrap();
    other.submit(|| ()).unwrap().join().unwrap();
    queue.drain().unwrap();
    assert_eq!(other.stats().tally.rescues, 0);
}

/// The CPUs that items run on.
fn cpus_of(queue: &Workqueue<Host>) -> CpuSet {
    let mut seen = CpuSet::new();
    for _ in 0..8 {
        let cpus = queue.submit(|| affinity().unwrap()).unwrap().join().unwrap();
        seen = seen.union(&cpus);
    }
    seen
}

#[test]
fn workers_follow_when_cpus_go_and_come_back_and_nothing_is_lost() {
    const MOST_WAITING: usize = 10_000;
    let all = real_cpus();
    let one: CpuSet = all.iter().take(1).collect();
    let runtime = builder().build().unwrap();
    let queue = runtime.workqueue().scope(Scope::Cpu).strict(true).build().unwrap();
    let last: CpuSet = all.iter().last().into_iter().collect();
    let masked = runtime.workqueue().cpu_mask(last.clone()).strict(true).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let ran = Arc::new(AtomicUsize::new(0));
    let producer = {
        let (queue, stop, ran) = (queue.clone(), Arc::clone(&stop), Arc::clone(&ran));
        std::thread::spawn(move || {
            let mut queued = 0;
            while !stop.load(SeqCst) {
                let counted = Arc::clone(&ran);
                let run = move || {
                    counted.fetch_add(1, SeqCst);
                };
                queue.queue(run).unwrap();
                queued += 1;
                // A flush waits for all earlier items, and one worker may have to run them.
                while queued > ran.load(SeqCst) + MOST_WAITING && !stop.load(SeqCst) {
                    std::thread::yield_now();
                }
            }
            queued
        })
    };
    for _ in 0..5 {
        runtime.set_usable(one.clone()).unwrap();
        assert_eq!(runtime.usable(), one);
        queue.flush().unwrap();
        assert_eq!(cpus_of(&queue), one);
        assert_eq!(cpus_of(&masked), one, "its CPUs were removed, so it uses all others");
        assert_eq!(queue.stats().pools.len(), 1, "pods are computed anew");
        runtime.set_usable(all.clone()).unwrap();
        queue.flush().unwrap();
        assert_eq!(cpus_of(&masked), last, "its mask is in force again");
        assert_eq!(queue.stats().pools.len(), all.len());
    }
    stop.store(true, SeqCst);
    let queued: usize = producer.join().unwrap();
    queue.drain().unwrap();
    assert_eq!(ran.load(SeqCst), queued);

    let absent: CpuSet = [CpuId(9_999)].into_iter().collect();
    assert!(runtime.set_usable(absent).unwrap_err().to_string().contains("9999"));
    assert!(runtime.set_usable(CpuSet::new()).is_err());
    assert_eq!(runtime.usable(), all);
}

#[test]
fn a_runtime_follows_a_probe_of_the_usable_cpus() {
    let all = real_cpus();
    let one: CpuSet = all.iter().take(1).collect();
    let answer = Arc::new(Mutex::new(all.clone()));
    let probe = Arc::clone(&answer);
    let follow = move || {
        // As the guide says: a diagnostic handler that never returns does not delay it.
        assert_eq!(std::thread::current().name(), Some("cs-background"));
        Some(probe.lock().unwrap().clone())
    };
    let runtime = builder().follow_cpus(follow).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).strict(true).build().unwrap();
    assert_eq!(cpus_of(&queue), all);
    *answer.lock().unwrap() = one.clone();
    wait_until("the queue has moved", || cpus_of(&queue) == one);
}

/// Items that wait for one another without saying so: without a monitor this never ends.
fn has_a_monitor(queue: &Workqueue<Host>) {
    let items = queue.stats().total().worker_limit + 2;
    let (arrive, arrived) = mpsc::channel();
    let mut releases = Vec::new();
    for _ in 0..items {
        let (arrive, (release, released)) = (arrive.clone(), mpsc::channel::<()>());
        releases.push(release);
        // One long wait: a thread that wakes every millisecond on a busy machine mostly waits for a CPU.
        let wait = move || {
            arrive.send(()).unwrap();
            let _ = released.recv();
        };
        queue.queue(wait).unwrap();
    }
    let all = (0..items).all(|_| arrived.recv_timeout(NEVER / 10).is_ok());
    let at = queue.stats();
    drop(releases);
    assert!(all, "the monitor does not check whether workers wait: {at:#?}");
    queue.drain().unwrap();
}

/// User code that panics or never returns does not stop the monitor.
#[test]
fn a_probe_that_panics_ends_nothing_and_is_asked_again() {
    let all = real_cpus();
    let one: CpuSet = all.iter().take(1).collect();
    let (asked, answer) = (Arc::new(AtomicUsize::new(0)), one.clone());
    let count = Arc::clone(&asked);
    let probe = move || {
        if count.fetch_add(1, SeqCst) < 2 {
            std::panic::resume_unwind(Box::new("a probe's panic"));
        }
        Some(answer.clone())
    };
    let runtime = builder().follow_cpus(probe).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).strict(true).build().unwrap();
    let work = || queue.submit(|| ()).unwrap().join().unwrap();
    wait_until("it was asked", || {
        work();
        asked.load(SeqCst) >= 2
    });
    has_a_monitor(&queue);
    wait_until("its answer is followed", || cpus_of(&queue) == one);
}

#[test]
fn a_probe_that_never_answers_keeps_nobody_waiting() {
    let (release, released) = mpsc::channel::<()>();
    let (asked, released) = (Arc::new(AtomicBool::new(false)), Mutex::new(released));
    let mark = Arc::clone(&asked);
    let probe = move || {
        mark.store(true, SeqCst);
        let _ = released.lock().unwrap().recv_timeout(NEVER);
        None
    };
    let runtime = builder().follow_cpus(probe).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    wait_until("it is asked", || {
        queue.submit(|| ()).unwrap().join().unwrap();
        asked.load(SeqCst)
    });
    has_a_monitor(&queue);
    drop(release);
}

#[test]
fn a_handler_that_never_returns_keeps_nobody_waiting() {
    let (release, released) = mpsc::channel::<()>();
    let (told, released) = (Arc::new(AtomicBool::new(false)), Mutex::new(released));
    let mark = Arc::clone(&told);
    let handler = move |_: &Diagnostic| {
        mark.store(true, SeqCst);
        let _ = released.lock().unwrap().recv_timeout(NEVER);
    };
    let builder = builder().stall_after(Duration::from_millis(10)).on_diagnostic(handler);
    // A few more than may run: they wait for one another, so the monitor has to notice it.
    let most = real_cpus().len() + 6;
    let runtime = builder.max_workers_per_pool(most).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let stop = queue_waits(&queue, most);
    let behind = queue.submit(|| 7).unwrap();
    wait_until("the handler is called", || told.load(SeqCst));
    stop.store(true, SeqCst);
    assert_eq!(behind.join().unwrap(), 7);
    has_a_monitor(&queue);
    drop(release);
}

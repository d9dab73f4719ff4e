//! Thread starts that fail at critical moments: every accepted item runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use coreshard_platform::{Faulty, Host, Platform};
use coreshard_topology::{CpuSet, Scope, Topology, Usable};
use coreshard_workqueue::{Intake, Runtime, RuntimeBuilder, Wake, Workqueue, blocking, join};
use testing::{NEVER, wait_until, within};

/// A runtime of one CPU, so that one worker may run.
fn one_cpu<P: Platform>() -> RuntimeBuilder<P> {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap().cpus().clone();
    let first: CpuSet = usable.iter().take(1).collect();
    Runtime::builder(topology).usable(first)
}

/// Each combination of intake and wake policy.
fn rungs() -> impl Iterator<Item = (Intake, Wake)> {
    Intake::ALL.into_iter().flat_map(|intake| Wake::ALL.into_iter().map(move |wake| (intake, wake)))
}

fn queue<P: Platform>(runtime: &Runtime<P>, (intake, wake): (Intake, Wake)) -> Workqueue<P> {
    runtime.workqueue().scope(Scope::System).intake(intake).wake(wake).build().unwrap()
}

/// Lets a test decide which thread starts fail.
#[derive(Clone, Default)]
struct Control {
    /// No worker start succeeds any more.
    refuse: Arc<AtomicBool>,
    /// Starts that were requested since.
    asked: Arc<AtomicUsize>,
    /// A start on the monitor's thread waits until this is set, and then fails.
    hold: Arc<AtomicBool>,
    held: Arc<AtomicUsize>,
}

impl Control {
    fn faults(&self) -> coreshard_platform::Faults {
        let control = self.clone();
        Faulty::decide(move |_| {
            if !control.refuse.load(SeqCst) {
                return Ok(());
            }
            control.asked.fetch_add(1, SeqCst);
            if std::thread::current().name() == Some("cs-monitor") && control.hold.load(SeqCst) {
                control.held.fetch_add(1, SeqCst);
                let since = Instant::now();
                while control.hold.load(SeqCst) && since.elapsed() < NEVER {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Err(Faulty::refusal())
        })
    }
}

/// A worker returns from a declared or presumed wait while the monitor starts a replacement. It finds the pool full and
/// parks. Then the start fails.
fn lies_down_for_a_stand_in_that_never_comes(is_told: bool) {
    for rung in rungs() {
        let control = Control::default();
        let faults = control.faults();
        let runtime = one_cpu::<Faulty>().build().unwrap();
        let queue = queue(&runtime, rung);
        control.hold.store(true, SeqCst);
        control.refuse.store(true, SeqCst);
        let (release, released) = mpsc::channel::<()>();
        let wait = move || released.recv_timeout(NEVER).unwrap();
        let waits =
            queue.submit(move || if is_told { blocking::<Faulty, _>(wait) } else { wait() });
        let behind = queue.submit(|| 7).unwrap();
        wait_until("the monitor starts a replacement", || control.held.load(SeqCst) == 1);
        release.send(()).unwrap();
        waits.unwrap().join().unwrap();
        wait_until("the worker parks", || queue.stats().total().idle_workers == 1);
        control.hold.store(false, SeqCst);
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(behind.join().unwrap()));
        assert_eq!(told.recv_timeout(NEVER), Ok(7), "{rung:?}: the item behind is stranded");
        assert_eq!(queue.submit(|| 8).unwrap().join().unwrap(), 8, "and the pool continues");
        drop(queue);
        drop(faults);
    }
}

#[test]
fn a_worker_that_comes_back_while_its_stand_in_fails_to_start_goes_on() {
    within(2 * NEVER, || lies_down_for_a_stand_in_that_never_comes(true));
}

#[test]
fn a_presumed_worker_that_comes_back_while_its_stand_in_fails_to_start_goes_on() {
    within(2 * NEVER, || lies_down_for_a_stand_in_that_never_comes(false));
}

/// All workers block, none can be started, and no item waits. The monitor must keep looking nevertheless, so that a worker is
/// available for the next item.
#[test]
fn an_item_that_comes_while_no_worker_can_be_had_runs_when_one_can() {
    within(2 * NEVER, all_block_and_none_can_be_had);
}

fn all_block_and_none_can_be_had() {
    for rung in rungs() {
        let control = Control::default();
        let faults = control.faults();
        let runtime = one_cpu::<Faulty>().build().unwrap();
        let queue = queue(&runtime, rung);
        control.refuse.store(true, SeqCst);
        let (release, released) = mpsc::channel::<()>();
        let blocks =
            queue.submit(move || blocking::<Faulty, _>(|| released.recv_timeout(NEVER))).unwrap();
        wait_until("a start has failed", || queue.stats().total().failed_worker_starts > 0);
        // Long enough for the monitor to fall asleep.
        std::thread::sleep(Duration::from_millis(40));
        let release_it = queue.submit(move || release.send(()).unwrap()).unwrap();
        control.refuse.store(false, SeqCst);
        assert_eq!(blocks.join().unwrap(), Ok(()), "{rung:?}: the item is stranded");
        release_it.join().unwrap();
        drop(queue);
        drop(faults);
    }
}

/// One worker in all, and a rescuer. The worker returns while the rescuer works, and parks. When the rescuer stands by again,
/// a worker must be designated for the next item.
#[test]
fn a_reserve_that_stands_by_leaves_somebody_who_is_told() {
    within(2 * NEVER, the_reserve_stands_by);
}

fn the_reserve_stands_by() {
    for (intake, wake) in rungs() {
        for round in 0..30 {
            let runtime = one_cpu::<Host>().max_workers(1).build().unwrap();
            let builder = runtime.workqueue().scope(Scope::System).intake(intake).wake(wake);
            let queue = builder.rescuer(true).build().unwrap();
            for _ in 0..3 {
                let (tell, told) = mpsc::channel();
                let wait = move || blocking::<Host, _>(|| told.recv_timeout(NEVER));
                let first = queue.submit(wait).unwrap();
                queue.queue(move || tell.send(7).unwrap()).unwrap();
                let (tell, told) = mpsc::channel();
                std::thread::spawn(move || tell.send(first.join().unwrap()));
                let outcome = told.recv_timeout(NEVER);
                assert_eq!(outcome, Ok(Ok(7)), "{intake} {wake}, round {round}: stranded");
            }
        }
    }
}

/// A queue is not built if the monitor or the first worker cannot be started. It is built when threads can be started again.
#[test]
fn a_queue_whose_threads_cannot_be_had_is_not_made_and_says_which() {
    for (number, thread) in [(1, "cs-monitor"), (2, "cs-sys0:0")] {
        let faults = Faulty::fail_starts(move |start| start == number);
        let runtime = one_cpu::<Faulty>().build().unwrap();
        let error = runtime.workqueue().scope(Scope::System).build().unwrap_err().to_string();
        assert!(error.contains(thread), "{error}");
        let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
        assert_eq!(queue.submit(|| 4).unwrap().join().unwrap(), 4);
        drop(queue);
        drop(faults);
    }
}

fn sum(from: u64, to: u64) -> u64 {
    if to - from <= 4 {
        return (from..to).sum();
    }
    let middle = from.midpoint(to);
    let (one, other) = join::<Faulty, _, _>(|| sum(from, middle), || sum(middle, to));
    one + other
}

/// Declared and undeclared waits for later items; forks; and workers that exit.
fn mixed_load(queue: &Workqueue<Faulty>) {
    let mut handles = Vec::new();
    for round in 0..6 {
        let (tell, told) = mpsc::channel();
        let wait = move || told.recv_timeout(NEVER).unwrap();
        let is_told = round % 3 > 0;
        let waits = move || if is_told { blocking::<Faulty, _>(wait) } else { wait() };
        handles.push(queue.submit(waits).unwrap());
        handles.push(queue.submit(|| assert_eq!(sum(0, 300), 44_850)).unwrap());
        handles.push(queue.submit(move || tell.send(()).unwrap()).unwrap());
        if round % 2 > 0 {
            std::thread::sleep(Duration::from_micros(1_500));
        }
    }
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

/// Fails one start, each of the first ones in turn; then three in a row.
fn each_start_fails_in_turn() {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap().cpus().clone();
    for (at, (intake, wake)) in rungs().enumerate() {
        for first in 1..=24 {
            let last = first + if at % 2 == 0 { 0 } else { 2 };
            let faults = Faulty::fail_starts(move |start| (first..=last).contains(&start));
            let builder = match first % 2 {
                0 => one_cpu(),
                _ => Runtime::<Faulty>::builder(topology.clone()).usable(usable.clone()),
            };
            let runtime = builder.idle_timeout(Duration::from_millis(1)).build().unwrap();
            let builder = runtime.workqueue().scope(Scope::System).intake(intake).wake(wake);
            let Ok(queue) = builder.rescuer(first % 3 == 0).build() else {
                assert!(first <= 3, "start {first} failed the build");
                continue;
            };
            mixed_load(&queue);
            drop(queue);
            drop(faults);
        }
    }
}

#[test]
fn whichever_start_fails_every_item_runs() {
    within(2 * NEVER, each_start_fails_in_turn);
}

#[test]
fn a_sleep_wakes_another_executor_where_no_thread_can_be_had_for_that() {
    let faults = Faulty::decide(|start| match start.spec.name.as_str() {
        "cs-callbacks" => Err(Faulty::refusal()),
        _ => Ok(()),
    });
    let runtime = one_cpu::<Faulty>().build().unwrap();
    let sleep = runtime.sleep(Duration::from_millis(1)).unwrap();
    let (tell, told) = mpsc::channel();
    // Not joined: it would not end.
    std::thread::spawn(move || {
        futures_lite::future::block_on(sleep);
        tell.send(())
    });
    assert!(told.recv_timeout(NEVER).is_ok(), "the sleeper was woken");
    drop(runtime);
    drop(faults);
}

//! A process that is forked under load: the child gets typed errors and does not hang, and the parent is
//! not affected.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{Topology, Usable};
use coreshard_workqueue::{
    Forked, JoinSet, RefusedReason, Runtime, Task, Work, WorkErrorReason, Workqueue, blocking, join,
};
use testing::{Lack, NEVER, Side, end, fork, forked, skip};

fn runtime() -> Runtime<Host> {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap();
    Runtime::builder(topology).usable(usable.cpus().clone()).build().unwrap()
}

/// Whether a forked process can start threads if the parent had threads older and younger than the one that forked: not
/// every emulator allows it.
fn forked_processes_have_threads() -> bool {
    let (stop, stopped) = mpsc::channel::<()>();
    let younger = std::thread::spawn(move || stopped.recv().unwrap_err());
    let outcome = forked(|| std::thread::spawn(|| ()).join().map_err(|_| "it panicked"));
    drop(stop);
    younger.join().unwrap();
    outcome.is_ok()
}

/// Checks each guarantee in the child.
fn in_the_child(
    queue: Workqueue<Host>,
    handle: coreshard_workqueue::JoinHandle<(), Host>,
    running: &Work<Host>,
    waiting: &Work<Host>,
    old: &Runtime<Host>,
) -> Result<(), &'static str> {
    let expect = |holds: bool, what| if holds { Ok(()) } else { Err(what) };
    let forked = WorkErrorReason::Refused(RefusedReason::Forked);
    let refused = queue.queue(|| ()).map_err(|refused| refused.reason());
    expect(refused == Err(RefusedReason::Forked), "queue")?;
    let payload = handle.join().unwrap_err().into_payload();
    expect(payload.is::<Forked>(), "join")?;
    expect(queue.drain().is_err_and(|error| error.is_forked()), "drain")?;
    expect(queue.flush().is_err_and(|error| error.is_forked()), "flush")?;
    expect(queue.change().max_active(3).apply().is_err(), "change")?;
    expect(queue.freeze().is_err(), "freeze")?;
    expect(queue.shutdown(NEVER).is_err_and(|error| error.is_forked()), "shutdown")?;
    expect(old.workqueue().build().is_err(), "a new queue on the old runtime")?;
    expect(running.flush().is_err_and(|error| error.reason() == forked), "flush of an item")?;
    expect(running.cancel_and_wait().is_err(), "a cancel that waits")?;
    expect(waiting.queue(&queue).is_err_and(|error| error.reason() == forked), "pending")?;
    let fresh = Work::new(|_| ());
    expect(fresh.queue(&queue).is_err_and(|error| error.reason() == forked), "an item")?;
    expect(fresh.queue_after(&queue, NEVER).is_err(), "a delay")?;
    let _ = (queue.stats(), format!("{queue:?}"), old.usable(), old.delayed_items());
    expect(old.set_usable(old.usable()).is_err(), "other CPUs")?;
    waiting.cancel();
    drop(queue);
    // And a new runtime in the child works, with the same items.
    let own = runtime();
    let queue = own.workqueue().build().map_err(|_| "no queue in the child")?;
    expect(queue.submit(|| 7).is_ok_and(|handle| handle.join().is_ok_and(|n| n == 7)), "own")?;
    expect(fresh.queue(&queue).is_ok_and(|queued| queued), "an item on the child's queue")?;
    expect(fresh.flush().is_ok(), "its flush")?;
    expect(queue.drain().is_ok(), "a drain in the child")?;
    drop(queue);
    Ok(())
}

#[test]
fn a_forked_child_gets_errors_and_hangs_nowhere() {
    testing::own_process!();
    if !forked_processes_have_threads() {
        return skip(Lack::ForkedThreads, "no thread can be started");
    }
    let runtime = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let (queue, ran) = (runtime.workqueue().build().unwrap(), Arc::new(AtomicU64::new(0)));
    // Other threads queue all the time, so that locks are held at the fork.
    let busy: Vec<_> = (0..2)
        .map(|_| {
            let (queue, stop, ran) = (queue.clone(), Arc::clone(&stop), Arc::clone(&ran));
            std::thread::spawn(move || {
                let mut queued = 0_u64;
                while !stop.load(SeqCst) {
                    let ran = Arc::clone(&ran);
                    let run = move || {
                        ran.fetch_add(1, SeqCst);
                    };
                    queue.queue(run).unwrap();
                    queued += 1;
                    if queued.is_multiple_of(64) {
                        queue.flush().unwrap();
                    }
                }
                queued
            })
        })
        .collect();
    for _ in 0..20 {
        let release = Arc::new(AtomicBool::new(false));
        let hold = |release: &Arc<AtomicBool>| {
            let release = Arc::clone(release);
            move || {
                while !release.load(SeqCst) {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        };
        let handle = queue.submit(hold(&release)).unwrap();
        let inside = hold(&release);
        let running = Work::new(move |_| inside());
        running.queue(&queue).unwrap();
        while !running.is_running() {
            std::thread::yield_now();
        }
        let waiting = Work::new(|_| ());
        waiting.queue_after(&queue, NEVER * 60).unwrap();
        let mut child = Some((queue.clone(), handle));
        let outcome = forked(|| {
            let (queue, handle) = child.take().expect("the child has its copy");
            in_the_child(queue, handle, &running, &waiting, &runtime)
        });
        // The parent is not affected.
        release.store(true, SeqCst);
        outcome.unwrap();
        child.take().expect("the parent has its own").1.join().unwrap();
        assert!(waiting.cancel());
        running.flush().unwrap();
    }
    stop.store(true, SeqCst);
    let queued: u64 = busy.into_iter().map(|thread| thread.join().unwrap()).sum();
    queue.drain().unwrap();
    assert_eq!(ran.load(SeqCst), queued, "nothing is lost in the parent");
}

/// Calls `test` on a worker while other threads queue, so that the pool's locks are held when it forks.
fn inside_an_item(test: impl Fn() + Send + Sync) {
    let (runtime, stop) = (runtime(), AtomicBool::new(false));
    let queue = runtime.workqueue().build().unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(SeqCst) {
                (0..64).for_each(|_| queue.queue(|| ()).unwrap());
                queue.flush().unwrap();
            }
        });
        (0..10).for_each(|_| queue.install(&test).unwrap());
        stop.store(true, SeqCst);
    });
    assert_eq!(queue.install(|| join::<Host, _, _>(|| 1, || 2)).unwrap(), (1, 2), "all is well");
    queue.drain().unwrap();
}

#[test]
fn a_join_in_a_process_that_was_forked_inside_an_item_is_two_calls() {
    testing::own_process!();
    inside_an_item(|| {
        let outcome = forked(|| {
            let here = std::thread::current().id();
            let ids = join::<Host, _, _>(
                || std::thread::current().id(),
                || blocking::<Host, _>(|| std::thread::current().id()),
            );
            if ids == (here, here) { Ok(()) } else { Err("on another thread") }
        });
        outcome.unwrap();
    });
}

#[test]
fn a_join_whose_second_half_is_in_the_other_process_throws_in_the_child() {
    testing::own_process!();
    inside_an_item(|| {
        let (began, has_forked) = (AtomicBool::new(false), AtomicBool::new(false));
        // Locked by the forking thread only: in the child, no thread would unlock it for the thief.
        let side = Mutex::new(None);
        let halves = || {
            join::<Host, _, _>(
                || {
                    while !began.load(SeqCst) {
                        std::thread::yield_now();
                    }
                    *side.lock().unwrap() = Some(fork());
                    has_forked.store(true, SeqCst);
                },
                || {
                    began.store(true, SeqCst);
                    // Does not finish before the fork.
                    while !has_forked.load(SeqCst) {
                        std::thread::yield_now();
                    }
                },
            )
        };
        // The panic unwinds the joins around it, and they do not wait either.
        let outcome = catch_unwind(AssertUnwindSafe(|| join::<Host, _, _>(halves, || ())));
        match side.lock().unwrap().take().expect("it forked") {
            Side::Parent(child) => {
                outcome.expect("the parent goes on");
                child.outcome().unwrap();
            }
            Side::Child => end(match outcome {
                Err(payload) if payload.is::<Forked>() => Ok(()),
                Err(_) => Err("something else was thrown"),
                Ok(_) => Err("nothing was thrown"),
            }),
        }
    });
}

#[test]
fn a_wait_that_forks_returns_in_the_child() {
    testing::own_process!();
    inside_an_item(|| match blocking::<Host, _>(fork) {
        Side::Parent(child) => child.outcome().unwrap(),
        Side::Child => end(Ok::<(), &str>(())),
    });
}

#[test]
fn an_item_that_returns_in_a_process_that_it_forked_is_told_of_and_no_other_item_is_run() {
    testing::own_process!();
    inside_an_item(|| match fork() {
        Side::Parent(child) => child.outcome().unwrap(),
        Side::Child => std::panic::set_hook(Box::new(|panic| {
            let is_told = panic.to_string().contains("has returned in a process that it forked");
            end(if is_told { Ok(()) } else { Err("another panic was reported") });
        })),
    });
}

#[test]
fn a_sleep_in_a_forked_process_says_that_nobody_would_end_it() {
    testing::own_process!();
    let runtime = runtime();
    let mut context = Context::from_waker(Waker::noop());
    let mut asleep = pin!(runtime.sleep(NEVER).unwrap());
    assert!(asleep.as_mut().poll(&mut context).is_pending());
    let mut due = pin!(runtime.sleep(Duration::ZERO).unwrap());
    let outcome = forked(|| {
        let refused = runtime.sleep(NEVER).err().ok_or("a new sleep")?;
        if !refused.to_string().contains("this process was forked") {
            return Err("its sentence");
        }
        if due.as_mut().poll(&mut context).is_pending() {
            return Err("an expired sleep");
        }
        let polled = catch_unwind(AssertUnwindSafe(|| asleep.as_mut().poll(&mut context)));
        let payload = polled.err().ok_or("a sleep from before")?;
        let text = payload.downcast::<String>().map_err(|_| "no text")?;
        drop(runtime.sleep(NEVER));
        let _ = runtime.delayed_items();
        if text.contains("this process was forked") { Ok(()) } else { Err("its text") }
    });
    outcome.unwrap();
}

/// A task that has not begun, is inside its poll, or waits; awaited in the parent before, or not.
#[test]
fn a_task_that_is_awaited_in_a_forked_process_tells_of_it() {
    testing::own_process!();
    let runtime = runtime();
    let queue = runtime.workqueue().build().unwrap();
    let now = Context::from_waker(Waker::noop());
    let poll = |task: &mut Task<u32>| pin!(task).poll(&mut Context::from_waker(Waker::noop()));
    for is_awaited in [false, true] {
        let frozen = runtime.workqueue().build().unwrap();
        frozen.freeze().unwrap();
        let (begun, begins) = mpsc::channel();
        let (open, opened) = mpsc::channel::<()>();
        let inside = async move {
            begun.send(()).unwrap();
            blocking::<Host, _>(|| opened.recv()).unwrap();
            1
        };
        let mut tasks = vec![
            frozen.spawn(async { 1 }).unwrap(),
            queue.spawn(inside).unwrap(),
            queue.spawn(std::future::pending()).unwrap(),
        ];
        begins.recv().unwrap();
        let mut set = JoinSet::<u32, Host>::new();
        set.spawn(&queue, std::future::pending()).unwrap();
        if is_awaited {
            assert!(tasks.iter_mut().all(|task| poll(task).is_pending()));
            assert!(set.poll_join_next(&now).is_pending());
        }
        let outcome = forked(|| {
            for mut task in std::mem::take(&mut tasks) {
                let thrown = catch_unwind(AssertUnwindSafe(|| poll(&mut task)));
                if !thrown.is_err_and(|payload| payload.is::<Forked>()) {
                    return Err("it is awaited");
                }
            }
            match set.poll_join_next(&now) {
                Poll::Ready(Some(Err(error))) if error.is_forked() && set.is_empty() => Ok(()),
                _ => Err("a set's"),
            }
        });
        assert_eq!(outcome, Ok(()), "awaited before: {is_awaited}");
        open.send(()).unwrap();
        frozen.thaw().unwrap();
    }
}

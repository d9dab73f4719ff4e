//! The guarantees of cancellation, time-outs and immediate shutdown, one test for each.

use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use coreshard_platform::Host;
use coreshard_topology::{CpuSet, Scope, Topology};
use coreshard_workqueue::{
    Builder, CancellationToken, Dropped, JoinHandle, JoinSet, MissedTick, Periodic, RefusedReason,
    Runtime, Work, Workqueue, WouldDeadlock, blocking, yield_item, yield_now,
};
use futures_lite::future::block_on;
use testing::{NEVER, spin_until};

const SOON: Duration = Duration::from_millis(20);

fn runtime() -> Runtime<Host> {
    let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
    let real: CpuSet = coreshard_platform::affinity().unwrap();
    Runtime::builder(topology).laid_over(real).build().unwrap()
}

/// A queue whose items wait behind one that runs until the sender is dropped.
fn held_up(
    attributes: impl FnOnce(Builder<'_, Host>) -> Builder<'_, Host>,
) -> (Workqueue<Host>, mpsc::Sender<()>) {
    let runtime = runtime();
    let queue = attributes(runtime.workqueue().scope(Scope::System)).build().unwrap();
    let (open, opened) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    queue
        .queue(move || {
            begun.send(()).unwrap();
            let _closed = opened.recv();
        })
        .unwrap();
    begins.recv().unwrap();
    (queue, open)
}

fn ordered() -> (Workqueue<Host>, mpsc::Sender<()>) {
    held_up(|builder| builder.ordered())
}

fn counting(count: &Arc<AtomicUsize>) -> impl FnOnce() -> usize + Send + 'static {
    let count = Arc::clone(count);
    move || count.fetch_add(1, SeqCst) + 1
}

#[test]
fn what_has_not_begun_comes_back_from_a_cancel_and_never_runs_on_the_queue() {
    let (queue, open) = ordered();
    let count = Arc::new(AtomicUsize::new(0));
    let kept = queue.submit(counting(&count)).unwrap().cancel().unwrap();
    drop(queue.submit(counting(&count)).unwrap().cancel().unwrap());
    assert_eq!(Arc::strong_count(&count), 2, "the captures of the dropped item are dropped");
    drop(open);
    queue.drain().unwrap();
    assert_eq!(count.load(SeqCst), 0);
    assert_eq!((kept.run(), count.load(SeqCst)), (1, 1));
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn what_has_begun_or_is_over_is_not_cancelled() {
    let queue = runtime().workqueue().build().unwrap();
    let (open, opened) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let handle = queue
        .submit(move || {
            begun.send(()).unwrap();
            let _closed = opened.recv();
            7
        })
        .unwrap();
    begins.recv().unwrap();
    let handle = handle.cancel().unwrap_err();
    drop(open);
    spin_until(|| handle.is_finished());
    assert_eq!(handle.cancel().unwrap_err().join().unwrap(), 7);
}

#[test]
fn a_join_with_a_timeout_gives_the_handle_back() {
    let (queue, open) = ordered();
    let handle = queue.submit(|| 7).unwrap();
    let begun = Instant::now();
    let handle = handle.join_timeout(SOON).unwrap_err();
    assert!(begun.elapsed() >= SOON);
    let handle = handle.join_timeout(Duration::ZERO).unwrap_err();
    drop(open);
    assert_eq!(handle.join_timeout(NEVER).unwrap().unwrap(), 7);
    let handle = queue.submit(|| panic!("told")).unwrap();
    let outcome: Result<(), _> = handle.join_timeout(Duration::MAX).unwrap();
    assert_eq!(outcome.unwrap_err().message(), "told");
}

#[test]
fn a_join_with_a_timeout_that_could_never_end_says_so() {
    let queue = runtime().workqueue().ordered().build().unwrap();
    let inner = queue.clone();
    let told = queue.submit(move || {
        let behind = inner.submit(|| ()).unwrap();
        behind.join_timeout(NEVER).unwrap().unwrap_err().into_payload().is::<WouldDeadlock>()
    });
    assert!(told.unwrap().join().unwrap());
}

#[test]
fn a_handle_is_a_future() {
    let queue = runtime().workqueue().build().unwrap();
    assert_eq!(block_on(queue.submit(|| 7).unwrap()).unwrap(), 7);
    let panic = block_on(queue.submit(|| panic!("told")).unwrap());
    let panic = Result::<(), coreshard_workqueue::Panic>::unwrap_err(panic);
    assert_eq!(panic.message(), "told");
    // In tasks: many can wait on few workers.
    let other = queue.clone();
    let task = queue.spawn(async move {
        let mut sum = 0;
        for number in 0..100 {
            sum += other.submit(move || number).unwrap().await.unwrap();
        }
        sum
    });
    assert_eq!(block_on(task.unwrap()), 4950);
}

#[test]
fn a_handle_that_was_polled_may_be_joined_cancelled_or_dropped() {
    let waker = Arc::new(CountWakes::default());
    let (queue, open) = ordered();
    let submit = || queue.submit(|| 7).unwrap();
    let poll = |handle: &mut JoinHandle<i32, Host>| {
        let own = Waker::from(Arc::clone(&waker));
        assert!(std::pin::Pin::new(handle).poll(&mut Context::from_waker(&own)).is_pending());
    };
    let (mut joined, mut cancelled, mut dropped) = (submit(), submit(), submit());
    let mut timed = submit();
    for handle in [&mut joined, &mut cancelled, &mut dropped, &mut timed] {
        poll(handle);
        poll(handle);
    }
    drop(cancelled.cancel().unwrap());
    drop(dropped);
    let timed = timed.join_timeout(Duration::ZERO).unwrap_err();
    // Each has dropped its waker.
    assert_eq!(Arc::strong_count(&waker), 2);
    drop(open);
    assert_eq!((joined.join().unwrap(), timed.join().unwrap()), (7, 7));
    queue.drain().unwrap();
    // Only the one that was not joined before it had finished may have woken it.
    assert!(waker.0.load(SeqCst) <= 1);
    assert_eq!(Arc::strong_count(&waker), 1);
}

#[derive(Default)]
struct CountWakes(AtomicUsize);

impl std::task::Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_result_that_was_taken_is_not_there_again() {
    let queue = runtime().workqueue().build().unwrap();
    let mut handle = queue.submit(|| 7).unwrap();
    assert_eq!(block_on(&mut handle).unwrap(), 7);
    let again = catch_unwind(AssertUnwindSafe(|| handle.join()));
    assert!(again.is_err());
}

#[test]
fn a_task_says_why_it_has_no_value() {
    let queue = runtime().workqueue().build().unwrap();
    assert_eq!(block_on(queue.spawn(async { 7 }).unwrap().result()).unwrap(), 7);

    let aborted = queue.spawn(pending::<()>()).unwrap();
    aborted.abort();
    let error = block_on(aborted.result()).unwrap_err();
    assert!(error.is_cancelled() && !error.is_panic() && !error.is_queue_gone(), "{error}");

    let panicked = queue.spawn(async { panic!("told") }).unwrap();
    let error = block_on(panicked.result()).unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("told"), "{error}");
    assert_eq!(error.into_panic().unwrap().message(), "told");

    let left: Arc<std::sync::Mutex<Option<Waker>>> = Arc::default();
    let leaves = Arc::clone(&left);
    let waiting = queue
        .spawn(poll_fn(move |context| {
            *leaves.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        }))
        .unwrap();
    spin_until(|| left.lock().unwrap().is_some());
    queue.shutdown(NEVER).unwrap();
    let waker = left.lock().unwrap().take().unwrap();
    waker.wake();
    let error = block_on(waiting.result()).unwrap_err();
    assert!(error.is_queue_gone(), "{error}");
}

#[test]
fn an_abort_handle_outlives_the_task_and_its_queue() {
    let (task, queue) = {
        let queue = runtime().workqueue().build().unwrap();
        (queue.spawn(pending::<()>()).unwrap(), queue)
    };
    let abort = task.abort_handle();
    let other = abort.clone();
    task.detach();
    assert!(!abort.is_finished());
    other.abort();
    spin_until(|| abort.is_finished());
    drop(queue);
    abort.abort();
}

#[test]
fn a_set_yields_each_task_once_and_drops_what_is_left() {
    let queue = runtime().workqueue().build().unwrap();
    let mut set = JoinSet::new();
    assert!(block_on(set.join_next()).is_none());
    for number in 0..100 {
        let future = async move {
            for _ in 0..number % 3 {
                yield_now().await;
            }
            number
        };
        set.spawn(&queue, future).unwrap();
    }
    assert_eq!(set.len(), 100);
    let mut seen: Vec<i32> = Vec::new();
    while let Some(ended) = block_on(set.join_next()) {
        seen.push(ended.unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());

    let abort = set.spawn(&queue, pending()).unwrap();
    set.spawn(&queue, pending()).unwrap();
    abort.abort();
    assert!(block_on(set.join_next()).unwrap().unwrap_err().is_cancelled());
    set.abort_all();
    assert!(block_on(set.join_next()).unwrap().unwrap_err().is_cancelled());
    let held = Arc::new(());
    let mine = Arc::clone(&held);
    let future = async move {
        let _mine = mine;
        pending().await
    };
    set.spawn(&queue, future).unwrap();
    drop(set);
    spin_until(|| Arc::strong_count(&held) == 1);
}

#[test]
fn a_token_is_cancelled_from_above_one_that_is_gone() {
    let service = CancellationToken::<Host>::new();
    let part = service.child_token().child_token().child_token();
    let deep = (0..200_000).fold(service.child_token(), |token, _| token.child_token());
    let alone = service.child_token().child_token();
    drop(deep.child_token());
    let waits = part.cancelled();
    assert!(!part.is_cancelled());
    service.cancel();
    assert!(part.is_cancelled() && deep.is_cancelled() && alone.is_cancelled());
    block_on(waits);
    // The drop is not recursive.
    drop((service, deep));
    drop((0..200_000).fold(CancellationToken::<Host>::new(), |token, _| token.child_token()));
}

#[test]
fn a_token_reaches_all_below_it_and_none_beside() {
    let token = CancellationToken::<Host>::new();
    let (child, other) = (token.child_token(), token.child_token());
    let grandchild = child.child_token();
    let queue = runtime().workqueue().build().unwrap();
    let waiting = grandchild.clone();
    let task = queue.spawn(async move { waiting.cancelled().await }).unwrap();
    for _ in 0..1_000 {
        drop(child.child_token());
    }
    child.cancel();
    block_on(task);
    assert!(grandchild.is_cancelled() && !other.is_cancelled() && !token.is_cancelled());
    assert_eq!(block_on(other.run_until_cancelled(async { 7 })), Some(7));
    token.cancel();
    assert_eq!(block_on(other.run_until_cancelled(pending::<()>())), None);
}

#[test]
fn a_future_is_given_so_long() {
    let runtime = runtime();
    let begun = Instant::now();
    let elapsed = block_on(runtime.timeout(SOON, pending::<()>()).unwrap()).unwrap_err();
    assert!(elapsed.after() == SOON && begun.elapsed() >= SOON);
    assert_eq!(block_on(runtime.timeout(Duration::MAX, async { 7 }).unwrap()).unwrap(), 7);
    let (queue, open) = ordered();
    let handle = queue.submit(|| 7).unwrap();
    assert!(block_on(runtime.timeout(SOON, handle).unwrap()).is_err());
    drop(open);
}

#[test]
fn a_flush_or_drain_whose_time_is_over_leaves_the_queue_open() {
    let (queue, open) = held_up(|builder| builder);
    let error = queue.flush_timeout(SOON).unwrap_err();
    assert!(error.is_timeout() && error.in_flight() == 1, "{error}");
    assert!(queue.drain_timeout(SOON).unwrap_err().is_timeout());
    let handle = queue.submit(|| 7).unwrap();
    drop(open);
    assert_eq!(handle.join().unwrap(), 7);
    queue.flush_timeout(NEVER).unwrap();
    queue.drain_timeout(NEVER).unwrap();
    let inner = queue.clone();
    let inside = queue.submit(move || inner.flush_timeout(NEVER).unwrap_err().is_timeout());
    assert!(!inside.unwrap().join().unwrap());
}

/// Items in the limiter, in the intake and in a worker's claim.
#[test]
fn a_shutdown_at_once_hands_back_what_has_not_begun() {
    let ways: [fn(Builder<'_, Host>) -> Builder<'_, Host>; 4] = [
        |it| it,
        |it| it.ordered(),
        |it| it.max_active(1),
        |it| it.times(coreshard_workqueue::Sampling::one_in(1)),
    ];
    for way in ways {
        let (queue, open) = held_up(way);
        let count = Arc::new(AtomicUsize::new(0));
        // Both workers are busy: these wait.
        let (second, opened) = mpsc::channel::<()>();
        queue.queue(move || _ = opened.recv()).unwrap();
        for _ in 0..100 {
            let count = counting(&count);
            queue.queue(move || _ = count()).unwrap();
        }
        let run = queue.submit(counting(&count)).unwrap();
        let dropped = queue.submit(counting(&count)).unwrap();
        let cancelled = queue.submit(counting(&count)).unwrap().cancel();
        // Items that began before the shutdown have run; the others are returned.
        let closer = queue.clone();
        let shutdown = std::thread::spawn(move || closer.shutdown_now(NEVER));
        while queue.queue(|| ()).is_ok() {
            std::thread::yield_now();
        }
        drop((open, second));
        let mut backlog = shutdown.join().unwrap();
        assert_eq!(backlog.in_flight(), 0);
        assert_eq!(queue.queue(|| ()).unwrap_err().reason(), RefusedReason::ShutDown);
        drop(cancelled);
        drop(run);
        drop(backlog.next());
        backlog.for_each(|item| item.run());
        let told = dropped.join();
        assert!(told.is_ok() || told.unwrap_err().into_payload().is::<Dropped>());
        drop(queue);
        assert_eq!(Arc::strong_count(&count), 1);
    }
}

#[test]
fn what_is_dropped_of_a_backlog_says_so() {
    let (queue, open) = ordered();
    let count = Arc::new(AtomicUsize::new(0));
    let (run, dropped, unasked) = (
        queue.submit(counting(&count)).unwrap(),
        queue.submit(counting(&count)).unwrap(),
        queue.submit(counting(&count)).unwrap(),
    );
    let mut backlog = queue.shutdown_now(Duration::ZERO);
    assert_eq!((backlog.len(), backlog.in_flight()), (3, 1));
    backlog.next().unwrap().run();
    assert_eq!(run.join().unwrap(), 1);
    drop(backlog.next());
    let told = block_on(dropped).unwrap_err();
    assert!(told.to_string().contains("dropped"), "{told}");
    drop(backlog);
    assert!(unasked.join().unwrap_err().into_payload().is::<Dropped>());
    drop(open);
    assert_eq!(queue.shutdown_now(NEVER).in_flight(), 0);
    assert_eq!((count.load(SeqCst), Arc::strong_count(&count)), (1, 1));
}

/// Items that are set aside after the timeout: their handles report it although the queue still exists, and items without a
/// handle are kept for another call.
#[test]
fn what_is_set_aside_late_is_told_or_kept() {
    let (queue, open) = held_up(|builder| builder);
    let handles: Vec<_> = (0..4).map(|_| queue.submit(|| ()).unwrap()).collect();
    let kept = Arc::new(());
    let mine = Arc::clone(&kept);
    queue.queue(move || drop(mine)).unwrap();
    let backlog = queue.shutdown_now(Duration::ZERO);
    assert!(backlog.in_flight() > 0);
    drop((backlog, open));
    for handle in handles {
        let told = handle.join();
        assert!(told.is_ok() || told.unwrap_err().into_payload().is::<Dropped>());
    }
    let backlog = queue.shutdown_now(NEVER);
    assert_eq!(backlog.in_flight(), 0);
    drop(backlog);
    assert_eq!(Arc::strong_count(&kept), 1, "it has run, or was returned");
}

/// Items that were set aside after the timeout, and that no call collects, are dropped with the queue.
#[test]
fn a_backlog_that_nobody_asks_for_is_dropped_with_the_queue() {
    let (queue, open) = held_up(|builder| builder);
    let (second, opened) = mpsc::channel::<()>();
    queue.queue(move || _ = opened.recv()).unwrap();
    let handle = queue.submit(|| ()).unwrap();
    let backlog = queue.shutdown_now(Duration::ZERO);
    drop((open, second));
    drop(queue);
    drop(backlog);
    let told = handle.join();
    assert!(told.is_ok() || told.unwrap_err().into_payload().is::<Dropped>());
}

#[test]
fn a_shutdown_at_once_drops_what_sleeps_and_cancels_what_is_reusable() {
    let (queue, open) = ordered();
    let runtime = runtime();
    let held = Arc::new(());
    let futures: Vec<_> = {
        let free = runtime.workqueue().build().unwrap();
        let sleep = runtime.sleep(NEVER).unwrap();
        let mine = Arc::clone(&held);
        let sleeping = free.spawn(async move {
            sleep.await;
            drop(mine);
        });
        let mine = Arc::clone(&held);
        let waiting = free.spawn(async move {
            pending::<()>().await;
            drop(mine);
        });
        // They wait, or have not begun.
        let backlog = free.shutdown_now(NEVER);
        assert_eq!((backlog.len(), backlog.in_flight()), (0, 0));
        vec![sleeping.unwrap(), waiting.unwrap()]
    };
    spin_until(|| Arc::strong_count(&held) == 1);
    for task in futures {
        assert!(block_on(task.result()).unwrap_err().is_queue_gone());
    }
    assert_eq!(runtime.delayed_items(), 0, "the sleep was removed from the timers");

    let work = Work::<Host>::new(|_| unreachable!("it is cancelled"));
    work.queue(&queue).unwrap();
    let unbegun = queue.spawn(async { unreachable!("it is dropped") }).unwrap();
    let backlog = queue.shutdown_now(Duration::ZERO);
    assert_eq!((backlog.len(), backlog.in_flight()), (0, 1));
    assert!(!work.is_pending());
    let ended: Result<(), _> = block_on(unbegun.result());
    assert!(ended.unwrap_err().is_queue_gone());
    drop(open);
}

/// For a whole runtime: all queues stop together, and share one timeout.
#[test]
fn a_runtime_is_shut_down_at_once() {
    let runtime = runtime();
    let ordered = runtime.workqueue().ordered().build().unwrap();
    let free = runtime.workqueue().build().unwrap();
    let (open, opened) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    ordered
        .queue(move || {
            begun.send(()).unwrap();
            _ = opened.recv();
        })
        .unwrap();
    begins.recv().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let count = counting(&count);
        ordered.queue(move || _ = count()).unwrap();
    }
    let handle = ordered.submit(counting(&count)).unwrap();
    let held = Arc::new(());
    let (sleep, mine) = (runtime.sleep(NEVER).unwrap(), Arc::clone(&held));
    let sleeping = free.spawn(async move {
        sleep.await;
        drop(mine);
    });
    let mine = Arc::clone(&held);
    let delayed = Work::<Host>::new(move |_| unreachable!("{mine:?} is cancelled"));
    delayed.queue_after(&free, NEVER).unwrap();
    let beat = Periodic::start(&ordered, NEVER, MissedTick::Skip, || ()).unwrap();
    // The future sleeps after its first poll.
    spin_until(|| runtime.delayed_items() == 3);

    let backlog = runtime.shutdown_now(Duration::ZERO);
    // A sleeping future may still be on its way to being dropped.
    assert!(backlog.len() == 4 && backlog.in_flight() >= 1, "{backlog:?}");
    spin_until(|| runtime.delayed_items() == 0);
    assert!(!delayed.is_pending() && !beat.work().is_pending());
    assert_eq!(free.queue(|| ()).unwrap_err().reason(), RefusedReason::ShutDown);
    assert!(runtime.workqueue().build().is_err());
    drop(open);
    backlog.for_each(|item| item.run());
    assert_eq!(handle.join().unwrap(), 4);
    assert!(block_on(sleeping.unwrap().result()).unwrap_err().is_queue_gone());
    drop(delayed);
    spin_until(|| Arc::strong_count(&held) == 1);
    let backlog = runtime.shutdown_now(NEVER);
    assert_eq!((backlog.len(), backlog.in_flight()), (0, 0));
}

/// Delayed items of one queue, among delayed items of others, and in several batches.
#[test]
fn what_waits_for_its_time_is_cancelled_with_its_queue_alone() {
    let runtime = runtime();
    let queues = [(); 2].map(|()| runtime.workqueue().build().unwrap());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = |_| {
        let runs = Arc::clone(&runs);
        Work::<Host>::new(move |_| _ = runs.fetch_add(1, SeqCst))
    };
    let works: Vec<_> = (0..3_000).map(counted).collect();
    for (at, work) in works.iter().enumerate() {
        work.queue_after(&queues[at % 2], NEVER).unwrap();
    }
    assert_eq!(runtime.delayed_items(), works.len());
    drop(queues[0].shutdown_now(NEVER));
    for (at, work) in works.iter().enumerate() {
        assert_eq!(work.is_pending(), at % 2 == 1);
    }
    assert_eq!(runtime.delayed_items(), works.len() / 2);
    // A cancelled item can be queued on another queue, and runs.
    works[0].queue(&queues[1]).unwrap();
    queues[1].flush().unwrap();
    assert_eq!(runs.load(SeqCst), 1);
    drop(works);
}

/// The caller of a scope has begun, and waits for the scope's items: they are run.
#[test]
fn a_scope_that_is_open_is_run_to_its_end_by_a_shutdown_at_once() {
    let queue = runtime().workqueue().max_active(1).build().unwrap();
    let count = AtomicUsize::new(0);
    let (begun, begins) = mpsc::channel();
    std::thread::scope(|threads| {
        let (queue, count) = (&queue, &count);
        threads.spawn(move || {
            queue.scope(|scope| {
                let (open, opened) = mpsc::channel::<()>();
                scope.queue(move || _ = opened.recv()).unwrap();
                for _ in 0..10 {
                    scope.queue(|| _ = count.fetch_add(1, SeqCst)).unwrap();
                }
                begun.send(open).unwrap();
            });
        });
        let open = begins.recv().unwrap();
        let backlog = queue.shutdown_now(SOON);
        assert_eq!(backlog.len(), 0);
        drop(open);
    });
    assert_eq!(count.load(SeqCst), 10);
}

#[test]
fn a_shutdown_at_once_inside_an_item_does_not_wait() {
    let queue = runtime().workqueue().ordered().build().unwrap();
    let inner = queue.clone();
    let told = queue.submit(move || {
        drop(inner.submit(|| ()).unwrap());
        let backlog = inner.shutdown_now(NEVER);
        (backlog.len(), backlog.in_flight())
    });
    assert_eq!(told.unwrap().join().unwrap(), (1, 1));
}

#[test]
fn an_item_that_yields_lets_one_that_waits_run() {
    let topology = Topology::from_synthetic("package:1 l3:1 core:1 pu:1").unwrap();
    let real: CpuSet = coreshard_platform::affinity().unwrap();
    let runtime = Runtime::<Host>::builder(topology).laid_over(real);
    let runtime = runtime.cpu_intensive_threshold(Duration::ZERO).build().unwrap();
    let queue = runtime.workqueue().build().unwrap();
    let inner = queue.clone();
    let (before, after) = queue
        .submit(move || {
            assert!(!yield_item::<Host>(), "nothing waits");
            let short = inner.submit(|| ()).unwrap();
            let before = short.is_finished();
            while !short.is_finished() {
                yield_item::<Host>();
            }
            (before, short.is_finished())
        })
        .unwrap()
        .join()
        .unwrap();
    assert_eq!((before, after), (false, true));
    assert!(!yield_item::<Host>(), "not on a worker");
    blocking::<Host, _>(|| ());
}

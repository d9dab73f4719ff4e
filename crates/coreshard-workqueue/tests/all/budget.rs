//! The budget of one poll: futures that are always ready do not keep other work waiting.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{
    CancellationToken, JoinSet, Runtime, Workqueue, consume_budget, yield_now,
};
use futures_lite::future::block_on;
use testing::{NEVER, wait_until, within};

/// A queue with one worker: an item behind a task waits for the task's poll to end.
fn queue() -> (Runtime<Host>, Workqueue<Host>) {
    let topology = Topology::from_synthetic("package:1 l3:1 core:1 pu:1").unwrap();
    let builder = Runtime::builder(topology).laid_over(affinity().unwrap());
    // No replacement for a worker with a long item.
    let builder = builder.cpu_intensive_threshold(Duration::ZERO).max_workers_per_pool(1);
    let runtime = builder.build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    (runtime, queue)
}

/// Spawns an endless loop, and returns how many rounds it makes in one poll at most.
fn spawned_rounds<F>(queue: &Workqueue<Host>, endless: impl FnOnce(Arc<AtomicUsize>) -> F) -> usize
where
    F: Future<Output = ()> + Send + 'static,
{
    let rounds = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let (counted, seen, ends) = (Arc::clone(&rounds), Arc::clone(&most), Arc::clone(&over));
    let mut future = Box::pin(endless(Arc::clone(&rounds)));
    let task = queue.spawn(poll_fn(move |context| {
        let before = counted.load(SeqCst);
        let polled = future.as_mut().poll(context);
        seen.fetch_max(counted.load(SeqCst) - before, SeqCst);
        if ends.load(SeqCst) { Poll::Ready(()) } else { polled }
    }));
    let task = task.unwrap();
    // This item gets its turn each time.
    for _ in 0..3 {
        queue.submit(|| ()).unwrap().join().unwrap();
        let now = rounds.load(SeqCst);
        wait_until("the loop continues", || rounds.load(SeqCst) > now);
    }
    over.store(true, SeqCst);
    block_on(task);
    most.load(SeqCst)
}

#[test]
fn what_is_always_ready_lets_others_go_first() {
    within(NEVER, || {
        let (_runtime, queue) = queue();
        let most = spawned_rounds(&queue, |rounds| async move {
            loop {
                consume_budget::<Host>().await;
                rounds.fetch_add(1, SeqCst);
            }
        });
        assert_eq!(most, 128);
    });
}

#[test]
fn each_future_of_the_crate_counts() {
    within(NEVER, || {
        let (runtime, queue) = queue();
        let token = CancellationToken::<Host>::new();
        token.cancel();
        let most = spawned_rounds(&queue, |rounds| async move {
            loop {
                token.cancelled().await;
                rounds.fetch_add(1, SeqCst);
            }
        });
        assert_eq!(most, 128, "a token");

        let sleeps = runtime.clone();
        let most = spawned_rounds(&queue, |rounds| async move {
            loop {
                sleeps.sleep(Duration::ZERO).unwrap().await;
                rounds.fetch_add(1, SeqCst);
            }
        });
        assert_eq!(most, 128, "a sleep");

        let other = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
        let producer = other.clone();
        let most = spawned_rounds(&queue, |rounds| async move {
            loop {
                producer.queue_async(|| ()).await.unwrap();
                rounds.fetch_add(1, SeqCst);
            }
        });
        assert_eq!(most, 128, "queue_async");

        let producer = other.clone();
        let most = spawned_rounds(&queue, |rounds| async move {
            loop {
                drop(producer.reserve_async().await.unwrap());
                rounds.fetch_add(1, SeqCst);
            }
        });
        assert_eq!(most, 128, "reserve_async");
    });
}

/// Available results of items, tasks and sets.
#[test]
fn results_that_are_there_count() {
    const RESULTS: usize = 500;
    within(NEVER, || {
        let (runtime, queue) = queue();
        let other = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
        let rounds_of = |collect: Box<dyn FnOnce(Arc<AtomicUsize>) -> _>| {
            let rounds = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&rounds);
            let most = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&most);
            let mut future: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> =
                collect(Arc::clone(&rounds));
            let task = queue.spawn(poll_fn(move |context| {
                let before = counted.load(SeqCst);
                let polled = future.as_mut().poll(context);
                seen.fetch_max(counted.load(SeqCst) - before, SeqCst);
                polled
            }));
            block_on(task.unwrap());
            assert_eq!(rounds.load(SeqCst), RESULTS);
            most.load(SeqCst)
        };
        let handles: Vec<_> = (0..RESULTS).map(|_| other.submit(|| ()).unwrap()).collect();
        let tasks: Vec<_> = (0..RESULTS).map(|_| other.spawn(async {}).unwrap()).collect();
        let mut set = JoinSet::new();
        for _ in 0..RESULTS {
            set.spawn(&other, async {}).unwrap();
        }
        other.drain().unwrap();
        let of_items = rounds_of(Box::new(|rounds| {
            Box::pin(async move {
                for handle in handles {
                    handle.await.unwrap();
                    rounds.fetch_add(1, SeqCst);
                }
            })
        }));
        let of_tasks = rounds_of(Box::new(|rounds| {
            Box::pin(async move {
                for task in tasks {
                    task.await;
                    rounds.fetch_add(1, SeqCst);
                }
            })
        }));
        let of_set = rounds_of(Box::new(|rounds| {
            Box::pin(async move {
                while let Some(ended) = set.join_next().await {
                    ended.unwrap();
                    rounds.fetch_add(1, SeqCst);
                }
            })
        }));
        assert_eq!([of_items, of_tasks, of_set], [128; 3]);
    });
}

#[test]
fn a_time_limit_is_looked_at_when_nothing_is_left() {
    within(NEVER, || {
        let (runtime, queue) = queue();
        let busy = async {
            loop {
                consume_budget::<Host>().await;
            }
        };
        let limited = runtime.timeout(Duration::from_millis(5), busy).unwrap();
        assert!(block_on(queue.spawn(limited).unwrap()).is_err());
    });
}

/// `block_on` polls again at once, so a budget that only wakes the poller would make it loop forever.
#[test]
fn a_block_on_inside_a_task_ends() {
    within(NEVER, || {
        let (_runtime, queue) = queue();
        let task = queue.spawn(async {
            for _ in 0..1_000 {
                block_on(consume_budget::<Host>());
            }
            yield_now().await;
            // The next poll has a fresh budget.
            let mut polls = 0;
            while poll_once(consume_budget::<Host>()) {
                polls += 1;
            }
            polls
        });
        assert_eq!(block_on(task.unwrap()), 128);
    });
}

fn poll_once(future: impl Future<Output = ()>) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn nothing_is_counted_outside_a_task() {
    within(NEVER, || {
        let (_runtime, queue) = queue();
        assert!((0..10_000).all(|_| poll_once(consume_budget::<Host>())));
        let item = queue.submit(|| (0..10_000).all(|_| poll_once(consume_budget::<Host>())));
        assert!(item.unwrap().join().unwrap());
        // A poll that panics leaves nothing behind.
        let task = queue.spawn(async { panic!("as planned") });
        assert!(block_on(task.unwrap().result()).is_err());
        let item = queue.submit(|| (0..10_000).all(|_| poll_once(consume_budget::<Host>())));
        assert!(item.unwrap().join().unwrap());
    });
}

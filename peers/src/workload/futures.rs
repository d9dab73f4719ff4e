//! Async: the cost of tasks. `spawn`: a task spawns many and awaits all of them. `yield`: 100 tasks that
//! yield. `message`: pairs of tasks that each send the other a message and await one.

use tokio::sync::oneshot;

use crate::cell::{Cell, Measured};
use crate::measure::{Usage, allocations_during, now_ns};
use crate::peer::SpawnFuture;

const YIELDING_TASKS: u64 = 100;

pub(super) fn run<P: SpawnFuture>(cell: &Cell) -> Result<Measured, String> {
    let peer = super::start::<P>(cell)?;
    let go: fn(&'static P, u64) -> u64 = match cell.params.keys().next().map(String::as_str) {
        Some("spawn") => spawn_and_join,
        Some("yield") => yield_often,
        Some("message") => exchange_messages,
        other => return Err(format!("{other:?}: expected spawn, yield or message")),
    };
    go(peer, cell.items / 10);
    let before = Usage::now();
    let started_ns = now_ns();
    let items = go(peer, cell.items);
    let elapsed_ns = now_ns() - started_ns;
    let used = Usage::now().since(before);
    let mut counted = 0;
    let allocations = allocations_during(|| counted = go(peer, cell.items / 10));
    Ok(Measured::new(items, elapsed_ns, used).allocations(allocations, counted))
}

fn spawn_and_join<P: SpawnFuture>(peer: &'static P, tasks: u64) -> u64 {
    let root = async move {
        let handles: Vec<_> = (0..tasks).map(|at| peer.spawn_future(async move { at })).collect();
        let mut sum = 0;
        for handle in handles {
            sum += handle.await;
        }
        sum
    };
    let sum = peer.block_on(peer.spawn_future(root));
    assert_eq!(sum, tasks * tasks.saturating_sub(1) / 2, "each task returns its number");
    tasks
}

fn yield_often<P: SpawnFuture>(peer: &'static P, yields: u64) -> u64 {
    let each = (yields / YIELDING_TASKS).max(1);
    let root = async move {
        let tasks: Vec<_> = (0..YIELDING_TASKS)
            .map(|_| {
                peer.spawn_future(async move {
                    for _ in 0..each {
                        P::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    };
    peer.block_on(peer.spawn_future(root));
    each * YIELDING_TASKS
}

fn exchange_messages<P: SpawnFuture>(peer: &'static P, tasks: u64) -> u64 {
    let pairs = (tasks / 2).max(1);
    let root = async move {
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        for pair in 0..pairs {
            let (to_second, from_first) = oneshot::channel();
            let (to_first, from_second) = oneshot::channel();
            firsts.push(peer.spawn_future(async move {
                to_second.send(pair).expect("the second task waits");
                from_second.await.expect("the second task answers")
            }));
            seconds.push(peer.spawn_future(async move {
                let message = from_first.await.expect("the first task sends");
                to_first.send(message).expect("the first task waits");
            }));
        }
        let mut sum = 0;
        for (first, second) in firsts.into_iter().zip(seconds) {
            sum += first.await;
            second.await;
        }
        sum
    };
    let sum: u64 = peer.block_on(peer.spawn_future(root));
    assert_eq!(sum, pairs * (pairs - 1) / 2, "each message returns");
    pairs * 2
}

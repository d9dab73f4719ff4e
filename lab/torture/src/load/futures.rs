//! Futures: awaited, detached, cancelled, asleep, woken by other threads.

use std::future::poll_fn;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use futures_lite::future::block_on;

use super::Site;

pub(super) fn spawn(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    let entry = site.ledger.entry("a future");
    let yields = rng.u32(..4);
    let spawned = queue.spawn(async move {
        for _ in 0..yields {
            coreshard::yield_now().await;
        }
        entry.ran();
        yields
    });
    let Some(task) = site.ledger.accepted("spawn", spawned) else { return };
    if rng.bool() {
        site.ledger.check(block_on(task) == yields, "another future's output came back");
    } else {
        task.detach();
    }
}

pub(super) fn cancel(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    let entry = site.ledger.cancellable("a cancelled future");
    let mut polls = 0;
    // Woken by a plain thread, possibly too late.
    let by_stranger = rng.u32(..8) == 0;
    let spawned = queue.spawn(async move {
        poll_fn(|context| {
            polls += 1;
            let waker = context.waker().clone();
            if by_stranger && polls == 1 {
                let start = thread::Builder::new();
                if start.spawn(move || waker.wake()).is_err() {
                    context.waker().wake_by_ref();
                }
            } else {
                waker.wake();
            }
            if polls < 10 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        entry.ran();
    });
    let Some(task) = site.ledger.accepted("spawn", spawned) else { return };
    match rng.u32(..3) {
        0 => drop(task),
        1 => drop(block_on(task.cancel())),
        _ => task.detach(),
    }
}

pub(super) fn sleep(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    let entry = site.ledger.cancellable("a sleeping future");
    let Ok(sleep) = site.runtime.sleep(Duration::from_micros(rng.u64(..3_000))) else {
        // The timekeeper cannot be started now.
        return entry.back();
    };
    let spawned = queue.spawn(async move {
        // It fails if the timekeeper's thread cannot be started.
        let _ = sleep.await;
        entry.ran();
    });
    let Some(task) = site.ledger.accepted("spawn", spawned) else { return };
    match rng.u32(..3) {
        0 => drop(task),
        1 => block_on(task),
        _ => task.detach(),
    }
}

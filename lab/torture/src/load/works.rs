//! Reusable items: queued, delayed, cancelled, flushed, disabled, periodic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use coreshard::{MissedTick, Periodic, RefusedReason, Work, WorkErrorReason};
use fastrand::Rng;

use super::Site;

pub(super) fn work(site: &Site, rng: &mut Rng) {
    let (work, ran) = &site.works[rng.usize(..site.works.len())];
    let before = ran.load(Relaxed);
    match rng.u32(..8) {
        0..4 => {
            // Rejected while it is disabled, or its queue is drained.
            if let Err(error) = work.queue(site.any_queue(rng)) {
                let is_expected = matches!(
                    error.reason(),
                    WorkErrorReason::Disabled | WorkErrorReason::Refused(RefusedReason::Draining)
                );
                site.ledger.check(is_expected, "a work was refused");
            }
        }
        4 => drop(work.cancel()),
        5 => site.ledger.check(work.cancel_and_wait().is_ok(), "a wait from outside was refused"),
        6 => site.ledger.check(work.flush().is_ok(), "a flush from outside was refused"),
        _ => {
            site.ledger.check(work.disable_and_wait().is_ok(), "a disable was refused");
            work.enable().expect("it was disabled just now");
        }
    }
    site.ledger.check(ran.load(Relaxed) >= before, "a count went down");
}

pub(super) fn delayed(site: &Site, rng: &mut Rng) {
    let queue = site.any_queue(rng);
    let delay = Duration::from_micros(rng.u64(..2_000));
    let (work, _) = &site.works[rng.usize(..site.works.len())];
    // Rejected if it is disabled now, or if the timekeeper cannot be started.
    let _ =
        if rng.bool() { work.queue_after(queue, delay) } else { work.modify_delay(queue, delay) };
    // A separate item: its last handle, and that of its queue, may be dropped before it is due.
    let entry = site.ledger.cancellable("a delayed work");
    let mut entry = Some(entry);
    let held = queue.clone();
    let own = Work::new(move |_| {
        if let Some(entry) = entry.take() {
            entry.ran();
        }
        std::hint::black_box(&held);
    });
    let _ = own.queue_after(queue, delay);
    if rng.bool() {
        own.cancel();
    }
}

pub(super) fn periodic(site: &Site, rng: &mut Rng) {
    let ticks = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ticks);
    let started = Periodic::start(
        site.any_queue(rng),
        Duration::from_micros(rng.u64(200..1_000)),
        if rng.bool() { MissedTick::Skip } else { MissedTick::default() },
        move || {
            count.fetch_add(1, Relaxed);
        },
    );
    let Ok(periodic) = started else { return };
    std::thread::sleep(Duration::from_micros(rng.u64(..2_000)));
    site.ledger.check(periodic.stop_and_wait().is_ok(), "a stop from outside was refused");
    let after = ticks.load(Relaxed);
    std::thread::yield_now();
    site.ledger.check(ticks.load(Relaxed) == after, "a stopped period went on");
}

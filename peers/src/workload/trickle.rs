//! Trickle: 1,000 items a second, one at a time, and then none at all. How much CPU time does it use?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::cell::{Cell, Measured};
use crate::measure::{Samples, Usage, allocations_during, cpu_ns_of_other_threads, now_ns};
use crate::peer::{Spawn, Start};

const PERIOD_NS: u64 = 1_000_000;
/// Long enough for every peer's workers to fall asleep.
const SETTLE: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_millis(400);

/// The producer runs its items itself.
pub(super) struct Inline;

impl Start for Inline {
    fn start(_workers: usize) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Spawn for Inline {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        work();
    }
}

/// Sleeps until a moment of the monotonic clock.
pub(super) fn sleep_until(moment_ns: u64) {
    let time = libc::timespec {
        tv_sec: (moment_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (moment_ns % 1_000_000_000) as libc::c_long,
    };
    let clock = libc::CLOCK_MONOTONIC;
    // SAFETY: the time is on the stack; the last pointer may be null for an absolute time.
    while unsafe {
        libc::clock_nanosleep(clock, libc::TIMER_ABSTIME, &raw const time, std::ptr::null_mut())
    } == libc::EINTR
    {}
}

pub(super) fn floor(cell: &Cell) -> Result<Measured, String> {
    let mut measured = run::<Inline>(cell)?;
    measured.note = Some("the producer alone, running its items itself".to_owned());
    Ok(measured)
}

pub(super) fn run<P: Spawn>(cell: &Cell) -> Result<Measured, String> {
    let peer = super::start::<P>(cell)?;
    trickle(peer, cell.items.min(20));
    let before = Usage::now();
    let (call, end_to_end) = trickle(peer, cell.items);
    let used = Usage::now().since(before);
    thread::sleep(SETTLE);
    // All threads but this one, whose sleep costs some microseconds itself.
    let before_ns = cpu_ns_of_other_threads();
    thread::sleep(IDLE);
    let idle_ns = cpu_ns_of_other_threads().zip(before_ns).map(|(after, before)| after - before);
    let counted = cell.items.min(50);
    let allocations = allocations_during(|| {
        trickle(peer, counted);
    });
    let switches = used.voluntary_switches + used.involuntary_switches;
    let mut measured = Measured::new(cell.items, 0, used)
        .call(call)
        .end_to_end(end_to_end)
        .allocations(allocations, counted)
        .figure("switches_per_item", switches as f64 / cell.items as f64);
    if let Some(idle_ns) = idle_ns {
        measured = measured.figure("idle_cpu_ns_per_sec", idle_ns as f64 / IDLE.as_secs_f64());
    }
    Ok(measured)
}

fn trickle<P: Spawn>(peer: &P, items: u64) -> (Samples, Samples) {
    let mut call = Samples::with_capacity(items as usize);
    let ended: Arc<[AtomicU64]> = (0..items).map(|_| AtomicU64::new(0)).collect();
    let mut sent = Samples::with_capacity(items as usize);
    let first_ns = now_ns();
    for at in 0..items {
        sleep_until(first_ns + (at + 1) * PERIOD_NS);
        let ended = Arc::clone(&ended);
        let before_ns = now_ns();
        peer.spawn(move || ended[at as usize].store(now_ns(), Ordering::Release));
        call.push(now_ns() - before_ns);
        sent.push(before_ns);
    }
    while ended.iter().any(|end| end.load(Ordering::Acquire) == 0) {
        thread::sleep(Duration::from_micros(100));
    }
    (call, sent.until(&ended))
}

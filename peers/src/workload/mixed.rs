//! Mixed: a small item every 200 µs while `large` items of 500 µs are always running. Do small ones wait
//! behind a large one while a worker would be free?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::trickle::sleep_until;
use super::word::{SLEEPY, Word};
use crate::cell::{Cell, Measured};
use crate::measure::{Samples, Usage, now_ns, spin};
use crate::peer::Spawn;

const SMALL_NS: u64 = 1_000;
const LARGE_NS: u64 = 500_000;
const PERIOD_NS: u64 = 200_000;

pub(super) fn run<P: Spawn>(cell: &Cell) -> Result<Measured, String> {
    let large = cell.param("large")?;
    let (small_rounds, large_rounds) = (cell.rounds(SMALL_NS), cell.rounds(LARGE_NS));
    let peer = super::start::<P>(cell)?;
    let stop = AtomicBool::new(false);
    let (mut call, mut sent) = (Samples::default(), Samples::default());
    let ended: Arc<[AtomicU64]> = (0..cell.items).map(|_| AtomicU64::new(0)).collect();
    let larges = AtomicU64::new(0);
    let before = Usage::now();
    let started_ns = now_ns();
    thread::scope(|scope| {
        for _ in 0..large {
            scope.spawn(|| {
                let over: Arc<Word> = Arc::default();
                while !stop.load(Ordering::Relaxed) {
                    let word = Arc::clone(&over);
                    peer.spawn(move || {
                        spin(large_rounds);
                        word.give();
                    });
                    over.take(SLEEPY);
                    larges.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for at in 0..cell.items {
            sleep_until(started_ns + (at + 1) * PERIOD_NS);
            let ended = Arc::clone(&ended);
            let before_ns = now_ns();
            peer.spawn(move || {
                spin(small_rounds);
                ended[at as usize].store(now_ns(), Ordering::Release);
            });
            call.push(now_ns() - before_ns);
            sent.push(before_ns);
        }
        while ended.iter().any(|end| end.load(Ordering::Acquire) == 0) {
            thread::sleep(Duration::from_micros(100));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let elapsed_ns = now_ns() - started_ns;
    let used = Usage::now().since(before);
    let large_per_sec = larges.load(Ordering::Relaxed) as f64 * 1e9 / elapsed_ns as f64;
    let mut measured = Measured::new(cell.items, 0, used)
        .call(call)
        .end_to_end(sent.until(&ended))
        .figure("large_per_sec", large_per_sec);
    // It would include the time of the large items.
    measured.cpu_ns = None;
    Ok(measured)
}

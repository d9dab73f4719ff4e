//! Burst: 64 items after 10 ms of silence, when all workers sleep. How soon does the first start, how
//! soon the last, and what does it cost to wake the workers?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::word::{SLEEPY, Word};
use crate::cell::{Cell, Measured};
use crate::measure::{Samples, Usage, allocations_during, now_ns, spin};
use crate::peer::Spawn;
use crate::results::median;

const ITEMS: usize = 64;
const SILENCE: Duration = Duration::from_millis(10);

/// Shared by the items of a burst.
struct Burst {
    submitted_ns: [AtomicU64; ITEMS],
    started_ns: [AtomicU64; ITEMS],
    left: AtomicU64,
    over: Word,
}

pub(super) fn run<P: Spawn>(cell: &Cell) -> Result<Measured, String> {
    let rounds = cell.rounds(cell.param("item_ns")?);
    let bursts = cell.items.div_ceil(ITEMS as u64).max(1);
    let peer = super::start::<P>(cell)?;
    let mut total = Usage::default();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let (mut call, mut end_to_end) = (Samples::default(), Samples::default());
    let mut to_last_start_ns = 0;

    one_burst(peer, rounds, &mut Samples::default());
    for _ in 0..bursts {
        thread::sleep(SILENCE);
        let before = Usage::now();
        let burst = one_burst(peer, rounds, &mut call);
        let used = Usage::now().since(before);
        total.cpu_ns += used.cpu_ns;
        total.voluntary_switches += used.voluntary_switches;
        total.involuntary_switches += used.involuntary_switches;
        let time = |moment: &AtomicU64| moment.load(Ordering::Acquire);
        let began_ns = time(&burst.submitted_ns[0]);
        let starts = || burst.started_ns.iter().map(time);
        let last_ns = starts().max().expect("there are items") - began_ns;
        first.push((starts().min().expect("there are items") - began_ns) as f64);
        last.push(last_ns as f64);
        to_last_start_ns += last_ns;
        let pairs = starts().zip(burst.submitted_ns.iter().map(time));
        end_to_end.extend(pairs.map(|(start, sent)| start.saturating_sub(sent)).collect());
    }
    let allocations = allocations_during(|| {
        one_burst(peer, rounds, &mut Samples::with_capacity(ITEMS));
    });

    let per_burst = |count: u64| count as f64 / bursts as f64;
    let of = |values: &mut Vec<f64>| median(values).expect("there are bursts");
    Ok(Measured::new(bursts * ITEMS as u64, to_last_start_ns, total)
        .call(call)
        .end_to_end(end_to_end)
        .allocations(allocations, ITEMS as u64)
        .figure("first_start_ns", of(&mut first))
        .figure("last_start_ns", of(&mut last))
        .figure("waits_per_burst", per_burst(total.voluntary_switches))
        .figure("preemptions_per_burst", per_burst(total.involuntary_switches)))
}

fn one_burst<P: Spawn>(peer: &P, rounds: u64, call: &mut Samples) -> Arc<Burst> {
    let burst = Arc::new(Burst {
        submitted_ns: [const { AtomicU64::new(0) }; ITEMS],
        started_ns: [const { AtomicU64::new(0) }; ITEMS],
        left: AtomicU64::new(ITEMS as u64),
        over: Word::default(),
    });
    for at in 0..ITEMS {
        let shared = Arc::clone(&burst);
        let before_ns = now_ns();
        burst.submitted_ns[at].store(before_ns, Ordering::Relaxed);
        peer.spawn(move || {
            shared.started_ns[at].store(now_ns(), Ordering::Relaxed);
            spin(rounds);
            // AcqRel: the waiting thread sees all starts.
            if shared.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                shared.over.give();
            }
        });
        call.push(now_ns() - before_ns);
    }
    burst.over.take(SLEEPY);
    burst
}

//! The lower bound of a flood, for an executor that allocates an item and hands it to another CPU: one allocation
//! with its release, and the transfer of one cache line to another CPU.

use std::alloc::{Layout, alloc, dealloc};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::cell::{Cell, Measured};
use crate::measure::{Padded, Usage, now_ns};

/// Many and short: in some of them, both CPUs must be free.
const TRIES: usize = 200;
/// The tries end after this time if other processes keep the CPUs busy.
const ENOUGH_NS: u64 = 1_000_000_000;

pub(super) fn run(cell: &Cell) -> Result<Measured, String> {
    let before = Usage::now();
    let allocation_ns = best(|| allocations(1_000));
    let transfer_ns = best(|| transfers(200));
    let used = Usage::now().since(before);
    let floor_ns = allocation_ns + transfer_ns;
    let mut measured = Measured::new(cell.items, (floor_ns * cell.items as f64) as u64, used)
        .figure("allocation_ns", allocation_ns)
        .figure("line_transfer_ns", transfer_ns);
    measured.cpu_ns = None;
    measured.context_switches = None;
    measured.note = Some("computed: one allocation and one line transfer per item".to_owned());
    Ok(measured)
}

fn best(mut measure: impl FnMut() -> f64) -> f64 {
    let started_ns = now_ns();
    let mut best = measure();
    for _ in 1..TRIES {
        if now_ns() - started_ns > ENOUGH_NS {
            break;
        }
        best = best.min(measure());
    }
    best
}

/// Nanoseconds to allocate and free a closure of two words.
fn allocations(count: u64) -> f64 {
    let layout = Layout::new::<[usize; 2]>();
    let started_ns = now_ns();
    for _ in 0..count {
        // SAFETY: the layout has a size.
        let pointer = black_box(unsafe { alloc(layout) });
        assert!(!pointer.is_null(), "16 bytes can be allocated");
        // SAFETY: it was just allocated with this layout.
        unsafe { dealloc(pointer, layout) };
    }
    (now_ns() - started_ns) as f64 / count as f64
}

/// Nanoseconds for the transfer of a line from one CPU to another, while both spin.
fn transfers(round_trips: u64) -> f64 {
    let line = Padded(AtomicU64::new(0));
    let wait_for = |value: u64| {
        let mut looks = 0_u32;
        while line.0.load(Ordering::Acquire) != value {
            looks += 1;
            // If both threads share a CPU, spinning alone would never end.
            if looks.is_multiple_of(500) { thread::yield_now() } else { spin_loop() }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 0..round_trips {
                wait_for(2 * trip + 1);
                line.0.store(2 * trip + 2, Ordering::Release);
            }
        });
        let started_ns = now_ns();
        for trip in 0..round_trips {
            line.0.store(2 * trip + 1, Ordering::Release);
            wait_for(2 * trip + 2);
        }
        (now_ns() - started_ns) as f64 / (2 * round_trips) as f64
    })
}

//! Requeueing a reusable item allocates nothing, according to a counting allocator.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Runtime, Work};

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread is inside a call that queues. Woken workers and the monitor may allocate.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: all calls are forwarded to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let counts = COUNTS.load(SeqCst) && COUNTED.get();
        ALLOCATIONS.fetch_add(u64::from(counts), SeqCst);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the allocations in counted calls of all threads during `run`.
fn allocations(run: impl Fn()) -> u64 {
    ALLOCATIONS.store(0, SeqCst);
    COUNTS.store(true, SeqCst);
    run();
    COUNTS.store(false, SeqCst);
    ALLOCATIONS.load(SeqCst)
}

fn counted<R>(call: impl FnOnce() -> R) -> R {
    COUNTED.set(true);
    let result = call();
    COUNTED.set(false);
    result
}

#[test]
fn requeueing_allocates_nothing() {
    testing::own_process!();
    let runtime = Runtime::<Host>::builder(Topology::host().unwrap()).build().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    let runs = Arc::new(AtomicU64::new(0));
    let (counter, own) = (Arc::clone(&runs), queue.clone());
    let work = Work::new(move |work| {
        // Every other run queues itself.
        if counter.fetch_add(1, SeqCst).is_multiple_of(2) {
            counted(|| work.queue(&own).unwrap());
        }
    });
    let requeue = || {
        for _ in 0..2_000 {
            counted(|| work.queue(&queue).unwrap());
            work.flush().unwrap();
            counted(|| work.queue_after(&queue, Duration::from_secs(1_000)).unwrap());
            counted(|| work.modify_delay(&queue, Duration::from_secs(2_000)).unwrap());
            counted(|| work.cancel());
            // Voided queueings leave the pool before the next round.
            queue.drain().unwrap();
        }
    };
    // Structures that grow once (segments, free lists) may allocate a few times. A requeueing that
    // allocates would do so 2,000 times in each round.
    let before = runs.load(SeqCst);
    let rounds: Vec<u64> = (0..6).map(|_| allocations(requeue)).collect();
    assert!(rounds.contains(&0), "{rounds:?}");
    assert!(runs.load(SeqCst) - before >= 6 * 2_000);
    // The counter works: a closure that does not fit is boxed.
    let large = [0_u64; 8];
    let boxed = allocations(|| {
        let work = move || assert_eq!(std::hint::black_box(large)[0], 0);
        counted(|| queue.queue(work).unwrap());
        queue.drain().unwrap();
    });
    assert!(boxed >= 1);
}

//! Requeueing a reusable item allocates nothing, told by an allocator that counts.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Hooks, Intake, Runtime, Work};

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread queues or runs items; the monitor, which looks every few milliseconds, is
    /// none of these.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: all calls go to the system's allocator as they are.
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

/// Allocations of this thread and of all workers while `run` runs.
fn allocations(run: impl Fn()) -> u64 {
    ALLOCATIONS.store(0, SeqCst);
    COUNTS.store(true, SeqCst);
    run();
    COUNTS.store(false, SeqCst);
    ALLOCATIONS.load(SeqCst)
}

#[test]
fn requeueing_allocates_nothing() {
    let runtime = Runtime::<Host>::builder(Topology::host().unwrap()).build().unwrap();
    let hooks = Hooks::new().on_start(|_| COUNTED.set(true));
    COUNTED.set(true);
    for intake in Intake::ALL {
        let builder = runtime.workqueue().scope(Scope::System).intake(intake);
        let queue = builder.hooks(hooks.clone()).build().unwrap();
        let runs = Arc::new(AtomicU64::new(0));
        let (counter, own) = (Arc::clone(&runs), queue.clone());
        let work = Work::new(move |work| {
            // Every other run queues itself.
            if counter.fetch_add(1, SeqCst).is_multiple_of(2) {
                let _ = work.queue(&own).unwrap();
            }
        });
        let requeue = || {
            for _ in 0..2_000 {
                work.queue(&queue).unwrap();
                work.flush().unwrap();
                work.queue_after(&queue, Duration::from_secs(1_000)).unwrap();
                work.modify_delay(&queue, Duration::from_secs(2_000)).unwrap();
                work.cancel();
                // What is void leaves the pool before the next round; the drain makes a list.
                COUNTED.set(false);
                queue.drain().unwrap();
                COUNTED.set(true);
            }
        };
        // What grows once (segments, lists of sleepers, a worker that is started) may allocate a
        // few times; a requeueing that did would in every one of a round's 2,000.
        let before = runs.load(SeqCst);
        let rounds: Vec<u64> = (0..6).map(|_| allocations(requeue)).collect();
        assert!(rounds.contains(&0), "{intake}: {rounds:?}");
        assert!(runs.load(SeqCst) - before >= 6 * 2_000);
        // The count counts: a closure that does not fit is boxed.
        let large = [0_u64; 8];
        let boxed = allocations(|| {
            queue.queue(move || assert_eq!(std::hint::black_box(large)[0], 0)).unwrap();
            queue.drain().unwrap();
        });
        assert!(boxed >= 1);
    }
}

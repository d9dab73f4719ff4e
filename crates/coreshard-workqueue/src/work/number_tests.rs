//! Queueings whose numbers wrap: unit tests have numbers of three bits.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::Topology;

use super::embedded::{EmbeddedWork, EmbeddedWorks};
use crate::{Runtime, Target, Work, WorkErrorReason, Workqueue};

/// More than twice the number of distinct numbers.
const QUEUEINGS: u32 = 20;

fn frozen_and_running(runtime: &Runtime<Host>) -> [Workqueue<Host>; 2] {
    let [frozen, running] =
        ["frozen", "running"].map(|name| runtime.workqueue().name(name).build().unwrap());
    frozen.freeze().unwrap();
    [frozen, running]
}

fn runtime() -> Runtime<Host> {
    let topology = Topology::from_synthetic("pack:1 l3:1 core:2 pu:1").unwrap();
    let here = coreshard_platform::affinity().unwrap();
    Runtime::builder(topology).laid_over(here).build().unwrap()
}

#[repr(C)]
struct Counted {
    work: EmbeddedWork,
    runs: AtomicU32,
}

unsafe extern "C-unwind" fn count(work: NonNull<EmbeddedWork>) {
    // SAFETY: the tests queue only the first field of a `Counted`.
    unsafe { work.cast::<Counted>().as_ref() }.runs.fetch_add(1, SeqCst);
}

fn counted() -> &'static Counted {
    let work = EmbeddedWork::new(count, ptr::null());
    Box::leak(Box::new(Counted { work, runs: AtomicU32::new(0) }))
}

/// Fails if `draw` reuses the number of a tombstone: the queueing with that number is taken for the tombstone.
#[test]
fn an_embedded_queueing_runs_while_a_cancelled_one_is_still_in_a_frozen_queue() {
    let runtime = runtime();
    let [frozen, running] = frozen_and_running(&runtime);
    let works = EmbeddedWorks::leak(1);
    let item = counted();
    let work = NonNull::from(item).cast::<EmbeddedWork>();
    // SAFETY: the item is never freed.
    let queue_to = |queue| unsafe { works.queue_to(work, queue, Target::Here, Duration::ZERO) };
    assert!(queue_to(&frozen).unwrap());
    // SAFETY: as above.
    assert!(unsafe { works.cancel(work) });
    for queueing in 1..=QUEUEINGS {
        assert!(queue_to(&running).unwrap());
        running.flush().unwrap();
        assert_eq!(item.runs.load(SeqCst), queueing);
    }
    frozen.thaw().unwrap();
    frozen.flush().unwrap();
    assert_eq!(item.runs.load(SeqCst), QUEUEINGS, "the cancelled one does not run");
}

#[test]
fn too_many_cancelled_embedded_queueings_are_refused_until_the_queue_has_passed_them() {
    let runtime = runtime();
    let [frozen, running] = frozen_and_running(&runtime);
    let works = EmbeddedWorks::leak(1);
    let item = counted();
    let work = NonNull::from(item).cast::<EmbeddedWork>();
    // SAFETY: the item is never freed.
    let queue_to = |queue, delay| unsafe { works.queue_to(work, queue, Target::Here, delay) };
    // SAFETY: as above.
    let modify = |queue| unsafe { works.modify_to(work, queue, Target::Here, Duration::ZERO) };
    for _ in 0..4 {
        assert!(queue_to(&frozen, Duration::ZERO).unwrap());
        // SAFETY: as above.
        assert!(unsafe { works.cancel(work) });
    }
    let now_and_later = [Duration::ZERO, Duration::from_secs(1)];
    for refused in
        now_and_later.map(|delay| queue_to(&running, delay)).into_iter().chain([modify(&running)])
    {
        assert_eq!(refused.unwrap_err().reason(), WorkErrorReason::TooManyCancelled);
    }
    // SAFETY: as above.
    assert!(!unsafe { works.is_pending(work) });
    frozen.thaw().unwrap();
    frozen.flush().unwrap();
    assert!(queue_to(&running, Duration::ZERO).unwrap());
    running.flush().unwrap();
    assert_eq!(item.runs.load(SeqCst), 1);
}

/// A counted item whose number is reused is run once, though possibly through the queue that it was cancelled in.
#[test]
fn a_queueing_runs_once_while_a_cancelled_one_is_still_in_a_frozen_queue() {
    let runtime = runtime();
    let [frozen, running] = frozen_and_running(&runtime);
    let runs = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&runs);
    let work = Work::<Host>::new(move |_| {
        counter.fetch_add(1, SeqCst);
    });
    assert!(work.queue(&frozen).unwrap());
    assert!(work.cancel());
    for queueing in 1..=QUEUEINGS {
        assert!(work.queue(&running).unwrap());
        work.flush().unwrap();
        assert_eq!(runs.load(SeqCst), queueing);
    }
    frozen.thaw().unwrap();
    frozen.flush().unwrap();
    assert_eq!(runs.load(SeqCst), QUEUEINGS, "the cancelled one does not run");
}

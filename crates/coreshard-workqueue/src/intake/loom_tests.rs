//! Models of the intake. Each was seen to fail when the ordering or the step that its comment
//! names was weakened.
#![allow(unsafe_code)]

use std::sync::Arc;

use coreshard_platform::Parker;

use super::{Claim, Range, SegmentQueue, Taker};
use crate::loom_platform::Loom;

type Queue = SegmentQueue<Loom, Box<u32>, 2>;

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn take_all(queue: &Queue, claim: &Claim<Loom, Box<u32>, 2>) -> Vec<u32> {
    let items = (claim.start..claim.end)
        .map(|at| {
            // SAFETY: claimed just now, taken once, released below.
            *unsafe { Queue::take(claim.segment, at) }.0
        })
        .collect::<Vec<_>>();
    // SAFETY: these items were taken above.
    unsafe { queue.release(claim.segment, items.len() as u32) };
    items
}

/// A worker that sleeps whenever nothing is ready, until it has seen `wanted` items.
fn work(
    queue: &Queue,
    taker: &mut Taker<Loom, Box<u32>, 2>,
    parker: &Parker<Loom>,
    wanted: usize,
) -> Vec<u32> {
    let mut seen = Vec::new();
    while seen.len() < wanted {
        match queue.claim(taker, 2) {
            Some(claim) => seen.extend(take_all(queue, &claim)),
            None if queue.park_at_head(taker, 0) => parker.park(),
            None => {}
        }
    }
    seen
}

/// Two producers, three items, a worker that sleeps in between: every item arrives once, and no
/// wake-up is lost (a lost one is a deadlock, which loom reports).
///
/// Fails with `push`'s swap of the state weakened to `Acquire` (the item is read unpublished), and
/// with the swap made a load and a store (the worker's name is overwritten unread).
#[test]
fn loom_items_arrive_once_and_wake_the_worker() {
    check(2, || {
        let (queue, mut taker) = Queue::new(None);
        let shared = Arc::new((queue, Parker::<Loom>::new()));
        let producers: Vec<_> = [vec![1, 2], vec![3]]
            .into_iter()
            .map(|items| {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    for item in items {
                        if shared.0.push(Box::new(item), 7).is_some() {
                            shared.1.unpark();
                        }
                    }
                })
            })
            .collect();
        let mut seen = work(&shared.0, &mut taker, &shared.1, 3);
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        let order: Vec<_> = seen.iter().filter(|item| **item < 3).collect();
        assert_eq!(order, [&1, &2], "a producer's items keep their order");
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3]);
    });
}

/// Segments are recycled under a producer with an old hint: five items through segments of two.
///
/// Fails with a segment recycled at its own last item alone (without the hold of the next one),
/// and with the number given before the link.
#[test]
fn loom_segments_are_recycled_safely() {
    check(2, || {
        let (queue, mut taker) = Queue::new(None);
        let shared = Arc::new((queue, Parker::<Loom>::new()));
        let other = Arc::clone(&shared);
        let producer = loom::thread::spawn(move || {
            if other.0.push(Box::new(9), 7).is_some() {
                other.1.unpark();
            }
        });
        let mut seen = Vec::new();
        for item in 0..4 {
            shared.0.push(Box::new(item), 7);
            if let Some(claim) = shared.0.claim(&mut taker, 2) {
                seen.extend(take_all(&shared.0, &claim));
            }
        }
        seen.extend(work(&shared.0, &mut taker, &shared.1, 5 - seen.len()));
        producer.join().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 9]);
    });
}

/// An owner and a thief share a claim of two: each item is taken once, and the thief sees what
/// the owner claimed.
///
/// Fails with `publish`'s store weakened to `Relaxed`, and with the thief's exchange made a load
/// and a store.
#[test]
fn loom_a_claim_is_shared_with_a_thief() {
    check(3, || {
        let (queue, mut taker) = Queue::new(None);
        queue.push(Box::new(1), 7);
        queue.push(Box::new(2), 7);
        let shared = Arc::new((queue, Range::<Loom, Box<u32>, 2>::new()));
        let other = Arc::clone(&shared);
        let thief = loom::thread::spawn(move || {
            other.1.steal().map_or_else(Vec::new, |claim| take_all(&other.0, &claim))
        });
        let claim = shared.0.claim(&mut taker, 2).expect("two items stand ready");
        shared.1.publish(&claim);
        let mut seen = Vec::new();
        while let Some(at) = shared.1.next() {
            let one = Claim { segment: claim.segment, start: at, end: at + 1 };
            seen.extend(take_all(&shared.0, &one));
        }
        seen.extend(thief.join().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    });
}

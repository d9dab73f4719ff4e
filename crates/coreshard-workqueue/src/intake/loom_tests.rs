//! Models of the intake. Each was seen to fail when the ordering or the step that its comment
//! names was weakened.
#![allow(unsafe_code)]

use std::sync::Arc;

use coreshard_platform::Parker;

use super::segments::Tells;
use super::{Claim, Injectors, Range, SegmentQueue, Takers, ToWake};
use coreshard_platform::Loom;

type Queue = SegmentQueue<Loom, Box<u32>, 2>;

fn take_all(claim: &Claim<Loom, Box<u32>, 2>) -> Vec<u32> {
    (claim.start..claim.end)
        .map(|at| {
            // SAFETY: claimed just now, taken once, released by the caller.
            *unsafe { Queue::take(claim.segment, at) }.0
        })
        .collect()
}

/// A pool without its lock: injectors, and one worker that sleeps.
struct Model {
    injectors: Injectors<Loom, Box<u32>, 2>,
    worker: Parker<Loom>,
}

impl Model {
    fn new(injectors: usize) -> (Arc<Self>, Takers<Loom, Box<u32>, 2>) {
        let (injectors, takers) = Injectors::new(None, injectors);
        (Arc::new(Self { injectors, worker: Parker::new() }), takers)
    }

    fn push(&self, injector: usize, item: u32) {
        if let Some(ToWake::Worker(_)) = self.injectors.push(injector, Box::new(item), 7) {
            self.worker.unpark();
        }
    }

    fn claim(&self, takers: &mut Takers<Loom, Box<u32>, 2>) -> Option<Vec<u32>> {
        let claim = self.injectors.claim(takers, 2, 0)?;
        let items = take_all(&claim);
        // SAFETY: these items were taken.
        unsafe { self.injectors.release(claim.segment, items.len() as u32) };
        Some(items)
    }

    /// Takes items, and sleeps whenever none is ready, until `wanted` were seen.
    fn work(&self, takers: &mut Takers<Loom, Box<u32>, 2>, wanted: usize) -> Vec<u32> {
        let mut seen = Vec::new();
        while seen.len() < wanted {
            match self.claim(takers) {
                Some(items) => seen.extend(items),
                None if self.injectors.post(takers, 0).is_ok() => self.worker.park(),
                None => {}
            }
        }
        seen
    }
}

/// Two producers at one injector, three items, a worker that sleeps in between: every item arrives
/// once, and no wake-up is lost (a lost one is a deadlock, which loom reports).
///
/// Fails with `push`'s swap of the state weakened to `Acquire` (the item is read unpublished), and with the swap made a load
/// and a store (the armed state is overwritten unseen).
#[test]
fn loom_items_arrive_once_and_wake_the_worker() {
    Loom::check_long(2, 1, || {
        let (model, mut takers) = Model::new(1);
        let producers: Vec<_> = [vec![1, 2], vec![3]]
            .into_iter()
            .map(|items| {
                let model = Arc::clone(&model);
                loom::thread::spawn(move || items.into_iter().for_each(|item| model.push(0, item)))
            })
            .collect();
        let mut seen = model.work(&mut takers, 3);
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        let order: Vec<_> = seen.iter().filter(|item| **item < 3).collect();
        assert_eq!(order, [&1, &2], "a producer's items keep their order");
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3]);
    });
}

/// Two producers at injectors of their own: one of them signals while the worker goes round the injectors.
///
/// Fails if `post` puts the designated waiter on the wake word without checking whether an injector was marked, if the bit is
/// cleared after the slot is armed instead of before, and if a signal wakes no worker when an injector was marked.
#[test]
fn loom_an_armed_slot_of_either_injector_wakes_the_worker() {
    Loom::check(2, || {
        let (model, mut takers) = Model::new(2);
        let producers: Vec<_> = (0..2)
            .map(|injector| {
                let model = Arc::clone(&model);
                loom::thread::spawn(move || model.push(injector, injector as u32))
            })
            .collect();
        let mut seen = model.work(&mut takers, 2);
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
    });
}

/// Segments are recycled under a producer with an old hint: five items through segments of two.
///
/// Fails with a segment recycled when only its own last item is out, without the hold of the next one. Does not cover a number
/// that is set before the link, or kept in the store (that takes a third thread with a hint from the segment's last use): for
/// that there is the argument in `README.md`.
#[test]
fn loom_segments_are_recycled_safely() {
    Loom::check(2, || {
        let (model, mut takers) = Model::new(1);
        let other = Arc::clone(&model);
        let producer = loom::thread::spawn(move || other.push(0, 9));
        let mut seen = Vec::new();
        for item in 0..4 {
            model.push(0, item);
            seen.extend(model.claim(&mut takers).into_iter().flatten());
        }
        let left = 5 - seen.len();
        seen.extend(model.work(&mut takers, left));
        producer.join().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 9]);
    });
}

/// An owner and a thief share a claim of two: each item is taken once, and the thief sees the items that
/// the owner claimed.
///
/// Fails with `publish`'s store weakened to `Relaxed`, with the owner's fetch-and-add made a load and a store, and with a
/// thief that takes from a used-up claim.
#[test]
fn loom_a_claim_is_shared_with_a_thief() {
    Loom::check(3, || {
        let (queue, mut taker) = Queue::new(None, 0);
        assert_eq!([1, 2].map(|item| queue.push(Box::new(item), 7)), [Tells::Nobody; 2]);
        let shared = Arc::new((queue, Range::<Loom, Box<u32>, 2>::new()));
        let other = Arc::clone(&shared);
        let thief = loom::thread::spawn(move || {
            other.1.steal().map_or_else(Vec::new, |claim| take_all(&claim))
        });
        let claim = shared.0.claim(&mut taker, 2).expect("two items are ready");
        shared.1.publish(&claim);
        let mut seen = Vec::new();
        while let Some(at) = shared.1.next() {
            let one = Claim { segment: claim.segment, start: at, end: at + 1 };
            seen.extend(take_all(&one));
        }
        seen.extend(thief.join().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    });
}

/// A producer that has drawn the head's ticket is preempted; another fills the slot behind. The worker, which arms slots and
/// sleeps, still gets that item, and the first producer's item once that producer continues.
///
/// Fails (the worker sleeps forever) if `fill` does not look back, if `arm` does not check the next slot after its exchange,
/// and if either check is a relaxed load.
#[test]
fn loom_a_producer_that_stands_still_holds_nobody_up() {
    Loom::check_long(2, 1, || {
        let (model, mut takers) = Model::new(1);
        let place = model.injectors.queue(0).draw().0;
        let other = Arc::clone(&model);
        let other = loom::thread::spawn(move || other.push(0, 2));
        assert_eq!(model.work(&mut takers, 1), [2]);
        other.join().unwrap();
        let queue = model.injectors.queue(0);
        let Err(value) = queue.fill(place, Box::new(1), 7) else { panic!("the taker is past it") };
        model.push(0, *value);
        assert_eq!(model.work(&mut takers, 1), [1]);
    });
}

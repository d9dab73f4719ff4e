//! The intake on real threads.
#![cfg(not(loom))]
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coreshard_platform::Host;

use super::segments::{Taker, Tells};
use super::{Claim, Injectors, ItemWaits, Range, SegmentQueue, Takers, ToWake};

const LEN: usize = 4;
type Queue = SegmentQueue<Host, Box<u64>, LEN>;

fn take(queue: &Queue, claim: &Claim<Host, Box<u64>, LEN>) -> Vec<u64> {
    let items = (claim.start..claim.end)
        .map(|at| {
            // SAFETY: claimed by the caller, taken once, released below.
            *unsafe { Queue::take(claim.segment, at) }.0
        })
        .collect::<Vec<_>>();
    // SAFETY: these items were taken above.
    unsafe { queue.release(claim.segment, items.len() as u32) };
    items
}

/// The next items, as a worker receives them that arms the head if it finds nothing.
fn next(queue: &Queue, taker: &mut Taker<Host, Box<u64>, LEN>) -> Vec<u64> {
    let claim = queue.claim(taker, 8).or_else(|| {
        assert!(!queue.arm(taker), "an item waits");
        queue.claim(taker, 8)
    });
    take(queue, &claim.unwrap())
}

#[test]
fn items_come_out_as_they_went_in_and_memory_is_used_again() {
    let (queue, mut taker) = Queue::new(None, 0);
    for round in 0..1_000 {
        for item in 0..7 {
            assert_eq!(queue.push(Box::new(round * 7 + item), 7), Tells::Nobody);
        }
        let mut seen = Vec::new();
        while let Some(claim) = queue.claim(&mut taker, 3) {
            seen.extend(take(&queue, &claim));
        }
        assert_eq!(seen, (round * 7..round * 7 + 7).collect::<Vec<_>>());
    }
    assert_eq!(queue.pushed(), 7_000);
    assert!(queue.held_bytes() < 64 << 10, "{} bytes for 7 items", queue.held_bytes());
}

#[test]
fn memory_that_a_burst_needed_is_given_back_and_taken_again() {
    let (queue, mut taker) = Queue::new(None, 0);
    for burst in 0..3 {
        let before = queue.held_bytes();
        for item in 0..100_000 {
            assert_eq!(queue.push(Box::new(item), 7), Tells::Nobody);
        }
        let full = queue.held_bytes();
        assert!(full > 100_000 * 16, "burst {burst}: {full} bytes hold 100,000 items");
        queue.trim();
        assert_eq!(queue.held_bytes(), full, "segments in use are kept");
        let mut seen = 0;
        while let Some(claim) = queue.claim(&mut taker, LEN) {
            seen += take(&queue, &claim).len();
        }
        assert_eq!(seen, 100_000);
        queue.trim();
        assert!(queue.held_bytes() < full / 4, "{} of {full} bytes", queue.held_bytes());
        assert!(before <= full);
    }
}

#[test]
fn the_producer_of_the_next_item_finds_its_slot_armed() {
    let (queue, mut taker) = Queue::new(None, 0);
    // Also across the end of a segment, when the next one must be installed.
    for item in 0..2 * LEN as u64 {
        assert!(queue.arm(&mut taker));
        assert!(queue.arm(&mut taker), "it may be armed again");
        assert_eq!(queue.push(Box::new(item), 7), Tells::Designated, "the first item wakes");
        assert_eq!(queue.push(Box::new(item), 7), Tells::Nobody, "the second does not");
        assert!(!queue.arm(&mut taker), "an item waits");
        let mut seen = Vec::new();
        while let Some(claim) = queue.claim(&mut taker, 9) {
            seen.extend(take(&queue, &claim));
        }
        assert_eq!(seen, [item, item]);
    }
}

#[test]
fn the_wake_word_marks_the_injector_that_signalled_and_names_the_waiter_once() {
    let (injectors, mut takers) = Injectors::<Host, Box<u64>, LEN>::new(None, 3);
    assert_eq!(injectors.push(2, Box::new(1), 7), None, "nothing is armed at first");
    assert_eq!(injectors.post(&mut takers, 5), Err(ItemWaits));
    assert!(injectors.claim(&mut takers, 9, 0).is_some());
    assert_eq!(injectors.post(&mut takers, 5), Ok(None));
    assert_eq!(
        injectors.post(&mut takers, 6),
        Ok(Some(5)),
        "the latest sleeper replaces the other"
    );
    assert_eq!(injectors.designated(), Some(6));
    assert!(!injectors.ready(&mut takers), "all injectors are closed");
    assert_eq!(injectors.push(1, Box::new(2), 7), Some(ToWake::Worker(6)));
    assert_eq!(injectors.push(0, Box::new(3), 7), None, "one wake-up is on its way");
    assert_eq!(injectors.recall(), None, "a producer has taken the designated");
    let mut claims = 0;
    while let Some(claim) = injectors.claim(&mut takers, 9, 2) {
        claims += 1;
        assert_eq!(claim.end - claim.start, 1);
    }
    assert_eq!(claims, 2, "both injectors are open");
    assert_eq!(injectors.post(&mut takers, 0), Ok(None));
    assert_eq!(injectors.recall(), Some(0));
    assert_eq!(injectors.push(1, Box::new(4), 7), None, "no worker is posted");
    assert!(injectors.ready(&mut takers));
}

#[test]
fn a_worker_is_served_at_home_but_not_for_ever() {
    let (injectors, mut takers) = Injectors::<Host, Box<u64>, LEN>::new(None, 2);
    for item in 0..200 {
        assert_eq!(injectors.push(item as usize % 2, Box::new(item), 7), None);
    }
    let mut served = [0; 2];
    for _ in 0..80 {
        let claim = injectors.claim(&mut takers, 1, 1).expect("200 items were pushed");
        // SAFETY: claimed just now, taken once, released below.
        let item = *unsafe { Queue::take(claim.segment, claim.start) }.0;
        // SAFETY: taken just now.
        unsafe { injectors.release(claim.segment, 1) };
        served[item as usize % 2] += 1;
    }
    assert!(served[1] > served[0] && served[0] >= 4, "{served:?}");
}

#[test]
fn who_claims_more_takes_what_it_asks_for_at_other_injectors_in_turn() {
    let (injectors, mut takers) = Injectors::<Host, Box<u64>, LEN>::new(None, 6);
    for (injector, items) in [(0, 3), (2, 2), (3, 2), (5, 1)] {
        for item in 0..items {
            assert_eq!(injectors.push(injector, Box::new(10 * injector as u64 + item), 7), None);
        }
    }
    let claim = |takers: &mut Takers<_, _, LEN>, most, claims: usize| {
        let mut more = [const { None }; 3];
        injectors.claim_more(takers, most, &mut more[..claims]);
        let claims: Vec<_> = more.into_iter().flatten().collect();
        let mut seen = Vec::new();
        for claim in claims {
            for at in claim.start..claim.end {
                // SAFETY: claimed just now, taken once, released below.
                seen.push(*unsafe { Queue::take(claim.segment, at) }.0);
            }
            // SAFETY: taken just now.
            unsafe { injectors.release(claim.segment, claim.items() as u32) };
        }
        seen
    };
    assert_eq!(claim(&mut takers, 5, 0), [0; 0], "no claim is asked for");
    assert_eq!(claim(&mut takers, 0, 3), [0; 0], "no item is asked for");
    assert_eq!(claim(&mut takers, 4, 2), [0, 1, 2, 20], "as many items as it asks for");
    assert_eq!(claim(&mut takers, 9, 1), [30, 31], "as many claims as it asks for, in turn");
    assert_eq!(claim(&mut takers, 9, 3), [50, 21], "all that is left, in turn");
    assert_eq!(claim(&mut takers, 9, 3), [0; 0]);
}

#[test]
fn producers_and_thieves_lose_and_double_nothing() {
    const PRODUCERS: u64 = 3;
    const ITEMS: u64 = if cfg!(miri) { 50 } else { 30_000 };
    let (queue, mut taker) = Queue::new(None, 0);
    let range = Range::<Host, Box<u64>, LEN>::new();
    let shared = Arc::new((queue, range, AtomicUsize::new(0)));
    let total = (PRODUCERS * ITEMS) as usize;
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                for item in 0..ITEMS {
                    let tells = shared.0.push(Box::new(producer * ITEMS + item), 7);
                    assert_eq!(tells, Tells::Nobody);
                }
                Vec::new()
            })
        })
        .collect();
    let thief = {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut seen = Vec::new();
            while shared.2.load(Ordering::Relaxed) < total {
                if let Some(claim) = shared.1.steal() {
                    let items = take(&shared.0, &claim);
                    shared.2.fetch_add(items.len(), Ordering::Relaxed);
                    seen.extend(items);
                } else {
                    std::thread::yield_now();
                }
            }
            seen
        })
    };
    let mut seen = Vec::new();
    while shared.2.load(Ordering::Relaxed) < total {
        let Some(claim) = shared.0.claim(&mut taker, LEN) else {
            std::thread::yield_now();
            continue;
        };
        shared.1.publish(&claim);
        while let Some(at) = shared.1.next() {
            let one = Claim { segment: claim.segment, start: at, end: at + 1 };
            seen.extend(take(&shared.0, &one));
            shared.2.fetch_add(1, Ordering::Relaxed);
        }
    }
    for thread in producers.into_iter().chain([thief]) {
        seen.extend(thread.join().unwrap());
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..PRODUCERS * ITEMS));
}

/// A preempted producer in the middle of a push: it has drawn a ticket, and not filled its slot.
#[test]
fn a_preempted_producer_holds_nobody_up() {
    for before in 0..2 * LEN as u64 {
        let (queue, mut taker) = Queue::new(None, 0);
        for item in 0..before {
            assert_eq!(queue.push(Box::new(item), 7), Tells::Nobody);
            assert_eq!(take(&queue, &queue.claim(&mut taker, 1).unwrap()), [item]);
        }
        assert!(queue.arm(&mut taker), "no item waits");
        let place = queue.draw().0;
        assert_eq!(queue.push(Box::new(100), 7), Tells::Designated, "in place of the other");
        assert_eq!(take(&queue, &queue.claim(&mut taker, 8).unwrap()), [100]);
        assert_eq!(queue.push(Box::new(101), 7), Tells::Nobody);
        assert_eq!(take(&queue, &queue.claim(&mut taker, 8).unwrap()), [101]);
        assert!(queue.arm(&mut taker), "no item waits");
        let Err(value) = queue.fill(place, Box::new(99), 7) else { panic!("the taker is past it") };
        assert_eq!(queue.push(value, 7), Tells::Designated);
        assert_eq!(take(&queue, &queue.claim(&mut taker, 8).unwrap()), [99]);
        assert_eq!((queue.pushed(), taker.skipped()), (before + 4, 1));
    }
}

/// As above, with several of them in a row, and while a worker is about to arm the slot.
#[test]
fn several_preempted_producers_are_skipped_at_once_when_the_slot_is_armed() {
    let (queue, mut taker) = Queue::new(None, 0);
    let drawn: Vec<_> = (0..3).map(|_| queue.draw().0).collect();
    assert_eq!(queue.push(Box::new(1), 7), Tells::Nobody, "nothing was armed");
    assert!(!queue.arm(&mut taker), "an item waits");
    assert_eq!(take(&queue, &queue.claim(&mut taker, 8).unwrap()), [1]);
    for place in drawn {
        let Err(value) = queue.fill(place, Box::new(2), 7) else { panic!("the taker is past it") };
        assert_eq!(queue.push(value, 7), Tells::Nobody);
    }
    assert_eq!(take(&queue, &queue.claim(&mut taker, 8).unwrap()), [2, 2, 2]);
}

/// Segments behind that of a preempted producer are recycled again and again, and it still finds its own.
#[test]
fn a_producer_that_is_behind_all_segments_finds_its_own() {
    let (queue, mut taker) = Queue::new(None, 0);
    let place = queue.draw().0;
    for item in 0..1_000 {
        let _ = queue.push(Box::new(item), 7);
        assert_eq!(next(&queue, &mut taker), [item]);
    }
    assert!(queue.held_bytes() < 64 << 10, "{} bytes", queue.held_bytes());
    assert_eq!(queue.find(place.segment, place.number()), place.segment);
    assert_eq!(queue.find(queue.first(), place.number()), place.segment, "from any hint");
    let Err(value) = queue.fill(place, Box::new(1_000), 7) else { panic!("the taker is past it") };
    let _ = queue.push(value, 7);
    assert_eq!(next(&queue, &mut taker), [1_000]);
}

/// Producers that stop in the middle of a push, and takers that skip them: each item arrives once.
#[test]
fn items_of_producers_that_stop_in_the_middle_arrive_once() {
    const PRODUCERS: u64 = 4;
    const ITEMS: u64 = 2_000;
    let (queue, mut taker) = Queue::new(None, 0);
    let queue = &queue;
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            scope.spawn(move || {
                for item in 0..ITEMS {
                    let mut value = Box::new(producer * ITEMS + item);
                    if item % 3 != producer % 3 {
                        let _ = queue.push(value, 7);
                        continue;
                    }
                    loop {
                        let place = queue.draw().0;
                        // A yield may last a time slice of each thread on the machine.
                        if item % 100 == 0 {
                            std::thread::yield_now();
                        }
                        (0..item % 64).for_each(|_| std::hint::spin_loop());
                        match queue.fill(place, value, 7) {
                            Ok(_) => break,
                            Err(back) => value = back,
                        }
                    }
                }
            });
        }
        let mut next = [0; PRODUCERS as usize];
        let mut seen = 0;
        while seen < PRODUCERS * ITEMS {
            let Some(claim) = queue.claim(&mut taker, LEN) else {
                let _ = queue.arm(&mut taker);
                std::thread::yield_now();
                continue;
            };
            for item in take(queue, &claim) {
                let (producer, item) = ((item / ITEMS) as usize, item % ITEMS);
                assert_eq!(item, next[producer], "each producer's items come in their order");
                next[producer] += 1;
                seen += 1;
            }
        }
    });
    assert!(queue.claim(&mut taker, LEN).is_none());
    assert_eq!(queue.pushed() - taker.skipped(), PRODUCERS * ITEMS);
}

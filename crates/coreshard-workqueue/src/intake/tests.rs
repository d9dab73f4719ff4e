//! The intake on real threads.
#![cfg(not(loom))]
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coreshard_platform::Host;

use super::{Claim, Range, SegmentQueue};

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

#[test]
fn items_come_out_as_they_went_in_and_memory_is_used_again() {
    let (queue, mut taker) = Queue::new(None);
    for round in 0..1_000 {
        for item in 0..7 {
            assert_eq!(queue.push(Box::new(round * 7 + item), 7), None);
        }
        let mut seen = Vec::new();
        while let Some(claim) = queue.claim(&mut taker, 3) {
            seen.extend(take(&queue, &claim));
        }
        assert_eq!(seen, (round * 7..round * 7 + 7).collect::<Vec<_>>());
    }
    assert_eq!(queue.pushed(), 7_000);
    assert!(queue.mapped_bytes() < 64 << 10, "{} bytes for 7 items", queue.mapped_bytes());
}

#[test]
fn the_producer_of_the_next_item_learns_who_sleeps() {
    let (queue, mut taker) = Queue::new(None);
    // Also across the end of a segment, where the next one must be installed for it.
    for item in 0..2 * LEN as u64 {
        assert!(queue.park_at_head(&mut taker, 5));
        assert!(queue.park_at_head(&mut taker, 6), "the latest sleeper replaces the one before");
        assert_eq!(queue.push(Box::new(item), 7), Some(6));
        assert!(!queue.park_at_head(&mut taker, 7), "an item is there");
        assert!(!queue.unpark_at_head(&mut taker, 6), "its producer was quicker");
        let claim = queue.claim(&mut taker, 9).unwrap();
        assert_eq!(take(&queue, &claim), [item]);
    }
    assert!(queue.park_at_head(&mut taker, 1));
    assert!(queue.unpark_at_head(&mut taker, 1));
    assert_eq!(queue.push(Box::new(0), 7), None);
    let claim = queue.claim(&mut taker, 9).unwrap();
    assert_eq!(take(&queue, &claim), [0]);
}

#[test]
fn producers_and_thieves_lose_and_double_nothing() {
    const PRODUCERS: u64 = 3;
    const ITEMS: u64 = if cfg!(miri) { 50 } else { 30_000 };
    let (queue, mut taker) = Queue::new(None);
    let range = Range::<Host, Box<u64>, LEN>::new();
    let shared = Arc::new((queue, range, AtomicUsize::new(0)));
    let total = (PRODUCERS * ITEMS) as usize;
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                for item in 0..ITEMS {
                    shared.0.push(Box::new(producer * ITEMS + item), 7);
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

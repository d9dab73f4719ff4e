//! Ping-pong: each producer submits an item, waits until it has run, and submits the next.

use std::sync::Barrier;
use std::thread;

use super::word::{PATIENT, Word};
use crate::cell::{Cell, Measured};
use crate::measure::{Samples, Usage, allocations_during, now_ns};
use crate::peer::Spawn;

pub(super) fn run<P: Spawn>(cell: &Cell) -> Result<Measured, String> {
    let peer = super::start::<P>(cell)?;
    measure(cell, |word: &'static Word| {
        peer.spawn(move || word.give());
    })
}

/// The physical limit: a thread that only returns each word it is given.
pub(super) fn floor(cell: &Cell) -> Result<Measured, String> {
    let producers = cell.param("producers")?;
    if producers != 1 {
        return Err("the limit is only measured with two threads".to_owned());
    }
    let there: &'static Word = Box::leak(Box::default());
    let back: &'static Word = Box::leak(Box::default());
    thread::spawn(move || {
        loop {
            there.take(PATIENT);
            back.give();
        }
    });
    // `measure` waits on another word: one more store and load, on a line that is not shared.
    measure(cell, |word: &'static Word| {
        there.give();
        back.take(PATIENT);
        word.give();
    })
    .map(|mut measured| {
        // The call itself waits here.
        measured.call.clear();
        measured.note = Some("two threads and two words, no executor".to_owned());
        measured
    })
}

fn measure(cell: &Cell, send: impl Fn(&'static Word) + Sync) -> Result<Measured, String> {
    let producers = cell.param("producers")? as usize;
    let each = (cell.items / producers as u64).max(1);
    let words: Vec<&'static Word> = (0..producers).map(|_| &*Box::leak(Box::default())).collect();
    let round = |items: u64| {
        let barrier = Barrier::new(producers);
        thread::scope(|scope| {
            let threads: Vec<_> = words
                .iter()
                .map(|word| {
                    let (barrier, send) = (&barrier, &send);
                    scope.spawn(move || {
                        let mut calls = Samples::with_capacity(items as usize);
                        let mut trips = Samples::with_capacity(items as usize);
                        barrier.wait();
                        let started_ns = now_ns();
                        for _ in 0..items {
                            let before_ns = now_ns();
                            send(word);
                            let sent_ns = now_ns();
                            word.take(PATIENT);
                            calls.push(sent_ns - before_ns);
                            trips.push(now_ns() - before_ns);
                        }
                        (started_ns, now_ns(), calls, trips)
                    })
                })
                .collect();
            let (mut call, mut trip) = (Samples::default(), Samples::default());
            let (mut first_ns, mut last_ns) = (u64::MAX, 0);
            for thread in threads {
                let (started_ns, ended_ns, calls, trips) =
                    thread.join().expect("no producer panics");
                first_ns = first_ns.min(started_ns);
                last_ns = last_ns.max(ended_ns);
                call.extend(calls);
                trip.extend(trips);
            }
            (last_ns - first_ns, call, trip)
        })
    };
    round((each / 10).max(1));
    let before = Usage::now();
    let (elapsed_ns, call, trip) = round(each);
    let used = Usage::now().since(before);
    let counted = (each / 10).max(1);
    let allocations = allocations_during(|| {
        round(counted);
    });
    Ok(Measured::new(each * producers as u64, elapsed_ns, used)
        .call(call)
        .end_to_end(trip)
        .allocations(allocations, counted * producers as u64))
}

//! A producer and its items: an item's data and work, and the detection of the end.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};

use crate::measure::{Padded, Samples, now_ns, spin};
use crate::peer::Spawn;

/// Which items are timed. The other items also check it, so that all passes run the same code.
#[derive(Clone, Copy)]
pub(crate) enum Sampling {
    None,
    /// One item in 16.
    Sparse,
}

impl Sampling {
    const EVERY: u64 = 16;

    /// An item is timed if its index, under the mask, is the value.
    fn mask_and_value(self) -> (u64, u64) {
        match self {
            Self::None => (0, 1),
            Self::Sparse => (Self::EVERY - 1, 0),
        }
    }

    fn samples(self, items: u64) -> usize {
        match self {
            Self::None => 0,
            Self::Sparse => items.div_ceil(Self::EVERY) as usize,
        }
    }
}

/// Shared by the items of one producer. An item carries a reference to it and its index.
struct Account {
    /// Finished items: written by workers.
    done: Padded<AtomicU64>,
    /// This and the following fields are only read while items run.
    items: u64,
    rounds: u64,
    mask: u64,
    value: u64,
    ended_ns: Box<[AtomicU64]>,
    waiter: Thread,
    finished_ns: AtomicU64,
}

impl Account {
    /// The body of an item.
    #[inline(always)]
    fn run_item(&self, index: u64) {
        if self.rounds > 0 {
            spin(self.rounds);
        }
        if index & self.mask == self.value {
            self.ended_ns[(index / Sampling::EVERY) as usize].store(now_ns(), Ordering::Relaxed);
        }
        // AcqRel: the worker of the last item sees, and passes on, the writes of the others.
        if self.done.0.fetch_add(1, Ordering::AcqRel) + 1 == self.items {
            self.finished_ns.store(now_ns(), Ordering::Release);
            self.waiter.unpark();
        }
    }
}

/// The result of a pass.
pub(crate) struct Pass {
    /// From the first producer's start to the end of the last item.
    pub(crate) elapsed_ns: u64,
    pub(crate) call: Samples,
    pub(crate) end_to_end: Samples,
}

/// Submits `items` items from `producers` threads outside the peer, as fast as they can.
/// `peer_of` returns the executor that a producer uses.
pub(crate) fn pass<'peer, P: Spawn>(
    peer_of: impl Fn(usize) -> &'peer P + Sync,
    producers: usize,
    items: u64,
    rounds: u64,
    sampling: Sampling,
) -> Pass {
    let each = (items / producers as u64).max(1);
    let (mask, value) = sampling.mask_and_value();
    let samples = sampling.samples(each);
    let accounts: Vec<&'static Account> = (0..producers)
        .map(|_| {
            // Leaked: the last items may still access it when the pass has ended.
            &*Box::leak(Box::new(Account {
                done: Padded::default(),
                items: each,
                rounds,
                mask,
                value,
                ended_ns: (0..samples).map(|_| AtomicU64::new(0)).collect(),
                waiter: thread::current(),
                finished_ns: AtomicU64::new(0),
            }))
        })
        .collect();
    let barrier = Barrier::new(producers);
    let (mut call, mut end_to_end) = (Samples::default(), Samples::default());
    let mut first_start_ns = u64::MAX;
    thread::scope(|scope| {
        let threads: Vec<_> = accounts
            .iter()
            .enumerate()
            .map(|(at, account)| {
                let (barrier, peer) = (&barrier, peer_of(at));
                scope.spawn(move || {
                    let account: &'static Account = account;
                    let mut calls = Samples::with_capacity(samples);
                    let mut starts_ns = Samples::with_capacity(samples);
                    barrier.wait();
                    let started_ns = now_ns();
                    for index in 0..each {
                        if index & mask == value {
                            let before_ns = now_ns();
                            peer.spawn(move || account.run_item(index));
                            calls.push(now_ns() - before_ns);
                            starts_ns.push(before_ns);
                        } else {
                            peer.spawn(move || account.run_item(index));
                        }
                    }
                    (started_ns, calls, starts_ns)
                })
            })
            .collect();
        for (thread, account) in threads.into_iter().zip(&accounts) {
            let (started_ns, calls, starts_ns) = thread.join().expect("a producer does not panic");
            first_start_ns = first_start_ns.min(started_ns);
            while account.finished_ns.load(Ordering::Acquire) == 0 {
                thread::park();
            }
            call.extend(calls);
            end_to_end.extend(starts_ns.until(&account.ended_ns));
        }
    });
    let finished_ns = accounts.iter().map(|account| account.finished_ns.load(Ordering::Acquire));
    let elapsed_ns = finished_ns.max().expect("there is a producer") - first_start_ns;
    Pass { elapsed_ns, call, end_to_end }
}

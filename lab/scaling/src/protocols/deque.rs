//! The deque of Chase and Lev (2005), with the orderings of Lê et al. (2013): the owner's end, and the thieves'.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use coreshard_platform::{AtomicInt, Padded, Platform};
use coreshard_sim::Sim;

type AtomicU64 = <Sim as Platform>::AtomicU64;

const PLACES: u64 = 1024;

pub(crate) struct Deque {
    /// The owner's end in the first, the thieves' in the last: two lines, or one.
    ends: Box<[Padded<[AtomicU64; 2]>]>,
    places: Box<[AtomicU64]>,
}

impl Deque {
    pub(crate) fn new(ends_share_a_line: bool) -> Self {
        let word = || AtomicU64::new(0);
        let lines = if ends_share_a_line { 1 } else { 2 };
        Self {
            ends: (0..lines).map(|_| Padded::new([word(), word()])).collect(),
            places: (0..PLACES).map(|_| word()).collect(),
        }
    }

    fn bottom(&self) -> &AtomicU64 {
        &self.ends[0][0]
    }

    fn top(&self) -> &AtomicU64 {
        &self.ends[self.ends.len() - 1][1]
    }

    fn place(&self, at: u64) -> &AtomicU64 {
        &self.places[(at % PLACES) as usize]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bottom().load(Relaxed) <= self.top().load(Relaxed)
    }

    pub(crate) fn push(&self, job: u64) {
        let bottom = self.bottom().load(Relaxed);
        assert!(bottom - self.top().load(Relaxed) < PLACES, "programs are not so deep");
        self.place(bottom).store(job, Relaxed);
        self.bottom().store(bottom + 1, Release);
    }

    pub(crate) fn pop(&self) -> Option<u64> {
        let bottom = self.bottom().load(Relaxed);
        if bottom == 0 {
            return None;
        }
        let last = bottom - 1;
        self.bottom().store(last, SeqCst);
        let top = self.top().load(SeqCst);
        if top < last {
            return Some(self.place(last).load(Relaxed));
        }
        let is_own =
            top == last && self.top().compare_exchange(top, top + 1, SeqCst, Relaxed).is_ok();
        let job = is_own.then(|| self.place(last).load(Relaxed));
        self.bottom().store(bottom, Relaxed);
        job
    }

    pub(crate) fn steal(&self) -> Option<u64> {
        loop {
            let top = self.top().load(SeqCst);
            if top >= self.bottom().load(SeqCst) {
                return None;
            }
            let job = self.place(top).load(Acquire);
            if self.top().compare_exchange(top, top + 1, SeqCst, Relaxed).is_ok() {
                return Some(job);
            }
        }
    }
}

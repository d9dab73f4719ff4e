//! Runs a program by hand: its first thread controls how many items may begin and how far time advances.
//!
//! 1. The first thread runs until it waits. Others run when it has let them (`let_run`), and begin only as
//!    many items as it allows. A thread that reaches the beginning of an item stops there, first come first
//!    served.
//! 2. Nothing costs time, and time stands still unless the first thread lets it pass. Then events are handled
//!    in order until the requested moment.
//! 3. The run is *quiet* when no thread can continue before that moment. Then the first thread continues, if
//!    it has let others run. If it waits for something else, items begin one after the other until its wait
//!    ends. If no item is left, the run has failed.

use std::collections::VecDeque;

use super::threads::{FIRST, Thread, Wait};
use crate::machine::Ps;

/// How often the first thread may check in vain before the run fails.
const LOOKS: u32 = 10_000;

/// The next step when the run is quiet.
pub(super) enum Quiet {
    /// The first thread continues.
    FirstGoesOn,
    /// An item may begin on the thread that has waited longest.
    ItemBegins(usize),
    /// The first thread's wait cannot end.
    InVain,
}

/// The first thread's permissions for the others.
#[derive(Debug, Default)]
pub(super) struct Hand {
    /// Items that may begin.
    allowed: u64,
    /// Threads that stopped before an item.
    held: VecDeque<usize>,
    /// How far time may advance.
    until: Ps,
    /// How often the first thread has yielded since its last other action.
    looks: u32,
}

impl Hand {
    /// Returns how far time may advance.
    pub(super) const fn until(&self) -> Ps {
        self.until
    }

    /// Permits up to `items` items to begin, and time to pass. Returns the threads that may continue, first
    /// come first served.
    pub(super) fn give(&mut self, items: u64, time: Ps) -> Vec<usize> {
        self.allowed = items;
        self.until = self.until.saturating_add(time);
        self.looks = 0;
        let count = usize::try_from(items).unwrap_or(usize::MAX).min(self.held.len());
        self.held.drain(..count).collect()
    }

    pub(super) fn take_back(&mut self) {
        self.allowed = 0;
    }

    /// Returns true while a thread may not begin an item, given the first thread's state. An item inside
    /// another one is a part of it.
    pub(super) fn holds(&self, thread: usize, does: &Thread, first: &Thread) -> bool {
        let first_waits = first.waits_for().is_some_and(|wait| wait != Wait::Hand);
        self.allowed == 0
            && !first_waits
            && thread != FIRST
            && !first.is_over()
            && does.item().is_none()
    }

    /// Records that a thread stopped before an item.
    pub(super) fn hold(&mut self, thread: usize) {
        self.held.push_back(thread);
    }

    /// Records that an item begins that is not a part of another.
    pub(super) fn item_begins(&mut self) {
        self.allowed = self.allowed.saturating_sub(1);
    }

    /// Records that the first thread yields without waiting. Returns true if it has checked too often, in
    /// vain.
    pub(super) fn looks_in_vain(&mut self, times: u32, now: Ps) -> bool {
        if now <= self.until {
            self.looks = self.looks.saturating_add(times);
        }
        now <= self.until && self.looks >= LOOKS
    }

    /// Records that a thread begins to wait.
    pub(super) fn note_wait(&mut self) {
        self.looks = 0;
    }

    /// Called between two events, when no CPU is busy and the next event is after the moment requested by the
    /// first thread.
    pub(super) fn when_quiet(&mut self, first: &Thread) -> Quiet {
        match first.waits_for() {
            Some(Wait::Hand) => Quiet::FirstGoesOn,
            _ => self.held.pop_front().map_or(Quiet::InVain, Quiet::ItemBegins),
        }
    }

    /// Returns the threads that stopped before an item; they may continue freely.
    pub(super) fn into_held(self) -> VecDeque<usize> {
        self.held
    }
}

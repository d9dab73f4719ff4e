//! Running a program by hand: its first thread says how many items may begin and how far time goes.
//!
//! 1. The first thread runs until it waits. Others run when it has let them (`let_run`), and no item begins on
//!    them but those that it allows: a thread that comes to an item's beginning stands there, first come first served.
//! 2. Time costs nothing and stands still, unless the first thread lets it pass: events are handled in order
//!    until the moment it has named.
//! 3. The run is *quiet* when no thread can go on before that moment. Then the first thread goes on, if it has let
//!    others run. If it waits for something else, an item may begin, one after the other, until what it waits for
//!    has come; and if there is none, the run has failed.

use std::collections::VecDeque;

use super::threads::{FIRST, Thread, Wait};
use crate::machine::Ps;

/// How often the first thread may look, in vain, before the run fails for that.
const LOOKS: u32 = 10_000;

/// What follows when the run is quiet.
pub(super) enum Quiet {
    /// The first thread goes on.
    FirstGoesOn,
    /// An item may begin on the thread that has waited longest.
    ItemBegins(usize),
    /// What the first thread waits for cannot come.
    InVain,
}

/// What the first thread allows the others.
#[derive(Debug, Default)]
pub(super) struct Hand {
    /// Items that may begin.
    allowed: u64,
    /// Threads that stand before an item.
    held: VecDeque<usize>,
    /// How far time goes.
    until: Ps,
    /// How often the first thread has let others go first since it last did something.
    looks: u32,
}

impl Hand {
    /// How far time goes.
    pub(super) const fn until(&self) -> Ps {
        self.until
    }

    /// The first thread lets up to `items` items begin, and time pass. Returns the threads that go on for that, first come
    /// first served.
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

    /// True while a thread may not begin an item, given what the first thread does. One that is inside another is a part of
    /// that.
    pub(super) fn holds(&self, thread: usize, does: &Thread, first: &Thread) -> bool {
        let first_waits = first.waits_for().is_some_and(|wait| wait != Wait::Hand);
        self.allowed == 0
            && !first_waits
            && thread != FIRST
            && !first.is_over()
            && does.item().is_none()
    }

    /// A thread stands before an item.
    pub(super) fn hold(&mut self, thread: usize) {
        self.held.push_back(thread);
    }

    /// An item begins that is not a part of another.
    pub(super) fn item_begins(&mut self) {
        self.allowed = self.allowed.saturating_sub(1);
    }

    /// The first thread lets others go first, and does not wait. True if it has looked too often, in vain.
    pub(super) fn looks_in_vain(&mut self, times: u32, now: Ps) -> bool {
        if now <= self.until {
            self.looks = self.looks.saturating_add(times);
        }
        now <= self.until && self.looks >= LOOKS
    }

    /// A thread begins to wait.
    pub(super) fn note_wait(&mut self) {
        self.looks = 0;
    }

    /// Between two events, when no CPU is busy and the next event is after the moment that the first thread has named.
    pub(super) fn when_quiet(&mut self, first: &Thread) -> Quiet {
        match first.waits_for() {
            Some(Wait::Hand) => Quiet::FirstGoesOn,
            _ => self.held.pop_front().map_or(Quiet::InVain, Quiet::ItemBegins),
        }
    }

    /// The threads that stand before an item, which may go on as they like.
    pub(super) fn into_held(self) -> VecDeque<usize> {
        self.held
    }
}

//! `max_active`: how many items of a queue may be in the pools at once.

use std::collections::VecDeque;
use std::ptr::NonNull;

use coreshard_platform::{Lock, Platform, fields};

use super::lane::Lane;
use crate::item::Item;

/// A queue with a limit has one lock of its own that all its items pass, in and out: it is exact,
/// and items wait in the order in which they came. A queue without a limit has none of it.
pub(super) struct Limiter<P: Platform> {
    most: usize,
    turns: Lock<P, Turns<P>>,
}
fields!(Limiter<P: Platform> { most, turns });

struct Turns<P: Platform> {
    active: usize,
    waiting: VecDeque<(Item, LanePointer<P>)>,
}
fields!(Turns<P: Platform> { active, waiting });

/// The lane that counted a waiting item in, and so lives until that item is over.
struct LanePointer<P: Platform>(NonNull<Lane<P>>);

// SAFETY: a lane is shared between threads as it is.
#[allow(unsafe_code)]
unsafe impl<P: Platform> Send for LanePointer<P> {}

impl<P: Platform> Limiter<P> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, turns: Lock::new(Turns { active: 0, waiting: VecDeque::new() }) }
    }

    /// Names its fields, where it has come to its final place.
    pub(super) fn describe(&self) {
        P::describe(&raw const *self);
        self.turns.describe();
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.most == 1
    }

    pub(super) fn push(&self, item: Item, lane: &Lane<P>) {
        let mut turns = self.turns.lock();
        if turns.active >= self.most {
            turns.waiting.push_back((item, LanePointer(NonNull::from(lane))));
            return;
        }
        turns.active += 1;
        drop(turns);
        lane.send(item);
    }

    #[allow(unsafe_code)]
    pub(super) fn one_is_over(&self) {
        let mut turns = self.turns.lock();
        match turns.waiting.pop_front() {
            Some((item, lane)) => {
                drop(turns);
                // SAFETY: the lane lives until all items that it counted in are over, and this
                // one has not even begun.
                unsafe { lane.0.as_ref() }.send(item);
            }
            None => turns.active -= 1,
        }
    }
}

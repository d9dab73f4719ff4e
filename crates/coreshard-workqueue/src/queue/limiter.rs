//! `max_active`: how many items of a queue may be in the pools at once.

use std::collections::VecDeque;

use coreshard_platform::{Lock, Platform};

use crate::item::Item;

/// A queue with a limit has one lock of its own that all its items pass, in and out: it is exact,
/// and items wait in the order in which they came. A queue without a limit has none of it.
pub(super) struct Limiter<P: Platform> {
    most: usize,
    turns: Lock<P, Turns<P>>,
}

struct Turns<P: Platform> {
    active: usize,
    waiting: VecDeque<Item<P>>,
}

impl<P: Platform> Limiter<P> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, turns: Lock::new(Turns { active: 0, waiting: VecDeque::new() }) }
    }

    pub(super) fn push(&self, item: Item<P>) {
        let mut turns = self.turns.lock();
        if turns.active >= self.most {
            turns.waiting.push_back(item);
            return;
        }
        turns.active += 1;
        drop(turns);
        send(item);
    }

    pub(super) fn one_is_over(&self) {
        let mut turns = self.turns.lock();
        match turns.waiting.pop_front() {
            Some(next) => {
                drop(turns);
                send(next);
            }
            None => turns.active -= 1,
        }
    }
}

#[allow(unsafe_code)]
fn send<P: Platform>(item: Item<P>) {
    // SAFETY: a lane lives until all items that it counted in are over, and this one is not.
    unsafe { item.lane().as_ref() }.pool.push(item);
}

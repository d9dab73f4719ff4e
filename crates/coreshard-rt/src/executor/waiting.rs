//! Tasks, and those of a CPU that wait for it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::index::CpuMask;
use crate::level::{Level, Priority};

/// What is to be run once, and where.
pub(super) struct Task {
    pub(super) id: u64,
    pub(super) priority: Priority,
    pub(super) allowed: CpuMask,
    /// CPU time after which it is demoted.
    pub(super) budget: Option<Duration>,
    pub(super) run: Box<dyn FnOnce() + Send>,
}

/// A set of priorities or levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Levels(u128);

impl Levels {
    pub(super) fn add(&mut self, level: usize) {
        self.0 |= 1 << level;
    }

    pub(super) fn remove(&mut self, level: usize) {
        self.0 &= !(1 << level);
    }

    /// The highest; level 0 where there is none.
    pub(super) fn highest(self) -> Level {
        Level::from_index(
            127_usize.saturating_sub(self.0.leading_zeros() as usize) * usize::from(self.0 != 0),
        )
    }

    fn below(self, bound: usize) -> Self {
        Self(self.0 & ((1 << bound) - 1))
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Tasks that wait, by priority, and among equals first come first.
#[derive(Default)]
pub(super) struct Waiting {
    queues: Vec<VecDeque<Task>>,
    occupied: Levels,
    len: usize,
}

impl Waiting {
    pub(super) fn new() -> Self {
        let queues = (0..Level::COUNT).map(|_| VecDeque::new()).collect();
        Self { queues, occupied: Levels::default(), len: 0 }
    }

    pub(super) fn push(&mut self, task: Task) {
        let level = task.priority.level().index();
        self.queues[level].push_back(task);
        self.occupied.add(level);
        self.len += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The highest priority that waits, as a level; 0 for none.
    pub(super) fn top(&self) -> Level {
        self.occupied.highest()
    }

    /// Takes the first task of the highest priority above `level` that `may`.
    pub(super) fn take(&mut self, level: Level, may: impl Fn(&Task) -> bool) -> Option<Task> {
        let mut left = self.occupied;
        while !left.is_empty() && left.highest() > level {
            let at = left.highest().index();
            if let Some(place) = self.queues[at].iter().position(&may) {
                let task = self.queues[at].remove(place);
                self.taken(at);
                return task;
            }
            left = left.below(at);
        }
        None
    }

    /// Takes one task by its number.
    pub(super) fn take_id(&mut self, priority: Priority, id: u64) -> Option<Task> {
        let at = priority.level().index();
        let place = self.queues[at].iter().position(|task| task.id == id)?;
        let task = self.queues[at].remove(place);
        self.taken(at);
        task
    }

    fn taken(&mut self, at: usize) {
        self.len -= 1;
        if self.queues[at].is_empty() {
            self.occupied.remove(at);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.queues.iter().rev().flatten()
    }

    /// Takes all of them, highest first.
    pub(super) fn drain(&mut self) -> Vec<Task> {
        self.occupied = Levels::default();
        self.len = 0;
        self.queues.iter_mut().rev().flat_map(std::mem::take).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn task(id: u64, priority: u8, allowed: &[usize]) -> Task {
        let mut words = CpuMask::EMPTY;
        allowed.iter().for_each(|place| words.add(*place));
        let priority = Priority::new(priority).unwrap();
        Task { id, priority, allowed: words, budget: None, run: Box::new(|| {}) }
    }

    #[test]
    fn the_highest_that_may_is_taken_first_and_equals_in_order() {
        let mut waiting = Waiting::new();
        for (id, priority, allowed) in
            [(1, 20, [0]), (2, 99, [1]), (3, 50, [0]), (4, 50, [0]), (5, 1, [0])]
        {
            waiting.push(task(id, priority, &allowed));
        }
        assert_eq!((waiting.len(), waiting.top().get()), (5, 99));
        let here = |task: &Task| task.allowed.has(0);
        let mut take =
            |level: usize| waiting.take(Level::from_index(level), here).map(|task| task.id);
        assert_eq!(
            [take(0), take(0), take(20), take(19), take(0)],
            [Some(3), Some(4), None, Some(1), Some(5)]
        );
        assert!(waiting.take_id(Priority::MAX, 7).is_none());
        assert_eq!(waiting.take_id(Priority::MAX, 2).unwrap().id, 2);
        assert_eq!((waiting.len(), waiting.top()), (0, Level::IDLE));
        waiting.push(task(6, 4, &[0]));
        waiting.push(task(7, 8, &[0]));
        assert_eq!(waiting.drain().iter().map(|task| task.id).collect::<Vec<_>>(), [7, 6]);
        assert_eq!(waiting.top(), Level::IDLE);
    }
}

//! The tasks that wait at a CPU, by priority.

use std::collections::VecDeque;
use std::time::Duration;

use crate::index::CpuMask;
use crate::level::{Level, Priority};

/// A closure to run once, and the CPUs that may run it.
pub(super) struct Task {
    pub(super) id: u64,
    pub(super) priority: Priority,
    pub(super) allowed: CpuMask,
    /// The CPU time after which it is demoted.
    pub(super) budget: Option<Duration>,
    pub(super) run: Box<dyn FnOnce() + Send>,
}

/// A set of levels, in one word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LevelSet(u128);

impl LevelSet {
    pub(super) fn add(&mut self, level: usize) {
        self.0 |= 1 << level;
    }

    pub(super) fn remove(&mut self, level: usize) {
        self.0 &= !(1 << level);
    }

    /// Returns the highest level, or level 0 if the set is empty.
    pub(super) fn highest(self) -> Level {
        Level::from_index(self.0.checked_ilog2().unwrap_or(0) as usize)
    }
}

/// Waiting tasks by priority; first come, first served among equals.
pub(super) struct PriorityArray {
    queues: Vec<VecDeque<Task>>,
    occupied: LevelSet,
    len: usize,
}

impl PriorityArray {
    pub(super) fn new() -> Self {
        let queues = (0..Level::COUNT).map(|_| VecDeque::new()).collect();
        Self { queues, occupied: LevelSet::default(), len: 0 }
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

    /// Returns the highest waiting priority as a level; 0 for none.
    pub(super) fn highest(&self) -> Level {
        self.occupied.highest()
    }

    /// Takes the first task of the highest priority above `level` that `may` accepts.
    pub(super) fn take(&mut self, level: Level, may: impl Fn(&Task) -> bool) -> Option<Task> {
        let mut left = self.occupied;
        while left.highest() > level {
            let at = left.highest().index();
            if let Some(position) = self.queues[at].iter().position(&may) {
                return self.remove(at, position);
            }
            left.remove(at);
        }
        None
    }

    /// Takes the task with this number.
    pub(super) fn take_id(&mut self, priority: Priority, id: u64) -> Option<Task> {
        let at = priority.level().index();
        let position = self.queues[at].iter().position(|task| task.id == id)?;
        self.remove(at, position)
    }

    fn remove(&mut self, at: usize, position: usize) -> Option<Task> {
        let task = self.queues[at].remove(position);
        self.len -= 1;
        if self.queues[at].is_empty() {
            self.occupied.remove(at);
        }
        task
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.queues.iter().rev().flatten()
    }

    /// Takes all tasks, highest priority first.
    pub(super) fn drain(&mut self) -> Vec<Task> {
        self.occupied = LevelSet::default();
        self.len = 0;
        self.queues.iter_mut().rev().flat_map(std::mem::take).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn task(id: u64, priority: u8, allowed: &[usize]) -> Task {
        let mut words = CpuMask::EMPTY;
        allowed.iter().for_each(|position| words.add(*position));
        let priority = Priority::new(priority).unwrap();
        Task { id, priority, allowed: words, budget: None, run: Box::new(|| {}) }
    }

    #[test]
    fn the_highest_that_may_is_taken_first_and_equals_in_order() {
        let mut waiting = PriorityArray::new();
        for (id, priority, allowed) in
            [(1, 20, [0]), (2, 99, [1]), (3, 50, [0]), (4, 50, [0]), (5, 1, [0])]
        {
            waiting.push(task(id, priority, &allowed));
        }
        assert_eq!((waiting.len(), waiting.highest().get()), (5, 99));
        let here = |task: &Task| task.allowed.has(0);
        let mut take =
            |level: usize| waiting.take(Level::from_index(level), here).map(|task| task.id);
        assert_eq!(
            [take(0), take(0), take(20), take(19), take(0)],
            [Some(3), Some(4), None, Some(1), Some(5)]
        );
        assert!(waiting.take_id(Priority::MAX, 7).is_none());
        assert_eq!(waiting.take_id(Priority::MAX, 2).unwrap().id, 2);
        assert_eq!((waiting.len(), waiting.highest()), (0, Level::IDLE));
        waiting.push(task(6, 4, &[0]));
        waiting.push(task(7, 8, &[0]));
        assert_eq!(waiting.drain().iter().map(|task| task.id).collect::<Vec<_>>(), [7, 6]);
        assert_eq!(waiting.highest(), Level::IDLE);
    }
}

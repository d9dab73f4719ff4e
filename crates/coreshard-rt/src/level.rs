//! Priorities of tasks, and levels of CPUs.

use std::fmt;

use crate::error::RtError;

/// A fixed real-time priority, 1 (lowest) to 99 (highest), as in SCHED_FIFO.
///
/// ```
/// use coreshard_rt::Priority;
///
/// assert_eq!(Priority::new(80)?.get(), 80);
/// assert!(Priority::new(100).is_err());
/// # Ok::<(), coreshard_rt::RtError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The lowest priority, 1.
    pub const MIN: Self = Self(1);
    /// The highest priority, 99.
    pub const MAX: Self = Self(99);

    /// Creates the priority with this number.
    ///
    /// # Errors
    /// If the number is not within 1 to 99.
    pub fn new(priority: u8) -> Result<Self, RtError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&priority) {
            Ok(Self(priority))
        } else {
            Err(RtError::new(format!("invalid priority {priority}: expected 1 to 99")))
        }
    }

    /// Returns the priority with this level; `None` for a level without a priority.
    pub(crate) fn of(level: Level) -> Option<Self> {
        Self::new(level.get()).ok()
    }

    /// Returns the number, 1 to 99.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the level of a CPU that runs a task of this priority.
    pub const fn level(self) -> Level {
        Level(self.0)
    }
}

impl TryFrom<u8> for Priority {
    type Error = RtError;

    fn try_from(priority: u8) -> Result<Self, RtError> {
        Self::new(priority)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The priority of the work that a CPU runs: 0 for none (idle, or normal work), 1 to 99 for a task of that
/// priority, 100 for work above all priorities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The CPU is idle, or runs normal work.
    pub const IDLE: Self = Self(0);
    /// The CPU runs work above all priorities, and accepts no tasks.
    ///
    /// Also a bound that every priority is below.
    pub const TOP: Self = Self(Self::COUNT as u8 - 1);
    /// The number of levels, 101. (Fewer under a model checker, which tries every order.)
    pub const COUNT: usize = if cfg!(loom) { 8 } else { 101 };

    pub(crate) fn from_index(index: usize) -> Self {
        debug_assert!(index < Self::COUNT);
        Self(index as u8)
    }

    /// Returns the number, 0 to 100.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the next higher level, at most the highest.
    pub(crate) fn above(self) -> Self {
        self.max(Self(self.0.min(Self::TOP.0 - 1) + 1))
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<Priority> for Level {
    fn from(priority: Priority) -> Self {
        priority.level()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

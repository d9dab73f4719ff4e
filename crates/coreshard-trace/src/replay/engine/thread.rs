//! A recorded thread and a CPU in a replay.

use std::collections::VecDeque;

use super::ahead::Ahead;
use super::outcome::{ThreadView, ns};
use super::spin::Spin;
use crate::recording::{Access, ThreadEvents};
use crate::replay::owners::{NOBODY, Owner};
use crate::replay::pace::Pace;
use crate::replay::pages::Lately;
use crate::replay::pieces::PieceNumber;
use crate::replay::stores::{Store, Stores};

/// Locks that one thread holds at the same time.
const MOST_LOCKS_HELD: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Running, or ready to run.
    Ready,
    Blocked(On),
    Done,
}

/// The event that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    Lock(u64),
    Wake(u64),
    Exit(u64),
    Create,
}

/// The state of an attempt to acquire a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    /// The thread was woken, and requests the lock's line.
    Woken,
    /// The thread was woken, and has the line.
    Again,
    /// The thread was given the lock, and requests its line.
    Given,
}

/// A thread's next operation that is visible to others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    Access {
        access: Access,
        line: u32,
    },
    Range {
        access: Access,
        address: u64,
        left: u64,
    },
    Lock {
        lock: u64,
        is_shared: bool,
        attempt: Attempt,
    },
    Unlock(u64),
    Wake(u64),
    Waited(u64),
    Create(u64),
    Join(u64),
    Exit,
    Gap(u64),
    /// Reaches the ticket at which memory is allocated, or with `GiveBack` the one at which it is freed.
    Take(u64),
    GiveBack(u64),
}

pub(super) struct Thread<'r> {
    pub(super) number: u32,
    pub(super) events: ThreadEvents<'r>,
    pub(super) cpu: usize,
    pub(super) pace: Pace,
    pub(super) state: State,
    pub(super) lately: Lately,
    /// The operation that was read and waits for its turn.
    pub(super) pending: Option<Pending>,
    pub(super) spin: Spin,
    /// Locks that it holds, once for each acquisition.
    locks: Vec<u64>,
    /// The ticket of the last event that had one.
    pub(super) ticket: u64,
    /// The last piece that it accessed of memory that passed between threads.
    pub(super) piece: PieceNumber,
    /// The last piece that it accessed of memory that belonged to several objects.
    pub(super) owner: Owner,
    pub(super) accesses: u64,
    pub(super) lost_ps: u64,
    pub(super) blocked_since: u64,
    pub(super) waited_ps: u64,
    pub(super) ended_ps: u64,
}

impl<'r> Thread<'r> {
    pub(super) fn new(
        number: u32,
        events: ThreadEvents<'r>,
        cpu: usize,
        pace: Pace,
        state: State,
    ) -> Self {
        Self {
            number,
            events,
            cpu,
            pace,
            state,
            lately: Lately::default(),
            pending: None,
            spin: Spin::default(),
            locks: Vec::new(),
            ticket: 0,
            piece: PieceNumber::MAX,
            owner: NOBODY,
            accesses: 0,
            lost_ps: 0,
            blocked_since: 0,
            waited_ps: 0,
            ended_ps: 0,
        }
    }

    /// Returns its running time, without its waits for other threads.
    pub(super) const fn running_ps(&self) -> u64 {
        self.ended_ps.saturating_sub(self.waited_ps)
    }

    /// Returns its statistics.
    pub(super) fn view(&self, cpus: &[Cpu]) -> ThreadView {
        ThreadView {
            thread: self.number,
            cpu: cpus[self.cpu].id,
            accesses: self.accesses,
            lost_ns: ns(self.lost_ps),
            waited_ns: ns(self.waited_ps),
            ended_ns: ns(self.ended_ps),
        }
    }

    pub(super) fn note_lock(&mut self, lock: u64) {
        if self.locks.len() < MOST_LOCKS_HELD {
            self.locks.push(lock);
        }
    }

    pub(super) fn note_unlock(&mut self, lock: u64) {
        if let Some(at) = self.locks.iter().rposition(|its| *its == lock) {
            self.locks.remove(at);
        }
    }

    /// Returns the locks that it holds.
    pub(super) fn locks(&self) -> &[u64] {
        &self.locks
    }

    /// Whether it holds a lock on the line that begins at `start`.
    pub(super) fn has_lock_on(&self, start: u64, line_bytes: u64) -> bool {
        self.locks.iter().any(|lock| lock & !(line_bytes - 1) == start)
    }
}

#[derive(Default)]
pub(super) struct Cpu {
    pub(super) id: u32,
    pub(super) now: u64,
    /// The ready threads. The first one is running.
    pub(super) ready: VecDeque<usize>,
    /// The time at which it began to run.
    pub(super) since: u64,
    pub(super) is_queued: bool,
    pub(super) stores: Stores,
    pub(super) ahead: Ahead,
    /// The last store that missed, if its line was lost to another CPU before.
    pub(super) taken_back: Option<Store>,
}

impl Cpu {
    /// Returns the time of its next operation that is visible to others.
    pub(super) fn next_ps(&self) -> u64 {
        self.stores.due().map_or(self.now, |due| due.min(self.now))
    }

    /// Moves the running thread to the end of the queue or removes it, and starts the next one.
    pub(super) fn switch(&mut self, stays: bool, switch_ps: u64) {
        let first = self.ready.pop_front();
        if stays {
            self.ready.extend(first);
        }
        if !self.ready.is_empty() {
            self.now += switch_ps;
            self.since = self.now;
        }
    }
}

//! A recorded thread and a CPU in a replay.

use std::collections::VecDeque;

use super::outcome::{ThreadView, ns};
use crate::recording::{Access, ThreadEvents};
use crate::replay::owners::{NOBODY, Owner};
use crate::replay::pages::Lately;
use crate::replay::pieces::PieceNumber;
use crate::replay::stores::Stores;

/// Locks of one thread at once.
const MOST_LOCKS_HELD: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Runs, or would if it had the CPU.
    Ready,
    Blocked(On),
    Done,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    Lock(u64),
    Wake(u64),
    Exit(u64),
    Create,
}

/// How a thread comes to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    /// It was woken, and asks for the lock's line.
    Woken,
    /// It was woken, and has the line.
    Again,
}

/// What a thread does next that others see.
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
    /// The ticket at which memory is taken, and that at which it is given back.
    Take(u64),
    GiveBack(u64),
}

pub(super) struct Thread<'r> {
    pub(super) number: u32,
    pub(super) events: ThreadEvents<'r>,
    pub(super) cpu: usize,
    pub(super) state: State,
    pub(super) lately: Lately,
    /// What was read, and waits for its turn.
    pub(super) pending: Option<Pending>,
    /// Locks that it has, each as often as it has taken it.
    locks: Vec<u64>,
    /// Of the last event that had one.
    pub(super) ticket: u64,
    /// The piece of memory among those that several had that it accessed last.
    pub(super) piece: PieceNumber,
    /// Of what was several things, what it accessed last.
    pub(super) owner: Owner,
    pub(super) accesses: u64,
    pub(super) lost_ps: u64,
    pub(super) blocked_since: u64,
    pub(super) waited_ps: u64,
    pub(super) ended_ps: u64,
}

impl<'r> Thread<'r> {
    pub(super) fn new(number: u32, events: ThreadEvents<'r>, cpu: usize, state: State) -> Self {
        Self {
            number,
            events,
            cpu,
            state,
            lately: Lately::default(),
            pending: None,
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

    /// How long it ran, without its waits for other threads.
    pub(super) const fn running_ps(&self) -> u64 {
        self.ended_ps.saturating_sub(self.waited_ps)
    }

    /// What it spent.
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

    /// Whether it has a lock that lies on the line that begins at `start`.
    pub(super) fn has_lock_on(&self, start: u64, line_bytes: u64) -> bool {
        self.locks.iter().any(|lock| lock & !(line_bytes - 1) == start)
    }
}

#[derive(Default)]
pub(super) struct Cpu {
    pub(super) id: u32,
    pub(super) now: u64,
    /// The first is the one that runs.
    pub(super) ready: VecDeque<usize>,
    /// When that began.
    pub(super) since: u64,
    pub(super) is_queued: bool,
    pub(super) stores: Stores,
}

impl Cpu {
    /// When it does something that others see.
    pub(super) fn next_ps(&self) -> u64 {
        self.stores.due().map_or(self.now, |due| due.min(self.now))
    }

    /// The first of its threads goes to the end of the queue, or leaves it, and the next one begins.
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

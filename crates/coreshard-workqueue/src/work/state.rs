//! The state word of a `Work`. `README.md` beside this file describes the protocol.
//!
//! | bits | name | set by | cleared by |
//! |---|---|---|---|
//! | 0 | `PENDING`: it is queued and has not begun | the thread that queues it | the worker that begins it; a cancel |
//! | 1 | `RUNNING`: a worker is inside its function | that worker, with `PENDING` cleared | that worker |
//! | 2 | `DELAYED`: it waits for its time; with `PENDING` only | the thread that queues it with a delay | the timers, or a flush that makes it due; a cancel |
//! | 3 | `PARKED`: a place in a queue is kept for it; with `RUNNING` only | the thread that queues it while it runs | the worker, at the end |
//! | 4 | `AWAITED`: a thread sleeps until the word changes | the waiter | the thread that makes the change, and wakes |
//! | 8–31 | how often it is disabled | `disable` | `enable` |
//! | 32–63 | the number of the latest queueing | the thread that queues it | – |

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use coreshard_platform::{AtomicInt, Platform};

use super::error::WorkErrorKind;

const PENDING: u64 = 1 << 0;
const RUNNING: u64 = 1 << 1;
const DELAYED: u64 = 1 << 2;
const PARKED: u64 = 1 << 3;
const AWAITED: u64 = 1 << 4;
const ONE_DISABLE: u64 = 1 << 8;
const DISABLES: u64 = 0xffff_ff00;
/// The number occupies the upper bits of the word, so that it wraps without a carry. Unit tests and models use fewer bits.
const NUMBER_BITS: u32 = if cfg!(any(test, loom)) { 3 } else { 32 };
const NUMBER_SHIFT: u32 = u64::BITS - NUMBER_BITS;
const NUMBERS: Number = Number::MAX >> (Number::BITS - NUMBER_BITS);

/// The number of a queueing. Numbers wrap; two are compared by the sign of their distance.
pub(super) type Number = u32;

fn number_of(word: u64) -> Number {
    (word >> NUMBER_SHIFT) as Number
}

fn is_after(one: Number, other: Number) -> bool {
    // In the upper bits, so that the sign is the number's.
    (one.wrapping_sub(other) << (Number::BITS - NUMBER_BITS)).cast_signed() > 0
}

/// A claimed queueing: its number is its owner's proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    pub(super) number: Number,
    /// It was running at that moment.
    pub(super) running: bool,
    /// The queueing that was pending before, which is a tombstone now.
    pub(super) replaced: Option<Tombstone>,
}

/// A queueing that will not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tombstone {
    pub(super) number: Number,
    /// It was still waiting for its time.
    pub(super) delayed: bool,
    /// A waiter must be woken.
    pub(super) awaited: bool,
}

/// Why a queueing was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotClaimed {
    Pending,
    Disabled,
}

/// The action required of a worker that holds a queueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// Run it: only this worker runs it until it calls [`WorkState::end`].
    Run,
    /// Nothing: it was cancelled, or queued again since.
    Tombstone,
    /// Another worker is still inside an earlier run.
    Busy,
}

/// The actions required after a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndOfRun {
    pub(super) parked: bool,
    pub(super) awaited: bool,
}

#[derive(Debug)]
pub(super) struct WorkState<P: Platform> {
    word: P::AtomicU64,
}

impl<P: Platform> WorkState<P> {
    pub(super) fn new() -> Self {
        Self { word: P::AtomicU64::new(0) }
    }

    /// Replaces the word by the result of `step`; `Err` leaves it unchanged.
    ///
    /// Release: the caller's earlier writes are visible to any thread that changes the word later. Acquire: the caller sees the
    /// earlier writes of the threads that changed it before.
    #[inline]
    fn change<R, E>(&self, mut step: impl FnMut(u64) -> Result<(u64, R), E>) -> Result<R, E> {
        let mut seen = self.word.load(Relaxed);
        loop {
            let (next, result) = step(seen)?;
            match self.word.compare_exchange(seen, next, AcqRel, Relaxed) {
                Ok(_) => return Ok(result),
                Err(now) => seen = now,
            }
        }
    }

    /// Returns whether [`Self::claim`] would be rejected at this moment: a check in advance that costs next to nothing if it
    /// would not.
    ///
    /// A rejection *writes* here as well.
    #[inline]
    pub(super) fn can_be_claimed(&self) -> Result<(), NotClaimed> {
        if self.word.load(Relaxed) & (PENDING | DISABLES) == 0 {
            return Ok(());
        }
        let seen = self.change(|seen| {
            if seen & PENDING != 0 { Ok((seen, NotClaimed::Pending)) } else { Err(seen) }
        });
        match seen {
            Ok(pending) => Err(pending),
            Err(seen) if seen & DISABLES != 0 => Err(NotClaimed::Disabled),
            Err(_) => Ok(()),
        }
    }

    /// Queues it, unless it is pending.
    ///
    /// A rejection also *writes* the word, with its value unchanged: the upcoming run changes the word later, and so sees the
    /// rejected caller's earlier writes.
    #[inline]
    pub(super) fn claim(&self, delayed: bool) -> Result<Claimed, NotClaimed> {
        let claimed = self.change(|seen| {
            if seen & PENDING != 0 {
                return Ok((seen, None));
            }
            if seen & DISABLES != 0 {
                return Err(NotClaimed::Disabled);
            }
            let (next, claimed) = queued(seen, delayed);
            Ok((next, Some(claimed)))
        });
        claimed?.ok_or(NotClaimed::Pending)
    }

    /// Queues it even if it is pending; that queueing becomes a tombstone.
    pub(super) fn reclaim(&self, delayed: bool) -> Result<Claimed, NotClaimed> {
        self.change(|seen| {
            if seen & DISABLES != 0 {
                return Err(NotClaimed::Disabled);
            }
            Ok(queued(seen, delayed))
        })
    }

    /// Claims queueing `number` when its time has come: the caller must send it. `None` if it is a tombstone.
    pub(super) fn fire(&self, number: Number) -> Option<Claimed> {
        let fired = self.change(|seen| {
            if seen & DELAYED == 0 || number_of(seen) != number {
                return Err(());
            }
            let running = seen & RUNNING != 0;
            Ok((seen & !DELAYED, Claimed { number, running, replaced: None }))
        });
        fired.ok()
    }

    /// Marks the caller's queueing as parked until the current run has ended. Returns false if no run is active, or a place is
    /// kept already. The caller holds the lock of the place.
    pub(super) fn park(&self) -> bool {
        let parked = self.change(|seen| {
            if seen & RUNNING == 0 || seen & PARKED != 0 {
                Err(())
            } else {
                Ok((seen | PARKED, ()))
            }
        });
        parked.is_ok()
    }

    /// Called by a worker that has reached queueing `number`. Clears `PENDING` as it sets `RUNNING`: a caller that queues it
    /// from here on gets another run.
    #[inline]
    pub(super) fn begin(&self, number: Number) -> Begin {
        let begun = self.change(|seen| {
            if seen & (PENDING | DELAYED) != PENDING || number_of(seen) != number {
                Err(Begin::Tombstone)
            } else if seen & RUNNING != 0 {
                Err(Begin::Busy)
            } else {
                Ok((seen ^ (PENDING | RUNNING), Begin::Run))
            }
        });
        begun.unwrap_or_else(|not| not)
    }

    /// Returns false if [`Self::begin`] would find this queueing a tombstone.
    pub(super) fn is_to_run(&self, number: Number) -> bool {
        let seen = self.word.load(Acquire);
        seen & (PENDING | DELAYED) == PENDING && number_of(seen) == number
    }

    /// Ends the run.
    #[inline]
    pub(super) fn end(&self) -> EndOfRun {
        // Release publishes the run's effects; Acquire shows the place that is kept.
        let seen = self.word.fetch_and(!(RUNNING | PARKED | AWAITED), AcqRel);
        EndOfRun { parked: seen & PARKED != 0, awaited: seen & AWAITED != 0 }
    }

    /// Makes a pending queueing a tombstone, if it is this one.
    pub(super) fn cancel(&self, only: Option<Number>) -> Option<Tombstone> {
        let cancelled = self.change(|seen| {
            if seen & PENDING == 0 || only.is_some_and(|number| number != number_of(seen)) {
                Err(())
            } else {
                Ok((without_queueing(seen), tombstone(seen)))
            }
        });
        cancelled.ok()
    }

    /// Disables it once more, and makes a pending queueing a tombstone; `Err` at the maximum nesting.
    pub(super) fn disable(&self) -> Result<Option<Tombstone>, WorkErrorKind> {
        self.change(|seen| {
            if seen & DISABLES == DISABLES {
                return Err(WorkErrorKind::TooManyDisables);
            }
            let tombstone = (seen & PENDING != 0).then(|| tombstone(seen));
            let next = if tombstone.is_some() { without_queueing(seen) } else { seen };
            Ok((next + ONE_DISABLE, tombstone))
        })
    }

    /// Reverts one disable; true if that was the last. `Err` if it is not disabled.
    pub(super) fn enable(&self) -> Result<bool, WorkErrorKind> {
        self.change(|seen| {
            if seen & DISABLES == 0 {
                return Err(WorkErrorKind::NotDisabled);
            }
            let next = seen - ONE_DISABLE;
            Ok((next, next & DISABLES == 0))
        })
    }

    pub(super) fn is_pending(&self) -> bool {
        self.word.load(Acquire) & PENDING != 0
    }

    pub(super) fn is_running(&self) -> bool {
        self.word.load(Acquire) & RUNNING != 0
    }

    /// Returns true if it is pending as `number`, and waits for its time.
    pub(super) fn is_delayed_as(&self, number: Number) -> bool {
        let seen = self.word.load(Acquire);
        seen & DELAYED != 0 && number_of(seen) == number
    }

    pub(super) fn is_delayed(&self) -> bool {
        self.word.load(Acquire) & DELAYED != 0
    }

    /// Returns how often it is disabled.
    pub(super) fn disables(&self) -> u32 {
        ((self.word.load(Acquire) & DISABLES) / ONE_DISABLE) as u32
    }

    /// Returns the number of the latest queueing, if that has not finished.
    pub(super) fn unfinished(&self) -> Option<Number> {
        let seen = self.word.load(Acquire);
        (seen & (PENDING | RUNNING) != 0).then(|| number_of(seen))
    }

    /// Requests a wake-up, and returns whether queueing `number` has finished or is a tombstone.
    pub(super) fn await_number(&self, number: Number) -> bool {
        let seen = self.word.fetch_or(AWAITED, AcqRel);
        let pending = seen & PENDING != 0;
        if pending && !is_after(number_of(seen), number) {
            return false;
        }
        // The current run began with the latest queueing, or with the one before it if the latest has not begun.
        let running = number_of(seen).wrapping_sub(u32::from(pending)) & NUMBERS;
        seen & RUNNING == 0 || is_after(running, number)
    }

    /// Requests a wake-up, and returns whether no worker is inside its function.
    pub(super) fn await_idle(&self) -> bool {
        self.word.fetch_or(AWAITED, AcqRel) & RUNNING == 0
    }

    /// As [`Self::await_idle`], but also true once queueing `number` is a tombstone.
    pub(super) fn await_turn(&self, number: Number) -> bool {
        let seen = self.word.fetch_or(AWAITED, AcqRel);
        seen & RUNNING == 0 || seen & PENDING == 0 || number_of(seen) != number
    }
}

fn queued(seen: u64, delayed: bool) -> (u64, Claimed) {
    let base = if seen & PENDING != 0 { without_queueing(seen) } else { seen };
    let next = (base | PENDING | if delayed { DELAYED } else { 0 }).wrapping_add(1 << NUMBER_SHIFT);
    let claimed = Claimed {
        number: number_of(next),
        running: seen & RUNNING != 0,
        replaced: (seen & PENDING != 0).then(|| tombstone(seen)),
    };
    (next, claimed)
}

fn without_queueing(seen: u64) -> u64 {
    seen & !(PENDING | DELAYED | AWAITED)
}

fn tombstone(seen: u64) -> Tombstone {
    Tombstone {
        number: number_of(seen),
        delayed: seen & DELAYED != 0,
        awaited: seen & AWAITED != 0,
    }
}

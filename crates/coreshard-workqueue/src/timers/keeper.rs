//! The timekeeper: the thread that fires due entries, and the list that it fires from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Lock, LockGuard, Padded, Parker, Platform, SpawnError, ThreadSpec, Time};

use super::due::{Due, Owed, WakeOwn};
use super::heap::{Heap, Key};
use crate::callbacks::{Callback, Callbacks, PATIENCE, Threads};
use crate::pool::Retiring;

/// Due entries are fired in batches of this size, so that other threads can take the lock in between.
const MAX_FIRED: usize = 64;

/// Waiting entries are scanned in parts of this many places.
const PART: usize = 1024;

/// The threads that call the user code that the timekeeper leaves.
const THREADS: Threads = Threads { name: "cs-callbacks", most: 256 };

/// A handle to a runtime's timers; the timekeeper exits with the last one.
pub(crate) struct Timers<P: Platform> {
    clock: Arc<Clock<P>>,
    /// The process that the timekeeper belongs to.
    process_generation: u32,
}

struct Clock<P: Platform> {
    waiting: Padded<Lock<P, Waiting<P>>>,
    keeper: Parker<P>,
    owed: Owed<P>,
}

struct Waiting<P: Platform> {
    heap: Heap<Due<P>>,
    keeper_runs: bool,
    stopping: bool,
}

/// Why an entry cannot be added.
#[derive(Debug)]
pub(crate) enum TimerError {
    BeyondClock {
        delay: Duration,
        longest: Duration,
    },
    /// The timekeeper's thread cannot be started.
    Keeper(SpawnError),
    /// 2³² − 1 entries wait already.
    Full,
    Forked,
}

impl TimerError {
    pub(crate) fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Keeper(error) = self { Some(error) } else { None }
    }
}

impl fmt::Display for TimerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondClock { delay, longest } => write!(
                f,
                "a delay of {delay:?} ends after the platform's clock does; at most {longest:?} \
                 are possible now"
            ),
            Self::Keeper(error) => write!(
                f,
                "delays need a timekeeper, and {error}; free some threads, or raise the limit"
            ),
            Self::Full => f.write_str("2³² − 1 delays of this runtime wait already; cancel some"),
            Self::Forked => f.write_str(FORKED),
        }
    }
}

pub(super) const FORKED: &str = "this process was forked from the one whose timekeeper would end the sleep; sleep \
    on a runtime that was made in this process";

impl<P: Platform> Timers<P> {
    pub(crate) fn new(wake_own: WakeOwn) -> Self {
        let waiting = Waiting { heap: Heap::new(), keeper_runs: false, stopping: false };
        let clock = Clock {
            waiting: Padded::new(Lock::new(waiting)),
            keeper: Parker::new(),
            owed: Owed { callbacks: Arc::new(Callbacks::new(THREADS)), wake_own },
        };
        Self { clock: Arc::new(clock), process_generation: P::process_generation() }
    }

    /// The time `delay` from now, if the clock does not end before.
    pub(crate) fn deadline(delay: Duration) -> Result<Time, TimerError> {
        let now_ns = P::now().as_ns();
        let deadline_ns =
            u64::try_from(delay.as_nanos()).ok().and_then(|ns| now_ns.checked_add(ns));
        let longest = Duration::from_nanos(u64::MAX - now_ns);
        deadline_ns.map(Time::from_ns).ok_or(TimerError::BeyondClock { delay, longest })
    }

    /// The same, with a timekeeper running to wait for it.
    pub(crate) fn kept_deadline(&self, delay: Duration) -> Result<Time, TimerError> {
        let deadline = Self::deadline(delay)?;
        if self.is_forked() {
            return Err(TimerError::Forked);
        }
        self.start_keeper().map_err(TimerError::Keeper)?;
        Ok(deadline)
    }

    /// Starts the timekeeper, unless it runs.
    #[inline(never)]
    pub(crate) fn start_keeper(&self) -> Result<(), SpawnError> {
        self.with_keeper().map(drop)
    }

    fn with_keeper(&self) -> Result<LockGuard<'_, P, Waiting<P>>, SpawnError> {
        let mut waiting = self.clock.waiting.lock();
        if !waiting.keeper_runs {
            let clock = Arc::clone(&self.clock);
            let spec = ThreadSpec { name: "cs-timekeeper".to_owned(), ..ThreadSpec::default() };
            P::spawn(spec, Box::new(move || clock.keep()))?;
            waiting.keeper_runs = true;
        }
        Ok(waiting)
    }

    /// Adds a value to be fired at `deadline`. On failure it is returned.
    pub(crate) fn add(&self, deadline: Time, due: Due<P>) -> Result<Key, (TimerError, Due<P>)> {
        let mut waiting = match self.with_keeper() {
            Ok(waiting) => waiting,
            Err(error) => return Err((TimerError::Keeper(error), due)),
        };
        let is_first = waiting.heap.first().is_none_or(|first| deadline < first);
        let added = waiting.heap.insert(deadline, due);
        drop(waiting);
        let key = added.map_err(|due| (TimerError::Full, due))?;
        if is_first {
            self.clock.keeper.unpark();
        }
        Ok(key)
    }

    /// Queues user code that must not be called here.
    pub(crate) fn call(&self, callback: Callback) {
        self.clock.owed.callbacks.add(callback);
        // It supervises the threads for waiting callbacks.
        self.clock.keeper.unpark();
    }

    /// Removes an entry, if it was not fired.
    pub(crate) fn remove(&self, key: Key) -> Option<Due<P>> {
        self.clock.waiting.lock().heap.remove(key)
    }

    /// Revokes entries that wait for the queue with this id.
    pub(crate) fn revoke(&self, queue: u64) {
        for part in 0.. {
            // In parts, so that other threads can take the lock in between.
            let part = PART * part..PART * (part + 1);
            let taken = self.clock.waiting.lock().heap.take_where(part, |due| due.is_for(queue));
            let Some(taken) = taken else { return };
            taken.into_iter().for_each(Due::revoke);
        }
    }

    /// True in a process that was forked from that of the timekeeper, which may hold the lock.
    pub(super) fn is_forked(&self) -> bool {
        P::process_generation() != self.process_generation
    }

    /// Entries that wait.
    pub(crate) fn len(&self) -> usize {
        self.clock.waiting.lock().heap.len()
    }
}

/// Registered when an entry waits for a timekeeper that could not be started: retries the start.
impl<P: Platform> Retiring for Timers<P> {
    fn reap(&self) -> bool {
        self.start_keeper().is_err()
    }
}

impl<P: Platform> Drop for Timers<P> {
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        self.clock.waiting.lock().stopping = true;
        self.clock.owed.callbacks.stop();
        self.clock.keeper.unpark();
    }
}

impl<P: Platform> Clock<P> {
    /// The timekeeper's loop.
    fn keep(&self) {
        let mut now = P::now();
        let mut due = Vec::with_capacity(MAX_FIRED);
        loop {
            let (next, is_stopping) = {
                let mut waiting = self.waiting.lock();
                while due.len() < MAX_FIRED
                    && let Some(entry) = waiting.heap.pop_due(now)
                {
                    due.push(entry);
                }
                (waiting.heap.first(), waiting.stopping)
            };
            if !due.is_empty() {
                due.drain(..).for_each(|due| due.fire(&self.owed));
                continue;
            }
            let has_callbacks = self.owed.callbacks.look();
            if is_stopping && !has_callbacks {
                return;
            }
            let look = has_callbacks.then(|| P::now() + PATIENCE);
            now = self.wait_for(next.into_iter().chain(look).min());
        }
    }

    /// Sleeps until `deadline`, or until something changed. Returns the current time.
    fn wait_for(&self, deadline: Option<Time>) -> Time {
        let Some(deadline) = deadline else {
            self.keeper.park();
            return P::now();
        };
        let woken = self.keeper.park_timeout(deadline - P::now());
        // A sleep that was not cut short has reached its deadline, whatever the clock's resolution.
        if woken { P::now() } else { deadline.max(P::now()) }
    }
}

//! The virtual threads: the state of each, and the reason of its wait.

use std::ops::{Index, IndexMut};

use coreshard_platform::{LocalKey, ThreadId};
use corosensei::{Coroutine, Yielder};

use super::progress::LastAccess;
use super::waited_at::WaitedAt;
use crate::machine::Ps;
use crate::memory::{Outcome, Place};
use crate::report::Site;
use crate::space::Stack;

pub(super) type Body = Coroutine<(), (), (), Stack>;
pub(super) type Suspender = *const Yielder<(), ()>;

/// The program's first thread.
pub(super) const FIRST: usize = 0;

/// The reason of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// A wake-up on a futex word, which held this value.
    Futex { place: Place, address: usize, expected: u32 },
    /// Becoming runnable, after a wake-up.
    Woken,
    /// Its turn at a lock that its CPU spins for.
    LockQueue { place: Place, free: u32 },
    /// A moment in time.
    Sleep,
    /// The end of another thread.
    Join(usize),
    /// Permission to begin an item.
    Item,
    /// Quiet: the first thread lets others run.
    Hand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadState {
    /// Running, or waiting in a run queue.
    Runnable,
    Waiting {
        wait: Wait,
        since: Ps,
    },
    Over,
}

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldLock {
    pub(super) address: usize,
    /// The type of the data that it protects.
    pub(super) data: &'static str,
    pub(super) taken_at: Site,
}

pub(super) struct Thread {
    pub(super) name: String,
    /// `None` once the thread has ended.
    pub(super) body: Option<Box<Body>>,
    pub(super) suspender: Suspender,
    state: ThreadState,
    /// When its wait ends at the latest.
    deadline: Option<Ps>,
    /// The time of its timer's event; any other is stale.
    timer_at: Option<Ps>,
    timed_out: bool,
    /// Whether its wait ends at its deadline without a reason.
    wakes_by_chance: bool,
    /// By key.
    pub(super) locals: [*mut (); LocalKey::COUNT],
    pub(super) joiners: Vec<usize>,
    /// A thread that is handed the lock that this one has released, with its next wake-up.
    pub(super) hands_lock_to: Option<usize>,
    /// The locks that it holds, under the profile of a kernel; the latest last.
    pub(super) held_locks: Vec<HeldLock>,
    /// The functions of the items that it is inside, the innermost last.
    pub(super) items: Vec<&'static str>,
    /// Where it waits, if that is recorded.
    pub(super) waited_at: Option<WaitedAt>,
    /// The result of its access to a line that its CPU waited for and got.
    pub(super) granted: Option<Outcome>,
    /// During a watch: turns that ended before it continues, and whether its CPU is interrupted then.
    pub(super) turns_over: u64,
    pub(super) is_interrupted: bool,
    /// Recorded once the program makes no progress.
    pub(super) last_access: Option<LastAccess>,
}

impl Thread {
    fn new(name: String, body: Body) -> Self {
        Self {
            name,
            body: Some(Box::new(body)),
            suspender: std::ptr::null(),
            state: ThreadState::Runnable,
            deadline: None,
            timer_at: None,
            timed_out: false,
            wakes_by_chance: false,
            locals: [std::ptr::null_mut(); LocalKey::COUNT],
            joiners: Vec::new(),
            hands_lock_to: None,
            held_locks: Vec::new(),
            items: Vec::new(),
            waited_at: None,
            granted: None,
            turns_over: 0,
            is_interrupted: false,
            last_access: None,
        }
    }

    pub(super) const fn state(&self) -> ThreadState {
        self.state
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == ThreadState::Over
    }

    /// Returns the reason of its wait, if it waits.
    pub(super) const fn waits_for(&self) -> Option<Wait> {
        match self.state {
            ThreadState::Waiting { wait, .. } => Some(wait),
            ThreadState::Runnable | ThreadState::Over => None,
        }
    }

    /// Returns the function of the innermost item that it is inside.
    pub(super) fn item(&self) -> Option<&'static str> {
        self.items.last().copied()
    }

    pub(super) fn begin_wait(&mut self, wait: Wait, since: Ps) {
        self.state = ThreadState::Waiting { wait, since };
        self.timed_out = false;
        self.wakes_by_chance = false;
    }

    pub(super) fn become_runnable(&mut self) {
        self.state = ThreadState::Runnable;
        self.deadline = None;
    }

    /// Records that it was woken, and becomes runnable only later.
    pub(super) fn become_woken(&mut self) {
        if let ThreadState::Waiting { since, .. } = self.state {
            self.state = ThreadState::Waiting { wait: Wait::Woken, since };
            self.wakes_by_chance = false;
        }
    }

    /// Ends its wait at `deadline` at the latest. Returns true if an event must be scheduled for its timer.
    pub(super) fn set_deadline(&mut self, deadline: Ps) -> bool {
        self.deadline = Some(deadline);
        let is_sooner = self.timer_at.is_none_or(|known| known > deadline);
        if is_sooner {
            self.timer_at = Some(deadline);
        }
        is_sooner
    }

    /// Ends its wait at its deadline without a reason.
    pub(super) fn wake_by_chance(&mut self) {
        self.wakes_by_chance = true;
    }

    /// Handles its timer's event. Returns its deadline, unless the event is stale.
    pub(super) fn take_timer(&mut self, time: Ps) -> Option<Ps> {
        self.timer_at.take_if(|at| *at == time)?;
        self.deadline
    }

    /// Handles its deadline. Returns the word that it no longer waits on, if any.
    pub(super) fn time_out(&mut self) -> Option<Place> {
        self.timed_out =
            !std::mem::take(&mut self.wakes_by_chance) && self.waits_for() != Some(Wait::Woken);
        match self.waits_for() {
            Some(Wait::Futex { place, .. }) => Some(place),
            _ => None,
        }
    }

    pub(super) fn take_timed_out(&mut self) -> bool {
        std::mem::take(&mut self.timed_out)
    }
}

/// All threads of a run, by number.
#[derive(Default)]
pub(super) struct Threads {
    all: Vec<Thread>,
    /// Threads that have not ended.
    alive: usize,
}

impl Threads {
    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) const fn alive(&self) -> usize {
        self.alive
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Thread> {
        self.all.iter()
    }

    pub(super) fn add(&mut self, name: String, body: Body) {
        self.all.push(Thread::new(name, body));
        self.alive += 1;
    }

    /// Returns the number of a thread that has not ended; threads are named from 1 on.
    pub(super) fn number_of(&self, thread: ThreadId) -> Option<usize> {
        let number = (thread.0 as usize).checked_sub(1)?;
        self.all.get(number).is_some_and(|thread| !thread.is_over()).then_some(number)
    }

    /// Records that the thread has returned. Returns its coroutine, and the threads that wait for its end.
    pub(super) fn finish(&mut self, number: usize) -> (Box<Body>, Vec<usize>) {
        let thread = &mut self.all[number];
        thread.state = ThreadState::Over;
        self.alive -= 1;
        let body = thread.body.take().expect("a thread that runs has a body");
        (body, std::mem::take(&mut thread.joiners))
    }

    /// Returns the coroutines of all threads that have not ended.
    pub(super) fn bodies(&mut self) -> impl Iterator<Item = &mut Body> {
        self.all.iter_mut().filter_map(|thread| thread.body.as_deref_mut())
    }
}

impl Index<usize> for Threads {
    type Output = Thread;

    fn index(&self, number: usize) -> &Thread {
        &self.all[number]
    }
}

impl IndexMut<usize> for Threads {
    fn index_mut(&mut self, number: usize) -> &mut Thread {
        &mut self.all[number]
    }
}

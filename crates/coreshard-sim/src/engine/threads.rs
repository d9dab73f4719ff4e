//! The virtual threads: what each does or waits for.

use std::ops::{Index, IndexMut};

use coreshard_platform::{LocalKey, ThreadId};
use corosensei::{Coroutine, Yielder};

use super::waited_at::WaitedAt;
use crate::machine::Ps;
use crate::memory::{Outcome, Place};
use crate::report::Site;
use crate::space::Stack;

pub(super) type Body = Coroutine<(), (), (), Stack>;
pub(super) type Suspender = *const Yielder<(), ()>;

/// The program's first thread.
pub(super) const FIRST: usize = 0;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// A wake-up on a futex word, which held this value.
    Futex { place: Place, address: usize, expected: u32 },
    /// To become runnable: it was woken.
    Woken,
    /// Its turn at a lock, for which its CPU spins.
    LockQueue { place: Place, free: u32 },
    /// A moment.
    Sleep,
    /// The end of another thread.
    Join(usize),
    /// That an item may begin.
    Item,
    /// That nothing can go on: it lets others run.
    Hand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadState {
    /// Runs, or waits in a run queue.
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
    /// The type of what it protects.
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
    /// When its timer's event comes; any other is stale.
    timer_at: Option<Ps>,
    timed_out: bool,
    /// Its wait ends at its deadline for no reason.
    wakes_by_chance: bool,
    /// By key.
    pub(super) locals: [*mut (); LocalKey::COUNT],
    pub(super) joiners: Vec<usize>,
    /// It has freed a lock, and is about to wake the first in its queue.
    pub(super) hands_lock_to: Option<usize>,
    /// The locks that it holds, under the profile of a kernel; the latest last.
    pub(super) held_locks: Vec<HeldLock>,
    /// The functions of the items that it is inside of, the innermost last.
    pub(super) items: Vec<&'static str>,
    /// Where it waits, if that is recorded.
    pub(super) waited_at: Option<WaitedAt>,
    /// The line that its CPU waited for is its: what the access did.
    pub(super) granted: Option<Outcome>,
    /// While it watches: turns that were over before it goes on, and whether its CPU is interrupted then.
    pub(super) turns_over: u64,
    pub(super) is_interrupted: bool,
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
        }
    }

    pub(super) const fn state(&self) -> ThreadState {
        self.state
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == ThreadState::Over
    }

    /// What it waits for, if it does.
    pub(super) const fn waits_for(&self) -> Option<Wait> {
        match self.state {
            ThreadState::Waiting { wait, .. } => Some(wait),
            ThreadState::Runnable | ThreadState::Over => None,
        }
    }

    /// The function of the item that it is inside of, the innermost one.
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

    /// Notes that it was woken, and becomes runnable only later.
    pub(super) fn become_woken(&mut self) {
        if let ThreadState::Waiting { since, .. } = self.state {
            self.state = ThreadState::Waiting { wait: Wait::Woken, since };
            self.wakes_by_chance = false;
        }
    }

    /// Its wait ends at `deadline` at the latest. Returns true if an event must come for its timer then.
    pub(super) fn set_deadline(&mut self, deadline: Ps) -> bool {
        self.deadline = Some(deadline);
        let is_sooner = self.timer_at.is_none_or(|known| known > deadline);
        if is_sooner {
            self.timer_at = Some(deadline);
        }
        is_sooner
    }

    /// Its wait ends at its deadline for no reason.
    pub(super) fn wake_by_chance(&mut self) {
        self.wakes_by_chance = true;
    }

    /// Its timer's event has come. Returns its deadline, unless the event is stale.
    pub(super) fn take_timer(&mut self, time: Ps) -> Option<Ps> {
        self.timer_at.take_if(|at| *at == time)?;
        self.deadline
    }

    /// Its deadline has come. Returns the word that it waits on no longer, if it does.
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

    /// The number of a thread that has not ended; threads are named from 1 on.
    pub(super) fn number_of(&self, thread: ThreadId) -> Option<usize> {
        let number = (thread.0 as usize).checked_sub(1)?;
        self.all.get(number).is_some_and(|thread| !thread.is_over()).then_some(number)
    }

    /// The thread has returned. Gives back its coroutine, and the threads that wait for its end.
    pub(super) fn finish(&mut self, number: usize) -> (Box<Body>, Vec<usize>) {
        let thread = &mut self.all[number];
        thread.state = ThreadState::Over;
        self.alive -= 1;
        let body = thread.body.take().expect("a thread that runs has a body");
        (body, std::mem::take(&mut thread.joiners))
    }

    /// The coroutines of all threads that have not ended.
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

//! A virtual thread.
#![allow(unsafe_code)]

use coreshard_platform::LocalKey;
use coreshard_topology::CpuSet;
use corosensei::{Coroutine, Yielder};

use super::share::Share;
use super::waited_at::WaitedAt;
use crate::machine::Ps;
use crate::memory::{Outcome, Place};
use crate::site::Site;
use crate::space::Stack;

pub(super) type Body = Coroutine<(), (), (), Stack>;
pub(super) type Suspender = *const Yielder<(), ()>;

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
    /// Gone when the thread is over.
    pub(super) body: Option<Box<Body>>,
    pub(super) suspender: Suspender,
    pub(super) state: ThreadState,
    /// The CPUs that it may run on, a bit for each: those that were asked for and are online.
    pub(super) affinity: Box<[u64]>,
    pub(super) asked: Box<[u64]>,
    pub(super) affinity_set: CpuSet,
    /// The CPU that it runs on, or ran on last.
    pub(super) cpu: usize,
    /// SCHED_FIFO's priority, 1 to 99; 0 for a fair thread.
    pub(super) fifo_priority: u8,
    /// Its part in the contest for a CPU.
    pub(super) share: Share,
    /// How long it was on CPUs, while it is on none.
    pub(super) on_cpu: Ps,
    /// Until when it ran on its CPU last; `None` where it has not run there since it came.
    pub(super) ran_here_until: Option<Ps>,
    /// By key.
    pub(super) locals: [*mut (); LocalKey::COUNT],
    pub(super) joiners: Vec<usize>,
    /// When its wait is over at the latest.
    pub(super) deadline: Option<Ps>,
    /// When its timer's event comes; any other is stale.
    pub(super) timer_at: Option<Ps>,
    pub(super) timed_out: bool,
    /// Its wait ends at its deadline for no reason.
    pub(super) wakes_by_chance: bool,
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
    pub(super) const fn is_fair(&self) -> bool {
        self.fifo_priority == 0
    }

    pub(super) fn may_run_on(&self, cpu: usize) -> bool {
        self.affinity[cpu / 64] & (1 << (cpu % 64)) != 0
    }
}

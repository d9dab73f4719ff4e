//! Jobs that lie on the heap, in lists, for whoever of the pool comes first: what was spawned by one of its workers,
//! or from outside; and what only one worker may run.
//!
//! A list is behind a lock that is held for a few instructions, and most of the time by its owner alone. So who waits for
//! something can take its parts out of the middle, where a lock-free deque has two ends.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, Lock, Platform};

use super::header::Header;
use super::whole_name::WholeName;
use crate::base::latch::Latch;

/// A closure that catches what its own code throws.
pub(crate) type Closure = Box<dyn FnOnce() + Send>;

/// Closures that run in their order, each when a job says that it is the next one's turn.
pub(crate) type Fifo<P> = Arc<Lock<P, VecDeque<Closure>>>;

/// A list of closures, without any.
pub(crate) fn fifo<P: Platform>() -> Fifo<P> {
    Arc::new(Lock::new(VecDeque::new()))
}

/// What a listed job is.
pub(crate) enum Body<P: Platform> {
    Call(Closure),
    /// A job in the frame of somebody who waits for it.
    Awaited(NonNull<Header<P>>),
    /// The oldest of these.
    Next(Fifo<P>),
}

/// A job in a list.
pub(crate) struct ListedJob<P: Platform> {
    pub(crate) body: Body<P>,
    /// What it is a part of, if that is something that somebody waits for; else null. It is there until `body` has
    /// done that part.
    pub(crate) whole: *const Latch<P>,
    /// What whoever made it did a part of then; by its address alone.
    pub(crate) within: *const Latch<P>,
}

// SAFETY: closures are `Send`; latches are shared between threads as they are; and so is what is in a frame whose owner waits: it was made for another thread.
unsafe impl<P: Platform> Send for ListedJob<P> {}

impl<P: Platform> ListedJob<P> {
    /// True if who waits for what has this name may run it.
    pub(super) fn is_part_of(&self, name: WholeName) -> bool {
        WholeName::at(self.whole) == name || WholeName::at(self.within) == name
    }
}

/// A list of jobs.
pub(super) struct JobList<P: Platform> {
    /// How many there are, for those who look without the lock.
    len: P::AtomicU32,
    jobs: Lock<P, VecDeque<ListedJob<P>>>,
}

impl<P: Platform> JobList<P> {
    pub(super) fn new() -> Self {
        Self { len: P::AtomicU32::new(0), jobs: Lock::new(VecDeque::new()) }
    }

    /// Adds a job, as the latest. SeqCst: before the wake word is read, as of a job that is shared
    /// (`Deque::has_shared`).
    pub(super) fn push(&self, job: ListedJob<P>) {
        let mut jobs = self.jobs.lock();
        jobs.push_back(job);
        self.len.store(jobs.len() as u32, SeqCst);
    }

    /// True if there is a job. SeqCst: see [`push`](Self::push).
    #[inline]
    pub(super) fn has_jobs(&self) -> bool {
        self.len.load(SeqCst) > 0
    }

    pub(super) fn take_latest(&self) -> Option<ListedJob<P>> {
        self.take(VecDeque::pop_back)
    }

    pub(super) fn take_oldest(&self) -> Option<ListedJob<P>> {
        self.take(VecDeque::pop_front)
    }

    /// Takes the latest job that is a part of what has this name.
    pub(super) fn take_part_of(&self, name: WholeName) -> Option<ListedJob<P>> {
        self.take(|jobs| {
            let at = jobs.iter().rposition(|job| job.is_part_of(name))?;
            jobs.remove(at)
        })
    }

    /// True if there is a part of what has this name.
    pub(super) fn has_part_of(&self, name: WholeName) -> bool {
        self.has_jobs() && self.jobs.lock().iter().any(|job| job.is_part_of(name))
    }

    fn take(
        &self,
        take: impl FnOnce(&mut VecDeque<ListedJob<P>>) -> Option<ListedJob<P>>,
    ) -> Option<ListedJob<P>> {
        // Relaxed: who must not miss one looks by `has_jobs` before it sleeps.
        if self.len.load(Relaxed) == 0 {
            return None;
        }
        let mut jobs = self.jobs.lock();
        let job = take(&mut jobs);
        // Relaxed: fewer than somebody may think.
        self.len.store(jobs.len() as u32, Relaxed);
        job
    }
}

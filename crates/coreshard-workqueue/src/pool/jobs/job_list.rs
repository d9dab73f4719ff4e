//! Lists of jobs on the heap. Some are open to the whole pool: jobs that one of its workers has spawned, and injected jobs.
//! Others hold the jobs that only one worker may run.
//!
//! A list is behind a lock that is held for a few instructions, and mostly by its owner. So a waiter can take its subtasks out
//! of the middle, while a lock-free deque has only two ends.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, Lock, Padded, Platform};

use super::frame::Frame;
use super::parts::Parts;
use crate::base::latch::Latch;

/// Identifies a job that a caller waits for: an address that nothing else has meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId(u64);

impl JobId {
    /// The id of a job that owns `place` until it has finished.
    pub(crate) fn at<T>(place: *const T) -> Self {
        Self(place.addr() as u64)
    }

    pub(in crate::pool) fn address(self) -> u64 {
        self.0
    }
}

/// The part of a job that a thief reads.
pub(crate) struct Header<P: Platform> {
    pub(in crate::pool) kind: &'static JobKind<P>,
    /// The innermost frame of the forker: the thief runs the job inside it.
    pub(in crate::pool) forker: *const Frame<P>,
}

/// Functions shared by all jobs of one type.
pub(crate) struct JobKind<P: Platform> {
    /// Runs the job, once.
    pub(in crate::pool) run: unsafe fn(*const Header<P>),
    /// Its root job: the latch opens when that has finished, in `run` or later.
    pub(in crate::pool) root: unsafe fn(*const Header<P>) -> *const Latch<P>,
    /// The queue of the item it belongs to, if more subtasks of that item may be spawned; 0 for none.
    pub(in crate::pool) queue: unsafe fn(*const Header<P>) -> u64,
}

/// A closure that catches its own panics.
pub(crate) type Closure = Box<dyn FnOnce() + Send>;

/// Closures that run in order: each run of a `Next` job takes the oldest.
pub(crate) type Fifo<P> = Arc<Lock<P, VecDeque<Closure>>>;

/// The same for subtasks of a job, on its own cache lines: one thread pushes, and all take from it.
pub(crate) type PartFifo<P> = Padded<Lock<P, VecDeque<Closure>>>;

/// Makes an empty list of closures.
pub(crate) fn fifo<P: Platform>() -> Fifo<P> {
    Arc::new(Lock::new(VecDeque::new()))
}

/// The kinds of listed jobs.
pub(crate) enum JobBody<P: Platform> {
    Call(Closure),
    /// A job in the frame of the thread that waits for it.
    Awaited(NonNull<Header<P>>),
    /// The oldest closure of this list.
    Next(Fifo<P>),
    /// As `Next`, of a list that lives as long as the root job.
    NextPart(*const PartFifo<P>),
}

/// A job in a list.
pub(crate) struct ListedJob<P: Platform> {
    pub(crate) body: JobBody<P>,
    /// Its root job, if a caller waits for that; else null. It lives until `body` has finished.
    pub(crate) root: *const Latch<P>,
    /// The counter of such subtasks, if they are counted: the runner counts the job there as finished.
    pub(crate) parts: *const Parts<P>,
    /// The root job of the subtask that its maker was running; only its address is used.
    pub(crate) within: *const Latch<P>,
}

// SAFETY: closures are `Send`; latches are shared between threads by design. So is the frame of an owner that waits: it was
// made for another thread.
unsafe impl<P: Platform> Send for ListedJob<P> {}

impl<P: Platform> ListedJob<P> {
    /// True if a worker that waits for the job with this id may run it.
    pub(in crate::pool) fn is_part_of(&self, id: JobId) -> bool {
        JobId::at(self.root) == id || JobId::at(self.within) == id
    }
}

/// A job that another worker offered.
pub(in crate::pool) enum Found<P: Platform> {
    Forked(NonNull<Header<P>>),
    Listed(ListedJob<P>),
}

/// Jobs that a thief moves to its own list besides the one that it runs, at most.
const MAX_MOVED: usize = 32;

/// How many jobs a list had received at some moment: later jobs have this number, or a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobNumber(u64);

impl JobNumber {
    /// Higher than any job's number.
    pub(crate) const NONE: Self = Self(u64::MAX);
}

/// A list of jobs.
pub(in crate::pool) struct JobList<P: Platform> {
    /// Number of jobs, to be read without the lock.
    len: P::AtomicU32,
    jobs: Lock<P, Numbered<P>>,
}

type Entry<P> = (JobNumber, ListedJob<P>);

/// Selects the jobs that a worker waiting for the job with this id may run: its subtasks, and jobs that were added since.
fn may_run<P: Platform>(id: JobId, since: JobNumber) -> impl Fn(&Entry<P>) -> bool {
    move |(number, job)| *number >= since || job.is_part_of(id)
}

struct Numbered<P: Platform> {
    jobs: VecDeque<Entry<P>>,
    next: JobNumber,
}

impl<P: Platform> Numbered<P> {
    fn push(&mut self, job: ListedJob<P>) {
        let number = self.next;
        self.next = JobNumber(number.0 + 1);
        self.jobs.push_back((number, job));
    }
}

impl<P: Platform> JobList<P> {
    pub(in crate::pool) fn new() -> Self {
        let jobs = Lock::new(Numbered { jobs: VecDeque::new(), next: JobNumber(0) });
        Self { len: P::AtomicU32::new(0), jobs }
    }

    /// Adds a job as the latest. SeqCst: before the wake word is read, as for a shared job (`Deque::has_shared`). If the list
    /// was not empty, that holds for its first job, and a worker that looks for any job sees that one.
    pub(in crate::pool) fn push(&self, job: ListedJob<P>) {
        let mut list = self.jobs.lock();
        list.push(job);
        let len = list.jobs.len() as u32;
        self.len.store(len, if len == 1 { SeqCst } else { Relaxed });
    }

    /// The number of the next job that is added.
    pub(in crate::pool) fn next(&self) -> JobNumber {
        self.jobs.lock().next
    }

    pub(in crate::pool) fn len(&self) -> u64 {
        self.len.load(Relaxed).into()
    }

    /// True if the list holds a job. SeqCst pairs with [`push`](Self::push).
    #[inline]
    pub(in crate::pool) fn has_jobs(&self) -> bool {
        // The model checker has no order of SeqCst loads and stores: there the lock provides it.
        if cfg!(loom) { !self.jobs.lock().jobs.is_empty() } else { self.len.load(SeqCst) > 0 }
    }

    pub(in crate::pool) fn take_latest(&self) -> Option<ListedJob<P>> {
        self.take(|list| list.len().checked_sub(1))
    }

    /// Takes the latest job, if it is one of these subtasks.
    pub(in crate::pool) fn take_latest_of(&self, parts: *const Parts<P>) -> Option<ListedJob<P>> {
        let is_next = |(_, job): &Entry<P>| ptr::eq(job.parts, parts);
        self.take(|list| list.back().is_some_and(is_next).then(|| list.len() - 1))
    }

    pub(in crate::pool) fn take_oldest(&self) -> Option<ListedJob<P>> {
        self.take(|list| (!list.is_empty()).then_some(0))
    }

    /// Takes the oldest job that no caller waits for.
    pub(in crate::pool) fn take_unawaited(&self) -> Option<ListedJob<P>> {
        self.take(|list| list.iter().position(|(_, job)| job.root.is_null()))
    }

    pub(in crate::pool) fn has_unawaited(&self) -> bool {
        self.has_jobs() && self.jobs.lock().jobs.iter().any(|(_, job)| job.root.is_null())
    }

    /// Takes the oldest job, and moves half of the others to `own`, the oldest first: at most [`MAX_MOVED`].
    pub(in crate::pool) fn take_half(&self, own: &Self) -> Option<ListedJob<P>> {
        if self.len.load(Relaxed) == 0 {
            return None;
        }
        let (job, moved) = {
            let mut list = self.jobs.lock();
            let (_, job) = list.jobs.pop_front()?;
            let count = (list.jobs.len() / 2).min(MAX_MOVED);
            let moved: Vec<_> = list.jobs.drain(..count).map(|(_, job)| job).collect();
            self.len.store(list.jobs.len() as u32, Relaxed);
            (job, moved)
        };
        if !moved.is_empty() {
            // The latest is run first, as it would be in the victim's list.
            let mut list = own.jobs.lock();
            moved.into_iter().for_each(|job| list.push(job));
            own.len.store(list.jobs.len() as u32, SeqCst);
        }
        Some(job)
    }

    /// Takes the latest job that was added since, or that is a subtask of the job with this id; the oldest of those on
    /// request.
    pub(in crate::pool) fn take_part_of(
        &self,
        id: JobId,
        since: JobNumber,
        oldest_first: bool,
    ) -> Option<ListedJob<P>> {
        let may = may_run(id, since);
        self.take(|list| match list.back() {
            _ if oldest_first => list.iter().position(&may),
            Some(latest) if may(latest) => Some(list.len() - 1),
            _ => list.iter().rposition(&may),
        })
    }

    /// True if the list holds a subtask of the job with this id, or a job that was added since.
    pub(in crate::pool) fn has_part_of(&self, id: JobId, since: JobNumber) -> bool {
        self.has_jobs() && self.jobs.lock().jobs.iter().any(may_run(id, since))
    }

    fn take(
        &self,
        which: impl FnOnce(&VecDeque<Entry<P>>) -> Option<usize>,
    ) -> Option<ListedJob<P>> {
        // Relaxed: a worker that must not miss a job calls `has_jobs` before it sleeps.
        if self.len.load(Relaxed) == 0 {
            return None;
        }
        let mut list = self.jobs.lock();
        let at = which(&list.jobs)?;
        let is_latest = at + 1 == list.jobs.len();
        let job = if is_latest { list.jobs.pop_back() } else { list.jobs.remove(at) };
        // Relaxed: another thread may at worst assume too many jobs.
        self.len.store(list.jobs.len() as u32, Relaxed);
        job.map(|(_, job)| job)
    }
}

//! A forked job: in the frame of the thread that forked it, which does not leave before the job has finished, or on the heap.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};

use coreshard_platform::Platform;
use coreshard_platform::user::{self, Thrown};

use super::context::{inside_forker, report_here};
use super::jobs::Frame;
use super::jobs::{Header, JobKind};
use crate::base::latch::Latch;

/// A closure and the place for its result. The closure's argument is true if another worker runs it.
#[repr(C)]
pub(crate) struct Job<P: Platform, F, R> {
    header: Header<P>,
    /// Opens when a thief has finished it.
    done: Latch<P>,
    work: UnsafeCell<ManuallyDrop<F>>,
    result: UnsafeCell<MaybeUninit<Result<R, Thrown>>>,
}

impl<P: Platform, F: FnOnce(bool) -> R, R> Job<P, F, R> {
    const KIND: &'static JobKind<P> =
        &JobKind { run: run::<P, F, R>, root: root::<P, F, R>, queue: |_| 0 };

    #[inline]
    pub(crate) fn new(work: F, forker: *const Frame<P>) -> Self {
        Self {
            header: Header { kind: Self::KIND, forker },
            done: Latch::new(),
            work: UnsafeCell::new(ManuallyDrop::new(work)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// The part that thieves receive. The job must not move until it is popped, or has finished.
    #[inline]
    pub(crate) fn header(&self) -> NonNull<Header<P>> {
        // From the whole job's address, not the field's: `run` reaches the fields behind it.
        NonNull::from(self).cast()
    }

    pub(crate) fn done(&self) -> &Latch<P> {
        &self.done
    }

    /// The closure, to be run by its owner.
    ///
    /// # Safety
    /// No other thread has the job (it was popped, or never pushed), and this is called once.
    #[inline]
    pub(crate) unsafe fn take_work(&self) -> F {
        // SAFETY: by this function's contract.
        unsafe { ManuallyDrop::take(&mut *self.work.get()) }
    }

    /// The thief's result; the latch was seen to be open.
    pub(crate) fn into_result(self) -> Result<R, Thrown> {
        assert!(self.done.is_open(), "it was waited for");
        // SAFETY: it was executed, the latch is open, and this is the only reader.
        unsafe { self.take_result() }
    }

    /// The thief's result.
    ///
    /// # Safety
    /// The job was run by [`execute`], its latch was seen to be open, and this is called once.
    pub(crate) unsafe fn take_result(&self) -> Result<R, Thrown> {
        // SAFETY: by this function's contract the result is written, and read once.
        unsafe { (*self.result.get()).assume_init_read() }
    }
}

/// Runs a job that was stolen, or sent.
///
/// # Safety
/// The caller has taken the job; it is executed once. It may be freed when this returns.
pub(crate) unsafe fn execute<P: Platform>(header: NonNull<Header<P>>) {
    // SAFETY: the owner keeps the job until its latch opens, which `run` does last.
    let &Header { kind, forker } = unsafe { header.as_ref() };
    // SAFETY: `run` belongs to this job, by its maker.
    inside_forker(forker, || unsafe { (kind.run)(header.as_ptr()) });
}

/// Runs a subtask of this thread's job, when the thread is already inside all frames of the forker.
///
/// # Safety
/// As for [`execute`].
pub(super) unsafe fn execute_here<P: Platform>(header: NonNull<Header<P>>) {
    // SAFETY: by this function's contract; `run` belongs to this job, by its maker.
    unsafe { (header.as_ref().kind.run)(header.as_ptr()) };
}

/// # Safety
/// `header` is that of a `Job<P, F, R>`; this is its one execution.
unsafe fn run<P: Platform, F: FnOnce(bool) -> R, R>(header: *const Header<P>) {
    let job = header.cast::<Job<P, F, R>>();
    // SAFETY: the job lives until its latch opens, and the closure is taken once.
    let work = unsafe { (*job).take_work() };
    let result = user::call(|| work(true));
    // SAFETY: the owner reads the result only after the latch has opened.
    unsafe { ptr::write((*job).result.get(), MaybeUninit::new(result)) };
    // SAFETY: alive until it is open; not touched after that.
    unsafe { Latch::open(&raw const (*job).done) };
}

/// # Safety
/// `header` is that of a `Job<P, F, R>`, which is alive.
unsafe fn root<P: Platform, F: FnOnce(bool) -> R, R>(header: *const Header<P>) -> *const Latch<P> {
    // SAFETY: by this function's contract.
    unsafe { &raw const (*header.cast::<Job<P, F, R>>()).done }
}

/// A closure, and the job that it is a subtask of.
#[repr(C)]
pub(crate) struct Spawned<P: Platform, F> {
    header: Header<P>,
    root: *const Latch<P>,
    queue: u64,
    work: F,
}

impl<P: Platform, F: FnOnce() + Send> Spawned<P, F> {
    const KIND: &'static JobKind<P> = &JobKind {
        run: run_spawned::<P, F>,
        root: root_of_spawned::<P, F>,
        queue: queue_of_spawned::<P, F>,
    };

    /// Makes a job that its taker must run with [`execute`](super::execute), or it is lost.
    ///
    /// It is a subtask of an item of `queue`. Until `work` has returned, `root` must stay closed and must not move, the frame
    /// of `forker` must not be left, and the borrows of `work` must stay valid.
    pub(crate) fn job(
        work: F,
        forker: *const Frame<P>,
        root: *const Latch<P>,
        queue: u64,
    ) -> NonNull<Header<P>> {
        let header = Header { kind: Self::KIND, forker };
        NonNull::from(Box::leak(Box::new(Self { header, root, queue, work }))).cast()
    }
}

/// # Safety
/// `header` is that of a `Spawned<P, F>` of [`Spawned::job`]; this is its one execution.
unsafe fn run_spawned<P: Platform, F: FnOnce() + Send>(header: *const Header<P>) {
    // SAFETY: by this function's contract it is a box that no other thread has.
    let job = unsafe { Box::from_raw(header.cast_mut().cast::<Spawned<P, F>>()) };
    if let Err(thrown) = user::call(job.work) {
        report_here::<P>(thrown);
    }
}

/// # Safety
/// `header` is that of a `Spawned<P, F>`, which is alive.
unsafe fn root_of_spawned<P: Platform, F>(header: *const Header<P>) -> *const Latch<P> {
    // SAFETY: by this function's contract.
    unsafe { (*header.cast::<Spawned<P, F>>()).root }
}

/// # Safety
/// `header` is that of a `Spawned<P, F>`, which is alive.
unsafe fn queue_of_spawned<P: Platform, F>(header: *const Header<P>) -> u64 {
    // SAFETY: by this function's contract.
    unsafe { (*header.cast::<Spawned<P, F>>()).queue }
}

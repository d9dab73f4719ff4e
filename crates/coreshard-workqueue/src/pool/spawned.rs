//! A job on the heap: one of many parts of something that somebody waits for.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use coreshard_platform::{Platform, user};

use super::frame::Frame;
use super::header::{Header, JobKind};
use super::running::report_here;
use crate::base::latch::Latch;

/// A closure, and what it is a part of.
#[repr(C)]
pub(crate) struct Spawned<P: Platform, F> {
    header: Header<P>,
    whole: *const Latch<P>,
    queue: u64,
    work: F,
}

impl<P: Platform, F: FnOnce() + Send> Spawned<P, F> {
    const KIND: &'static JobKind<P> =
        &JobKind { run: run::<P, F>, whole: whole::<P, F>, queue: queue::<P, F> };

    /// A job that whoever takes it runs with [`execute`](super::execute), else it is lost.
    ///
    /// It is a part of an item of `queue`. Until `work` has returned, `whole` stays closed and where it is, the frame of `forker` is not left, and
    /// what `work` borrows is there.
    pub(crate) fn job(
        work: F,
        forker: *const Frame<P>,
        whole: *const Latch<P>,
        queue: u64,
    ) -> NonNull<Header<P>> {
        let header = Header { kind: Self::KIND, forker };
        NonNull::from(Box::leak(Box::new(Self { header, whole, queue, work }))).cast()
    }
}

/// # Safety
/// `header` is that of a `Spawned<P, F>` of [`Spawned::job`]; this is its one execution.
unsafe fn run<P: Platform, F: FnOnce() + Send>(header: *const Header<P>) {
    // SAFETY: by this function's contract it is a box that nobody else has.
    let job = unsafe { Box::from_raw(header.cast_mut().cast::<Spawned<P, F>>()) };
    if let Err(thrown) = user::call(job.work) {
        report_here::<P>(thrown);
    }
}

/// # Safety
/// `header` is that of a `Spawned<P, F>`, which is there.
unsafe fn whole<P: Platform, F>(header: *const Header<P>) -> *const Latch<P> {
    // SAFETY: by this function's contract.
    unsafe { (*header.cast::<Spawned<P, F>>()).whole }
}

/// # Safety
/// `header` is that of a `Spawned<P, F>`, which is there.
unsafe fn queue<P: Platform, F>(header: *const Header<P>) -> u64 {
    // SAFETY: by this function's contract.
    unsafe { (*header.cast::<Spawned<P, F>>()).queue }
}

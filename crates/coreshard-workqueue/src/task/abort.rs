//! Cancellation of a task without its handle.
#![allow(unsafe_code)]

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

use coreshard_platform::Platform;

use super::cell::{self, Head};
use super::state::DONE;

/// Cancels a task independently of its [`Task`](crate::Task); see [`Task::abort_handle`](crate::Task::abort_handle). Dropping
/// it has no effect.
pub struct AbortHandle {
    /// A reference to the task.
    task: NonNull<()>,
    table: &'static AbortTable,
}

pub(super) struct AbortTable {
    pub(super) hold: unsafe fn(NonNull<()>),
    pub(super) abort: unsafe fn(NonNull<()>),
    pub(super) is_done: unsafe fn(NonNull<()>) -> bool,
    let_go: unsafe fn(NonNull<()>),
}

// SAFETY: it is a reference to a task that is designed to be shared, and every operation is a step of its state word.
unsafe impl Send for AbortHandle {}
// SAFETY: as above.
unsafe impl Sync for AbortHandle {}
// The task is changed only by read-modify-writes of whole steps.
impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

pub(super) struct Aborts<P>(std::marker::PhantomData<P>);

impl<P: Platform> Aborts<P> {
    pub(super) const TABLE: AbortTable = AbortTable {
        // SAFETY: each is called with a task's head, to which the caller has a reference; `let_go` gives it up.
        hold: |task| unsafe { task.cast::<Head<P>>().as_ref() }.state.add_reference(),
        // SAFETY: as above.
        abort: |task| unsafe { cell::cancel(task.cast::<Head<P>>()) },
        // SAFETY: as above.
        is_done: |task| unsafe { task.cast::<Head<P>>().as_ref() }.state.load() & DONE != 0,
        // SAFETY: as above.
        let_go: |task| unsafe {
            let head = task.cast::<Head<P>>();
            cell::settle(head, head.as_ref().state.drop_reference());
        },
    };
}

impl AbortHandle {
    /// # Safety
    /// The caller has a reference to the task.
    pub(super) unsafe fn new(task: NonNull<()>, table: &'static AbortTable) -> Self {
        // SAFETY: by this function's contract.
        unsafe { (table.hold)(task) };
        Self { task, table }
    }

    /// Requests cancellation: a worker soon drops the future, and code that awaits the task sees that it was cancelled, unless
    /// it has completed before.
    ///
    /// ```
    /// let queue = coreshard::workqueue()?.name("requests").build()?;
    /// let task = queue.spawn(std::future::pending::<()>())?;
    /// let stop = task.abort_handle();
    /// task.detach();
    /// stop.abort();
    /// while !stop.is_finished() {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abort(&self) {
        // SAFETY: this is a reference.
        unsafe { (self.table.abort)(self.task) };
    }

    /// Returns true once the future has completed or was dropped.
    pub fn is_finished(&self) -> bool {
        // SAFETY: this is a reference.
        unsafe { (self.table.is_done)(self.task) }
    }
}

impl Clone for AbortHandle {
    fn clone(&self) -> Self {
        // SAFETY: this is a reference.
        unsafe { Self::new(self.task, self.table) }
    }
}

impl Drop for AbortHandle {
    fn drop(&mut self) {
        // SAFETY: this was a reference.
        unsafe { (self.table.let_go)(self.task) };
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("is_finished", &self.is_finished()).finish()
    }
}

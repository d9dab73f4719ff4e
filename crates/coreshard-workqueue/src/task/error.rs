//! Errors of tasks that have no value.

use std::fmt;

use crate::base::error::Forked;
use crate::queue::Panic;

/// The reason why a spawned future has no value; see [`Task::result`](crate::Task::result).
pub struct TaskError {
    kind: TaskErrorKind,
}

#[derive(Debug)]
pub(super) enum TaskErrorKind {
    Cancelled,
    Panicked(Panic),
    QueueGone,
    Forked,
}

impl TaskError {
    /// Panics with the future's panic, or with the reason why the value is missing.
    pub(super) fn throw(self) -> ! {
        match self.kind {
            TaskErrorKind::Panicked(panic) => panic.resume(),
            TaskErrorKind::Forked => Forked::throw(),
            TaskErrorKind::Cancelled | TaskErrorKind::QueueGone => panic!("{self}"),
        }
    }

    /// Returns true if it was cancelled by [`Task::abort`](crate::Task::abort), or through an
    /// [`AbortHandle`](crate::AbortHandle) or a [`JoinSet`](crate::JoinSet).
    pub fn is_cancelled(&self) -> bool {
        matches!(self.kind, TaskErrorKind::Cancelled)
    }

    /// Returns true if the future panicked; [`into_panic`](Self::into_panic) returns the panic.
    pub fn is_panic(&self) -> bool {
        matches!(self.kind, TaskErrorKind::Panicked(_))
    }

    /// Returns true if its queue was shut down while it waited, or before its first poll: the future was dropped.
    pub fn is_queue_gone(&self) -> bool {
        matches!(self.kind, TaskErrorKind::QueueGone)
    }

    /// Returns true if this process was forked from the one whose workers poll the future, before it had completed: it never
    /// completes here. Awaiting the task itself panics with [`Forked`].
    pub fn is_forked(&self) -> bool {
        matches!(self.kind, TaskErrorKind::Forked)
    }

    /// Returns the future's panic.
    ///
    /// ```
    /// # let queue = coreshard::workqueue()?.name("panics").build()?;
    /// let waiter = queue.spawn(async { panic!("no tea") })?;
    /// # let queue = coreshard::workqueue()?.name("waiters").build()?;
    /// let told = queue.spawn(async move {
    ///     let error = waiter.result().await.expect_err("it panics");
    ///     error.into_panic().expect("it is a panic").message().to_owned()
    /// })?;
    /// # while !told.is_finished() { std::thread::yield_now() }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns this error if it is not a panic.
    pub fn into_panic(self) -> Result<Panic, Self> {
        match self.kind {
            TaskErrorKind::Panicked(panic) => Ok(panic),
            kind => Err(Self { kind }),
        }
    }
}

impl From<TaskErrorKind> for TaskError {
    fn from(kind: TaskErrorKind) -> Self {
        Self { kind }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            TaskErrorKind::Cancelled => f.write_str("the task was cancelled"),
            TaskErrorKind::Panicked(panic) => write!(f, "the task panicked: {}", panic.message()),
            TaskErrorKind::QueueGone => f.write_str(
                "the task's workqueue was shut down before the task had ended, and the task was dropped",
            ),
            TaskErrorKind::Forked => Forked.fmt(f),
        }
    }
}

coreshard_topology::readable_debug!(TaskError);

impl std::error::Error for TaskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            TaskErrorKind::Panicked(panic) => Some(panic),
            TaskErrorKind::Cancelled | TaskErrorKind::QueueGone | TaskErrorKind::Forked => None,
        }
    }
}

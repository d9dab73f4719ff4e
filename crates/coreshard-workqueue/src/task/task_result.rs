//! Awaiting a task without a panic.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::Task;
use super::error::TaskError;

/// What came of a task, once it is over; see [`Task::result`]. Dropping it cancels the task.
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited, and dropping this one cancels the task"]
pub struct TaskResult<T> {
    task: Task<T>,
}

impl<T> Task<T> {
    /// A future that waits for the end as the task itself does, and has what came of it as a [`Result`]: it does not
    /// panic where the future did, nor where that was cancelled or its queue shut down. Dropping it cancels the
    /// future, too.
    ///
    /// ```
    /// let queue = coreshard::workqueue()?.name("requests").build()?;
    /// let task = queue.spawn(async { "served" })?;
    /// let waiter = queue.spawn(async move {
    ///     match task.result().await {
    ///         Ok(value) => println!("{value}"),
    ///         Err(error) if error.is_cancelled() => println!("somebody has cancelled it"),
    ///         Err(error) => println!("{error}"),
    ///     }
    /// })?;
    /// # while !waiter.is_finished() { std::thread::yield_now() }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn result(self) -> TaskResult<T> {
        TaskResult { task: self }
    }
}

impl<T> TaskResult<T> {
    /// The task, to be awaited otherwise, or detached.
    pub fn into_task(self) -> Task<T> {
        self.task
    }
}

impl<T> Future for TaskResult<T> {
    type Output = Result<T, TaskError>;

    /// # Panics
    /// If it was polled to its end before.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll_result(context)
    }
}

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

impl<T> TaskResult<T> {
    pub(super) fn new(task: Task<T>) -> Self {
        Self { task }
    }

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

//! `tracing` spans in the form that tokio-console reads.
//!
//! Its subscriber expects (console-subscriber 0.5, `lib.rs` and `visitors.rs`):
//!
//! - a span with the name `runtime.spawn` is a task, from its creation to its close; while it is entered,
//!   the task is polled. `loc.file`, `loc.line` and `loc.col` are the place of the spawn call; `task.name`, `task.id` and
//!   `kind` are shown as such; other fields are shown unchanged;
//! - an event with the target `tokio::task::waker` is an operation on a task's waker: `op`, and the span's id as `task.id`. A
//!   sleeping task without any waker is reported as lost. The wakers that a future makes are not visible here, so one is
//!   reported with each poll, and the next wake-up uses it up.
//!
//! Spans have the target `tokio::task`, since programs let that through to the console.

use std::any::type_name;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use coreshard_platform::{Lock, Platform};
use tracing::Span;
use tracing::span::Id;

use super::diagnostic::say;

/// The kind of work of a span, as the console's column `SpanKind` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// A closure: one run.
    Item,
    /// A queueing of a reusable item.
    Work,
    /// A future, with all its polls.
    Task,
}

/// The identity of an item, for its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    /// A closure: it has its own span, with its type name, made when it is queued.
    Item(&'static str),
    /// A queueing of a reusable item, with the type name of its function and the place of its creation.
    Work(&'static str, &'static Location<'static>),
    /// A subtask of work that has a span.
    Part,
}

impl Label {
    /// The label of a closure of type `F`.
    pub(crate) fn item<F>() -> Self {
        Self::Item(type_name::<F>())
    }
}

/// Numbers tasks as users see them; the span's own id is the subscriber's.
static NEXT_TASK: AtomicU64 = AtomicU64::new(1);

/// Makes a span for work on `queue`, or none without a subscriber.
pub(crate) fn span(
    queue: &str,
    kind: SpanKind,
    name: &'static str,
    bytes: usize,
    location: &'static Location<'static>,
) -> Span {
    let kind = match kind {
        SpanKind::Item => "item",
        SpanKind::Work => "work",
        SpanKind::Task => "task",
    };
    tracing::trace_span!(
        target: "tokio::task",
        parent: None,
        "runtime.spawn",
        kind,
        task.name = name,
        task.id = NEXT_TASK.fetch_add(1, Relaxed),
        queue,
        size.bytes = bytes as u64,
        loc.file = location.file(),
        loc.line = location.line(),
        loc.col = location.column(),
    )
}

/// The span of a future, from its spawn to its end; empty if spans are not enabled for the queue.
pub(crate) struct TaskSpan<P: Platform>(Option<Box<OpenSpan<P>>>);

struct OpenSpan<P: Platform> {
    /// The span's id in its subscriber; `None` without a subscriber.
    id: Option<Id>,
    /// `None` during a poll, and after the future's end.
    span: Lock<P, Option<Span>>,
}

impl<P: Platform> TaskSpan<P> {
    pub(crate) fn off() -> Self {
        Self(None)
    }

    pub(crate) fn on<F>(queue: &str, location: &'static Location<'static>) -> Self {
        let span = span(queue, SpanKind::Task, type_name::<F>(), size_of::<F>(), location);
        Self(Some(Box::new(OpenSpan { id: span.id(), span: Lock::new(Some(span)) })))
    }

    /// Calls `poll` inside the span. If it panics, the span ends.
    #[inline]
    pub(crate) fn poll<R>(&self, poll: impl FnOnce() -> R) -> R {
        match &self.0 {
            None => poll(),
            Some(open) => open.poll(poll),
        }
    }

    /// Reports that the future was woken, and will be polled.
    #[inline]
    pub(crate) fn woken(&self) {
        if let Some(open) = &self.0 {
            // A waker's caller is not to meet a subscriber's panic.
            say(|| open.report("waker.wake"));
        }
    }

    /// Ends the span.
    #[inline]
    pub(crate) fn end(&self) {
        if let Some(open) = &self.0 {
            drop(open.take());
        }
    }
}

impl<P: Platform> OpenSpan<P> {
    #[cold]
    fn poll<R>(&self, poll: impl FnOnce() -> R) -> R {
        let Some(span) = self.take() else { return poll() };
        self.report("waker.clone");
        let result = span.in_scope(poll);
        *self.span.lock() = Some(span);
        result
    }

    fn take(&self) -> Option<Span> {
        self.span.lock().take()
    }

    #[cold]
    fn report(&self, op: &'static str) {
        if let Some(id) = &self.id {
            waker_used(id, op);
        }
    }
}

fn waker_used(span: &Id, op: &'static str) {
    tracing::trace!(
        target: "tokio::task::waker",
        op,
        task.id = span.into_u64(),
    );
}

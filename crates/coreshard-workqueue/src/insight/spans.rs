//! `tracing` spans as tokio-console reads them.
//!
//! What its subscriber looks for (console-subscriber 0.5, `lib.rs` and `visitors.rs`):
//!
//! - a span with the name `runtime.spawn` is a task, from its creation to its close; while it is entered,
//!   the task is polled. `loc.file`, `loc.line` and `loc.col` are where it was spawned; `task.name`,
//!   `task.id` and `kind` are shown as such; other fields are shown as they are;
//! - an event with the target `tokio::task::waker` is an operation on a task's waker: `op`, and the
//!   span's id as `task.id`. A task that sleeps and of whose wakers none is left is told as lost: the
//!   wakers that a future makes are not seen here, so one is told of with each poll, which the
//!   next wake-up uses up.
//!
//! Spans have the target `tokio::task`, since that is what programs let through to the console.

use std::any::type_name;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tracing::Span;
use tracing::span::Id;

/// What a span stands for, as the console's column `SpanKind` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// A closure: one run.
    Item,
    /// A queueing of a reusable item.
    Work,
    /// A future, with all its polls.
    Task,
}

/// Who an item is, for its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    /// A closure: it has a span of its own, with its type name, made where it is queued.
    Item(&'static str),
    /// A queueing of a reusable item, with its function's type name, and where the item was made.
    Work(&'static str, &'static Location<'static>),
    /// It is a part of something that has one.
    Part,
}

impl Label {
    /// A closure of type `F`.
    pub(crate) fn item<F>() -> Self {
        Self::Item(type_name::<F>())
    }
}

/// Numbers tasks as users see them; the span's own id is the subscriber's.
static NEXT_TASK: AtomicU64 = AtomicU64::new(1);

/// A span for work on `queue`; none where nobody listens.
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

/// The span of a future, from its spawn to its end; where the queue asks for none, nothing.
#[derive(Debug)]
pub(crate) struct TaskSpan(Option<Box<Span>>);

impl TaskSpan {
    pub(crate) fn off() -> Self {
        Self(None)
    }

    pub(crate) fn on<F>(queue: &str, location: &'static Location<'static>) -> Self {
        Self(Some(Box::new(span(
            queue,
            SpanKind::Task,
            type_name::<F>(),
            size_of::<F>(),
            location,
        ))))
    }

    /// Calls `poll` inside the span.
    #[inline]
    pub(crate) fn poll<R>(&self, poll: impl FnOnce() -> R) -> R {
        match &self.0 {
            None => poll(),
            Some(span) => {
                if let Some(id) = span.id() {
                    waker_used(&id, "waker.clone");
                }
                span.in_scope(poll)
            }
        }
    }

    /// The span's name among those of its subscriber; none where nobody listens.
    pub(crate) fn id(&self) -> Option<Id> {
        self.0.as_ref()?.id()
    }
}

/// The future with this span was woken, and is to be polled.
#[cold]
pub(crate) fn task_woken(span: &Id) {
    waker_used(span, "waker.wake");
}

fn waker_used(span: &Id, op: &'static str) {
    tracing::trace!(
        target: "tokio::task::waker",
        op,
        task.id = span.into_u64(),
    );
}

//! An item of a queue that bounds or measures its items: with its permit, its span, and the time at which it was queued.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;

use coreshard_platform::{Platform, Time};
use tracing::Span;

use super::capacity::Permit;
use super::queue_core::QueueCore;
use crate::base::item::{Item, ItemBody};
use crate::base::returned::Returned;
use crate::insight::{Label, SpanKind, span};

struct CorePointer<P: Platform>(NonNull<QueueCore<P>>);

// SAFETY: it points to a value that is shared between threads.
unsafe impl<P: Platform> Send for CorePointer<P> {}

/// Packs an item that this pool link counted in, with its permit and the data that the queue records of it.
#[track_caller]
pub(crate) fn pack<P: Platform, F: ItemBody>(
    core: &QueueCore<P>,
    drawn: bool,
    label: impl FnOnce() -> Label,
    permit: Option<Permit<P>>,
    work: F,
) -> Item {
    let labelled = if core.insight.spans { label() } else { Label::Part };
    let spanned = match labelled {
        Label::Item(name) => Some((SpanKind::Item, name, Location::caller())),
        Label::Work(name, made_at) => Some((SpanKind::Work, name, made_at)),
        Label::Part => None,
    };
    let span = spanned
        .map(|(kind, name, place)| span(&core.name, kind, name, size_of::<F::Named>(), place));
    let queued = drawn.then(P::now);
    if permit.is_none() && span.is_none() && queued.is_none() {
        return Item::new(work);
    }
    let core = CorePointer(NonNull::from(core));
    Item::new(Observed { permit, span, queued, core, work })
}

/// An item that carries more than its function. There is one type for all such data, since the compiler instantiates each type
/// for each function that a program queues.
struct Observed<P: Platform, F> {
    /// Given back as the item begins, or is set aside.
    permit: Option<Permit<P>>,
    span: Option<Span>,
    /// When it was queued, if its times are measured.
    queued: Option<Time>,
    core: CorePointer<P>,
    work: F,
}

impl<P: Platform, F: ItemBody> ItemBody for Observed<P, F> {
    type Named = F::Named;
    const IS_AWAITED: bool = F::IS_AWAITED;

    fn name(&self) -> &'static str {
        self.work.name()
    }

    fn is_tombstone(&self) -> bool {
        self.work.is_tombstone()
    }

    fn run(self) {
        let Self { permit, span, queued, core, work } = self;
        drop(permit);
        let _record = queued.map(|queued| {
            // SAFETY: a pool link, and its queue's core, live until all items that it counted in are counted as finished, which
            // happens after this one has returned.
            Record { core: unsafe { core.0.as_ref() }, queued, begun: P::now() }
        });
        let _entered = span.as_ref().map(Span::enter);
        work.run();
    }

    fn set_aside(self) -> Option<Returned> {
        let Self { permit, work, .. } = self;
        drop(permit);
        work.set_aside()
    }
}

/// Records on drop, so that items that panic are also recorded.
struct Record<'core, P: Platform> {
    core: &'core QueueCore<P>,
    queued: Time,
    begun: Time,
}

impl<P: Platform> Drop for Record<'_, P> {
    fn drop(&mut self) {
        if let Some(times) = &self.core.insight.times {
            times.record(self.queued, self.begun, P::now());
        }
    }
}

/// An item on a platform that [watches items](Platform::WATCHES_ITEMS): the platform is notified when the item is about to
/// begin, and when it has finished.
pub(crate) struct WatchedItem<P, F> {
    work: F,
    _platform: PhantomData<fn() -> P>,
}

impl<P: Platform, F: ItemBody> WatchedItem<P, F> {
    /// Wraps an item that was just counted in.
    pub(crate) fn new(work: F) -> Self {
        P::item_is_queued();
        Self { work, _platform: PhantomData }
    }
}

impl<P: Platform, F: ItemBody> ItemBody for WatchedItem<P, F> {
    type Named = F::Named;
    const IS_AWAITED: bool = F::IS_AWAITED;

    fn run(self) {
        P::item_begins(self.work.name(), || self.work.is_tombstone());
        let _over = WatchedRun::<P>(PhantomData);
        self.work.run();
    }

    fn set_aside(self) -> Option<Returned> {
        if !self.work.is_tombstone() {
            P::item_is_taken();
        }
        self.work.set_aside()
    }
}

/// Notifies the platform on drop, so that items that panic are also reported.
struct WatchedRun<P: Platform>(PhantomData<P>);

impl<P: Platform> Drop for WatchedRun<P> {
    fn drop(&mut self) {
        P::item_is_over();
    }
}

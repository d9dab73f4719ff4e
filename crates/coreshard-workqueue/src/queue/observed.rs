//! An item of a queue that bounds its items or wants to know of them: with its permit, its span, and the moment at which it
//! was queued.
#![allow(unsafe_code)]

use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform, Time};
use tracing::Span;

use super::capacity::Permit;
use super::pool_link::{COUNT, PoolLink};
use crate::base::item::{Item, ItemBody};
use crate::base::returned::Returned;
use crate::insight::{Label, SpanKind, span};

/// The pool link that counted the item in.
struct LinkPointer<P: Platform>(NonNull<PoolLink<P>>);

// SAFETY: a pool link is shared between threads as it is.
unsafe impl<P: Platform> Send for LinkPointer<P> {}

impl<P: Platform> PoolLink<P> {
    /// True if the item that was counted in last at this injector is to be measured.
    #[inline(never)]
    pub(crate) fn draws(&self, injector: usize) -> bool {
        self.core.insight.times.as_ref().is_some_and(|times| {
            // The caller has just counted its item there; whoever else did since makes the draw
            // no worse.
            let count = self.queued_word(injector).load(Relaxed) & COUNT;
            times.sampling.draws(count.saturating_sub(1))
        })
    }

    /// Packs an item that this pool link counted in, with its permit and with what the queue wants to know of it.
    #[track_caller]
    pub(super) fn pack<F: ItemBody>(
        &self,
        drawn: bool,
        label: impl FnOnce() -> Label,
        permit: Option<Permit<P>>,
        work: F,
    ) -> Item {
        let insight = &self.core.insight;
        let labelled = if insight.spans { label() } else { Label::Part };
        let spanned = match labelled {
            Label::Item(name) => Some((SpanKind::Item, name, Location::caller())),
            Label::Work(name, made_at) => Some((SpanKind::Work, name, made_at)),
            Label::Part => None,
        };
        let span = spanned.map(|(kind, name, place)| {
            span(&self.core.name, kind, name, size_of::<F::Named>(), place)
        });
        let queued = drawn.then(P::now);
        if permit.is_none() && span.is_none() && queued.is_none() {
            return Item::new(work);
        }
        let link = LinkPointer(NonNull::from(self));
        Item::new(Observed { permit, span, queued, link, work })
    }
}

/// An item that is more than its function. One type for all of it: the compiler makes each of them for each function that
/// a program queues.
struct Observed<P: Platform, F> {
    /// Given back as the item begins, or is set aside.
    permit: Option<Permit<P>>,
    span: Option<Span>,
    /// When it was queued, if its times are measured.
    queued: Option<Time>,
    link: LinkPointer<P>,
    work: F,
}

impl<P: Platform, F: ItemBody> ItemBody for Observed<P, F> {
    type Named = F::Named;
    const IS_AWAITED: bool = F::IS_AWAITED;

    fn name(&self) -> &'static str {
        self.work.name()
    }

    fn is_void(&self) -> bool {
        self.work.is_void()
    }

    fn run(self) {
        let Self { permit, span, queued, link, work } = self;
        drop(permit);
        let _record = queued.map(|queued| {
            // SAFETY: a pool link lives until all items that it counted in are told to it, which happens after this
            // one has returned.
            Record { link: unsafe { link.0.as_ref() }, queued, begun: P::now() }
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

/// Records when it goes, so also of an item that panics.
struct Record<'link, P: Platform> {
    link: &'link PoolLink<P>,
    queued: Time,
    begun: Time,
}

impl<P: Platform> Drop for Record<'_, P> {
    fn drop(&mut self) {
        if let Some(times) = &self.link.core.insight.times {
            times.record(self.queued, self.begun, P::now());
        }
    }
}

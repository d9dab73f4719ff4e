//! An item of a queue that wants to know of its items: with the moment at which it was queued, and
//! its span.
#![allow(unsafe_code)]

use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform, Time};
use tracing::Span;

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

    /// Packs an item that was counted in by this pool link, with what the queue wants to know of it.
    #[track_caller]
    pub(crate) fn pack<F: ItemBody>(&self, drawn: bool, label: Label, work: F) -> Item {
        let insight = &self.core.insight;
        let spanned = match label {
            _ if !insight.spans => None,
            Label::Item(name) => Some((SpanKind::Item, name, Location::caller())),
            Label::Work(name, made_at) => Some((SpanKind::Work, name, made_at)),
            Label::Part => None,
        };
        let span = spanned.map(|(kind, name, place)| {
            span(&self.core.name, kind, name, size_of::<F::Named>(), place)
        });
        match (drawn, span) {
            (false, None) => Item::new(work),
            (false, Some(span)) => Item::new(Spanned { span, work }),
            (true, span) => {
                let link = LinkPointer(NonNull::from(self));
                Item::new(Measured { link, queued: P::now(), span, work })
            }
        }
    }
}

/// An item with a span.
struct Spanned<F> {
    span: Span,
    work: F,
}

impl<F: ItemBody> ItemBody for Spanned<F> {
    type Named = F::Named;
    const IS_AWAITED: bool = F::IS_AWAITED;

    fn name(&self) -> &'static str {
        self.work.name()
    }

    fn is_void(&self) -> bool {
        self.work.is_void()
    }

    fn run(self) {
        let Self { span, work } = self;
        span.in_scope(|| work.run());
    }

    fn set_aside(self) -> Option<Returned> {
        self.work.set_aside()
    }
}

/// An item whose times are measured, and that may have a span.
struct Measured<P: Platform, F> {
    link: LinkPointer<P>,
    queued: Time,
    span: Option<Span>,
    work: F,
}

impl<P: Platform, F: ItemBody> ItemBody for Measured<P, F> {
    type Named = F::Named;
    const IS_AWAITED: bool = F::IS_AWAITED;

    fn name(&self) -> &'static str {
        self.work.name()
    }

    fn is_void(&self) -> bool {
        self.work.is_void()
    }

    fn run(self) {
        let Self { link, queued, span, work } = self;
        // SAFETY: a pool link lives until all items that it counted in are told to it, which happens after this
        // one has returned.
        run_measured(unsafe { link.0.as_ref() }, queued, span, || work.run());
    }

    fn set_aside(self) -> Option<Returned> {
        self.work.set_aside()
    }
}

fn run_measured<P: Platform>(
    link: &PoolLink<P>,
    queued: Time,
    span: Option<Span>,
    work: impl FnOnce(),
) {
    let begun = P::now();
    let _record = Record { link, queued, begun };
    match span {
        None => work(),
        Some(span) => span.in_scope(work),
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

//! Awaiting a submitted item.
#![allow(unsafe_code)]

use std::pin::Pin;
use std::task::{Context, Poll};

use coreshard_platform::Platform;

use super::handle::JoinHandle;
use super::panics::Panic;
use crate::base::budget;
use crate::base::error::Forked;

impl<P: Platform, T> JoinHandle<T, P> {
    /// The handle is no future any more, or is none at the moment.
    #[inline(always)]
    pub(super) fn forget_waker(&mut self) {
        if self.is_polled {
            self.take_waker_back();
        }
    }

    #[cold]
    #[inline(never)]
    fn take_waker_back(&mut self) {
        self.is_polled = false;
        // SAFETY: an item has one handle.
        unsafe { self.item.completion().forget() };
    }
}

impl<P: Platform, T> Drop for JoinHandle<T, P> {
    /// What a waker left here would wake may be large, and the item take long.
    #[inline(always)]
    fn drop(&mut self) {
        self.forget_waker();
    }
}

impl<P: Platform, T> Future for JoinHandle<T, P> {
    type Output = Result<T, Panic>;

    /// As [`JoinHandle::join`], but it never runs the item itself, and so never finds that it would wait for
    /// ever.
    ///
    /// # Panics
    /// If it was polled to its end before.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = &mut *self;
        if handle.item.over().is_orphaned() {
            return Poll::Ready(Err(Panic::of(Forked)));
        }
        if budget::proceed::<P>(context).is_pending() {
            return Poll::Pending;
        }
        // Before the call: its clone of the waker is a user's, and may panic after one was left.
        handle.is_polled = true;
        // SAFETY: an item has one handle, which takes its waker back as it is dropped, and the process was not
        // forked.
        if !unsafe { handle.item.completion().poll(context) } {
            return Poll::Pending;
        }
        budget::spend::<P>();
        // SAFETY: the latch was seen to be open. It is taken once: else this panics.
        Poll::Ready(unsafe { handle.item.take() }.map_err(Panic::thrown))
    }
}

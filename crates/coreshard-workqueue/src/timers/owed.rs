//! Where what the timekeeper fires leaves users' code.

use std::sync::Arc;
use std::task::Waker;

use coreshard_platform::Platform;

use crate::callbacks::{Callback, Callbacks};

/// Where what the timekeeper fires leaves users' code to be called.
pub(crate) struct Owed<P: Platform> {
    pub(super) callbacks: Arc<Callbacks<P>>,
    pub(super) wake_own: WakeOwn,
}

/// Wakes a task of this crate's without running anything of a user's: what is left to be called comes
/// back, or the waker, if it is another executor's.
pub(crate) type WakeOwn = fn(Waker) -> Result<Option<Callback>, Waker>;

impl<P: Platform> Owed<P> {
    /// Wakes a future, on the timekeeper.
    pub(super) fn wake(&self, waker: Waker) {
        match (self.wake_own)(waker) {
            Ok(None) => {}
            Ok(Some(left)) => self.callbacks.add(left),
            Err(foreign) => self.callbacks.add(Callback::Wake(foreign)),
        }
    }
}

//! State shared by a queue's handles; dropping it ends the queue.

use std::any::Any;
use std::sync::{Arc, Weak};

use coreshard_platform::Platform;
use coreshard_platform::user;

use super::shared::Shared;
use super::task_ref::TaskRef;
use crate::callbacks::Callback;
use crate::insight::diagnostic::say;

pub(super) struct LastHandle<P: Platform> {
    pub(super) shared: Arc<Shared<P>>,
}

impl<P: Platform> LastHandle<P> {
    pub(super) fn new(shared: Arc<Shared<P>>) -> Arc<Self> {
        let handle = Arc::new(Self { shared });
        let known: Weak<Self> = Arc::downgrade(&handle);
        let known: Weak<dyn Any + Send + Sync> = known;
        let set = handle.shared.core.handle.set(known);
        debug_assert!(set.is_ok(), "it has its first handle");
        handle
    }
}

impl<P: Platform> Drop for LastHandle<P> {
    #[inline(never)]
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // A forked process has no threads to run the remaining items or to be waited for.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.shared.close_for_good();
        TaskRef::keep_queue(&self.shared);
        if !self.shared.waits_for_caller() {
            self.shared.end();
            return;
        }
        // One of the queue's own items held the last handle, and cannot wait for itself.
        let timers = Arc::clone(self.shared.timers());
        let queue = Arc::clone(&self.shared);
        timers.call(Callback::new(move || {
            user::call(|| {
                queue.end();
                drop(queue);
            })
        }));
        if let Err(error) = timers.start_keeper() {
            let name = self.shared.name();
            say(|| tracing::warn!(queue = %name, %error, "the end of a queue waits for a thread"));
            self.shared.keep_timers_going();
        }
    }
}

//! Opening a device's queues.

use std::sync::Arc;

use coreshard_platform::Platform;

use super::Queue;
use super::options::QueueOptions;
use crate::host::Device;
use crate::open_error::{OpenError, OpenErrorKind};
use crate::tags::TagUser;

impl<P: Platform> Device<P> {
    /// The queue of thread number `thread` (from 0 to below the host's `threads`), made on the
    /// thread that uses it, after it was pinned.
    ///
    /// # Errors
    /// Where that thread has a queue already, there is no such number, or the backend has no channel.
    pub fn queue(
        self: &Arc<Self>,
        thread: usize,
        options: QueueOptions,
    ) -> Result<Queue<P>, OpenError> {
        let threads = self.target().host().options().threads;
        let counters = self.counters.for_thread(thread).ok_or_else(|| {
            let name = self.name().to_owned();
            OpenError::new(OpenErrorKind::NoThread { name, thread, threads })
        })?;
        let tags = self.user.port();
        let target_tags = self.target_user.as_ref().map(TagUser::port);
        let depth = self.target().host().options().depth;
        let channel = self.backend.channel(depth.min(options.depth.max(1)))?;
        Ok(Queue::new(Arc::clone(self), channel, tags, target_tags, counters, options))
    }
}

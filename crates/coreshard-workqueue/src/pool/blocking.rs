//! A worker that waits for something else than work hands its place over.

use std::sync::Arc;

use coreshard_platform::Platform;

use super::Pool;
use super::worker::with_context;

/// Calls `work`, which may block, and lets another worker run meanwhile.
///
/// On a worker's thread, the pool counts this worker as blocked until `work` returns, and at once
/// wakes or starts another one if one more may run. Elsewhere it just calls `work`.
pub fn blocking<P: Platform, R>(work: impl FnOnce() -> R) -> R {
    let pool = with_context::<P, _>(|context| Arc::clone(&context.pool));
    let _stand_in = pool.map(StandIn::begin);
    work()
}

/// As [`blocking`], for this crate's own waits.
pub(crate) fn wait_aside<P: Platform, R>(wait: impl FnOnce() -> R) -> R {
    blocking::<P, R>(wait)
}

/// While it lives, this thread's worker counts as blocked.
struct StandIn<P: Platform> {
    pool: Arc<Pool<P>>,
}

impl<P: Platform> StandIn<P> {
    fn begin(pool: Arc<Pool<P>>) -> Self {
        let mut state = pool.lock();
        state.blocked += 1;
        let left = pool.queue.is_some() && pool.ranges().any(|(_, range)| range.has_items());
        let kick = if left || state.has_queued(&pool) { state.choose_kick(&pool) } else { None };
        let kick = kick.or_else(|| state.appoint_sentinel(&pool));
        let spare = if kick.is_none() { state.reserve_spare(&pool) } else { None };
        pool.unlock_and_kick(state, kick);
        if let Some(spare) = spare {
            pool.start_spare(spare);
        }
        Self { pool }
    }
}

impl<P: Platform> Drop for StandIn<P> {
    fn drop(&mut self) {
        // The pool may now run one more than its limit; the next that looks for work lies down.
        self.pool.lock().blocked -= 1;
    }
}

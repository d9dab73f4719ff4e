//! Waiting for a team's work, on any thread.

use coreshard_platform::Platform;

use crate::base::error::Forked;
use crate::base::latch::Latch;
use crate::pool::{CurrentWorker, JobNumber, Pool, WaitKind};

/// Waits until `done`, which this pool opens, is open. A worker meanwhile runs parts of the work that it waits for, and work
/// that it has spawned since.
pub(super) fn wait_for<P: Platform>(pool: &Pool<P>, done: &Latch<P>, since: JobNumber) {
    let is_open = match CurrentWorker::<P>::here() {
        Some(worker) => {
            let kind = WaitKind { since, is_elsewhere: worker.set() != pool.set() };
            done.is_open() || worker.wait_in_team(done, kind)
        }
        None => pool.wait_outside(done),
    };
    if !is_open {
        // The thread that would open it is in another process.
        Forked::throw();
    }
}

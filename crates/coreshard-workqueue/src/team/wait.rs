//! How any thread waits for what a team does.

use coreshard_platform::Platform;

use crate::base::error::Forked;
use crate::base::latch::Latch;
use crate::pool::{CurrentWorker, JobNumber, Pool, WaitKind};

/// Waits until `done`, which is this pool's to open, is open: a worker runs parts of what it waits for meanwhile, and what it has spawned since.
pub(super) fn wait_for<P: Platform>(pool: &Pool<P>, done: &Latch<P>, since: JobNumber) {
    let is_open = match CurrentWorker::<P>::here() {
        Some(worker) => {
            let kind = WaitKind { since, is_elsewhere: worker.set() != pool.set() };
            done.is_open() || worker.wait_in_team(done, kind)
        }
        None => pool.wait_outside(done),
    };
    if !is_open {
        // Whoever would open it is in another process.
        Forked::throw();
    }
}

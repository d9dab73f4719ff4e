//! How any thread waits for what a team does.

use coreshard_platform::Platform;

use crate::base::error::Forked;
use crate::base::latch::Latch;
use crate::pool::{CurrentWorker, JobNumber};

/// Looks at a latch before a thread that is no worker sleeps.
const LOOKS: u32 = 200;

/// Waits until `done` is open: a worker runs parts of what it waits for meanwhile, and what it has spawned since.
pub(super) fn wait_for<P: Platform>(done: &Latch<P>, since: JobNumber) {
    let is_open = match CurrentWorker::<P>::here() {
        Some(worker) => done.is_open() || worker.wait_since(done, since),
        None => {
            let seen = (0..LOOKS).any(|_| {
                P::spin_hint();
                done.is_open()
            });
            seen || done.wait()
        }
    };
    if !is_open {
        // Whoever would open it is in another process.
        Forked::throw();
    }
}

//! A team among its runtime's queues, for statistics and reports.

use std::sync::Arc;

use coreshard_platform::{Platform, Time};

use crate::base::error::{BuildError, ShutdownTimeout};
use crate::insight::stats::QueueStats;
use crate::pool::PoolSet;
use crate::queue::machine::{Collected, Queue};

/// A team as the runtime lists it.
pub(super) struct Listing<P: Platform> {
    pub(super) name: String,
    pub(super) set: Arc<PoolSet<P>>,
}

impl<P: Platform> Queue for Listing<P> {
    /// Does nothing: the number of members is fixed, and the kernel enforces their CPUs.
    fn follow_cpus(self: Arc<Self>) -> Result<(), BuildError> {
        Ok(())
    }

    /// A team ends with its handles.
    fn shut_down(&self) {}

    fn stop(&self) {}

    fn collect(&self, _deadline: Time) -> Collected {
        (Vec::new(), 0)
    }

    fn wait_empty(&self, _deadline: Option<Time>) -> Result<(), ShutdownTimeout> {
        Ok(())
    }

    fn stats(&self) -> QueueStats {
        let scope = self.set.attributes.scope;
        if self.set.pools().any(|pool| pool.is_forked()) {
            // The pools' locks may be held by threads that do not exist in this process.
            return QueueStats::plain(&self.name, scope, (0, 0), Vec::new());
        }
        let pools: Vec<_> = self.set.pools().map(|pool| pool.stats()).collect();
        let run = pools.iter().map(|pool| pool.run).sum::<u64>();
        let waiting = self.set.pools().map(|pool| pool.jobs_waiting()).sum::<u64>();
        QueueStats::plain(&self.name, scope, (run + waiting, run), pools)
    }
}

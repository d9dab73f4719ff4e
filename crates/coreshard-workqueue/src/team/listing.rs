//! A team among its runtime's queues, for whoever looks at those.

use std::sync::Arc;

use coreshard_platform::{Platform, Time};

use crate::base::error::{BuildError, ShutdownTimeout};
use crate::insight::stats::QueueStats;
use crate::pool::PoolSet;
use crate::queue::machine::{Collected, Queue};

/// A team as it is told of.
pub(super) struct Listing<P: Platform> {
    pub(super) name: String,
    pub(super) set: Arc<PoolSet<P>>,
}

impl<P: Platform> Queue for Listing<P> {
    /// Its members stay as many as they are; where they may run is the kernel's business.
    fn follow_cpus(self: Arc<Self>) -> Result<(), BuildError> {
        Ok(())
    }

    /// It ends with its handles.
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
            // Whoever holds the pools' locks may not be here.
            return QueueStats::plain(&self.name, scope, (0, 0), Vec::new());
        }
        let pools: Vec<_> = self.set.pools().map(|pool| pool.stats()).collect();
        let run = pools.iter().map(|pool| pool.run).sum::<u64>();
        let waiting = self.set.pools().map(|pool| pool.jobs_waiting()).sum::<u64>();
        QueueStats::plain(&self.name, scope, (run + waiting, run), pools)
    }
}

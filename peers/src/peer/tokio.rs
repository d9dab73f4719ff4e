//! tokio's multi-thread runtime, without the I/O and time drivers that nothing here needs.

use super::{Spawn, SpawnFuture, Start};

pub(crate) struct Tokio {
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl Start for Tokio {
    fn start(workers: usize) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build();
        Ok(Self { runtime: runtime.map_err(|error| error.to_string())? })
    }
}

impl Spawn for Tokio {
    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        // Dropping the handle lets the task run.
        drop(self.runtime.spawn(async move { work() }));
    }

    #[inline]
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.runtime.spawn_blocking(work));
    }
}

impl SpawnFuture for Tokio {
    fn spawn_future<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        let task = self.runtime.spawn(future);
        async { task.await.expect("no task panics") }
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

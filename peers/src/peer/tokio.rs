//! tokio's multi-thread runtime, without the I/O and time drivers that nothing here needs.

use super::Spawn;

pub(crate) struct Tokio {
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl Spawn for Tokio {
    fn start(workers: usize) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build();
        Ok(Self { runtime: runtime.map_err(|error| error.to_string())? })
    }

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

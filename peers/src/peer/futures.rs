//! The executors of the smol family: async-executor, and bevy_tasks which is built on it.

use std::future::pending;
use std::thread;

use bevy_tasks::ParallelSliceMut as _;

use super::{ParallelFor, Spawn, SpawnFuture, Start};

/// async-executor, run by the harness's threads, as its documentation shows. `StaticExecutor` is the faster variant.
pub(crate) struct AsyncExecutor {
    pub(crate) executor: &'static async_executor::StaticExecutor,
}

impl Start for AsyncExecutor {
    fn start(workers: usize) -> Result<Self, String> {
        let executor: &'static async_executor::StaticExecutor =
            Box::leak(Box::new(async_executor::StaticExecutor::new()));
        for _ in 0..workers {
            let run = || futures_lite::future::block_on(executor.run(pending::<()>()));
            thread::Builder::new().spawn(run).map_err(|error| error.to_string())?;
        }
        Ok(Self { executor })
    }
}

impl Spawn for AsyncExecutor {
    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.executor.spawn(async move { work() }).detach();
    }

    /// Uses the threads of the `blocking` crate, as smol does.
    #[inline]
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        blocking::unblock(work).detach();
    }
}

pub(crate) struct BevyTasks {
    pub(crate) pool: bevy_tasks::TaskPool,
}

impl Start for BevyTasks {
    fn start(workers: usize) -> Result<Self, String> {
        Ok(Self { pool: bevy_tasks::TaskPoolBuilder::new().num_threads(workers).build() })
    }
}

impl Spawn for BevyTasks {
    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.pool.spawn(async move { work() }).detach();
    }
}

impl SpawnFuture for AsyncExecutor {
    fn spawn_future<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        self.executor.spawn(future)
    }
}

impl SpawnFuture for BevyTasks {
    fn spawn_future<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        self.pool.spawn(future)
    }
}

impl ParallelFor for BevyTasks {
    const NOTE: Option<&'static str> = Some("the slice is handed out in 128 chunks");

    fn for_each(&self, elements: &mut [u64], body: &(impl Fn(&mut u64) + Sync)) {
        let chunk = elements.len().div_ceil(128).max(1);
        let mut elements = elements;
        elements.par_chunk_map_mut(&self.pool, chunk, |_, chunk| chunk.iter_mut().for_each(body));
    }
}

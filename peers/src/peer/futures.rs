//! The executors of the smol family: async-executor, and bevy_tasks which is built on it.

use std::future::pending;
use std::thread;

use super::Spawn;

/// async-executor, run by threads of ours, as its documentation shows. The static one is the faster.
pub(crate) struct AsyncExecutor {
    pub(crate) executor: &'static async_executor::StaticExecutor,
}

impl Spawn for AsyncExecutor {
    fn start(workers: usize) -> Result<Self, String> {
        let executor: &'static async_executor::StaticExecutor =
            Box::leak(Box::new(async_executor::StaticExecutor::new()));
        for _ in 0..workers {
            let run = || futures_lite::future::block_on(executor.run(pending::<()>()));
            thread::Builder::new().spawn(run).map_err(|error| error.to_string())?;
        }
        Ok(Self { executor })
    }

    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.executor.spawn(async move { work() }).detach();
    }
}

pub(crate) struct BevyTasks {
    pub(crate) pool: bevy_tasks::TaskPool,
}

impl Spawn for BevyTasks {
    fn start(workers: usize) -> Result<Self, String> {
        Ok(Self { pool: bevy_tasks::TaskPoolBuilder::new().num_threads(workers).build() })
    }

    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.pool.spawn(async move { work() }).detach();
    }
}

//! The peers, each behind the traits that the workloads are written against. Every call is the one
//! that the peer's own documentation shows for the purpose, compiled into the workload without a
//! virtual call in between.

mod channel;
mod chili;
mod coreshard;
mod futures;
mod rayon;
mod tokio;

pub(crate) use self::chili::Chili;
pub(crate) use self::coreshard::Coreshard;
pub(crate) use self::rayon::Rayon;
pub(crate) use self::tokio::Tokio;
pub(crate) use channel::{Crossbeam, RustyPool, ThreadPool};
pub(crate) use futures::{AsyncExecutor, BevyTasks};

/// An executor that can be started.
pub(crate) trait Start: Sized + 'static {
    /// Starts it with its fastest configuration for this many worker threads.
    fn start(workers: usize) -> Result<Self, String>;
}

/// An executor that runs closures which threads outside of it hand in.
pub(crate) trait Spawn: Start + Send + Sync {
    /// Hands `work` in: runs it once, tells nobody.
    fn spawn(&self, work: impl FnOnce() + Send + 'static);

    /// Hands in work that sleeps or waits, by the call the peer has for such work.
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.spawn(work);
    }
}

/// An executor for recursive work. Both functions fork at every level, down to the last.
pub(crate) trait ForkJoin: Start {
    /// What a reader must know about how the work is expressed.
    const NOTE: Option<&'static str> = None;

    /// The n-th Fibonacci number, as the sum of the two before.
    fn fib(&self, n: u32) -> u64;

    /// The sum over the leaves of a binary tree, each of which holds its position.
    fn sum_of_tree(&self, levels: u32) -> u64;
}

/// An executor that divides a slice.
pub(crate) trait ParallelFor: Start {
    /// What a reader must know about how the work is expressed.
    const NOTE: Option<&'static str> = None;

    fn for_each(&self, elements: &mut [u64], body: &(impl Fn(&mut u64) + Sync));
}

/// An executor of futures.
pub(crate) trait SpawnFuture: Start + Send + Sync {
    /// Starts a task; the future that comes back awaits its end.
    fn spawn_future<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static;

    /// Lets other tasks go first.
    fn yield_now() -> impl Future<Output = ()> + Send {
        futures_lite::future::yield_now()
    }

    /// Waits on a thread outside of the executor.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        futures_lite::future::block_on(future)
    }
}

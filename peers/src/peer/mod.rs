//! The peers, each behind the traits that the workloads are written against. Every call is the one
//! that the peer's own documentation shows for the purpose, compiled into the workload without a
//! virtual call in between.

mod channel;
mod coreshard;
mod futures;
mod rayon;
mod tokio;

pub(crate) use self::coreshard::Coreshard;
pub(crate) use self::rayon::Rayon;
pub(crate) use self::tokio::Tokio;
pub(crate) use channel::{Crossbeam, RustyPool, ThreadPool};
pub(crate) use futures::{AsyncExecutor, BevyTasks};

/// An executor that runs closures which threads outside of it hand in.
pub(crate) trait Spawn: Send + Sync + Sized + 'static {
    /// Starts it with its fastest configuration for this many worker threads.
    fn start(workers: usize) -> Result<Self, String>;

    /// Hands `work` in: runs it once, tells nobody.
    fn spawn(&self, work: impl FnOnce() + Send + 'static);

    /// Hands in work that sleeps or waits, by the call the peer has for such work.
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.spawn(work);
    }
}

/// The names of the Rust peers that take closures, in the order they are shown.
pub(crate) const SPAWNING: [&str; 8] = [
    "coreshard",
    "rayon",
    "tokio",
    "async-executor",
    "bevy_tasks",
    "crossbeam-channel",
    "threadpool",
    "rusty_pool",
];

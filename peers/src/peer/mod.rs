//! The peers, each behind the traits that the workloads use. Every call is the one that the peer's
//! documentation shows for the purpose, compiled into the workload without a virtual call in between.

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

/// All peers, in the order they are shown.
pub(crate) const PEERS: [&str; 19] = [
    "coreshard",
    "coreshard-c",
    "coreshard-cpp",
    "rayon",
    "tokio",
    "async-executor",
    "bevy_tasks",
    "crossbeam-channel",
    "threadpool",
    "rusty_pool",
    "chili",
    "onetbb",
    "taskflow",
    "dispenso",
    "asio",
    "eigen",
    "libdispatch",
    "go",
    FLOOR,
];

/// The name of the lower bound of a workload, if it is known. It is listed as a peer but is not an executor.
pub(crate) const FLOOR: &str = "floor";

/// Calls a workload's `run` for the peer that the cell names, or returns why it does not fit that peer.
macro_rules! for_peer {
    ($cell:expr, $workload:ident, $otherwise:literal, $($name:literal => $peer:ident,)*) => {
        match $cell.peer.as_str() {
            $($name => $workload::run::<$crate::peer::$peer>($cell),)*
            _ => return Ok($crate::cell::Outcome::Unfit($otherwise.to_owned())),
        }
    };
}

/// For the peers that take closures from outside.
macro_rules! for_spawning {
    ($cell:expr, $workload:ident) => {
        $crate::peer::for_peer!(
            $cell, $workload, "takes no closures from outside",
            "coreshard" => Coreshard,
            "rayon" => Rayon,
            "tokio" => Tokio,
            "async-executor" => AsyncExecutor,
            "bevy_tasks" => BevyTasks,
            "crossbeam-channel" => Crossbeam,
            "threadpool" => ThreadPool,
            "rusty_pool" => RustyPool,
        )
    };
}

/// For the peers with recursive work.
macro_rules! for_forking {
    ($cell:expr, $workload:ident) => {
        $crate::peer::for_peer!(
            $cell, $workload, "has no recursive fork and join of borrowed data",
            "coreshard" => Coreshard,
            "rayon" => Rayon,
            "chili" => Chili,
        )
    };
}

/// For the peers that divide slices.
macro_rules! for_slices {
    ($cell:expr, $workload:ident) => {
        $crate::peer::for_peer!(
            $cell, $workload, "takes no borrowed data, so no slice",
            "coreshard" => Coreshard,
            "rayon" => Rayon,
            "bevy_tasks" => BevyTasks,
            "chili" => Chili,
        )
    };
}

/// For the peers that run futures.
macro_rules! for_futures {
    ($cell:expr, $workload:ident) => {
        $crate::peer::for_peer!(
            $cell, $workload, "runs no futures that can be awaited",
            "coreshard" => Coreshard,
            "tokio" => Tokio,
            "async-executor" => AsyncExecutor,
            "bevy_tasks" => BevyTasks,
        )
    };
}

pub(crate) use {for_forking, for_futures, for_peer, for_slices, for_spawning};

/// An executor that can be started.
pub(crate) trait Start: Sized + 'static {
    /// Starts it with its fastest configuration for this many worker threads.
    fn start(workers: usize) -> Result<Self, String>;
}

/// An executor that runs closures submitted by outside threads.
pub(crate) trait Spawn: Start + Send + Sync {
    /// Submits `work`. It runs once, and its end is not reported.
    fn spawn(&self, work: impl FnOnce() + Send + 'static);

    /// Submits work that sleeps or waits, by the peer's call for such work.
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.spawn(work);
    }
}

/// An executor for recursive work. Both functions fork at every level, down to the last.
pub(crate) trait ForkJoin: Start {
    /// A note for the reader on how the work is expressed.
    const NOTE: Option<&'static str> = None;

    /// The n-th Fibonacci number, as the sum of the two before.
    fn fib(&self, n: u32) -> u64;

    /// The sum over the leaves of a binary tree. Each leaf holds its position.
    fn sum_of_tree(&self, levels: u32) -> u64;
}

/// An executor that divides a slice.
pub(crate) trait ParallelFor: Start {
    /// A note for the reader on how the work is expressed.
    const NOTE: Option<&'static str> = None;

    fn for_each(&self, elements: &mut [u64], body: &(impl Fn(&mut u64) + Sync));
}

/// An executor of futures.
pub(crate) trait SpawnFuture: Start + Send + Sync {
    /// Starts a task. The returned future awaits its end.
    fn spawn_future<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static;

    /// Lets other tasks go first.
    fn yield_now() -> impl Future<Output = ()> + Send {
        futures_lite::future::yield_now()
    }

    /// Waits on a thread outside the executor.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        futures_lite::future::block_on(future)
    }
}

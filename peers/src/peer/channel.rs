//! The pools based on a channel of boxed closures: crossbeam-channel with plain worker threads,
//! threadpool (the standard library's channel), rusty_pool (crossbeam-channel).

use std::thread;
use std::time::Duration;

use super::{Spawn, Start};

type Job = Box<dyn FnOnce() + Send>;

/// A common hand-written pool: an unbounded channel, so that submitting never waits.
pub(crate) struct Crossbeam {
    jobs: crossbeam_channel::Sender<Job>,
}

impl Start for Crossbeam {
    fn start(workers: usize) -> Result<Self, String> {
        let (jobs, inbox) = crossbeam_channel::unbounded::<Job>();
        for _ in 0..workers {
            let inbox = inbox.clone();
            let run = move || inbox.iter().for_each(|job| job());
            thread::Builder::new().spawn(run).map_err(|error| error.to_string())?;
        }
        Ok(Self { jobs })
    }
}

impl Spawn for Crossbeam {
    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.jobs.send(Box::new(work)).expect("the workers hold the other end");
    }
}

pub(crate) struct ThreadPool {
    pool: threadpool::ThreadPool,
}

impl Start for ThreadPool {
    fn start(workers: usize) -> Result<Self, String> {
        Ok(Self { pool: threadpool::ThreadPool::new(workers) })
    }
}

impl Spawn for ThreadPool {
    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.pool.execute(work);
    }
}

pub(crate) struct RustyPool {
    pool: rusty_pool::ThreadPool,
}

impl Start for RustyPool {
    fn start(workers: usize) -> Result<Self, String> {
        let pool = rusty_pool::ThreadPool::new(workers, workers, Duration::from_secs(60));
        pool.start_core_threads();
        Ok(Self { pool })
    }
}

impl Spawn for RustyPool {
    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.pool.execute(work);
    }
}

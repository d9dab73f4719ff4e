//! Commands done by other threads: where io_uring is forbidden.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Lock, Parker, Platform};

use super::immediate::{park, unparks};
use super::sync::perform;
use super::{Command, Lane, Reaped, Waker};

/// A piece of work for another thread; it may block.
pub type Job = Box<dyn FnOnce() + Send>;

/// Something that runs jobs on other threads, such as a workqueue. Any
/// `Fn(Job) -> Result<(), Job>` is one:
///
/// ```
/// use std::sync::Arc;
/// use coreshard_block::{Executor, Job};
///
/// let executor: Arc<dyn Executor> = Arc::new(|job: Job| {
///     std::thread::spawn(job);
///     Ok(())
/// });
/// # let _ = executor;
/// ```
pub trait Executor: Send + Sync {
    /// Has `job` run on another thread.
    ///
    /// # Errors
    /// Hands the job back where that cannot be.
    fn execute(&self, job: Job) -> Result<(), Job>;
}

impl<F: Fn(Job) -> Result<(), Job> + Send + Sync> Executor for F {
    fn execute(&self, job: Job) -> Result<(), Job> {
        self(job)
    }
}

/// What the jobs of a lane share with it.
struct Board<P: Platform> {
    done: Lock<P, Vec<Reaped>>,
    parker: Arc<Parker<P>>,
}

/// A command on its way through another thread. However it ends, its completion is told: also
/// where the job is dropped without having been run.
struct Errand<P: Platform> {
    board: Arc<Board<P>>,
    file: Arc<OwnedFd>,
    command: Command,
    result: i32,
}

// SAFETY: the memory that the command names is nobody else's until the completion is told, and
// the lane waits for that in its drop.
unsafe impl<P: Platform> Send for Errand<P> {}

impl<P: Platform> Drop for Errand<P> {
    fn drop(&mut self) {
        let reaped = Reaped { id: self.command.id, result: self.result };
        self.board.done.lock().push(reaped);
        self.board.parker.unpark();
    }
}

pub(super) struct PoolLane<P: Platform> {
    executor: Arc<dyn Executor>,
    file: Arc<OwnedFd>,
    board: Arc<Board<P>>,
    in_flight: usize,
    why: String,
}

impl<P: Platform> PoolLane<P> {
    pub(super) fn new(executor: Arc<dyn Executor>, file: Arc<OwnedFd>, why: String) -> Self {
        let board = Board { done: Lock::new(Vec::new()), parker: Arc::new(Parker::new()) };
        Self { executor, file, board: Arc::new(board), in_flight: 0, why }
    }
}

// SAFETY: a command's memory is used by its errand alone, which ends with the completion; the drop
// waits for all errands.
unsafe impl<P: Platform> Lane for PoolLane<P> {
    unsafe fn start(&mut self, command: &Command) -> bool {
        let mut errand = Errand {
            board: Arc::clone(&self.board),
            file: Arc::clone(&self.file),
            command: *command,
            result: -libc::ECANCELED,
        };
        self.in_flight += 1;
        let job = Box::new(move || {
            let errand = &mut errand;
            errand.result = perform(errand.file.as_raw_fd(), &errand.command);
        });
        if let Err(job) = self.executor.execute(job) {
            // The executor is closed: better late than never.
            job();
        }
        true
    }

    fn reap(&mut self, into: &mut Vec<Reaped>) {
        let mut done = self.board.done.lock();
        self.in_flight -= done.len();
        into.append(&mut done);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.board.done.lock().is_empty() {
            park(&self.board.parker, timeout);
        }
        Ok(())
    }

    fn cancel(&mut self, _id: u64) {}

    fn waker(&self) -> Waker {
        unparks(&self.board.parker)
    }

    fn describe(&self) -> String {
        format!("thread pool{}", self.why)
    }
}

impl<P: Platform> Drop for PoolLane<P> {
    fn drop(&mut self) {
        let mut reaped = Vec::new();
        loop {
            self.reap(&mut reaped);
            if self.in_flight == 0 {
                return;
            }
            self.board.parker.park();
        }
    }
}

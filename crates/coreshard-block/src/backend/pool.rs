//! Commands executed by other threads, for use when io_uring is forbidden.
//!
//! A [`PoolCommand`] is shared by the channel and the executor's job. One of them takes its ownership, once,
//! and with it the command's memory, and completes the command. That is the job when it is run or dropped, or
//! the channel when it is asked to cancel. So a buffer always comes back from its owner, whether the executor
//! panics, or keeps, drops or returns its jobs.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Lock, Parker, Platform};

use super::channel::{Channel, Command, Completion, Waker};
use super::immediate::{park, unparks};
use super::sync::perform;

/// A piece of work for another thread; it may block.
pub type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs on other threads, as a workqueue does. Implemented by every `Fn(Job) -> Result<(), Job>`:
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
    /// Runs `job` on another thread. An executor that panics may still have taken the job.
    ///
    /// # Errors
    /// Returns the job if it cannot be executed.
    fn execute(&self, job: Job) -> Result<(), Job>;
}

impl<F: Fn(Job) -> Result<(), Job> + Send + Sync> Executor for F {
    fn execute(&self, job: Job) -> Result<(), Job> {
        self(job)
    }
}

/// State that a channel shares with its jobs.
struct CompletionList<P: Platform> {
    done: Lock<P, Vec<Completion>>,
    parker: Arc<Parker<P>>,
}

impl<P: Platform> CompletionList<P> {
    fn push(&self, completion: Completion) {
        self.done.lock().push(completion);
        self.parker.unpark();
    }
}

/// The ownership of a command, until a thread takes it.
struct Ownership<P: Platform> {
    /// 1 once it is taken.
    word: P::AtomicU32,
}

impl<P: Platform> Ownership<P> {
    fn new() -> Self {
        Self { word: P::AtomicU32::new(0) }
    }

    /// Returns true for exactly one caller.
    fn take(&self) -> bool {
        // Relaxed suffices, since only the uniqueness of the 0 matters. The submitter's writes reach the
        // job's thread with the job, and the owner's return with the completion list's lock. A caller that
        // gets 1 touches nothing.
        self.word.swap(1, Relaxed) == 0
    }
}

/// A command for another thread.
struct PoolCommand<P: Platform> {
    ownership: Ownership<P>,
    completions: Arc<CompletionList<P>>,
    file: Arc<OwnedFd>,
    command: Command,
}

// SAFETY: the command's memory is used by its owner, one thread, until the completion. The channel waits for
// that in its drop.
unsafe impl<P: Platform> Send for PoolCommand<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for PoolCommand<P> {}

impl<P: Platform> PoolCommand<P> {
    fn run(&self) {
        if self.ownership.take() {
            self.complete(perform(self.file.as_raw_fd(), &self.command));
        }
    }

    /// Completes the command as cancelled, if it has no owner.
    fn withdraw(&self) {
        if self.ownership.take() {
            self.complete(-libc::ECANCELED);
        }
    }

    fn complete(&self, result: i32) {
        self.completions.push(Completion { id: self.command.id, result });
    }
}

/// A job's handle. Cancels the command if it is dropped without having been run.
struct JobGuard<P: Platform>(Arc<PoolCommand<P>>);

impl<P: Platform> Drop for JobGuard<P> {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

pub(super) struct PoolChannel<P: Platform> {
    executor: Arc<dyn Executor>,
    file: Arc<OwnedFd>,
    completions: Arc<CompletionList<P>>,
    /// Commands whose completion was not seen yet, by id.
    commands: HashMap<u64, Arc<PoolCommand<P>>>,
    why: String,
    /// The last panic of the executor, or of a job that it returned.
    thrown: Option<Thrown>,
}

impl<P: Platform> PoolChannel<P> {
    pub(super) fn new(executor: Arc<dyn Executor>, file: Arc<OwnedFd>, why: String) -> Self {
        let completions =
            CompletionList { done: Lock::new(Vec::new()), parker: Arc::new(Parker::new()) };
        let (completions, commands) = (Arc::new(completions), HashMap::new());
        Self { executor, file, completions, commands, why, thrown: None }
    }
}

// SAFETY: only a command's owner uses its memory, until the completion. The drop waits for all commands.
unsafe impl<P: Platform> Channel for PoolChannel<P> {
    unsafe fn start(&mut self, command: &Command) -> bool {
        let pooled = Arc::new(PoolCommand {
            ownership: Ownership::new(),
            completions: Arc::clone(&self.completions),
            file: Arc::clone(&self.file),
            command: *command,
        });
        self.commands.insert(command.id, Arc::clone(&pooled));
        let guard = JobGuard(pooled);
        let job: Job = Box::new(move || {
            let guard = &guard;
            guard.0.run();
        });
        // The command completes whatever the executor does.
        let executed = user::call(|| {
            if let Err(job) = self.executor.execute(job) {
                // The executor is closed: run the job here.
                job();
            }
        });
        if let Err(thrown) = executed {
            self.thrown = Some(thrown);
        }
        true
    }

    fn reap(&mut self, into: &mut Vec<Completion>) {
        let mut done = self.completions.done.lock();
        for completion in done.iter() {
            self.commands.remove(&completion.id);
        }
        into.append(&mut done);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.completions.done.lock().is_empty() {
            park(&self.completions.parker, timeout);
        }
        Ok(())
    }

    fn cancel(&mut self, id: u64) {
        if let Some(command) = self.commands.get(&id) {
            command.withdraw();
        }
    }

    fn waker(&self) -> Waker {
        unparks(&self.completions.parker)
    }

    fn describe(&self) -> String {
        let mut text = format!("thread pool{}", self.why);
        if let Some(thrown) = &self.thrown {
            let message = thrown.message().unwrap_or("a payload that is not a string");
            text.push_str(&format!(" (its executor panicked: {message})"));
        }
        text
    }
}

impl<P: Platform> Drop for PoolChannel<P> {
    fn drop(&mut self) {
        let mut completions = Vec::new();
        loop {
            self.reap(&mut completions);
            if self.commands.is_empty() {
                return;
            }
            self.completions.parker.park();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;

    use coreshard_platform::{DataCell, Lock, Loom, LoomCell, Parker};

    use super::{Completion, CompletionList, Ownership};

    struct PoolModel {
        ownership: Ownership<Loom>,
        completions: CompletionList<Loom>,
        buffer: LoomCell<u32>,
    }

    // SAFETY: the model checks that one thread at a time accesses the buffer.
    unsafe impl Send for PoolModel {}
    // SAFETY: as above.
    unsafe impl Sync for PoolModel {}

    impl PoolModel {
        fn run(&self) {
            if self.ownership.take() {
                // SAFETY: as above.
                self.buffer.with_mut(|buffer| unsafe { *buffer += 1 });
                self.completions.push(Completion { id: 0, result: 1 });
            }
        }

        fn withdraw(&self) {
            if self.ownership.take() {
                self.completions.push(Completion { id: 0, result: 0 });
            }
        }
    }

    /// A job beside a channel that cancels it, and whose user gets the buffer once the completion was seen.
    /// Fails (a race on the buffer) if `take` is a load and a store, and if a cancelled command is completed
    /// without being taken.
    #[test]
    fn loom_a_buffer_comes_back_from_who_had_it() {
        Loom::check(None, || {
            let completions =
                CompletionList { done: Lock::new(Vec::new()), parker: Arc::new(Parker::new()) };
            let (ownership, buffer) = (Ownership::new(), LoomCell::new(0));
            let model = Arc::new(PoolModel { ownership, completions, buffer });
            let of_job = Arc::clone(&model);
            let job = loom::thread::spawn(move || of_job.run());
            model.withdraw();
            while model.completions.done.lock().is_empty() {
                model.completions.parker.park();
            }
            // SAFETY: as above.
            model.buffer.with_mut(|buffer| unsafe { *buffer += 10 });
            job.join().unwrap();
            assert_eq!(model.completions.done.lock().len(), 1, "completed once");
        });
    }
}

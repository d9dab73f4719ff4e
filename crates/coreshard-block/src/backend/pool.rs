//! Commands done by other threads: where io_uring is forbidden.
//!
//! A command is in an [`Errand`], which the channel and the executor's job share. Whoever *claims* it, which
//! one of them does and once, has the command's memory from there on, and tells the completion when done
//! with it: the job that was run or dropped, or the channel that was asked to cancel it. So a buffer comes
//! back from whoever had it, whatever the executor does with its jobs: panic, keep, drop or hand back.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Lock, Parker, Platform};

use super::immediate::{park, unparks};
use super::sync::perform;
use super::{Channel, Command, Completion, Waker};

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
    /// Has `job` run on another thread. One that panics may have taken the job all the same.
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

/// What the jobs of a channel share with it.
struct Board<P: Platform> {
    done: Lock<P, Vec<Completion>>,
    parker: Arc<Parker<P>>,
}

impl<P: Platform> Board<P> {
    fn tell(&self, completion: Completion) {
        self.done.lock().push(completion);
        self.parker.unpark();
    }
}

/// Who has a command: nobody, until somebody claims it.
struct Claim<P: Platform> {
    /// 1 once it is claimed.
    word: P::AtomicU32,
}

impl<P: Platform> Claim<P> {
    fn new() -> Self {
        Self { word: P::AtomicU32::new(0) }
    }

    /// True for one caller.
    fn claim(&self) -> bool {
        // Relaxed: that one of them gets 0 is all that is needed. The submitter's writes came to the job's
        // thread with the job, and the claimer's go back with the board's lock; who loses touches nothing.
        self.word.swap(1, Relaxed) == 0
    }
}

/// A command on its way through another thread.
struct Errand<P: Platform> {
    claim: Claim<P>,
    board: Arc<Board<P>>,
    file: Arc<OwnedFd>,
    command: Command,
}

// SAFETY: the memory that the command names is used by whoever claimed the errand, one thread, until it
// tells the completion; the channel waits for that in its drop.
unsafe impl<P: Platform> Send for Errand<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for Errand<P> {}

impl<P: Platform> Errand<P> {
    fn run(&self) {
        if self.claim.claim() {
            self.tell(perform(self.file.as_raw_fd(), &self.command));
        }
    }

    /// Ends it undone, where nobody has begun.
    fn withdraw(&self) {
        if self.claim.claim() {
            self.tell(-libc::ECANCELED);
        }
    }

    fn tell(&self, result: i32) {
        self.board.tell(Completion { id: self.command.id, result });
    }
}

/// The executor's hold on an errand. A job that is dropped without having been run ends it, too.
struct Carried<P: Platform>(Arc<Errand<P>>);

impl<P: Platform> Drop for Carried<P> {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

pub(super) struct PoolChannel<P: Platform> {
    executor: Arc<dyn Executor>,
    file: Arc<OwnedFd>,
    board: Arc<Board<P>>,
    /// By the command's number; those whose completion was not seen yet.
    errands: HashMap<u64, Arc<Errand<P>>>,
    why: String,
    /// What the executor, or a job that it handed back, threw last.
    thrown: Option<Thrown>,
}

impl<P: Platform> PoolChannel<P> {
    pub(super) fn new(executor: Arc<dyn Executor>, file: Arc<OwnedFd>, why: String) -> Self {
        let board = Board { done: Lock::new(Vec::new()), parker: Arc::new(Parker::new()) };
        let (board, errands) = (Arc::new(board), HashMap::new());
        Self { executor, file, board, errands, why, thrown: None }
    }
}

// SAFETY: a command's memory is used by who claimed its errand alone, which ends with the completion; the
// drop waits for all errands.
unsafe impl<P: Platform> Channel for PoolChannel<P> {
    unsafe fn start(&mut self, command: &Command) -> bool {
        let errand = Arc::new(Errand {
            claim: Claim::new(),
            board: Arc::clone(&self.board),
            file: Arc::clone(&self.file),
            command: *command,
        });
        self.errands.insert(command.id, Arc::clone(&errand));
        let carried = Carried(errand);
        let job: Job = Box::new(move || {
            let carried = &carried;
            carried.0.run();
        });
        // Whatever comes of this, the errand tells the completion.
        let executed = user::call(|| {
            if let Err(job) = self.executor.execute(job) {
                // The executor is closed: better late than never.
                job();
            }
        });
        if let Err(thrown) = executed {
            self.thrown = Some(thrown);
        }
        true
    }

    fn reap(&mut self, into: &mut Vec<Completion>) {
        let mut done = self.board.done.lock();
        for completion in done.iter() {
            self.errands.remove(&completion.id);
        }
        into.append(&mut done);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.board.done.lock().is_empty() {
            park(&self.board.parker, timeout);
        }
        Ok(())
    }

    fn cancel(&mut self, id: u64) {
        if let Some(errand) = self.errands.get(&id) {
            errand.withdraw();
        }
    }

    fn waker(&self) -> Waker {
        unparks(&self.board.parker)
    }

    fn describe(&self) -> String {
        let mut text = format!("thread pool{}", self.why);
        if let Some(thrown) = &self.thrown {
            let message = thrown.message().unwrap_or("something that is not a text");
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
            if self.errands.is_empty() {
                return;
            }
            self.board.parker.park();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;

    use coreshard_platform::{DataCell, Lock, Loom, LoomCell, Parker};

    use super::{Board, Claim, Completion};

    struct Model {
        claim: Claim<Loom>,
        board: Board<Loom>,
        buffer: LoomCell<u32>,
    }

    // SAFETY: that the buffer is touched by one thread at a time is what the model checks.
    unsafe impl Send for Model {}
    // SAFETY: as above.
    unsafe impl Sync for Model {}

    impl Model {
        fn run(&self) {
            if self.claim.claim() {
                // SAFETY: as above.
                self.buffer.with_mut(|buffer| unsafe { *buffer += 1 });
                self.board.tell(Completion { id: 0, result: 1 });
            }
        }

        fn withdraw(&self) {
            if self.claim.claim() {
                self.board.tell(Completion { id: 0, result: 0 });
            }
        }
    }

    /// A job beside the channel, which cancels it, and whose user has the buffer as soon as the completion
    /// was told. Fails (a race on the buffer) where the claim is a load and a store, and where a cancelled
    /// command is told without a claim.
    #[test]
    fn loom_a_buffer_comes_back_from_who_had_it() {
        loom::model(|| {
            let board = Board { done: Lock::new(Vec::new()), parker: Arc::new(Parker::new()) };
            let (claim, buffer) = (Claim::new(), LoomCell::new(0));
            let model = Arc::new(Model { claim, board, buffer });
            let of_job = Arc::clone(&model);
            let job = loom::thread::spawn(move || of_job.run());
            model.withdraw();
            while model.board.done.lock().is_empty() {
                model.board.parker.park();
            }
            // SAFETY: as above.
            model.buffer.with_mut(|buffer| unsafe { *buffer += 10 });
            job.join().unwrap();
            assert_eq!(model.board.done.lock().len(), 1, "told once");
        });
    }
}

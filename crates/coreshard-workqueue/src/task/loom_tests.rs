//! Models of a task: wakes, its last references, its handle and its end against one another. The queue is a list under a lock.
//! Each was seen to fail when the step that its comment names was changed.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use coreshard_platform::user::Thrown;
use coreshard_platform::{AtomicInt, DataCell, Lock, Loom, Parker, Platform};

use super::cell::{self, Runnable, Schedule};
use super::{CancellationToken, Handles, JoinSet, Task};
use crate::insight::TaskSpan;
use crate::queue::{ListedAt, Unclaimed, WaitingTask, WaitingTasks};

type Word = <Loom as Platform>::AtomicU32;

/// A queue: the items that were sent and not run.
struct Queue {
    sent: Lock<Loom, Vec<Runnable<Loom>>>,
    /// Plain memory, like a queue's: loom reports a send concurrent with the release.
    held: <Loom as Platform>::Cell<bool>,
    releases: Word,
    /// Futures that were dropped.
    drops: Word,
}

// SAFETY: shown by the models: no thread releases the queue while another one sends.
unsafe impl Sync for Queue {}

impl Queue {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            sent: Lock::new(Vec::new()),
            held: DataCell::new(true),
            releases: Word::new(0),
            drops: Word::new(0),
        })
    }

    fn run_one(&self) -> bool {
        let runnable = self.sent.lock().pop();
        runnable.map(Runnable::run).is_some()
    }

    /// Checks at the end that each future was dropped, and each task has released the queue, once.
    fn expect_end(&self, tasks: u32) {
        while self.run_one() {}
        assert_eq!(self.drops.load(SeqCst), tasks, "a future is dropped once");
        assert_eq!(self.releases.load(SeqCst), tasks, "the queue is released once");
    }
}

struct Home(Arc<Queue>, Option<Arc<WaitingTasks<Loom>>>, ListedAt<Loom>);

// SAFETY: only the thread that has set `RUNNING` accesses the place.
unsafe impl Sync for Home {}

impl Schedule<Loom> for Home {
    fn send(&self, runnable: Runnable<Loom>) -> Option<Runnable<Loom>> {
        self.0.sent.lock().push(runnable);
        // The sender accesses the queue after the item was added, like a push that wakes a worker.
        // SAFETY: shown by the model: no thread releases it meanwhile.
        assert!(self.0.held.with(|held| unsafe { *held }));
        None
    }

    fn unclaimed(&self, _: Thrown) -> Unclaimed<Loom> {
        unreachable!("nothing panics here")
    }

    unsafe fn list(&self, task: WaitingTask) -> bool {
        // SAFETY: by this function's contract.
        self.1.as_ref().is_none_or(|waiting| unsafe { self.2.list(waiting, task) })
    }

    unsafe fn unlist(&self) {
        // SAFETY: by this function's contract.
        unsafe { self.2.unlist(|| self.1.as_ref().expect("it is listed there")) };
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.0.held.with_mut(|held| unsafe { *held = false });
        self.0.releases.fetch_add(1, SeqCst);
    }
}

/// Waits until it is told to end; leaves a waker, or not.
struct Future {
    queue: Arc<Queue>,
    left: Arc<Lock<Loom, Option<Waker>>>,
    ends: Arc<Word>,
    leaves: bool,
    polls: u32,
}

impl std::future::Future for Future {
    type Output = u32;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        self.polls += 1;
        if self.leaves {
            *self.left.lock() = Some(context.waker().clone());
        }
        if self.ends.load(Relaxed) == 1 { Poll::Ready(self.polls) } else { Poll::Pending }
    }
}

impl Drop for Future {
    fn drop(&mut self) {
        self.queue.drops.fetch_add(1, SeqCst);
    }
}

struct Spawned {
    queue: Arc<Queue>,
    left: Arc<Lock<Loom, Option<Waker>>>,
    ends: Arc<Word>,
    task: Option<Task<u32>>,
}

fn spawn(leaves: bool) -> Spawned {
    spawn_on(Queue::new(), None, leaves)
}

fn spawn_on(queue: Arc<Queue>, waiting: Option<Arc<WaitingTasks<Loom>>>, leaves: bool) -> Spawned {
    let (left, ends) = (Arc::new(Lock::new(None)), Arc::new(Word::new(0)));
    let future = Future {
        queue: Arc::clone(&queue),
        left: Arc::clone(&left),
        ends: Arc::clone(&ends),
        leaves,
        polls: 0,
    };
    let (task, runnable) = cell::TaskCell::new(
        future,
        TaskSpan::off(),
        Home(Arc::clone(&queue), waiting, ListedAt::none()),
    );
    queue.sent.lock().push(runnable);
    // SAFETY: created just now.
    let task = Some(unsafe { Handles::<Loom, Future, Home>::handle(task) });
    Spawned { queue, left, ends, task }
}

/// Wakes the waiter.
struct Unpark(Parker<Loom>);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Awaits the task on this thread.
fn block_on(mut task: Task<u32>) -> u32 {
    block_on_poll(|context| Pin::new(&mut task).poll(context))
}

fn block_on_poll<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let parker = Arc::new(Unpark(Parker::new()));
    let waker = Waker::from(Arc::clone(&parker));
    loop {
        match poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => parker.0.park(),
        }
    }
}

/// A wake during a poll, before it, or after it: the task is polled once more, and sees the writes before the wake. A second
/// wake comes while the first is still inside the queue.
///
/// Fails if `wake` does not write a word that has `SCHEDULED`.
#[test]
fn loom_a_wake_is_seen_by_a_later_poll_and_keeps_the_queue() {
    Loom::check(3, || {
        let Spawned { queue, left, ends, mut task } = spawn(true);
        queue.run_one();
        let waker = left.lock().take().expect("it has left its waker");
        let waker_thread = {
            let (ends, second) = (Arc::clone(&ends), waker.clone());
            loom::thread::spawn(move || {
                second.wake_by_ref();
                ends.store(1, Relaxed);
                second.wake();
            })
        };
        let worker = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || while queue.run_one() {})
        };
        drop(waker);
        waker_thread.join().unwrap();
        worker.join().unwrap();
        while queue.run_one() {}
        assert!(task.as_ref().is_some_and(Task::is_finished), "a wake is lost");
        drop(task.take());
        left.lock().take();
        queue.expect_end(1);
    });
}

/// A future that waits without a waker loses its handle during a poll: it can never be woken, so it is dropped.
///
/// Fails if `suspend` drops the last reference without a check.
#[test]
fn loom_a_task_that_nobody_can_wake_is_dropped() {
    Loom::check(3, || {
        let Spawned { queue, task, .. } = spawn(false);
        let worker = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || while queue.run_one() {})
        };
        task.unwrap().detach();
        worker.join().unwrap();
        queue.expect_end(1);
    });
}

/// The last waker is dropped while the handle is dropped, or the future is polled.
///
/// Fails if `drop_reference` frees a task that is not done.
#[test]
fn loom_the_last_waker_closes_the_task() {
    Loom::check(3, || {
        let Spawned { queue, left, task, .. } = spawn(true);
        let worker = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || while queue.run_one() {})
        };
        let dropper = {
            let left = Arc::clone(&left);
            loom::thread::spawn(move || drop(left.lock().take()))
        };
        task.unwrap().detach();
        worker.join().unwrap();
        dropper.join().unwrap();
        drop(left.lock().take());
        queue.expect_end(1);
    });
}

/// The handle is dropped while the task completes: exactly one of the two has the outcome.
///
/// Fails if `let_go` ignores `DONE`.
#[test]
fn loom_a_task_that_is_cancelled_ends_once() {
    Loom::check(3, || {
        let Spawned { queue, left, ends, task } = spawn(true);
        ends.store(1, Relaxed);
        let worker = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || while queue.run_one() {})
        };
        drop(task);
        worker.join().unwrap();
        drop(left.lock().take());
        queue.expect_end(1);
    });
}

/// Awaited while it completes: the waiter is woken, or finds the outcome.
///
/// Fails if `poll_outcome` leaves its waker without checking for `DONE` afterwards.
#[test]
fn loom_whoever_awaits_a_task_hears_of_its_end() {
    Loom::check(3, || {
        let Spawned { queue, ends, task, .. } = spawn(false);
        ends.store(1, Relaxed);
        let worker = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || while queue.run_one() {})
        };
        assert_eq!(block_on(task.unwrap()), 1);
        worker.join().unwrap();
        queue.expect_end(1);
    });
}

/// A task starts to wait while its queue is shut down at once: it is dropped by the worker or by the thread that shuts down.
fn a_task_waits_beside_a_shutdown(close: fn(&WaitingTasks<Loom>)) {
    Loom::check(3, move || {
        let waiting = Arc::new(WaitingTasks::new());
        let spawned = spawn_on(Queue::new(), Some(Arc::clone(&waiting)), true);
        let Spawned { queue, left, task, .. } = spawned;
        let worker = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || while queue.run_one() {})
        };
        close(&waiting);
        worker.join().unwrap();
        while queue.run_one() {}
        assert!(task.as_ref().is_some_and(Task::is_finished), "it waits for ever");
        drop(task);
        drop(left.lock().take());
        queue.expect_end(1);
    });
}

#[test]
fn loom_a_task_that_waits_is_dropped_by_a_shutdown() {
    a_task_waits_beside_a_shutdown(WaitingTasks::close);
}

/// The model fails if a closed list accepts more tasks.
#[test]
#[should_panic(expected = "it waits for ever")]
fn loom_a_list_of_tasks_that_is_not_closed_is_found() {
    a_task_waits_beside_a_shutdown(WaitingTasks::refuse_those_here);
}

/// Aborted by reference while it is polled, or waits: it is dropped once, and its handle reports it.
#[test]
fn loom_a_task_that_is_aborted_ends_once() {
    Loom::check(3, || {
        let Spawned { queue, left, task, .. } = spawn(true);
        let abort = task.as_ref().unwrap().abort_handle();
        let worker = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || while queue.run_one() {})
        };
        abort.abort();
        drop(abort);
        worker.join().unwrap();
        while queue.run_one() {}
        let mut task = task.unwrap();
        let ended = block_on_poll(|context| task.poll_result(context));
        assert!(ended.is_err_and(|error| error.is_cancelled()));
        drop(left.lock().take());
        queue.expect_end(1);
    });
}

type PollNext =
    fn(&mut JoinSet<u32, Loom>, &Context<'_>) -> Poll<Option<Result<u32, crate::task::TaskError>>>;

/// A set of two tasks that end on a worker, while the set is awaited.
fn a_set_is_awaited(poll: PollNext) {
    Loom::check(2, move || {
        let queue = Queue::new();
        // Kept if the model fails: a drop during the unwinding would abort the process.
        let mut set = ManuallyDrop::new(JoinSet::new());
        for _ in 0..2 {
            let Spawned { ends, task, .. } = spawn_on(Arc::clone(&queue), None, false);
            ends.store(1, Relaxed);
            set.add(task.unwrap());
        }
        let worker = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || while queue.run_one() {})
        };
        for _ in 0..2 {
            let ended = block_on_poll(|context| poll(&mut set, context));
            assert_eq!(ended.expect("there are two").expect("nobody cancels"), 1);
        }
        assert!(set.is_empty());
        worker.join().unwrap();
        drop(ManuallyDrop::into_inner(set));
        queue.expect_end(2);
    });
}

#[test]
fn loom_whoever_awaits_a_set_hears_of_each_end() {
    a_set_is_awaited(JoinSet::poll_join_next);
}

/// The model fails if the waker is left after the lock of the list was released.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_set_that_leaves_its_waker_late_is_found() {
    a_set_is_awaited(JoinSet::poll_join_next_late);
}

/// A token is cancelled while another thread waits for its child, or creates one.
fn a_token_is_cancelled(cancel: fn(&CancellationToken<Loom>)) {
    Loom::check(3, move || {
        let token = CancellationToken::<Loom>::new();
        let parent = token.clone();
        let canceller = loom::thread::spawn(move || cancel(&parent));
        let child = token.child_token();
        // As above.
        let mut cancelled = ManuallyDrop::new(child.cancelled());
        block_on_poll(|context| Pin::new(&mut *cancelled).poll(context));
        drop(ManuallyDrop::into_inner(cancelled));
        assert!(child.is_cancelled() && token.is_cancelled());
        canceller.join().unwrap();
    });
}

#[test]
fn loom_whoever_waits_for_a_token_hears_of_its_cancel() {
    a_token_is_cancelled(CancellationToken::cancel);
}

/// The model fails if the word is set after the lock was released.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_token_that_is_marked_late_is_found() {
    a_token_is_cancelled(CancellationToken::cancel_late);
}

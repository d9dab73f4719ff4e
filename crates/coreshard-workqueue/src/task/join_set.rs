//! Tasks that are awaited together, in order of completion.
//!
//! Each task is awaited with its own waker, which writes the task's place into a list and wakes the set's waiter. So polling
//! the set polls only those tasks that have completed.
//!
//! Rules:
//!
//! 1. The list and the waker of the set's waiter are under one lock. A waker is cloned, woken and dropped without it.
//! 2. The waiter leaves its waker when it finds the list empty, under the same lock: a place that is written later wakes it.
//! 3. A place may be in the list twice, or for a task that was removed: polling it then has no effect.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use coreshard_platform::user;
use coreshard_platform::{Host, Lock, Platform};

use super::error::TaskError;
use super::{AbortHandle, Task};
use crate::base::budget;
use crate::base::error::Refused;
use crate::queue::Workqueue;

/// A set of tasks that are awaited together, in order of completion. Dropping it cancels all of them.
///
/// ```
/// let queue = coreshard::workqueue()?.name("requests").build()?;
/// let spawner = queue.clone();
/// let sum = queue.spawn(async move {
///     let mut set = coreshard::JoinSet::new();
///     for number in 1..=10_u32 {
///         set.spawn(&spawner, async move { number }).expect("the queue is open");
///     }
///     let mut sum = 0;
///     while let Some(ended) = set.join_next().await {
///         sum += ended.expect("nobody cancels or panics");
///     }
///     assert_eq!(sum, 55);
/// })?;
/// # while !sum.is_finished() { std::thread::yield_now() }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct JoinSet<T, P: Platform = Host> {
    places: Vec<TaskPlace<P, T>>,
    free: Vec<usize>,
    ended: Arc<EndedTasks<P>>,
}

struct TaskPlace<P: Platform, T> {
    /// `None` for a free place.
    task: Option<Task<T>>,
    waker: Waker,
    platform: std::marker::PhantomData<P>,
}

/// The list that the tasks' wakers write.
struct EndedTasks<P: Platform> {
    inner: Lock<P, EndedList>,
    /// The process that created it.
    process_generation: u32,
}

impl<P: Platform> EndedTasks<P> {
    /// Creates a list with `places` to be polled.
    fn new(places: Vec<usize>) -> Arc<Self> {
        let inner = Lock::new(EndedList { places, awaiter: None });
        Arc::new(Self { inner, process_generation: P::process_generation() })
    }
}

struct EndedList {
    places: Vec<usize>,
    /// The waker of the set's waiter.
    awaiter: Option<Waker>,
}

/// Awaits the task at one place.
struct PlaceWaker<P: Platform> {
    place: usize,
    ended: Arc<EndedTasks<P>>,
}

impl<P: Platform> Wake for PlaceWaker<P> {
    fn wake(self: Arc<Self>) {
        let awaiter = {
            let mut inner = self.ended.inner.lock();
            inner.places.push(self.place);
            inner.awaiter.take()
        };
        // The caller of this waker already catches panics.
        if let Some(Err(thrown)) = awaiter.map(user::wake) {
            thrown.resume();
        }
    }
}

impl<P: Platform, T> JoinSet<T, P> {
    /// Creates an empty set.
    ///
    /// # Examples
    /// ```
    /// let set = coreshard::JoinSet::<u32>::new();
    /// assert!(set.is_empty());
    /// ```
    pub fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), ended: EndedTasks::new(Vec::new()) }
    }

    fn place_waker(place: usize, ended: &Arc<EndedTasks<P>>) -> Waker {
        Waker::from(Arc::new(PlaceWaker { place, ended: Arc::clone(ended) }))
    }

    /// Replaces the list in a process that was forked from the list's, with each task to be polled. The old list is left alone,
    /// since a thread that does not exist here may hold its lock.
    fn follow_fork(&mut self) {
        if self.ended.process_generation == P::process_generation() {
            return;
        }
        let ended = EndedTasks::new((0..self.places.len()).collect());
        for (number, place) in self.places.iter_mut().enumerate() {
            place.waker = Self::place_waker(number, &ended);
        }
        std::mem::forget(std::mem::replace(&mut self.ended, ended));
    }

    /// Spawns `future` on `queue`, as [`Workqueue::spawn`] does, and adds it to the set.
    ///
    /// # Errors
    /// Returns `future` if `spawn` does.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("shards").build()?;
    /// let mut set = coreshard::JoinSet::new();
    /// for shard in 0..4_u64 {
    ///     set.spawn(&queue, async move { shard * 10 })?;
    /// }
    /// let mut sum = 0;
    /// while let Some(answer) = block_on(set.join_next()) {
    ///     sum += answer?;
    /// }
    /// assert_eq!(sum, 60);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&mut self, queue: &Workqueue<P>, future: F) -> Result<AbortHandle, Refused<F>>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        queue.spawn(future).map(|task| self.add(task))
    }

    /// Adds a task that was spawned elsewhere.
    ///
    /// # Panics
    /// Panics if the task has already been awaited to completion.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("shards").build()?;
    /// let mut set = coreshard::JoinSet::new();
    /// set.add(queue.spawn(async { 7 })?);
    /// assert_eq!(block_on(set.join_next()).expect("it has one")?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add(&mut self, task: Task<T>) -> AbortHandle {
        self.follow_fork();
        let abort = task.abort_handle();
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place].task = Some(task);
                place
            }
            None => {
                let place = self.places.len();
                let waker = Self::place_waker(place, &self.ended);
                let platform = std::marker::PhantomData;
                self.places.push(TaskPlace { task: Some(task), waker, platform });
                place
            }
        };
        // The next poll of the set polls it, and so leaves its waker.
        self.ended.inner.lock().places.push(place);
        abort
    }

    /// Waits until a task of the set completes, and takes it out; `None` if the set is empty. Cancel-safe: dropping the future
    /// loses no task.
    ///
    /// # Errors
    /// `Some` holds the error, as for [`Task::result`](crate::Task::result).
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("shards").build()?;
    /// let mut set = coreshard::JoinSet::new();
    /// set.spawn(&queue, async { "fast" })?;
    /// let slow = set.spawn(&queue, std::future::pending())?;
    /// assert_eq!(block_on(set.join_next()).expect("it has two")?, "fast");
    /// slow.abort();
    /// assert!(block_on(set.join_next()).expect("it has one").unwrap_err().is_cancelled());
    /// assert!(block_on(set.join_next()).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn join_next(&mut self) -> Option<Result<T, TaskError>> {
        poll_fn(|context| self.poll_join_next(context)).await
    }

    /// Polls like [`join_next`](Self::join_next), for futures that are written by hand.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// use std::future::poll_fn;
    ///
    /// let queue = coreshard::workqueue()?.name("shards").build()?;
    /// let mut set = coreshard::JoinSet::new();
    /// set.spawn(&queue, async { 7 })?;
    /// let ended = block_on(poll_fn(|context| set.poll_join_next(context)));
    /// assert_eq!(ended.expect("it has one")?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_join_next(&mut self, context: &Context<'_>) -> Poll<Option<Result<T, TaskError>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        self.follow_fork();
        // If this is pending, the tasks are not polled: each would wake the set in vain.
        if budget::proceed::<P>(context).is_pending() {
            return Poll::Pending;
        }
        let mut waker = None;
        loop {
            let place = {
                let mut inner = self.ended.inner.lock();
                match (inner.places.pop(), waker.take()) {
                    (Some(place), left) => {
                        waker = left;
                        place
                    }
                    (None, Some(own)) => {
                        let before = inner.awaiter.replace(own);
                        drop(inner);
                        drop(user::discard(before));
                        return Poll::Pending;
                    }
                    (None, None) => {
                        drop(inner);
                        waker = Some(context.waker().clone());
                        continue;
                    }
                }
            };
            // If tasks were detached, there may be fewer places than before.
            let Some(TaskPlace { task, waker: own, .. }) = self.places.get_mut(place) else {
                continue;
            };
            let Some(awaited) = task else { continue };
            if let Poll::Ready(ended) = awaited.poll_result(&Context::from_waker(own)) {
                *task = None;
                self.free.push(place);
                return Poll::Ready(Some(ended));
            }
        }
    }

    /// Incorrect on purpose, for a model that must fail: the waker is left in a separate step.
    #[cfg(all(test, loom))]
    pub(super) fn poll_join_next_late(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Option<Result<T, TaskError>>> {
        let is_empty = self.ended.inner.lock().places.is_empty();
        if is_empty && !self.is_empty() {
            self.ended.inner.lock().awaiter = Some(context.waker().clone());
            return Poll::Pending;
        }
        while let Some(place) = { self.ended.inner.lock().places.pop() } {
            let TaskPlace { task, waker: own, .. } = &mut self.places[place];
            let Some(awaited) = task else { continue };
            if let Poll::Ready(ended) = awaited.poll_result(&Context::from_waker(own)) {
                *task = None;
                self.free.push(place);
                return Poll::Ready(Some(ended));
            }
        }
        self.ended.inner.lock().awaiter = Some(context.waker().clone());
        Poll::Pending
    }

    /// Cancels all tasks of the set, and does not wait. [`join_next`](Self::join_next) returns each of them; tasks that had
    /// completed before yield their values.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("shards").build()?;
    /// let mut set = coreshard::JoinSet::new();
    /// for _ in 0..4 {
    ///     set.spawn(&queue, std::future::pending::<()>())?;
    /// }
    /// set.abort_all();
    /// while let Some(ended) = block_on(set.join_next()) {
    ///     assert!(ended.unwrap_err().is_cancelled());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abort_all(&self) {
        self.tasks().for_each(Task::abort);
    }

    /// Lets all tasks run to completion without the set, which is then empty.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("shards").build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let mut set = coreshard::JoinSet::new();
    /// set.spawn(&queue, async move { tell.send("to the end").unwrap() })?;
    /// set.detach_all();
    /// drop(set);
    /// assert_eq!(told.recv()?, "to the end");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detach_all(&mut self) {
        self.free.clear();
        self.places.drain(..).filter_map(|place| place.task).for_each(Task::detach);
    }

    /// Returns the number of tasks in the set, including completed ones that were not taken out.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("shards").build()?;
    /// let mut set = coreshard::JoinSet::new();
    /// set.spawn(&queue, async {})?;
    /// assert_eq!(set.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Returns true if the set is empty.
    ///
    /// # Examples
    /// ```
    /// # use futures_lite::future::block_on;
    ///
    /// let queue = coreshard::workqueue()?.name("shards").build()?;
    /// let mut set = coreshard::JoinSet::new();
    /// set.spawn(&queue, async {})?;
    /// while !set.is_empty() {
    ///     block_on(set.join_next());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn tasks(&self) -> impl Iterator<Item = &Task<T>> {
        self.places.iter().filter_map(|place| place.task.as_ref())
    }
}

impl<P: Platform, T> Default for JoinSet<T, P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, T> fmt::Debug for JoinSet<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

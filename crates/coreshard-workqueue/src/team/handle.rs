//! The handle of a team.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Host, Platform};

use super::broadcast;
use super::job::{call_detached, detached, members, within};
use super::listing::Listing;
use super::scope::TeamScope;
use super::shares::Shares;
use super::wait::wait_for;
use crate::base::error::Forked;
use crate::pool::{
    Closure, CurrentWorker, Job, JobBody, JobNumber, Lease, ListedJob, MAX_WORKERS, OwnPool,
    inject, innermost,
};
use crate::queue::Workqueue;

/// A fixed number of threads, each with a fixed index.
///
/// A member's spawned work goes to its own list: the member runs the latest first, and idle members take the oldest. Work from
/// outside is run in order by any free member. A member that waits (in a join, a scope, a broadcast) runs parts of the work
/// that it waits for, and work that was sent to all members; it runs other work only after a while. No thread replaces a
/// waiting member, so a team never has more threads than members.
///
/// Clones are handles to the same team. When the last handle is dropped, the team finishes its work, and then its threads exit;
/// the drop does not wait for that.
///
/// # Examples
/// ```
/// # let runtime = coreshard::runtime_builder()?.build()?;
/// let team = runtime.team("render").members(4).build()?;
/// let indices = team.broadcast(|index| index);
/// assert_eq!(indices, [0, 1, 2, 3]);
/// let (a, b) = team.install(|| coreshard::join(|| 1, || 2));
/// assert_eq!(a + b, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Team<P: Platform = Host> {
    /// In a separate cell for each member, so that reference counting writes no cache line that other members write.
    pub(super) pool: Arc<OwnPool<P>>,
    /// `None` if the handle was obtained inside the team's work, on whose threads it is valid.
    pub(super) lease: Option<Arc<TeamLease<P>>>,
}

/// While a lease exists, the team does not end.
pub(super) struct TeamLease<P: Platform> {
    pub(super) _lease: Lease<P>,
    /// The runtime lists the team while this exists.
    pub(super) _listing: Arc<Listing<P>>,
}

/// Whether there was work to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yielded {
    /// Some work was run.
    Ran,
    /// There was no work that this thread could run.
    Idle,
}

impl<P: Platform> Team<P> {
    /// The maximum number of members of a team.
    pub const MAX_MEMBERS: usize = MAX_WORKERS;

    /// Returns the team that this thread is a member of. On a worker of a queue it consists of that queue's workers, in the
    /// worker's pod and those beside it; they have no index.
    ///
    /// The handle is valid on this thread, while that is a member. To use a handle elsewhere, clone the one that
    /// [`TeamBuilder::build`](crate::TeamBuilder::build) returned.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("two").members(2).build()?;
    /// assert!(coreshard::Team::here().is_none());
    /// let members = team.install(|| coreshard::Team::here().map(|team| team.members()));
    /// assert_eq!(members, Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn here() -> Option<Self> {
        let worker = CurrentWorker::<P>::here()?;
        Some(Self { pool: worker.own_pool(), lease: None })
    }

    /// Returns true on a member of a team, and on a worker of a queue: if [`here`](Self::here) returns a team.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// use coreshard::Team;
    ///
    /// let team = runtime.team("two").members(2).build()?;
    /// assert!(!Team::is_here());
    /// assert!(team.install(Team::is_here));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn is_here() -> bool {
        CurrentWorker::<P>::here().is_some()
    }

    /// Calls `ask` with the team that this thread is a member of, like [`here`](Self::here), but without changing a reference
    /// count.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// use coreshard::Team;
    ///
    /// let team = runtime.team("one").members(1).build()?;
    /// let index = team.install(|| Team::with_here(|team| team?.index()));
    /// assert_eq!(index, Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn with_here<R>(ask: impl FnOnce(Option<&Self>) -> R) -> R {
        let Some(worker) = CurrentWorker::<P>::here() else { return ask(None) };
        worker.with_own_pool(|pool| {
            let pool = ManuallyDrop::into_inner(pool);
            let team = ManuallyDrop::new(Self { pool, lease: None });
            ask(Some(&team))
        })
    }

    /// Returns the number of members; for a queue's workers, how many may run at once.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("four").members(4).build()?;
    /// assert_eq!(team.members(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn members(&self) -> usize {
        members(&self.pool)
    }

    /// Returns this thread's index, below [`members`](Self::members), if it is a member of this team.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("four").members(4).build()?;
    /// assert_eq!(team.index(), None, "this thread is none of its");
    /// assert!(team.install(|| team.index()) < Some(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn index(&self) -> Option<usize> {
        let worker = self.member()?;
        self.pool.is_team().then(|| worker.index())
    }

    /// Returns true if this thread has spawned or forked work that has not begun; `None` if it is not a member.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("one").members(1).build()?;
    /// let pending = team.install(|| {
    ///     team.spawn(|| ());
    ///     team.has_pending()
    /// });
    /// assert_eq!(pending, Some(true));
    /// assert_eq!(team.has_pending(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has_pending(&self) -> Option<bool> {
        Some(self.member()?.has_pending())
    }

    /// Calls `op` on a member and waits for it; on this thread, if it is a member.
    ///
    /// # Panics
    /// Panics with the panic of `op`; with [`Forked`] in a process that was forked from the team's.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("sums").members(2).build()?;
    /// let numbers = vec![1, 2, 3];
    /// let sum: i32 = team.install(|| numbers.iter().sum());
    /// assert_eq!(sum, 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn install<R: Send>(&self, op: impl FnOnce() -> R + Send) -> R {
        if self.member().is_some() {
            return op();
        }
        self.check_outside();
        let job = Job::<P, _, _>::new(|_| op(), innermost::<P>());
        let within = within::<P>();
        let body = JobBody::Awaited(job.header());
        // If a panic is thrown there, this frame still stays until the job is done.
        let listed = ListedJob { body, root: job.done(), parts: std::ptr::null(), within };
        let sent = user::call(|| inject(&self.pool, listed));
        wait_for(&self.pool, job.done(), JobNumber::NONE);
        if let Err(thrown) = sent {
            thrown.resume();
        }
        job.into_result().unwrap_or_else(|thrown: Thrown| thrown.resume())
    }

    /// Runs `op` later on a member. Called on a member's thread, `op` is what this thread runs next, unless another member has
    /// taken it by then.
    ///
    /// A panic of `op` goes to the panic handler ([`TeamBuilder::on_panic`](crate::TeamBuilder::on_panic)).
    ///
    /// # Panics
    /// Panics with [`Forked`] in a process that was forked from the team's.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("mail").members(2).build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// team.spawn(move || tell.send("sent").unwrap());
    /// assert_eq!(told.recv()?, "sent");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn(&self, op: impl FnOnce() + Send + 'static) {
        self.spawn_boxed(op, false);
    }

    /// Spawns `op` like [`spawn`](Self::spawn), but work that one thread spawns in this way begins in the order of spawning.
    ///
    /// # Panics
    /// Panics as [`spawn`](Self::spawn) does.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("in order").members(1).build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// team.install(|| {
    ///     for number in 0..3 {
    ///         let tell = tell.clone();
    ///         team.spawn_fifo(move || tell.send(number).unwrap());
    ///     }
    /// });
    /// assert_eq!(told.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_fifo(&self, op: impl FnOnce() + Send + 'static) {
        self.spawn_boxed(op, true);
    }

    fn spawn_boxed(&self, op: impl FnOnce() + Send + 'static, in_order: bool) {
        let Some(worker) = self.member() else {
            self.check_outside();
            let body = JobBody::Call(Box::new(move || call_detached::<P>(op)));
            return inject(&self.pool, detached(body));
        };
        if !self.pool.is_team()
            && let Some(queue) = Workqueue::<P>::here()
        {
            // If the queue is closed, it is run at once.
            return queue.queue(op).unwrap_or_else(|refused| refused.into_item()());
        }
        let closure: Closure = Box::new(move || call_detached::<P>(op));
        let body = if in_order { worker.in_turn(closure) } else { JobBody::Call(closure) };
        worker.list(detached(body));
    }

    /// Calls `op` once on each member, with its index, and waits for all calls; the results are in the order of the indices. A
    /// member makes its call when its own list is empty, before it takes work from others, or while it waits.
    ///
    /// # Panics
    /// Panics with the first panic of `op`, when all calls have ended; with [`Forked`] in a process that was forked from the
    /// team's. Also panics, when all other calls have ended, if the thread that built the team [was a
    /// member](crate::TeamBuilder::with_current_thread) and has exited before it made its call.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("all").members(3).build()?;
    /// assert_eq!(team.broadcast(|index| index * 10), [0, 10, 20]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn broadcast<R: Send>(&self, op: impl Fn(usize) -> R + Sync) -> Vec<R> {
        self.check_anywhere();
        broadcast::broadcast(&self.pool, self.members(), &op)
    }

    /// Calls `op` later, once on each member, with its index; not on a member whose thread has exited, or exits before.
    ///
    /// A panic of `op` goes to the panic handler.
    ///
    /// # Panics
    /// Panics with [`Forked`] in a process that was forked from the team's.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("all").members(2).build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// team.spawn_broadcast(move |index| tell.send(index).unwrap());
    /// assert_eq!(told.iter().take(2).sum::<usize>(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_broadcast(&self, op: impl Fn(usize) + Send + Sync + 'static) {
        self.check_anywhere();
        if self.pool.is_team() {
            return broadcast::spawn_broadcast(&self.pool, self.members(), op);
        }
        let op = Arc::new(op);
        for index in 0..self.members() {
            let op = Arc::clone(&op);
            self.spawn(move || op(index));
        }
    }

    /// Calls `body` with pieces that make up `range`, and waits until all members have helped. Each member begins with the
    /// same share of the range in each call, so its memory stays in that member's cache; a member that has done its share
    /// helps others. For a loop that is not repeated over the same memory,
    /// [`Workqueue::for_each_range`](crate::Workqueue::for_each_range) waits for no worker that is busy with something else.
    ///
    /// # Panics
    /// As [`broadcast`](Self::broadcast) does. Pieces that follow a panic may not run.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// let team = runtime.team("stencil").members(2).build()?;
    /// let cells: Vec<AtomicU64> = (0..1000).map(AtomicU64::new).collect();
    /// for _ in 0..3 {
    ///     team.for_each_range(0..cells.len(), |piece| {
    ///         cells[piece].iter().for_each(|cell| _ = cell.fetch_add(1, Relaxed));
    ///     });
    /// }
    /// assert_eq!(cells[999].load(Relaxed), 1002);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each_range(&self, range: Range<usize>, body: impl Fn(Range<usize>) + Sync) {
        let shares = Shares::<P>::new(range, self.members());
        self.broadcast(|member| shares.run(member, &body));
    }

    /// Runs one pending piece of work of any kind, and returns whether there was one. `None` if this thread is not a member.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// use coreshard::Yielded;
    ///
    /// let team = runtime.team("one").members(1).build()?;
    /// let yielded = team.install(|| {
    ///     team.spawn(|| println!("runs inside of what yields"));
    ///     [team.yield_now(), team.yield_now()]
    /// });
    /// assert_eq!(yielded, [Some(Yielded::Ran), Some(Yielded::Idle)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn yield_now(&self) -> Option<Yielded> {
        let worker = self.member()?;
        Some(if worker.run_any(false) { Yielded::Ran } else { Yielded::Idle })
    }

    /// Yields like [`yield_now`](Self::yield_now), but runs only work that this thread has spawned, or that was sent to all
    /// members.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// use coreshard::Yielded;
    ///
    /// let team = runtime.team("one").members(1).build()?;
    /// assert_eq!(team.install(|| team.yield_local()), Some(Yielded::Idle));
    /// assert_eq!(team.yield_local(), None, "this thread is none of its");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn yield_local(&self) -> Option<Yielded> {
        let worker = self.member()?;
        Some(if worker.run_own() { Yielded::Ran } else { Yielded::Idle })
    }

    /// Calls `op` on a member (on this thread, if it is one), and waits for it and for all work spawned in the scope. So
    /// spawned work may borrow values that live longer than this call.
    ///
    /// # Panics
    /// Panics with the first panic of `op` or the spawned work, when all of it has ended. Also panics as
    /// [`install`](Self::install) does.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("halves").members(2).build()?;
    /// let mut numbers = [1, 2, 3, 4];
    /// let (front, back) = numbers.split_at_mut(2);
    /// team.scope(|scope| {
    ///     scope.spawn(|_| front[0] = 10);
    ///     scope.spawn(|_| back[0] = 30);
    /// });
    /// assert_eq!(numbers, [10, 2, 30, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scope<'scope, R: Send>(&self, op: impl FnOnce(&TeamScope<'scope, P>) -> R + Send) -> R {
        self.install(|| self.in_place_scope(op))
    }

    /// Runs a scope like [`scope`](Self::scope), but calls `op` on this thread, member or not.
    ///
    /// # Panics
    /// Panics as [`scope`](Self::scope) does.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("halves").members(2).build()?;
    /// let (mut front, mut back) = (0, 0);
    /// let here = std::thread::current().id();
    /// team.in_place_scope(|scope| {
    ///     assert_eq!(std::thread::current().id(), here);
    ///     scope.spawn(|_| front = 1);
    ///     back = 2;
    /// });
    /// assert_eq!((front, back), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_place_scope<'scope, R>(&self, op: impl FnOnce(&TeamScope<'scope, P>) -> R) -> R {
        self.check_anywhere();
        TeamScope::run(Arc::clone(&self.pool), op)
    }

    /// Returns this thread's worker, if it is a member.
    pub(super) fn member(&self) -> Option<CurrentWorker<'_, P>> {
        CurrentWorker::<P>::here().filter(|worker| self.is_of(*worker))
    }

    fn is_of(&self, worker: CurrentWorker<'_, P>) -> bool {
        worker.set() == self.pool.set()
    }

    fn check_anywhere(&self) {
        if self.member().is_none() {
            self.check_outside();
        }
    }

    /// Checks that a thread which is not a member may bring work.
    fn check_outside(&self) {
        assert!(
            self.lease.is_some(),
            "a handle to a team that was got on one of its threads is used on another; use a clone of the one that \
             `build` has given"
        );
        if self.pool.is_forked() {
            Forked::throw();
        }
    }
}

impl<P: Platform> Clone for Team<P> {
    fn clone(&self) -> Self {
        Self { pool: Arc::clone(&self.pool), lease: self.lease.clone() }
    }
}

impl<P: Platform> fmt::Debug for Team<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team").field("members", &self.members()).finish_non_exhaustive()
    }
}

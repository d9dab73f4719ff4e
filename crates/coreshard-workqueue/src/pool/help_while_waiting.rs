//! A waiting worker runs only subtasks of the job it waits for; `jobs/README.md` says why.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::Platform;

use super::blocking::blocking;
use super::context::{Forks, SpawnPlace, Spawner};
use super::current::{CurrentWorker, WaitKind};
use super::job::{execute, execute_here};
use super::jobs::{CAPACITY, Deque, Header, JobId, PartOf, Pushed};
use super::pool::Pool;
use super::team::{OpenWait, SleepsAt, patience};
use crate::base::latch::Latch;

/// Looks for subtasks before a waiting worker yields its CPU, and again before it sleeps.
const LOOKS: u32 = 256;
const YIELDS: u32 = 16;

impl<'thread, P: Platform> CurrentWorker<'thread, P> {
    /// Waits until `root` is open. Meanwhile it calls `run_one`, which returns whether it ran something, until that finds
    /// nothing, and again whenever `has_more` reports more. Otherwise it runs subtasks with this id that other workers have
    /// forked: of the root, or of the job that the root is a subtask of. Returns false in a process that was forked since the
    /// latch was made: there the latch may never open.
    ///
    /// Only this thread waits for the latch.
    #[cold]
    pub(crate) fn help_until(
        self,
        root: &Latch<P>,
        id: JobId,
        mut run_one: impl FnMut() -> bool,
        has_more: impl Fn() -> bool,
    ) -> bool {
        let (mut looks, mut is_helping, mut waits) = (0, false, 0);
        while !root.is_open() && !root.is_orphaned() {
            if !is_helping || has_more() {
                if is_helping {
                    root.stop_helping();
                    is_helping = false;
                }
                if run_one() {
                    continue;
                }
                root.begin_helping();
                is_helping = true;
            }
            if self.run_part_of(root, id) {
                looks = 0;
                continue;
            }
            looks += 1;
            if looks < LOOKS {
                P::spin_hint();
            } else if looks < LOOKS + YIELDS {
                P::yield_now();
            } else {
                let has_more = || has_more() || self.has_part_of(id);
                let patience = self.pool().is_team().then(|| patience(waits));
                if self.sleep_at(root, has_more, patience) {
                    waits += 1;
                    root.stop_helping();
                    is_helping = false;
                    if self.run_unawaited() {
                        (looks, waits) = (0, 0);
                    }
                }
            }
        }
        root.is_open()
    }

    /// Returns true if it slept for its whole timeout.
    fn sleep_at(
        self,
        root: &Latch<P>,
        has_more: impl FnOnce() -> bool,
        patience: Option<Duration>,
    ) -> bool {
        if patience.is_some() {
            // Its private jobs are open to thieves while it sleeps.
            self.share_all();
        }
        let _sleeps_at = SleepsAt::begin(self.pool(), self.slot(), root);
        blocking::<P, _>(|| root.wait_for_more(has_more, patience))
    }

    /// Waits for the job that was pushed last and then stolen, and runs subtasks of it until it has finished. Returns false in
    /// a process that was forked since the push: there it never finishes.
    #[cold]
    pub(crate) fn wait_for(self, done: &Latch<P>) -> bool {
        self.wait_in(done, JobId::at(done))
    }

    /// Like [`wait_for`](Self::wait_for), for a job of a loop: runs other pieces of the loop.
    #[cold]
    pub(crate) fn wait_in(self, done: &Latch<P>, id: JobId) -> bool {
        self.wait_with(done, id, WaitKind::OF_PART)
    }

    /// Waits for work of a team. Meanwhile this worker also runs the jobs that `kind` permits.
    #[cold]
    pub(crate) fn wait_in_team(self, done: &Latch<P>, kind: WaitKind) -> bool {
        self.wait_with(done, JobId::at(done), kind)
    }

    fn wait_with(self, done: &Latch<P>, id: JobId, kind: WaitKind) -> bool {
        let _stolen = StolenParts::begin(self);
        let board = self.pool().board.as_ref().filter(|_| kind.is_elsewhere);
        let _open = board.map(|board| OpenWait::begin(self.slot(), board));
        let has_more = || self.has_awaited(id, kind);
        self.help_until(done, id, || self.run_awaited(id, kind), has_more)
    }

    /// Steals a subtask with this id and runs it while the worker waits for `root`. Returns false if there was none.
    fn run_part_of(self, root: &Latch<P>, id: JobId) -> bool {
        if id != JobId::at(root) && !self.has_room() {
            // At most one piece of a loop on top of another: other workers run the rest.
            return false;
        }
        let steal = |pool: &Arc<Pool<P>>| {
            pool.thieves.find_fork(&pool.slots, self.index_in(pool), |deque| {
                let part = deque.steal_part_of(id.address())?;
                // In this order: see `CurrentWorker::offer_to_waiter`.
                root.stop_helping();
                deque.reserve(false);
                Some((part, deque.has_shared()))
            })
        };
        let part = self.pools().find_map(steal);
        let Some((job, has_more)) = part else { return false };
        if has_more {
            self.call_one();
        }
        self.run_stolen(job);
        root.begin_helping();
        true
    }

    /// After a job was shared: offers it to the worker that waits for this worker's current subtask. Returns true, and wakes
    /// that worker, if it has nothing else to do. Otherwise the job stays open to all, and this returns false.
    ///
    /// So the jobs forked in a stolen job go back and forth between two workers. Any other thief would leave one more waiting
    /// worker behind.
    ///
    /// SeqCst on the deque's words and on the latch's word: this worker first reserves the job and then reads the latch; the
    /// waiter first stores that it is busy and then releases the remaining reserved jobs. So no job stays reserved for a busy
    /// waiter.
    pub(super) fn offer_to_waiter(self) -> bool {
        let forks = &self.context.forks;
        // SAFETY: this worker's current subtask has not finished, so its root is alive.
        let Some(root) = (unsafe { forks.root.get().as_ref() }) else { return false };
        let Spawner { root: scope, place, .. } = forks.spawner.get();
        if ptr::eq(scope, root) && place != SpawnPlace::NONE {
            // Other workers also run subtasks of a scope, and its caller can take a job of any of them.
            root.nudge();
            return false;
        }
        if !self.deque().is_named() {
            // An item: jobs that are already shared were forked in it as well.
            forks.owner.name_whole(self.deque(), JobId::at(root).address());
        }
        self.deque().reserve(true);
        let has_waiter = root.nudge();
        if !has_waiter {
            self.deque().reserve(false);
        }
        has_waiter
    }

    fn has_part_of(self, id: JobId) -> bool {
        let has = |pool: &Arc<Pool<P>>| {
            let find = |deque: &Deque<P, _>| deque.has_part_of(id.address()).then_some(());
            pool.thieves.find_fork(&pool.slots, self.index_in(pool), find)
        };
        self.pools().find_map(has).is_some()
    }

    /// Runs a job that was just stolen.
    pub(super) fn run_stolen(self, job: NonNull<Header<P>>) {
        // SAFETY: the job is alive until it was executed.
        let (root, queue) = unsafe {
            let kind = job.as_ref().kind;
            ((kind.root)(job.as_ptr()), (kind.queue)(job.as_ptr()))
        };
        self.begin_inside();
        let place = SpawnPlace { queue, is_here: false };
        // SAFETY: the root is not finished before the job and its subtasks are; no other thread has the job.
        unsafe { self.run_part(root, place, || execute(job)) };
    }

    /// Calls `run` as a subtask of `root`, and then the subtasks that it has spawned and that were not stolen.
    ///
    /// # Safety
    /// `root` must stay alive until `run` has finished its subtask, and while subtasks that it has spawned remain.
    pub(crate) unsafe fn run_part<R>(
        self,
        root: *const Latch<P>,
        place: SpawnPlace,
        run: impl FnOnce() -> R,
    ) -> R {
        let forks = &self.context.forks;
        let before = forks.owner.begin_whole(self.deque(), JobId::at(root).address());
        let _doing = Doing { worker: self, before, outer: forks.root.replace(root) };
        let scope = self.begin_scope(root, place);
        let result = run();
        // Not in a destructor: when a simulation ends, threads unwind at any point.
        while let Some(part) = scope.pop() {
            // SAFETY: popped just now, so no other thread has it. The scope was opened by another thread.
            unsafe { execute(part) };
        }
        result
    }

    /// Like [`run_part`](Self::run_part), for code that can spawn nothing on this worker's stack.
    ///
    /// # Safety
    /// As for `run_part`.
    #[inline]
    pub(super) unsafe fn run_named(self, root: *const Latch<P>, run: impl FnOnce()) {
        let forks = &self.context.forks;
        let before = forks.owner.begin_whole(self.deque(), JobId::at(root).address());
        let _doing = Doing { worker: self, before, outer: forks.root.replace(root) };
        run();
    }

    /// On a worker that has forked nothing: until the returned guard is dropped, the worker is inside an item that ends when
    /// `root` opens. Returns `None` if the worker is inside another job, as when a returned item is called inside another
    /// item: its forks are subtasks of that job.
    ///
    /// # Safety
    /// `root` must stay alive until the guard is dropped.
    #[inline]
    pub(crate) unsafe fn begin_item(self, root: *const Latch<P>) -> Option<DoingItem<'thread, P>> {
        let forks = &self.context.forks;
        if !forks.root.get().is_null() || forks.owner.has_jobs() {
            return None;
        }
        forks.root.set(root);
        self.set_item(root.cast());
        Some(DoingItem { worker: self })
    }

    /// Sets the job that this worker's forks are subtasks of, for thieves.
    #[inline]
    fn set_item(self, root: *const ()) {
        // SAFETY: the innermost frame is alive until this thread leaves it.
        unsafe { &*self.context.frame.get() }.whole.set(root);
    }

    /// Calls `run`. Jobs forked in it are pieces of the loop with this id.
    ///
    /// A worker that waits for a piece inside the loop has no user code on its thread above the loop's own call. So it may run
    /// any other piece of the loop, while a worker that waits for a job may run only subtasks of that job.
    ///
    /// If the loop is inside a job that already has an id, forks of the loop's caller keep that id, for workers that wait for
    /// the job; a thief's forks have the loop's.
    pub(crate) fn in_loop<R>(self, id: JobId, is_stolen: bool, run: impl FnOnce() -> R) -> R {
        let Forks { owner, root, .. } = &self.context.forks;
        if !is_stolen && (self.deque().is_named() || !root.get().is_null()) {
            return run();
        }
        let before = owner.begin_whole(self.deque(), id.address());
        let _doing = InLoop { worker: self, before };
        run()
    }

    /// Lets subtasks of `root` be spawned on this worker's stack until the returned guard is dropped.
    pub(crate) fn begin_scope(
        self,
        root: *const Latch<P>,
        place: SpawnPlace,
    ) -> OpenScope<'thread, P> {
        let forks = &self.context.forks;
        let floor = forks.owner.depth();
        let outer = forks.spawner.replace(Spawner { root, depth: floor, place });
        OpenScope { worker: self, floor, outer, stolen: Cell::new(None) }
    }

    /// The job that this worker is inside of, if subtasks of it may be spawned.
    pub(crate) fn spawn_place(self) -> SpawnPlace {
        self.context.forks.spawner.get().place
    }

    /// True if a subtask of `root` can be spawned here: `root` is this worker's innermost job, and its stack has room.
    #[inline]
    pub(crate) fn may_spawn(self, root: *const Latch<P>) -> bool {
        let forks = &self.context.forks;
        let Spawner { root: at, depth, .. } = forks.spawner.get();
        ptr::eq(at, root) && depth == forks.owner.depth() && (depth as usize) < CAPACITY
    }

    /// Pushes a subtask of this worker's current job onto its stack, open to thieves, and wakes one of them.
    #[inline]
    pub(crate) fn spawn(self, part: NonNull<Header<P>>) {
        let forks = &self.context.forks;
        let pushed = self.push_shared(part);
        debug_assert_ne!(pushed, Pushed::Full, "it may be spawned");
        forks.spawner.set(Spawner { depth: forks.owner.depth(), ..forks.spawner.get() });
        if pushed == Pushed::Shared {
            self.call_thieves();
        }
    }
}

/// While it lives, subtasks of a job can be spawned on the worker's stack. Drop it when [`run_one`](Self::run_one) finds no
/// more of them.
pub(crate) struct OpenScope<'thread, P: Platform> {
    worker: CurrentWorker<'thread, P>,
    floor: u32,
    outer: Spawner<P>,
    /// Set once other workers run subtasks that were on the stack.
    stolen: Cell<Option<StolenParts<'thread, P>>>,
}

/// While it lives, other workers run a subtask of this worker's job that is no longer on its stack.
struct StolenParts<'thread, P: Platform> {
    worker: CurrentWorker<'thread, P>,
}

impl<'thread, P: Platform> StolenParts<'thread, P> {
    fn begin(worker: CurrentWorker<'thread, P>) -> Self {
        let stolen = &worker.context.forks.stolen;
        stolen.set(stolen.get() + 1);
        Self { worker }
    }
}

impl<P: Platform> Drop for StolenParts<'_, P> {
    fn drop(&mut self) {
        let stolen = &self.worker.context.forks.stolen;
        stolen.set(stolen.get() - 1);
    }
}

impl<P: Platform> OpenScope<'_, P> {
    /// For the opener of the scope: runs the most recently spawned subtask that was not stolen. Returns false if there is
    /// none.
    pub(crate) fn run_one(&self) -> bool {
        let part = self.pop();
        if let Some(part) = part {
            // SAFETY: popped just now, so no other thread has it. This worker is inside the job that the scope was opened in.
            unsafe { execute_here(part) };
        }
        part.is_some()
    }

    /// Pops the most recently spawned subtask that was not stolen; the caller runs it next.
    fn pop(&self) -> Option<NonNull<Header<P>>> {
        let forks = &self.worker.context.forks;
        if forks.spawner.get().depth != forks.owner.depth() {
            // A join was left early: this thread unwinds, and the frame of the topmost job no longer exists.
            return None;
        }
        let part = forks.owner.pop_above(self.worker.deque(), self.floor)?;
        if part.is_none() {
            self.stolen.set(Some(StolenParts::begin(self.worker)));
            return None;
        }
        forks.spawner.set(Spawner { depth: forks.owner.depth(), ..forks.spawner.get() });
        self.worker.begin_inside();
        part
    }
}

impl<P: Platform> Drop for OpenScope<'_, P> {
    fn drop(&mut self) {
        let forks = &self.worker.context.forks;
        // If jobs remain while this thread unwinds, their frames no longer exist: they are popped, and not run.
        while forks.owner.depth() > self.floor {
            let _ = forks.owner.pop_above(self.worker.deque(), self.floor);
        }
        forks.spawner.set(self.outer);
    }
}

/// While it lives, this worker runs a subtask.
struct Doing<'thread, P: Platform> {
    worker: CurrentWorker<'thread, P>,
    before: PartOf,
    outer: *const Latch<P>,
}

impl<P: Platform> Drop for Doing<'_, P> {
    fn drop(&mut self) {
        let forks = &self.worker.context.forks;
        self.worker.deque().end_reserve();
        forks.owner.end_whole(self.worker.deque(), self.before);
        forks.root.set(self.outer);
    }
}

/// While it lives, this worker runs a piece of a loop.
struct InLoop<'thread, P: Platform> {
    worker: CurrentWorker<'thread, P>,
    before: PartOf,
}

impl<P: Platform> Drop for InLoop<'_, P> {
    fn drop(&mut self) {
        let owner = &self.worker.context.forks.owner;
        owner.end_whole(self.worker.deque(), self.before);
    }
}

/// While it lives, this worker runs an item that a caller may wait for. From the item's first fork on, forks carry its id.
pub(crate) struct DoingItem<'thread, P: Platform> {
    worker: CurrentWorker<'thread, P>,
}

impl<P: Platform> Drop for DoingItem<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.worker.context.forks.root.set(ptr::null());
        self.worker.set_item(ptr::null());
        if self.worker.deque().is_named() {
            self.worker.deque().end_reserve();
            self.worker.context.forks.owner.end_whole(self.worker.deque(), PartOf::NOTHING);
        }
    }
}

//! A waiter runs subtasks of what it waits for, and nothing else; `jobs/README.md` says why.
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
use super::jobs::{CAPACITY, Header, JobId, PartOf, Pushed};
use super::pool::Pool;
use super::team::{OpenWait, SleepsAt, patience};
use crate::base::latch::Latch;

/// Looks for parts while the root is not over, before the CPU is given to others, and before this worker
/// sleeps.
const LOOKS: u32 = 256;
const YIELDS: u32 = 16;

impl<'thread, P: Platform> CurrentWorker<'thread, P> {
    /// Waits until `root` is open. Meanwhile it runs what `run_one` runs, which says whether it did, as long as
    /// there is some of that, and whenever `has_more` says that there is again; and else parts that others have
    /// forked of what has this name: of the root, or of what that is a part of. False in a process that was forked since the latch was made: there it may never open.
    ///
    /// This is the one thread that waits for the latch.
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

    /// True if it slept for as long as its patience.
    fn sleep_at(
        self,
        root: &Latch<P>,
        has_more: impl FnOnce() -> bool,
        patience: Option<Duration>,
    ) -> bool {
        if patience.is_some() {
            // All that it keeps to itself is open to others meanwhile.
            self.share_all();
        }
        let _sleeps_at = SleepsAt::begin(self.pool(), self.slot(), root);
        blocking::<P, _>(|| root.wait_for_more(has_more, patience))
    }

    /// After the job that was pushed last was found to be stolen: runs parts of it until it is done. False in
    /// a process that was forked since it was pushed: there it is never done.
    #[cold]
    pub(crate) fn wait_for(self, done: &Latch<P>) -> bool {
        self.wait_in(done, JobId::at(done))
    }

    /// As [`wait_for`](Self::wait_for), for a job of a loop: runs parts of the loop.
    #[cold]
    pub(crate) fn wait_in(self, done: &Latch<P>, id: JobId) -> bool {
        self.wait_with(done, id, WaitKind::OF_PART)
    }

    /// Waits for something of a team's. Meanwhile this worker runs, besides, what `kind` says.
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

    /// Steals a part of what has this id and runs it, while `root` is waited for. False if there was none.
    fn run_part_of(self, root: &Latch<P>, id: JobId) -> bool {
        if id != JobId::at(root) && !self.has_room() {
            // One part of a loop on top of another: others do them.
            return false;
        }
        let steal = |pool: &Arc<Pool<P>>| {
            pool.thieves.find_fork(&pool.slots, |deque| {
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

    /// After a job was shared: leaves it to who waits for what this worker does a part of, if that one has
    /// nothing else to do, and wakes it. Else it is open to all: false.
    ///
    /// So what is forked in a stolen job goes back and forth between two, where any other thief would leave one more
    /// behind that waits.
    ///
    /// SeqCst, in the stack's words and in the latch's: it is reserved first, and then the latch is looked at; who
    /// waits says that it has something to do, and then gives free what it has left. So nothing stays reserved for
    /// one who is busy.
    pub(super) fn offer_to_waiter(self) -> bool {
        let forks = &self.context.forks;
        // SAFETY: what this worker does a part of is not over.
        let Some(root) = (unsafe { forks.root.get().as_ref() }) else { return false };
        let Spawner { root: scope, place, .. } = forks.spawner.get();
        if ptr::eq(scope, root) && place != SpawnPlace::NONE {
            // Others run subtasks of a scope as well, and its caller can take a job of one of them.
            root.nudge();
            return false;
        }
        if !self.deque().is_named() {
            // An item: jobs that are shared already were forked in it as well.
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
            pool.thieves
                .find_fork(&pool.slots, |deque| deque.has_part_of(id.address()).then_some(()))
        };
        self.pools().find_map(has).is_some()
    }

    /// Runs a job that was stolen just now.
    pub(super) fn run_stolen(self, job: NonNull<Header<P>>) {
        // SAFETY: it is there until it was executed.
        let (root, queue) = unsafe {
            let kind = job.as_ref().kind;
            ((kind.root)(job.as_ptr()), (kind.queue)(job.as_ptr()))
        };
        self.begin_inside();
        let place = SpawnPlace { queue, is_here: false };
        // SAFETY: the root is not finished before the job and its subtasks are; no other thread has the job.
        unsafe { self.run_part(root, place, || execute(job)) };
    }

    /// Calls `run` as a subtask of `root`, and then the subtasks that it has spawned and that were not taken.
    ///
    /// # Safety
    /// `root` is there until `run` has done its part, and while there are parts that it has spawned.
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
        // Not as it is dropped: where a simulation is ended, threads unwind wherever they are.
        while let Some(part) = scope.pop() {
            // SAFETY: popped just now, so no other thread has it. The scope was opened by another thread.
            unsafe { execute(part) };
        }
        result
    }

    /// As [`run_part`](Self::run_part), where nothing can be spawned on this worker's stack.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn run_named(self, root: *const Latch<P>, run: impl FnOnce()) {
        let forks = &self.context.forks;
        let before = forks.owner.begin_whole(self.deque(), JobId::at(root).address());
        let _doing = Doing { worker: self, before, outer: forks.root.replace(root) };
        run();
    }

    /// On a worker that has forked nothing: until what this returns is dropped, it is inside an item that is
    /// over when `root` opens. `None` where it is inside of something else, as when an item that was handed back is
    /// called inside another: its forks are subtasks of that one.
    ///
    /// # Safety
    /// `root` is there until then.
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

    /// Names the job of which what is forked here is a subtask, for thieves.
    #[inline]
    fn set_item(self, root: *const ()) {
        // SAFETY: the innermost frame is there until this thread leaves it.
        unsafe { &*self.context.frame.get() }.whole.set(root);
    }

    /// Calls `run`, what is forked in which is a part of the loop of this id.
    ///
    /// A worker that waits for a piece, inside of the loop, has no user's code on its thread above the loop's own call: so it
    /// may run any other piece of the loop, while a worker that waits for a job may run subtasks of that alone.
    ///
    /// Where the loop is inside of something that has a id already, what its caller forks keeps that, for those who wait
    /// for it; a thief's has the loop's.
    pub(crate) fn in_loop<R>(self, id: JobId, is_stolen: bool, run: impl FnOnce() -> R) -> R {
        let Forks { owner, root, .. } = &self.context.forks;
        if !is_stolen && (self.deque().is_named() || !root.get().is_null()) {
            return run();
        }
        let before = owner.begin_whole(self.deque(), id.address());
        let _doing = InLoop { worker: self, before };
        run()
    }

    /// From here on, until what this returns is dropped, parts of `root` can be spawned on this worker's stack.
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

    /// What this worker is at, if parts of that may be spawned.
    pub(crate) fn spawn_place(self) -> SpawnPlace {
        self.context.forks.spawner.get().place
    }

    /// True if a part of `root` can be spawned here: that is what this worker is at, innermost, and there is
    /// room for it.
    #[inline]
    pub(crate) fn may_spawn(self, root: *const Latch<P>) -> bool {
        let forks = &self.context.forks;
        let Spawner { root: at, depth, .. } = forks.spawner.get();
        ptr::eq(at, root) && depth == forks.owner.depth() && (depth as usize) < CAPACITY
    }

    /// Puts a part of what this worker is at on its stack, open to thieves, and wakes one of them.
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

/// Parts of something can be spawned on the worker's stack. It is dropped when [`run_one`](Self::run_one) finds no
/// more of them.
pub(crate) struct OpenScope<'thread, P: Platform> {
    worker: CurrentWorker<'thread, P>,
    floor: u32,
    outer: Spawner<P>,
    /// Others run parts that were on the stack.
    stolen: Cell<Option<StolenParts<'thread, P>>>,
}

/// While it lives, others run a part of what this worker does, which is not on its stack any more.
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
    /// For the opener of the scope: runs the subtask that was spawned last, of those that were not taken. False
    /// if there is none.
    pub(crate) fn run_one(&self) -> bool {
        let part = self.pop();
        if let Some(part) = part {
            // SAFETY: popped just now, so no other thread has it. This worker is inside of what the scope was opened in.
            unsafe { execute_here(part) };
        }
        part.is_some()
    }

    /// Takes off the subtask that was spawned last, of those that were not taken; the caller runs it next.
    fn pop(&self) -> Option<NonNull<Header<P>>> {
        let forks = &self.worker.context.forks;
        if forks.spawner.get().depth != forks.owner.depth() {
            // A join has not come to its end: this thread unwinds, and what is on top has lost its frame.
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
        // A job that is left while this thread unwinds has lost its frame: it is taken off, and not run.
        while forks.owner.depth() > self.floor {
            let _ = forks.owner.pop_above(self.worker.deque(), self.floor);
        }
        forks.spawner.set(self.outer);
    }
}

/// While it lives, this worker does a part of something.
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

/// While it lives, this worker does a part of a loop.
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

/// While it lives, this worker runs an item that may be waited for. Its forks are named as subtasks of that when it first forks
/// something.
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

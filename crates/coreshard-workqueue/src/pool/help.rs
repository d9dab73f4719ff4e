//! Who waits runs parts of what it waits for, and nothing else; `FORKS.md` beside this file tells why.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::Platform;

use super::blocking::blocking;
use super::context::{Forks, SpawnPlace, Spawner};
use super::deque::{CAPACITY, PartOf, Pushed};
use super::forks::{CurrentWorker, Found};
use super::header::Header;
use super::job::{execute, execute_here};
use super::pool::Pool;
use super::team::{OpenWait, Told, WaitKind, patience};
use super::whole_name::WholeName;
use crate::base::latch::Latch;

/// Looks for parts while the whole is not over, before the CPU is given to others, and before this worker
/// sleeps.
const LOOKS: u32 = 256;
const YIELDS: u32 = 16;

impl<'thread, P: Platform> CurrentWorker<'thread, P> {
    /// Waits until `whole` is open. Meanwhile it runs what `run_one` runs, which says whether it did, as long as
    /// there is some of that, and whenever `has_more` says that there is again; and else parts that others have
    /// forked of what has this name: of the whole, or of what that is a part of. False in a process that was forked since the latch was made: there it may never open.
    ///
    /// This is the one thread that waits for the latch.
    #[cold]
    pub(crate) fn help_until(
        self,
        whole: &Latch<P>,
        name: WholeName,
        mut run_one: impl FnMut() -> bool,
        has_more: impl Fn() -> bool,
    ) -> bool {
        let (mut looks, mut is_helping, mut waits) = (0, false, 0);
        while !whole.is_open() && !whole.is_orphaned() {
            if !is_helping || has_more() {
                if is_helping {
                    whole.stop_helping();
                    is_helping = false;
                }
                if run_one() {
                    continue;
                }
                whole.begin_helping();
                is_helping = true;
            }
            if self.run_part_of(whole, name) {
                looks = 0;
                continue;
            }
            looks += 1;
            if looks < LOOKS {
                P::spin_hint();
            } else if looks < LOOKS + YIELDS {
                P::yield_now();
            } else {
                let has_more = || has_more() || self.has_part_of(name);
                let patience = self.pool().is_team().then(|| patience(waits));
                if self.sleep_at(whole, has_more, patience) {
                    waits += 1;
                    whole.stop_helping();
                    is_helping = false;
                    if self.run_unawaited() {
                        (looks, waits) = (0, 0);
                    }
                }
            }
        }
        whole.is_open()
    }

    /// True if it slept for as long as its patience.
    fn sleep_at(
        self,
        whole: &Latch<P>,
        has_more: impl FnOnce() -> bool,
        patience: Option<Duration>,
    ) -> bool {
        if patience.is_some() {
            // All that it keeps to itself is open to others meanwhile.
            self.share_all();
        }
        let _told = Told::begin(self, whole);
        blocking::<P, _>(|| whole.wait_for_more(has_more, patience))
    }

    /// After the job that was pushed last was found to be stolen: runs parts of it until it is done. False in
    /// a process that was forked since it was pushed: there it is never done.
    #[cold]
    pub(crate) fn wait_for(self, done: &Latch<P>) -> bool {
        self.wait_in(done, WholeName::at(done))
    }

    /// As [`wait_for`](Self::wait_for), for a job of a loop: runs parts of the loop.
    #[cold]
    pub(crate) fn wait_in(self, done: &Latch<P>, name: WholeName) -> bool {
        self.wait_with(done, name, WaitKind::OF_PART)
    }

    /// Waits for something of a team's. Meanwhile this worker runs, besides, what `kind` says.
    #[cold]
    pub(crate) fn wait_in_team(self, done: &Latch<P>, kind: WaitKind) -> bool {
        self.wait_with(done, WholeName::at(done), kind)
    }

    fn wait_with(self, done: &Latch<P>, name: WholeName, kind: WaitKind) -> bool {
        let _stolen = StolenParts::begin(self);
        let _open = OpenWait::begin(self, kind);
        let has_more = || self.has_awaited(name, kind);
        self.help_until(done, name, || self.run_awaited(name, kind), has_more)
    }

    /// Steals a part of what has this name and runs it, while `whole` is waited for. False if there was none.
    fn run_part_of(self, whole: &Latch<P>, name: WholeName) -> bool {
        if name != WholeName::at(whole) && !self.has_room() {
            // One part of a loop on top of another: others do them.
            return false;
        }
        let steal = |pool: &Arc<Pool<P>>| {
            pool.find_fork(|deque| {
                let part = deque.steal_part_of(name.address())?;
                // In this order: see `CurrentWorker::offer_to_waiter`.
                whole.stop_helping();
                deque.reserve(false);
                Some((part, deque.has_shared()))
            })
        };
        let part = steal(self.pool()).or_else(|| self.neighbours().iter().find_map(steal));
        let Some((job, has_more)) = part else { return false };
        if has_more {
            self.call_one();
        }
        self.run_stolen(job);
        whole.begin_helping();
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
        let Some(whole) = (unsafe { forks.whole.get().as_ref() }) else { return false };
        let Spawner { whole: scope, place, .. } = forks.spawner.get();
        if ptr::eq(scope, whole) && place != SpawnPlace::NONE {
            // Others do parts of a scope, too, and its caller can take what one of them has.
            whole.nudge();
            return false;
        }
        if !self.deque().is_named() {
            // An item: what is shared already was forked in it, too.
            forks.owner.name_whole(self.deque(), WholeName::at(whole).address());
        }
        self.deque().reserve(true);
        let has_waiter = whole.nudge();
        if !has_waiter {
            self.deque().reserve(false);
        }
        has_waiter
    }

    fn has_part_of(self, name: WholeName) -> bool {
        let has = |pool: &Arc<Pool<P>>| {
            pool.find_fork(|deque| deque.has_part_of(name.address()).then_some(()))
        };
        has(self.pool()).or_else(|| self.neighbours().iter().find_map(has)).is_some()
    }

    pub(super) fn run_found(self, job: Found<P>) {
        match job {
            Found::Forked(job) => self.run_stolen(job),
            Found::Listed(job) => self.run_listed(job),
        }
    }

    /// Runs a job that was stolen just now.
    pub(super) fn run_stolen(self, job: NonNull<Header<P>>) {
        // SAFETY: it is there until it was executed.
        let (whole, queue) = unsafe {
            let kind = job.as_ref().kind;
            ((kind.whole)(job.as_ptr()), (kind.queue)(job.as_ptr()))
        };
        self.begin_inside();
        let place = SpawnPlace { queue, is_here: false };
        // SAFETY: the whole is not over before the job is, and its parts are; nobody else has the job.
        unsafe { self.run_part(whole, place, || execute(job)) };
    }

    /// Calls `run` as a part of `whole`, and then the parts that it has spawned and that nobody has taken.
    ///
    /// # Safety
    /// `whole` is there until `run` has done its part, and while there are parts that it has spawned.
    pub(crate) unsafe fn run_part<R>(
        self,
        whole: *const Latch<P>,
        place: SpawnPlace,
        run: impl FnOnce() -> R,
    ) -> R {
        let forks = &self.context.forks;
        let before = forks.owner.begin_whole(self.deque(), WholeName::at(whole).address());
        let _doing = Doing { worker: self, before, outer: forks.whole.replace(whole) };
        let scope = self.begin_scope(whole, place);
        let result = run();
        // Not as it is dropped: where a simulation is ended, threads unwind wherever they are.
        while let Some(part) = scope.pop() {
            // SAFETY: popped just now, so nobody else has it. What the scope was opened in is another thread's.
            unsafe { execute(part) };
        }
        result
    }

    /// As [`run_part`](Self::run_part), where nothing can be spawned on this worker's stack.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn run_named(self, whole: *const Latch<P>, run: impl FnOnce()) {
        let forks = &self.context.forks;
        let before = forks.owner.begin_whole(self.deque(), WholeName::at(whole).address());
        let _doing = Doing { worker: self, before, outer: forks.whole.replace(whole) };
        run();
    }

    /// On a worker that has forked nothing: until what this returns is dropped, it is inside an item that is
    /// over when `whole` opens. `None` where it is inside of something else, as when an item that was handed back is
    /// called inside another: what is forked there is a part of that one.
    ///
    /// # Safety
    /// `whole` is there until then.
    #[inline]
    pub(crate) unsafe fn begin_item(self, whole: *const Latch<P>) -> Option<DoingItem<'thread, P>> {
        let forks = &self.context.forks;
        if !forks.whole.get().is_null() || forks.owner.has_jobs() {
            return None;
        }
        forks.whole.set(whole);
        self.set_item(whole.cast());
        Some(DoingItem { worker: self })
    }

    /// Tells those who take what is forked here of what it is a part.
    #[inline]
    fn set_item(self, whole: *const ()) {
        // SAFETY: the innermost frame is there until this thread leaves it.
        unsafe { &*self.context.frame.get() }.whole.set(whole);
    }

    /// Calls `run`, what is forked in which is a part of the loop of this name.
    ///
    /// Who waits for a part of a loop, inside of it, has no user's code on its thread above the loop's own call: so it
    /// may run any other part of the loop, where who waits for a job may run parts of that alone.
    ///
    /// Where the loop is inside of something that has a name already, what its caller forks keeps that, for those who wait
    /// for it; a thief's has the loop's.
    pub(crate) fn in_loop<R>(self, name: WholeName, is_stolen: bool, run: impl FnOnce() -> R) -> R {
        let Forks { owner, whole, .. } = &self.context.forks;
        if !is_stolen && (self.deque().is_named() || !whole.get().is_null()) {
            return run();
        }
        let before = owner.begin_whole(self.deque(), name.address());
        let _doing = InLoop { worker: self, before };
        run()
    }

    /// From here on, until what this returns is dropped, parts of `whole` can be spawned on this worker's stack.
    pub(crate) fn begin_scope(
        self,
        whole: *const Latch<P>,
        place: SpawnPlace,
    ) -> OpenScope<'thread, P> {
        let forks = &self.context.forks;
        let floor = forks.owner.depth();
        let outer = forks.spawner.replace(Spawner { whole, depth: floor, place });
        OpenScope { worker: self, floor, outer, stolen: Cell::new(None) }
    }

    /// What this worker is at, if parts of that may be spawned.
    pub(crate) fn spawn_place(self) -> SpawnPlace {
        self.context.forks.spawner.get().place
    }

    /// True if a part of `whole` can be spawned here: that is what this worker is at, innermost, and there is
    /// room for it.
    #[inline]
    pub(crate) fn may_spawn(self, whole: *const Latch<P>) -> bool {
        let forks = &self.context.forks;
        let Spawner { whole: at, depth, .. } = forks.spawner.get();
        ptr::eq(at, whole) && depth == forks.owner.depth() && (depth as usize) < CAPACITY
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
    /// For who has opened the scope: runs the part that was spawned last, of those that nobody has taken. False
    /// if there is none.
    pub(crate) fn run_one(&self) -> bool {
        let part = self.pop();
        if let Some(part) = part {
            // SAFETY: popped just now, so nobody else has it. This worker is inside of what the scope was opened in.
            unsafe { execute_here(part) };
        }
        part.is_some()
    }

    /// Takes off the part that was spawned last, of those that nobody has taken; who has it runs it next.
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
        // What is left, where this thread unwinds, has lost its frame: it is taken off, and not run.
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
        forks.whole.set(self.outer);
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

/// While it lives, this worker does an item that somebody may wait for. That what it forks is a part of that is
/// said when it first forks something.
pub(crate) struct DoingItem<'thread, P: Platform> {
    worker: CurrentWorker<'thread, P>,
}

impl<P: Platform> Drop for DoingItem<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.worker.context.forks.whole.set(ptr::null());
        self.worker.set_item(ptr::null());
        if self.worker.deque().is_named() {
            self.worker.deque().end_reserve();
            self.worker.context.forks.owner.end_whole(self.worker.deque(), PartOf::NOTHING);
        }
    }
}

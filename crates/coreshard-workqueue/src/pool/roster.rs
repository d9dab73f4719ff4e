//! A pool's workers: their indices and threads, which of them are blocked, and the rescuer.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform, fields};

use super::slots::{MAX_WORKERS, Slots};

/// How many workers a runtime has, and may have. Rescuers are not counted.
#[derive(Debug)]
pub(crate) struct WorkerCount<P: Platform> {
    workers: P::AtomicU32,
    most: u32,
}

impl<P: Platform> WorkerCount<P> {
    pub(crate) fn new(most: usize) -> Self {
        Self { workers: P::AtomicU32::new(0), most: u32::try_from(most).unwrap_or(u32::MAX) }
    }

    /// Counts one more worker; returns false at the maximum.
    fn enter(&self) -> bool {
        if self.workers.fetch_add(1, Relaxed) < self.most {
            return true;
        }
        self.leave();
        false
    }

    fn leave(&self) {
        self.workers.fetch_sub(1, Relaxed);
    }
}

/// Whether a worker counts as blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    No,
    /// It called `blocking`.
    Declared,
    /// The monitor found it inside an item, using no CPU time.
    Presumed,
    /// The monitor found it inside an item, using a CPU for long.
    Hog,
    /// It exits: only its last hook remains to run. It still has its slot.
    Leaving,
}

/// The rescuer's index, in the pools that have one.
pub(super) const RESCUER: usize = 0;

/// Whether a pool has a rescuer, and the state of that rescuer.
///
/// The rescuer is a worker that exists from the start, beyond all limits, and stands by until the pool needs one more worker
/// and cannot start it. Then it works like all others, until one of these sleeps. Modelled on the kernel's rescuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rescuer {
    /// The pool has no rescuer, or was never started.
    None,
    /// Its thread has ended.
    Gone,
    /// It waits to be called, and does not count as a worker.
    StandsBy,
    /// It works.
    Called,
    /// It exits, and does not count as a worker; it still has its slot.
    Leaving,
}

/// The thread of a worker, stored by its starter for the caller that stops the pool.
#[derive(Debug)]
pub(super) enum ThreadSlot<T> {
    /// No worker has the index.
    None,
    /// The worker's starter will store it.
    Coming,
    Here(T),
    /// The thread belongs to the program, which joins it, or no caller does.
    Elsewhere,
    /// The caller that stops the pool joins it.
    Taken,
    /// The worker exited before its starter stored the handle; the index becomes free once it has.
    Late,
}

/// Rarely needed fields, in their own allocation, so that none of their cache lines moves with the lock.
struct ThreadTable<P: Platform> {
    /// Counts the runtime's workers.
    worker_count: Arc<WorkerCount<P>>,
    /// How many of them belong to this pool.
    counted: usize,
    /// By worker index.
    threads: Vec<ThreadSlot<P::Thread>>,
    /// Indices below `threads.len()` that no worker has.
    free: Vec<usize>,
    /// By worker index: the number of its last hand-over that it declared itself.
    declared: Vec<u64>,
    /// Indices of guests.
    guests: Vec<usize>,
    /// Workers that may steal beyond the limit, since hogs may wait for forked jobs. 0 without hogs.
    extra_thieves: usize,
}
fields!(ThreadTable<P: Platform> { worker_count, counted, threads, free, declared, guests, extra_thieves });

/// A pool's workers.
#[repr(C)]
pub(super) struct Roster<P: Platform> {
    /// Workers that exist, or are being started.
    alive: usize,
    /// Workers that do not count as running: as many as `blocked_as` lists.
    blocked: usize,
    /// Workers that are blocked as hogs.
    hogs: u16,
    /// Workers that are being started.
    pub(super) starting: u16,
    /// Workers of neighbouring pods.
    guests: u16,
    /// Workers exit when there is nothing to do.
    pub(super) stopping: bool,
    /// Of a team: workers exit when none has anything to do.
    pub(super) ending: bool,
    /// One more worker was wanted while one was being started.
    spare_missed: bool,
    /// One more worker was wanted, and none was available.
    spare_refused: bool,
    rescuer: Rescuer,
    /// By worker index.
    blocked_as: Vec<Blocked>,
    threads: Box<ThreadTable<P>>,
}
fields!(Roster<P: Platform> {
    alive, blocked, hogs, guests, starting, stopping, ending, spare_missed, spare_refused, rescuer, blocked_as, threads,
});

/// Result of a request for one more worker.
pub(super) enum Reserved {
    /// The worker has this index, and counts as alive.
    Index(usize),
    /// The pool or the runtime has its maximum of workers.
    Refused,
}

impl<P: Platform> Roster<P> {
    pub(super) fn new(worker_count: Arc<WorkerCount<P>>) -> Self {
        let threads = ThreadTable {
            worker_count,
            counted: 0,
            threads: Vec::new(),
            free: Vec::new(),
            declared: Vec::new(),
            guests: Vec::new(),
            extra_thieves: 0,
        };
        Self {
            alive: 0,
            blocked: 0,
            hogs: 0,
            guests: 0,
            starting: 0,
            stopping: false,
            ending: false,
            spare_missed: false,
            spare_refused: false,
            rescuer: Rescuer::None,
            blocked_as: Vec::new(),
            threads: Box::new(threads),
        }
    }

    /// Describes the fields to the platform.
    pub(super) fn describe(&self) {
        P::describe(&raw const *self.threads);
    }

    /// Bytes of the pool's state that each claim needs, from the lock on.
    #[cfg(all(test, not(loom)))]
    pub(super) const HOT_BYTES: usize = std::mem::offset_of!(Self, blocked) + size_of::<usize>();

    fn threads(&self) -> &ThreadTable<P> {
        P::touch_read(&raw const *self.threads);
        &self.threads
    }

    fn threads_mut(&mut self) -> &mut ThreadTable<P> {
        P::touch_write(&raw const *self.threads);
        &mut self.threads
    }

    pub(super) fn alive(&self) -> usize {
        self.alive
    }

    pub(super) fn blocked(&self) -> usize {
        self.blocked
    }

    /// Workers that run or sleep.
    #[inline]
    pub(super) fn unblocked(&self) -> usize {
        self.alive - self.blocked
    }

    #[inline]
    pub(super) fn hogs(&self) -> usize {
        usize::from(self.hogs)
    }

    /// Indices that workers have or had.
    pub(super) fn indices(&self) -> std::ops::Range<usize> {
        0..self.blocked_as.len()
    }

    #[inline]
    pub(super) fn blocked_as(&self, worker: usize) -> Blocked {
        self.blocked_as[worker]
    }

    /// Number of workers that are blocked for this reason.
    pub(super) fn count_blocked_as(&self, blocked: Blocked) -> usize {
        self.blocked_as.iter().filter(|it| **it == blocked).count()
    }

    /// True if the worker exits, stands by, or does not exist.
    pub(super) fn is_absent(&self, worker: usize) -> bool {
        self.blocked_as[worker] == Blocked::Leaving
            || self.threads().free.contains(&worker)
            || self.stands_by(worker)
    }

    /// Marks a worker as blocked, not blocked, or blocked for another reason.
    pub(super) fn set_blocked(&mut self, worker: usize, blocked: Blocked) {
        let before = self.blocked_as[worker];
        self.blocked -= usize::from(before != Blocked::No);
        self.blocked += usize::from(blocked != Blocked::No);
        self.hogs -= u16::from(before == Blocked::Hog);
        self.hogs += u16::from(blocked == Blocked::Hog);
        if self.hogs == 0 && before == Blocked::Hog {
            self.threads_mut().extra_thieves = 0;
        }
        self.blocked_as[worker] = blocked;
    }

    /// Marks the worker as blocked by its own call, which has this number.
    pub(super) fn declare_blocked(&mut self, worker: usize, hand_over: u64) {
        self.set_blocked(worker, Blocked::Declared);
        self.threads_mut().declared[worker] = hand_over;
    }

    /// Ends that call. If it has ended already, when the worker looked for another item, the index may be blocked for another
    /// reason, or may belong to another thread.
    pub(super) fn end_declared(&mut self, worker: usize, hand_over: u64) {
        let is_declared = self.blocked_as[worker] == Blocked::Declared;
        if is_declared && self.threads().declared[worker] == hand_over {
            self.set_blocked(worker, Blocked::No);
        }
    }

    /// Lets one more worker steal: hogs may wait for jobs that no worker may steal.
    pub(super) fn allow_one_more_thief(&mut self) {
        if self.hogs > 0 {
            self.threads_mut().extra_thieves += 1;
        }
    }

    /// Workers that may steal beyond the limit. Not called without hogs.
    pub(super) fn extra_thieves(&self) -> usize {
        self.threads().extra_thieves
    }

    /// Returns an index for a worker of a neighbouring pod, which the runtime counts there. `None` if all are in use.
    pub(super) fn add_guest(&mut self, slots: &Slots<P>) -> Option<usize> {
        let index = self.claim_index(slots)?;
        self.alive += 1;
        self.guests += 1;
        let threads = self.threads_mut();
        threads.threads[index] = ThreadSlot::Elsewhere;
        threads.guests.push(index);
        Some(index)
    }

    /// Removes the guest with this index. Returns true if the worker was one.
    fn remove_guest(&mut self, index: usize) -> bool {
        if self.guests == 0 {
            return false;
        }
        let before = self.guests;
        let guests = &mut self.threads_mut().guests;
        guests.retain(|guest| *guest != index);
        self.guests = guests.len() as u16;
        self.guests < before
    }

    /// Guests that are not blocked.
    #[inline]
    pub(super) fn running_guests(&self) -> usize {
        if self.guests == 0 { 0 } else { self.count_running_guests() }
    }

    #[cold]
    fn count_running_guests(&self) -> usize {
        let runs = |guest: &&usize| self.blocked_as[**guest] == Blocked::No;
        self.threads().guests.iter().filter(runs).count()
    }

    /// Reserves an index for one more worker, up to `most`. The worker counts as alive from here on.
    pub(super) fn reserve(&mut self, most: usize, slots: &Slots<P>) -> Reserved {
        let index = if self.alive < most && self.threads_mut().worker_count.enter() {
            let index = self.claim_index(slots);
            if index.is_none() {
                self.threads_mut().worker_count.leave();
            }
            index
        } else {
            None
        };
        let Some(index) = index else {
            self.spare_refused = true;
            return Reserved::Refused;
        };
        self.alive += 1;
        self.threads_mut().counted += 1;
        Reserved::Index(index)
    }

    /// Requests one more worker. Returns true if enough are being started already: a starter checks again when it has
    /// finished.
    pub(super) fn leave_to_starter(&mut self) -> bool {
        let is_left = usize::from(self.starting) > self.unblocked() / 2;
        self.spare_missed |= is_left;
        is_left
    }

    /// A start has finished. Returns true if one more worker was wanted meanwhile.
    pub(super) fn end_start(&mut self) -> bool {
        self.starting -= 1;
        std::mem::take(&mut self.spare_missed)
    }

    /// Records that a worker was wanted and could not be started.
    pub(super) fn refuse_spare(&mut self) {
        // If it was the first, the pool does not exist.
        self.stopping |= self.alive == 0;
        self.spare_refused = true;
    }

    /// True if a worker was wanted and could not be started, since this was last cleared.
    pub(super) fn is_spare_refused(&self) -> bool {
        self.spare_refused
    }

    /// Takes an index that no worker has, and makes its slot.
    fn claim_index(&mut self, slots: &Slots<P>) -> Option<usize> {
        let threads = self.threads_mut();
        let index = match threads.free.pop() {
            Some(index) => index,
            None if threads.threads.len() < MAX_WORKERS => {
                threads.threads.push(ThreadSlot::None);
                threads.declared.push(0);
                self.blocked_as.push(Blocked::No);
                self.blocked_as.len() - 1
            }
            None => return None,
        };
        self.threads_mut().threads[index] = ThreadSlot::Coming;
        slots.ensure(index);
        Some(index)
    }

    /// The worker's thread no longer uses its slot from here on. Also undoes a reservation.
    pub(super) fn retire(&mut self, index: usize) {
        let is_rescuer = self.is_rescuer(index);
        let is_guest = self.remove_guest(index);
        if is_rescuer {
            self.alive -= usize::from(self.rescuer == Rescuer::Called);
            self.rescuer = Rescuer::Gone;
        } else {
            self.set_blocked(index, Blocked::No);
            self.alive -= 1;
            if !is_guest {
                let threads = self.threads_mut();
                threads.counted -= 1;
                threads.worker_count.leave();
            }
        }
        let threads = self.threads_mut();
        if matches!(threads.threads[index], ThreadSlot::Coming) {
            // The index is not reused before its handle arrives: otherwise the handle would be stored for the next worker.
            threads.threads[index] = ThreadSlot::Late;
        } else {
            // The thread exits by itself; no caller waits for it any more, or one already does.
            self.free_index(index, is_rescuer);
        }
    }

    fn free_index(&mut self, index: usize, is_rescuer: bool) {
        let threads = self.threads_mut();
        threads.threads[index] = ThreadSlot::None;
        if !is_rescuer {
            threads.free.push(index);
        }
    }

    /// Retires a worker whose index must not be reused.
    pub(super) fn retire_for_good(&mut self, index: usize) {
        self.retire(index);
        let threads = self.threads_mut();
        threads.free.retain(|free| *free != index);
        threads.threads[index] = ThreadSlot::Late;
    }

    /// The starter of a worker stores its handle, or `None` if no thread was started.
    pub(super) fn put_handle(&mut self, index: usize, thread: Option<ThreadSlot<P::Thread>>) {
        if thread.is_none() {
            self.retire(index);
        }
        let is_rescuer = self.is_rescuer(index);
        let threads = self.threads_mut();
        match (&threads.threads[index], thread) {
            (ThreadSlot::Coming, Some(thread)) => threads.threads[index] = thread,
            _ => self.free_index(index, is_rescuer),
        }
    }

    /// Takes all threads except that of worker `but`, to be joined.
    pub(super) fn take_threads(&mut self, but: Option<usize>) -> Vec<P::Thread> {
        let threads = self.threads_mut().threads.iter_mut().enumerate();
        let others = threads.filter(|(index, _)| Some(*index) != but);
        others
            .filter_map(|(_, place)| match std::mem::replace(place, ThreadSlot::Taken) {
                ThreadSlot::Here(thread) => Some(thread),
                other => {
                    *place = other;
                    None
                }
            })
            .collect()
    }

    /// True once no thread is left.
    pub(super) fn is_empty(&self) -> bool {
        let has_rescuer = !matches!(self.rescuer, Rescuer::None | Rescuer::Gone);
        self.starting == 0 && self.alive == 0 && !has_rescuer
    }

    fn is_rescuer(&self, index: usize) -> bool {
        index == RESCUER && self.rescuer != Rescuer::None
    }

    /// Reserves the first index, for the rescuer of a pool that starts. `None` if the rescuer already exists.
    pub(super) fn reserve_rescuer(&mut self, slots: &Slots<P>) -> Option<usize> {
        match self.rescuer {
            Rescuer::None => {
                let index = self.claim_index(slots);
                assert_eq!(index, Some(RESCUER), "the first index is the rescuer's");
            }
            Rescuer::Gone => self.threads_mut().threads[RESCUER] = ThreadSlot::Coming,
            // Left over from before the pool was stopped: it is still running.
            Rescuer::StandsBy | Rescuer::Called | Rescuer::Leaving => return None,
        }
        self.rescuer = Rescuer::StandsBy;
        Some(RESCUER)
    }

    /// Calls the rescuer, if a worker was refused since the last call. Returns true if the caller must wake it.
    pub(super) fn call_rescuer(&mut self) -> bool {
        let is_wanted = std::mem::take(&mut self.spare_refused);
        if !is_wanted || self.rescuer != Rescuer::StandsBy || self.stopping {
            return false;
        }
        self.rescuer = Rescuer::Called;
        self.alive += 1;
        true
    }

    /// Dismisses a rescuer that stands by: the caller wakes it.
    pub(super) fn dismiss_rescuer(&mut self) -> Option<usize> {
        if self.rescuer != Rescuer::StandsBy {
            return None;
        }
        self.rescuer = Rescuer::Leaving;
        Some(RESCUER)
    }

    /// True if this is the rescuer's index, and it does not count as a worker.
    pub(super) fn stands_by(&self, worker: usize) -> bool {
        worker == RESCUER && !matches!(self.rescuer, Rescuer::None | Rescuer::Called)
    }

    /// True if this is the rescuer's index, and it counts as a worker.
    pub(super) fn is_called(&self, worker: usize) -> bool {
        worker == RESCUER && self.rescuer == Rescuer::Called
    }

    /// The rescuer no longer counts as a worker, and waits to be called.
    pub(super) fn stand_rescuer_by(&mut self) {
        self.rescuer = Rescuer::StandsBy;
        self.alive -= 1;
    }

    /// The rescuer is about to wait. Returns false if the pool stops: it exits.
    pub(super) fn may_stand_by(&mut self) -> bool {
        let is_over = self.rescuer == Rescuer::StandsBy && self.stopping;
        if is_over {
            self.rescuer = Rescuer::Leaving;
        }
        !is_over
    }

    /// Describes the invariant that does not hold. `sleepers` yields each sleeper, as often as it is listed. Does not
    /// allocate, and reports no access to the platform, so that a checked run is the same run.
    pub(super) fn broken_rule(
        &self,
        mut sleepers: impl Iterator<Item = usize>,
        idle: usize,
    ) -> Option<&'static str> {
        let threads = &*self.threads;
        let workers = threads.threads.len();
        // Workers that do not exist, and the one that does not count as a worker.
        let mut absent = Marks::none();
        let mut absentees = 0;
        for worker in 0..workers {
            if matches!(threads.threads[worker], ThreadSlot::Late) || self.stands_by(worker) {
                absent.add(worker);
                absentees += 1;
            }
        }
        if !threads.free.iter().all(|worker| *worker < workers && absent.add(*worker)) {
            return Some("an index is free once, and no worker has it");
        }
        if self.alive + absentees + threads.free.len() != workers {
            return Some(
                "`alive` is the workers that have an index, without a rescuer that is not called",
            );
        }
        let mut resting = absent;
        if !sleepers.all(|worker| worker < workers && resting.add(worker)) {
            return Some("a sleeper is a worker, and listed once");
        }
        let mut blocked = 0;
        for (worker, why) in self.blocked_as.iter().enumerate() {
            if *why != Blocked::No {
                blocked += 1;
                if !resting.add(worker) {
                    return Some("a blocked worker does not sleep");
                }
            }
        }
        if blocked != self.blocked {
            return Some("`blocked` is the workers that are blocked");
        }
        if self.blocked + idle > self.alive {
            return Some("there are as many workers as sleep and are blocked, or more");
        }
        if threads.counted + threads.guests.len() + usize::from(self.is_called(RESCUER))
            != self.alive
        {
            return Some("the runtime counts the pool's workers, without its rescuer and guests");
        }
        if self.spare_missed && self.starting == 0 {
            return Some("a wish for a worker while one was started was seen to");
        }
        if self.stopping && idle > 0 {
            return Some("no worker sleeps in a pool that stops");
        }
        if !self.stopping && workers > absentees && self.alive == 0 {
            return Some("a pool that was started and not stopped has a worker");
        }
        None
    }

    /// The state in text, for a report on a broken invariant.
    pub(super) fn books(&self) -> String {
        let Self { alive, blocked, blocked_as, stopping, starting, spare_missed, rescuer, .. } =
            self;
        let ThreadTable { free, counted, threads, .. } = &*self.threads;
        format!(
            "alive {alive}, blocked {blocked}, blocked as {blocked_as:?}, stopping {stopping}, starting {starting}, missed \
             {spare_missed}, rescuer {rescuer:?}, free {free:?}, counted {counted}, threads {threads:?}"
        )
    }
}

/// Workers, by index.
struct Marks([u64; MAX_WORKERS.div_ceil(64)]);

impl Marks {
    const fn none() -> Self {
        Self([0; MAX_WORKERS.div_ceil(64)])
    }

    /// Adds a worker. Returns false if it was present.
    fn add(&mut self, worker: usize) -> bool {
        let (word, bit) = (&mut self.0[worker / 64], 1 << (worker % 64));
        let was_there = *word & bit != 0;
        *word |= bit;
        !was_there
    }
}

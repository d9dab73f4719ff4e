//! A pool's injectors: one queue of segments for each CPU of the pod, and a wake word that records which
//! injectors to check, and which worker to wake. `README.md` beside this file describes the protocol.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};

use coreshard_platform::{AtomicInt, Padded, Platform, fields};
use coreshard_topology::NodeId;

use crate::base::bits::bits;
use crate::base::sizes::MAX_INJECTORS;

use super::segments::{Claim, Segment, SegmentQueue, Taker, Tells, Watch};

const MARKS: u64 = (1 << MAX_INJECTORS) - 1;

/// How many injectors a worker spins on before it sleeps.
const MAX_WATCHED: usize = 4;

/// Injectors that are watched, and the watched slot of each.
pub(crate) type Watches<P, T, const LEN: usize> = [Option<(usize, Watch<P, T, LEN>)>; MAX_WATCHED];

/// The wake word:
///
/// | bits | meaning | set by | cleared by |
/// |---|---|---|---|
/// | 0–31 | this injector is marked: there may be items, look there | the producer that found its slot armed | the taker, before it arms the slot |
/// | 32–63 | the designated waiter: one more than the index of the worker to wake; 0 for none | the taker, when no injector is marked | the producer that signals first; the taker |
pub(crate) struct Injectors<P: Platform, T, const LEN: usize> {
    sleepers: Padded<Sleepers<P>>,
    queues: Box<[SegmentQueue<P, T, LEN>]>,
}
fields!(Injectors<P: Platform, T; const LEN: usize> { sleepers, queues });

/// The sleeper that a producer wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToWake {
    /// The worker with this index.
    Worker(usize),
    /// A worker of another pool, as a guest: a burst has already woken all runners-up.
    Guest,
}

/// The sleepers that producers wake.
struct Sleepers<P: Platform> {
    /// See [`Injectors`].
    wake_word: P::AtomicU64,
    /// The *runners-up*, which the producers of a burst wake as well: a bit for each worker's index. The thread that clears a
    /// bit wakes that worker.
    runner_ups: P::AtomicU64,
    /// 1 if workers may sleep that no producer would wake: see `State::stand_down`.
    unposted: P::AtomicU32,
}
fields!(Sleepers<P: Platform> { wake_word, runner_ups, unposted });

/// The right to take items, at all injectors. There is one, kept under the pool's lock.
pub(crate) struct Takers<P: Platform, T, const LEN: usize> {
    takers: Vec<Taker<P, T, LEN>>,
    /// The injector to try first, so that each gets its turn.
    turn: u32,
    /// How often in a row a worker was served at its own injector.
    home_claims: u32,
    /// Injectors that were claimed from since they were last armed for a burst, a bit each.
    served: u32,
    /// Slots were armed while no worker was posted.
    armed_for_nobody: bool,
    /// For [`Injectors::claim_oldest`].
    looks: Box<Looks>,
}

struct Looks {
    count: u64,
    /// By injector: the tickets observed at the last looks.
    seen: Vec<SeenAt>,
}

/// The unclaimed tickets below `end` were there at this look, and not at the one before.
#[derive(Clone, Copy, Default)]
struct SeenAt {
    end: u64,
    look: u64,
}

/// Claims in a row that a worker may make at its own CPU's injector, whose items are in its cache, while other injectors are
/// marked as well.
const MAX_HOME_CLAIMS: u32 = 16;

/// A bit for each of `injectors`.
fn all_of(injectors: usize) -> u64 {
    MARKS >> (MAX_INJECTORS - injectors)
}

fn designated_in(wake_word: u64) -> Option<usize> {
    (wake_word >> MAX_INJECTORS).checked_sub(1).map(|worker| worker as usize)
}

fn marked(wake_word: u64) -> impl Iterator<Item = usize> {
    bits(wake_word & MARKS)
}

impl<P: Platform, T, const LEN: usize> Injectors<P, T, LEN> {
    /// Makes `injectors` empty queues with their memory on `node`, and the right to take from them.
    pub(crate) fn new(node: Option<NodeId>, injectors: usize) -> (Self, Takers<P, T, LEN>) {
        let injectors = injectors.clamp(1, MAX_INJECTORS);
        let served = all_of(injectors) as u32;
        let (queues, takers) = (0..injectors as u32)
            .map(|injector| SegmentQueue::new(node, injector))
            .unzip::<_, _, Vec<_>, Vec<_>>();
        let looks = Box::new(Looks { count: 0, seen: vec![SeenAt::default(); injectors] });
        // Marked until a worker has armed their slots.
        let wake_word = (1 << injectors) - 1;
        let sleepers = Sleepers {
            wake_word: P::AtomicU64::new(wake_word),
            runner_ups: P::AtomicU64::new(0),
            unposted: P::AtomicU32::new(0),
        };
        let injectors = Self { sleepers: Padded::new(sleepers), queues: queues.into() };
        (
            injectors,
            Takers { takers, turn: 0, home_claims: 0, served, armed_for_nobody: false, looks },
        )
    }

    /// Describes the fields to the platform, once they are at their final address.
    pub(crate) fn describe(&self) {
        P::describe(&raw const *self);
        P::describe(&raw const *self.sleepers);
        self.queues.iter().for_each(SegmentQueue::describe);
    }

    /// One injector's queue.
    #[cfg(all(test, loom))]
    pub(super) fn queue(&self, injector: usize) -> &SegmentQueue<P, T, LEN> {
        &self.queues[injector]
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Adds an item at an injector. Returns which sleeper the caller must wake.
    #[inline(always)]
    pub(crate) fn push(&self, injector: usize, value: T, tag: u16) -> Option<ToWake> {
        let tells = self.queues[injector].push(value, tag);
        if tells == Tells::Nobody { None } else { self.tell(tells, injector) }
    }

    /// Wakes for an item whose slot was armed.
    #[cold]
    #[inline(never)]
    fn tell(&self, tells: Tells, injector: usize) -> Option<ToWake> {
        match tells {
            Tells::Nobody => None,
            Tells::Designated => self.signal(injector).map(ToWake::Worker),
            Tells::RunnerUp => Some(self.take_a_runner_up().map_or(ToWake::Guest, ToWake::Worker)),
        }
    }

    /// Takes one of the runners-up off, for the caller to wake. `None` if there is none, or others were quicker.
    #[cold]
    fn take_a_runner_up(&self) -> Option<usize> {
        let mut seen = self.sleepers.runner_ups.load(Acquire);
        while seen != 0 {
            let worker = seen.trailing_zeros() as usize;
            let taken = self.take_runner_up(worker);
            if taken.is_some() {
                return taken;
            }
            seen = self.sleepers.runner_ups.load(Acquire);
        }
        None
    }

    /// Takes this runner-up off, for the caller to wake. `None` if another thread was quicker, and wakes it.
    pub(crate) fn take_runner_up(&self, worker: usize) -> Option<usize> {
        // AcqRel as in `recall`.
        let before = self.sleepers.runner_ups.fetch_and(!(1 << worker), AcqRel);
        (before & 1 << worker != 0).then_some(worker)
    }

    /// The runners-up that are not being woken, a bit each.
    pub(crate) fn runner_ups(&self) -> u64 {
        self.sleepers.runner_ups.load(Acquire)
    }

    /// Posts more sleepers that a burst wakes in addition to the designated waiter, a bit each. Arms this many slots at each
    /// injector that items were claimed from since the last time.
    pub(crate) fn post_runner_ups(&self, takers: &mut Takers<P, T, LEN>, workers: u64, slots: u64) {
        // Release pairs with the Acquire of the thread that takes them off.
        self.sleepers.runner_ups.fetch_or(workers, Release);
        for injector in marked(u64::from(std::mem::take(&mut takers.served))) {
            self.queues[injector].arm_for_burst(&mut takers.takers[injector], slots);
        }
    }

    /// Records whether workers may sleep that no producer would wake.
    pub(crate) fn set_unposted(&self, unposted: bool) {
        // SeqCst: a thread that finds no designated waiter, because it was withdrawn after this store, sees the store.
        self.sleepers.unposted.store(u32::from(unposted), SeqCst);
    }

    pub(crate) fn has_unposted(&self) -> bool {
        self.sleepers.unposted.load(SeqCst) != 0
    }

    /// Called when an item's slot was armed: marks the injector, and takes the designated waiter off the wake word if there is
    /// one. A producer that marks another injector at the same time finds none, and wakes none: the worker that is on its way
    /// will check all marked injectors.
    #[cold]
    fn signal(&self, injector: usize) -> Option<usize> {
        let mut seen = self.sleepers.wake_word.load(Acquire);
        loop {
            let marked = (seen | 1 << injector) & MARKS;
            // Release: a thread that finds the injector marked finds the item. Acquire pairs with the Release of `post`.
            match self.sleepers.wake_word.compare_exchange(seen, marked, AcqRel, Acquire) {
                Ok(_) => return designated_in(seen),
                Err(now) => seen = now,
            }
        }
    }

    /// Claims up to `most` items at one marked injector: at `home`, the injector of this CPU, if it has any and was not
    /// preferred too often in a row; else in turn.
    #[inline]
    pub(crate) fn claim(
        &self,
        takers: &mut Takers<P, T, LEN>,
        most: usize,
        home: usize,
    ) -> Option<Claim<P, T, LEN>> {
        let marks = self.sleepers.wake_word.load(Acquire) & MARKS;
        let (at_home, away) = (marks & 1 << home, marks & !(1 << home));
        if at_home != 0 && takers.home_claims < MAX_HOME_CLAIMS {
            let claim = self.queues[home].claim(&mut takers.takers[home], most);
            if claim.is_some() {
                takers.home_claims += u32::from(away != 0);
                takers.served |= 1 << home;
                return claim;
            }
        }
        takers.home_claims = 0;
        let late = away & (u64::MAX << takers.turn);
        for injector in marked(late).chain(marked(away & !late)).chain(marked(at_home)) {
            let claim = self.claim_at(takers, injector, most);
            if claim.is_some() {
                return claim;
            }
        }
        None
    }

    /// As [`Self::claim`], for items so long that their order matters more than their place: at the
    /// injector whose next item was there at the earliest look. Among items that arrived since the last look, those
    /// from the caller's own CPU come last: the caller has used that CPU until now.
    pub(crate) fn claim_oldest(
        &self,
        takers: &mut Takers<P, T, LEN>,
        most: usize,
        home: usize,
    ) -> Option<Claim<P, T, LEN>> {
        let mut untried = self.sleepers.wake_word.load(Acquire) & MARKS;
        let Looks { count, seen } = &mut *takers.looks;
        *count += 1;
        for injector in marked(untried) {
            if takers.takers[injector].head() >= seen[injector].end {
                seen[injector] = SeenAt { end: self.queues[injector].pushed(), look: *count };
            }
        }
        while untried != 0 {
            let (turn, injectors) = (takers.turn as usize, self.queues.len());
            let injector = marked(untried).min_by_key(|injector| {
                let in_turn = (injector + injectors - turn) % injectors;
                (takers.looks.seen[*injector].look, *injector == home, in_turn)
            })?;
            untried &= !(1 << injector);
            let claim = self.claim_at(takers, injector, most);
            if claim.is_some() {
                return claim;
            }
        }
        None
    }

    /// Claims up to `most` more items, at marked injectors in turn, for a worker that had to wait for the right to take, so
    /// that it takes the lock less often. Checks no more than two injectors per requested claim.
    #[cold]
    pub(crate) fn claim_more(
        &self,
        takers: &mut Takers<P, T, LEN>,
        mut most: usize,
        claims: &mut [Option<Claim<P, T, LEN>>],
    ) {
        let marks = self.sleepers.wake_word.load(Acquire) & MARKS;
        let late = marks & (u64::MAX << takers.turn);
        let in_turn = marked(late).chain(marked(marks & !late)).take(2 * claims.len());
        let mut claims = claims.iter_mut();
        let mut place = claims.next();
        for injector in in_turn {
            if most == 0 || place.is_none() {
                return;
            }
            if let Some(claim) = self.claim_at(takers, injector, most)
                && let Some(place) = std::mem::replace(&mut place, claims.next())
            {
                most -= claim.items();
                *place = Some(claim);
            }
        }
    }

    /// The first marked injector that has an item with a requested tag, and how many items precede it there. Checks
    /// `most` items of each injector.
    #[cold]
    pub(crate) fn look_for(
        &self,
        takers: &mut Takers<P, T, LEN>,
        most: usize,
        is_sought: impl Fn(u16) -> bool,
    ) -> Option<(usize, usize)> {
        marked(self.sleepers.wake_word.load(Acquire)).find_map(|injector| {
            let queue = &self.queues[injector];
            let before = queue.look_for(&mut takers.takers[injector], most, &is_sought)?;
            Some((injector, before))
        })
    }

    /// Claims at this injector, and moves the turn to the next one.
    #[inline]
    pub(crate) fn claim_at(
        &self,
        takers: &mut Takers<P, T, LEN>,
        injector: usize,
        most: usize,
    ) -> Option<Claim<P, T, LEN>> {
        let claim = self.queues[injector].claim(&mut takers.takers[injector], most)?;
        takers.turn = ((injector + 1) % self.queues.len()) as u32;
        takers.served |= 1 << injector;
        Some(claim)
    }

    /// True if an item is ready at a marked injector.
    pub(crate) fn ready(&self, takers: &mut Takers<P, T, LEN>) -> bool {
        marked(self.sleepers.wake_word.load(Acquire))
            .any(|injector| self.queues[injector].ready(&mut takers.takers[injector]))
    }

    /// Clears all marks, arms the injectors' slots, and posts `worker` as the designated waiter: the producer of
    /// the next item will wake it. Returns the designated waiter that it replaces, if any.
    ///
    /// # Errors
    /// If an item is ready, or arrives meanwhile; then nothing is posted.
    pub(crate) fn post(
        &self,
        takers: &mut Takers<P, T, LEN>,
        worker: usize,
    ) -> Result<Option<usize>, ItemWaits> {
        let mut seen = self.sleepers.wake_word.load(Acquire);
        loop {
            self.arm_each(takers, seen)?;
            // Only from a word without marks: a producer that has signalled since has set one.
            // Release pairs with the Acquire of `signal`; SeqCst: see `designated`.
            let closed = seen & !MARKS;
            let posted = (worker as u64 + 1) << MAX_INJECTORS;
            match self.sleepers.wake_word.compare_exchange(closed, posted, SeqCst, Acquire) {
                Ok(before) => {
                    takers.armed_for_nobody = false;
                    return Ok(designated_in(before));
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Clears all marks and arms the injectors' slots without posting a worker: the producer of the next item marks
    /// its injector, for workers that read the marks.
    ///
    /// # Errors
    /// If an item is ready, or arrives meanwhile.
    pub(crate) fn arm_marked(&self, takers: &mut Takers<P, T, LEN>) -> Result<(), ItemWaits> {
        takers.armed_for_nobody = true;
        self.arm_each(takers, self.sleepers.wake_word.load(Acquire))
    }

    fn arm_each(&self, takers: &mut Takers<P, T, LEN>, wake_word: u64) -> Result<(), ItemWaits> {
        for injector in marked(wake_word) {
            // Cleared first: once the slot is armed, the bit belongs to its producer.
            self.sleepers.wake_word.fetch_and(!(1 << injector), AcqRel);
            if !self.queues[injector].arm(&mut takers.takers[injector]) {
                self.sleepers.wake_word.fetch_or(1 << injector, AcqRel);
                return Err(ItemWaits);
            }
        }
        Ok(())
    }

    /// True if an item may wait: one does, or has arrived since the slots were armed.
    pub(crate) fn is_marked(&self) -> bool {
        self.sleepers.wake_word.load(Acquire) & MARKS != 0
    }

    /// The designated waiter, if it is not being woken. SeqCst pairs with the SeqCst of `post`: if a worker posts itself, and
    /// then looks for forked jobs and sees none, a worker that shares one later sees it here.
    pub(crate) fn designated(&self) -> Option<usize> {
        // The model checker has no order of SeqCst loads: there an exchange without a change reads the latest value.
        designated_in(if cfg!(loom) {
            self.sleepers.wake_word.fetch_or(0, SeqCst)
        } else {
            self.sleepers.wake_word.load(SeqCst)
        })
    }

    /// Takes the designated waiter off the wake word, for the caller to wake. `None` if another thread was quicker,
    /// and wakes it.
    pub(crate) fn recall(&self) -> Option<usize> {
        designated_in(self.sleepers.wake_word.fetch_and(MARKS, AcqRel))
    }

    /// The slots of the next items, at the marked injectors except `home`: a producer that fills that one cannot run while a
    /// worker spins on its CPU.
    pub(crate) fn watch(&self, takers: &mut Takers<P, T, LEN>, home: usize) -> Watches<P, T, LEN> {
        let mut marks = self.sleepers.wake_word.load(Acquire) & MARKS;
        if std::mem::take(&mut takers.armed_for_nobody) {
            // Producers there would wake no worker: those slots are watched as well.
            marks = all_of(self.queues.len());
            self.sleepers.wake_word.fetch_or(marks, AcqRel);
        }
        let mut injectors = marked(marks & !(1 << home));
        std::array::from_fn(|_| {
            let injector = injectors.next()?;
            Some((injector, self.queues[injector].watch(&mut takers.takers[injector])?))
        })
    }

    /// True once a watched-for item has arrived, even if it was taken since.
    pub(crate) fn seen(&self, places: &Watches<P, T, LEN>) -> bool {
        places.iter().flatten().any(|(injector, place)| self.queues[*injector].seen(place))
    }

    /// A counter at an injector, on the cache line that its producers fetch anyway; `None` beyond the last.
    #[inline]
    pub(crate) fn counter(&self, injector: usize, at: usize) -> Option<&P::AtomicU64> {
        self.queues[injector].counter(at)
    }

    /// Records that items of a segment were copied out, see [`SegmentQueue::release`].
    ///
    /// # Safety
    /// As for that.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn release(&self, segment: *mut Segment<P, T, LEN>, items: u32) {
        // SAFETY: by this function's contract the segment belongs to one of these queues, and is mapped.
        let injector = unsafe { (*segment).injector() };
        // SAFETY: by this function's contract.
        unsafe { self.queues[injector].release(segment, items) };
    }

    /// Items that wait at marked injectors and are not claimed. Takes the cache lines of their tails from their producers.
    pub(crate) fn waiting(&self, takers: &Takers<P, T, LEN>) -> u64 {
        let at = |injector: usize| {
            self.queues[injector].pushed().saturating_sub(takers.takers[injector].head())
        };
        marked(self.sleepers.wake_word.load(Acquire)).map(at).sum()
    }

    /// Items that were ever pushed.
    pub(crate) fn pushed(&self, takers: &Takers<P, T, LEN>) -> u64 {
        let drawn: u64 = self.queues.iter().map(SegmentQueue::pushed).sum();
        drawn - takers.takers.iter().map(Taker::skipped).sum::<u64>()
    }

    /// Memory that the queues hold, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.queues.iter().map(SegmentQueue::held_bytes).sum()
    }

    /// Returns memory to the system that has not been needed since a burst.
    pub(crate) fn trim(&self) {
        self.queues.iter().for_each(SegmentQueue::trim);
    }
}

/// The reason why no designated waiter was posted: an item waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ItemWaits;

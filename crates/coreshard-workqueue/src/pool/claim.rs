//! How a worker comes to items: its own claim, the intake, other workers' claims.

use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Platform};

use super::links::LinkTag;
use super::sizes::{Claim, Injectors, MAX_CLAIMS, Segment, SegmentQueue, Takers};
use super::state::{Blocked, Worklist};
use super::worker::{TaggedItem, Worker};

/// Who has waited so long for the lock, since many want it, takes what stands at one more injector, and so comes for it less often.
const WAIT_PER_CLAIM_NS: u64 = 2_000;

impl<P: Platform> Worker<'_, P> {
    #[inline]
    pub(super) fn next_item(&mut self) -> Option<TaggedItem> {
        loop {
            if let Some(item) = self.next_claimed() {
                return Some(item);
            }
            if self.is_member {
                self.run_team_jobs();
            }
            if self.items_before_look.is_some() {
                self.look_now_and_then();
            }
            let claimed = if self.only_steals() { None } else { self.claim() };
            if let Some(item) = claimed.or_else(|| self.steal()) {
                return Some(item);
            }
            if !self.run_fork() && !self.watch() {
                return None;
            }
        }
    }

    #[inline]
    fn next_claimed(&mut self) -> Option<TaggedItem> {
        while let Some((place, segment)) = self.claims.current() {
            if let Some(at) = self.slot.ranges[place].next() {
                self.enter(segment);
                return Some(self.take_at(at));
            }
            if self.claims.next_is_none() {
                // Relaxed: too high a count costs those who look a look at the ranges, no more.
                self.pool.open_claims.fetch_sub(1, Relaxed);
            }
        }
        None
    }

    /// Takes items out of the intake, under the lock; lets others know of what is left.
    #[inline]
    fn claim(&mut self) -> Option<TaggedItem> {
        let pool = self.pool;
        self.patience.look(P::rough_ns(), P::own_usage);
        if self.lead.ns() > 0 {
            self.let_ahead();
        }
        let mut waited_ns = 0;
        let mut state = pool.try_lock().unwrap_or_else(|| {
            let state = pool.lock();
            waited_ns = self.patience.begin(P::rough_ns());
            state
        });
        let steals = std::mem::take(&mut self.is_lookout);
        if steals {
            // Whoever sees that an item waits from here on takes the lock after this one.
            pool.lookouts.store(0, Release);
        }
        let was_hog = state.blocked_as[self.index] == Blocked::Hog;
        state.rejoin(self.index);
        if was_hog {
            state.tell_of_thieves(pool);
        }
        // Only this worker writes it.
        self.slot.looks.store(self.slot.looks.load(Relaxed).wrapping_add(1), Relaxed);
        if self.repatriated > 0 {
            state.cold_mut().counters.repatriated += std::mem::take(&mut self.repatriated);
        }
        let mut aside = None;
        if state.has_aside {
            state.end_loans();
            let is_excess = state.active() > pool.place.limit;
            aside = state.take_aside(is_excess);
        }
        self.excess = state.active() > pool.place.limit;
        if self.excess && aside.is_none() {
            return None;
        }
        self.may_steal = state.may_steal(pool, 0);
        let home = pool.place.injector_here::<P>();
        state.placement.runs_at(self.index, home);
        let mut more = 0;
        let (item, claim) = match (&mut state.worklist, &pool.queue) {
            _ if aside.is_some() => (aside, None),
            (Worklist::Locked(list), _) => {
                P::touch_read(&raw const *list.front()?);
                (list.pop_front(), None)
            }
            (Worklist::LockFree(takers), Some(queue)) => {
                let most = self.patience.most();
                let claim = if self.patience.are_long() {
                    queue.claim_oldest(takers, most, home)
                } else {
                    queue.claim(takers, most, home)
                };
                match claim {
                    Some(claim) => {
                        if waited_ns >= WAIT_PER_CLAIM_NS {
                            let claims = (waited_ns / WAIT_PER_CLAIM_NS) as usize;
                            more = self.claim_more(queue, takers, most - claim.items(), claims);
                        }
                        (None, Some(claim))
                    }
                    None => {
                        if !pool.is_team() && self.may_steal && pool.forking.load(Relaxed) > 0 {
                            self.begin_to_steal(state);
                            return None;
                        }
                        self.next_slots = Some(queue.watch(takers, home));
                        if pool.is_team() {
                            self.tell_team(state);
                        }
                        return None;
                    }
                }
            }
            (Worklist::LockFree(_), None) => unreachable!("the lock-free rung has a queue"),
        };
        let items = more + claim.as_ref().map_or(0, Claim::items);
        let vouches = items > 0 && {
            self.patience.learn_most(items);
            self.may_vouch
                && self.patience.has_no_long_ones_beside(&mut state.since_long)
                && state.leaves_reactor_to(self.index)
                && self.patience.vouches(items)
                && !state.is_worth_another(pool, &self.patience)
        };
        let spare = if vouches { None } else { state.reserve_spare(pool) };
        let (item, mut left) = match claim {
            None => (item, false),
            Some(claim) => {
                // While this worker starts another, its items are open to all.
                (self.open(claim, spare.is_none()), items > 1)
            }
        };
        self.yielded = false;
        self.learn_to_gather(left);
        if self.may_lead
            && self.context.producer.get() != Some(home)
            && self.patience.are_shortest()
        {
            self.lead.claimed(items, self.patience.claimed_at_ns());
        } else {
            self.lead.interrupt();
        }
        let mut sees_to_others = spare.is_some();
        // Who waits for this CPU finds what is left on another; who is only woken by then, if that is worth the way.
        if std::mem::take(&mut self.just_woke)
            && !vouches
            && let Some((other, comes)) = state.placement.other_at(self.index, home)
            && (left && !comes || self.patience.are_worth_counting() && state.has_work_for(pool, 1))
            && let Some(free) = state.placement.send_elsewhere(other, &pool.place)
        {
            // Under the lock, so that it cannot end meanwhile.
            pool.steer(other, free, || ());
            sees_to_others = true;
        }
        // Looking at the injectors takes lines from their producers: only if somebody can be sent. At the claims
        // of others, too: one kick may have stood for two who were blocked, and what they have claimed is
        // left to whoever came.
        let mut another = None;
        let kick = if vouches {
            state.stand_down(pool);
            None
        } else {
            left |= state.can_kick(pool) && state.has_work_for(pool, 1);
            let kick = state.pass_on(pool, left).or_else(|| state.call_rescuer());
            if left && state.is_worth_another(pool, &self.patience) {
                another = state.choose_another(pool);
            }
            if steals {
                // For the others that steal, and look at the marks.
                state.arm_for_thieves(pool);
            }
            kick
        };
        sees_to_others |= kick.is_some() || another.is_some();
        pool.unlock_and_kick(state, kick);
        if let Some(another) = another {
            pool.wake_kicked(another);
        }
        // After the lock was held: see the monitor's `run`.
        pool.monitor.notice_work();
        if let Some(spare) = spare {
            pool.start_spare(spare);
        }
        if sees_to_others {
            // That took some microseconds, and they are not the items'.
            self.patience.begin(P::rough_ns());
        }
        item.or_else(|| self.next_claimed())
    }

    /// Claims up to so many more items at so many more injectors, and opens them; returns how many items.
    #[cold]
    #[inline(never)]
    fn claim_more(
        &mut self,
        queue: &Injectors<P>,
        takers: &mut Takers<P>,
        most: usize,
        claims: usize,
    ) -> usize {
        let mut more = [const { None }; MAX_CLAIMS - 1];
        let claims = claims.min(more.len());
        queue.claim_more(takers, most, &mut more[..claims]);
        let mut items = 0;
        for claim in more.into_iter().flatten() {
            items += claim.items();
            self.open_one_more(&claim);
        }
        items
    }

    /// Opens a claim to thieves, but for its first item where `keep_first` says so.
    #[inline]
    fn open(&mut self, mut claim: Claim<P>, keep_first: bool) -> Option<TaggedItem> {
        self.enter(claim.segment);
        let first = keep_first.then_some(claim.start);
        self.patience.claimed(usize::from(keep_first));
        claim.start += usize::from(keep_first);
        if claim.items() > 0 {
            self.open_one_more(&claim);
        }
        first.map(|at| self.take_at(at))
    }

    #[inline]
    fn open_one_more(&mut self, claim: &Claim<P>) {
        self.patience.claimed(claim.items());
        if self.claims.current().is_none() {
            // Counted before it is published, and both before this worker next frees the lock (a
            // thief takes it next): whoever holds the lock later sees the count.
            self.pool.open_claims.fetch_add(1, Release);
        }
        let place = self.claims.push(claim.segment);
        self.slot.ranges[place].publish(claim);
    }

    /// What is taken from here on is from this segment.
    #[inline]
    #[allow(unsafe_code)]
    fn enter(&mut self, segment: *mut Segment<P>) {
        if !ptr::eq(self.segment, segment) {
            self.release_taken();
            self.segment = segment;
            // SAFETY: a segment is mapped until all its items are released, and one that this worker has claimed is not.
            self.context.producer.set(Some(unsafe { (*segment).injector() }));
        }
    }

    /// Takes what another worker of the pool has claimed and not yet run.
    fn steal(&mut self) -> Option<TaggedItem> {
        let pool = self.pool;
        if self.excess || pool.open_claims.load(Acquire) == 0 {
            return None;
        }
        let claim = pool
            .ranges()
            .filter(|(index, _)| *index != self.index)
            .find_map(|(_, range)| range.steal())?;
        let item = self.open(claim, true);
        let mut state = pool.lock();
        state.cold_mut().counters.stolen += 1;
        // Published before the lock was taken: whoever goes to sleep after this sees it.
        let left = state.can_kick(pool) && state.has_work_for(pool, 1);
        let kick = state.pass_on(pool, left);
        pool.unlock_and_kick(state, kick);
        item
    }

    #[inline]
    #[allow(unsafe_code)]
    fn take_at(&mut self, at: usize) -> TaggedItem {
        self.taken += 1;
        // SAFETY: the place was claimed or stolen by this worker, from this segment, and each
        // place is given out once; `release_taken` tells the segment, later.
        let (item, tag) = unsafe { SegmentQueue::<P>::take(self.segment, at) };
        (item, LinkTag(tag))
    }

    #[inline]
    #[allow(unsafe_code)]
    pub(super) fn release_taken(&mut self) {
        if let Some(queue) = &self.pool.queue
            && self.taken > 0
        {
            // SAFETY: `take_at` counted the items that it took from this segment.
            unsafe { queue.release(self.segment, std::mem::take(&mut self.taken)) };
        }
    }
}

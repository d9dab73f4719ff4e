//! A worker, as its own thread has it.

use std::ptr;
use std::sync::Arc;

use coreshard_platform::{Platform, Time, WatchLength};

use super::accounts::WeighedVisits;
use super::context::Context;
use super::crowd::Crowd;
use super::frame::Frame;
use super::lead::Lead;
use super::link::LinkHead;
use super::links::LinkTag;
use super::patience::Patience;
use super::pool::Pool;
use super::sizes::{MAX_CLAIMS, Segment, Watches};
use super::slot::WorkerSlot;
use crate::base::item::Item;

/// After how many items a busy worker looks into the reactor; see `react`.
pub(super) const ITEMS_BEFORE_LOOK: usize = 64;

/// An item, and its link's tag.
pub(super) type TaggedItem = (Item, LinkTag);

/// Items of one link that were run and not yet counted.
pub(super) struct Batch<P: Platform> {
    pub(super) tag: Option<LinkTag>,
    pub(super) link: *mut LinkHead<P>,
    pub(super) items: u64,
    /// When the first was begun, where this visit to the link is weighed.
    pub(super) weighed_since: Option<Time>,
}

impl<P: Platform> Batch<P> {
    pub(super) const fn none() -> Self {
        Self { tag: None, link: ptr::null_mut(), items: 0, weighed_since: None }
    }
}

/// A worker's open claims: `ranges` of its slot say what is left of each.
pub(super) struct OpenClaims<P: Platform> {
    /// The segment of each.
    segments: [*mut Segment<P>; MAX_CLAIMS],
    /// The one that it takes from.
    at: usize,
    count: usize,
}

impl<P: Platform> OpenClaims<P> {
    const fn none() -> Self {
        Self { segments: [ptr::null_mut(); MAX_CLAIMS], at: 0, count: 0 }
    }

    /// The place and the segment of the claim that it takes from.
    #[inline]
    pub(super) fn current(&self) -> Option<(usize, *mut Segment<P>)> {
        (self.at < self.count).then(|| (self.at, self.segments[self.at]))
    }

    /// The current claim is used up. True if it was the last.
    #[inline]
    pub(super) fn next_is_none(&mut self) -> bool {
        self.at += 1;
        let was_last = self.at == self.count;
        if was_last {
            (self.at, self.count) = (0, 0);
        }
        was_last
    }

    /// A place for one more claim.
    #[inline]
    pub(super) fn push(&mut self, segment: *mut Segment<P>) -> usize {
        self.segments[self.count] = segment;
        self.count += 1;
        self.count - 1
    }
}

pub(super) struct Worker<'pool, P: Platform> {
    pub(super) pool: &'pool Arc<Pool<P>>,
    pub(super) index: usize,
    pub(super) slot: &'pool WorkerSlot<P>,
    pub(super) context: &'pool Context<P>,
    /// The outermost frame of this thread.
    pub(super) inside: &'pool Frame<P>,
    /// What it knows of its items' length.
    pub(super) patience: Patience,
    /// It may leave those who sleep alone while its items are short.
    pub(super) may_vouch: bool,
    /// More run than should: this one is to lie down, and leave the work to the others.
    pub(super) excess: bool,
    /// What it has claimed, has opened to thieves, and has not seen the end of.
    pub(super) claims: OpenClaims<P>,
    /// Items copied out of the claimed segment and not yet told.
    pub(super) taken: u32,
    pub(super) segment: *mut Segment<P>,
    pub(super) tally: Batch<P>,
    /// Visits to links until one is weighed; `None` where CPU time cannot be told.
    pub(super) visits: Option<WeighedVisits>,
    /// Where the next items will be seen first.
    pub(super) next_slots: Option<Watches<P>>,
    /// How long to watch for work before sleeping; learned from what watching brought.
    pub(super) watch_length: WatchLength,
    /// It has seen that a job was shared, and has not looked for it since.
    pub(super) saw_forks: bool,
    /// When it last looked at the intake under the lock, and saw to it that somebody is told of what comes; 0 where it is
    /// to do so next.
    pub(super) looked_ns: u64,
    /// Forked jobs are for it, too: as at its last look under the lock.
    pub(super) may_steal: bool,
    /// Of those that steal, it is the one that looks after an item.
    pub(super) is_lookout: bool,
    /// How long not to look at all; learned too.
    pub(super) gather_spins: u32,
    /// It may wait for a moment before it claims: where somebody else can use the time.
    pub(super) may_lead: bool,
    pub(super) lead: Lead,
    /// The last look for work succeeded by watching.
    pub(super) watched: bool,
    /// It has let others run on its CPU since it last had work.
    pub(super) yielded: bool,
    /// Whether others compute on its CPU.
    pub(super) crowd: Crowd,
    /// Items until it looks into the reactor; `None` where there is none.
    pub(super) items_before_look: Option<usize>,
    /// It has not claimed since it slept.
    pub(super) just_woke: bool,
    pub(super) repatriated: u64,
    /// Since when it may not leave its pod, having been brought back to it.
    pub(super) stays_since: Option<Time>,
    /// It is a member of a team.
    pub(super) is_member: bool,
    /// In which process it runs items.
    pub(super) process_generation: u32,
}

impl<'pool, P: Platform> Worker<'pool, P> {
    pub(super) fn new(context: &'pool Context<P>, inside: &'pool Frame<P>) -> Self {
        let Context { pool, index, .. } = context;
        Self {
            pool,
            index: *index,
            slot: pool.slot(*index),
            context,
            inside,
            patience: Patience::new(pool.trusts_at_once),
            may_vouch: pool.may_vouch(),
            excess: false,
            claims: OpenClaims::none(),
            taken: 0,
            segment: ptr::null_mut(),
            tally: Batch::none(),
            visits: None,
            next_slots: None,
            watch_length: WatchLength::NEW,
            gather_spins: 0,
            may_lead: pool.may_spin && !pool.is_team(),
            lead: Lead::NONE,
            saw_forks: false,
            looked_ns: 0,
            may_steal: true,
            is_lookout: false,
            watched: false,
            yielded: false,
            crowd: Crowd::default(),
            items_before_look: pool.attributes.hooks.reactor.as_ref().map(|_| ITEMS_BEFORE_LOOK),
            just_woke: false,
            repatriated: 0,
            stays_since: None,
            is_member: pool.is_team(),
            process_generation: P::process_generation(),
        }
    }
}

//! Items that need not wait for long ones of another queue.
//!
//! A pool runs its items in the order in which they came. Where all its workers compute for long, and as many stand in for
//! them as the machine's CPUs allow, the next item would wait for the end of one of those. That is right for an item of the
//! same queue: its queue has its share. It is wrong for others. So the monitor looks for the first items of queues
//! that no worker runs an item of, takes them out, and lets more workers run until they have begun.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform};

use super::aside::Aside;
use super::link::LinkHead;
use super::links::LinkTag;
use super::pool::Pool;
use super::sizes::{Claim, Injectors, SegmentQueue};
use super::slot::STEALS;
use super::state::{Blocked, State, Worklist};
use crate::base::item::Item;

/// How many items the monitor looks at, at most, at each injector.
const MOST_LOOKED_AT: usize = 4096;
/// How many it takes out at a look, at most.
const MOST_EXPEDITED: usize = 16;

impl<P: Platform> State<P> {
    /// Takes out items of queues that no worker runs an item of, other than those that are given no CPU. Returns how many of
    /// the items have not begun.
    pub(super) fn expedite(&mut self, pool: &Pool<P>, starved: &[usize]) -> usize {
        let is_running = |worker: &usize| {
            matches!(self.blocked_as[*worker], Blocked::No | Blocked::Hog)
                && !self.rests(*worker)
                && !starved.contains(worker)
        };
        let links: Vec<LinkTag> = (0..self.blocked_as.len())
            .filter(is_running)
            .map(|worker| pool.slot(worker).link.load(Relaxed))
            .filter(|link| *link != 0 && link & STEALS == 0)
            .map(|link| LinkTag((link - 1) as u16))
            .collect();
        let has_its_share = |tag: LinkTag| {
            // SAFETY: an item of it waits, so the link is there.
            links.contains(&tag) && !unsafe { LinkHead::is_stopped(pool.links.link(tag)) }
        };
        let mut aside = std::mem::take(&mut self.cold_mut().aside);
        match (&mut self.worklist, &pool.queue) {
            (Worklist::Locked(list), _) => {
                let mut at = 0;
                while let Some((_, tag)) = list.get(at) {
                    if has_its_share(*tag) {
                        at += 1;
                    } else if let Some(item) = list.remove(at) {
                        aside.expedite(item);
                        break;
                    }
                }
            }
            (Worklist::LockFree(takers), Some(queue)) => {
                // What a worker has claimed and not begun came before all that is in the intake.
                for (_, range) in pool.ranges() {
                    // The later half each time.
                    let claims: Vec<_> = std::iter::from_fn(|| range.steal()).collect();
                    for (item, tag) in claims.iter().rev().flat_map(|claim| take_all(queue, claim))
                    {
                        if has_its_share(tag) {
                            aside.defer((item, tag));
                        } else {
                            aside.expedite((item, tag));
                        }
                    }
                }
                for _ in 0..MOST_EXPEDITED {
                    let is_sought = |tag| !has_its_share(LinkTag(tag));
                    let found = queue.look_for(takers, MOST_LOOKED_AT, is_sought);
                    let Some((injector, before)) = found else { break };
                    let mut left = before + 1;
                    while left > 0
                        && let Some(claim) = queue.claim_at(takers, injector, left)
                    {
                        for item in take_all(queue, &claim) {
                            left -= 1;
                            if left == 0 { aside.expedite(item) } else { aside.defer(item) }
                        }
                    }
                }
            }
            (Worklist::LockFree(_), None) => unreachable!("the lock-free rung has a queue"),
        }
        let expedited = aside.expedited();
        self.has_aside = !aside.is_unused();
        self.cold_mut().aside = aside;
        expedited
    }

    /// Lets one more worker run, in a hog's place, until the expedited items have begun.
    pub(super) fn lend_place(&mut self, hog: usize) {
        self.set_blocked(hog, Blocked::Hog);
        self.cold_mut().aside.lend(hog);
        self.has_aside = true;
    }

    /// Before a claim: once the expedited items have begun, the places of the hogs are their own again.
    #[cold]
    #[inline(never)]
    pub(super) fn end_loans(&mut self) {
        if self.cold().aside.expedited() > 0 {
            return;
        }
        for hog in self.cold_mut().aside.take_loans() {
            if self.blocked_as[hog] == Blocked::Hog {
                self.set_blocked(hog, Blocked::No);
            }
        }
        self.has_aside = self.cold().aside.has_items();
    }

    /// The next item that was taken out: any, or only one that does not wait behind the hogs.
    #[cold]
    #[inline(never)]
    pub(super) fn take_aside(&mut self, expedited_only: bool) -> Option<(Item, LinkTag)> {
        let aside = &mut self.cold_mut().aside;
        let deferred =
            |aside: &mut Aside| if expedited_only { None } else { aside.take_deferred() };
        aside.take_expedited().or_else(|| deferred(aside))
    }
}

/// Copies the items of a claim out, and releases them.
fn take_all<P: Platform>(queue: &Injectors<P>, claim: &Claim<P>) -> Vec<(Item, LinkTag)> {
    let take = |at| {
        // SAFETY: the claim is this function's caller's, and each place is taken once.
        let (item, tag) = unsafe { SegmentQueue::<P>::take(claim.segment, at) };
        (item, LinkTag(tag))
    };
    let items: Vec<_> = (claim.start..claim.end).map(take).collect();
    // SAFETY: these were taken just now.
    unsafe { queue.release(claim.segment, items.len() as u32) };
    items
}

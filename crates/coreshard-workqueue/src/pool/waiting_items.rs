//! Items that wait in a pool: the consumers' side of the intake, and items that must not wait for another queue's long ones.
//!
//! A pool runs its items in their order of arrival. If all its workers run long items, and as many stand-ins run as the
//! machine's CPUs allow, the next item would wait until one of those finishes. That is right for an item of the same
//! queue: its queue has its share. It is wrong for other queues. So the monitor looks for the first items of queues that have
//! no running item, takes them out, and lets more workers run until those items have begun.
#![allow(unsafe_code)]

use std::collections::VecDeque;

use coreshard_platform::Platform;

use super::link::LinkTag;
use super::shared::PoolShared;
use super::slots::{Claim, Injectors, SegmentQueue, Takers};
use crate::base::item::Item;

/// An item, and its link's tag.
pub(super) type TaggedItem = (Item, LinkTag);

/// The consumers' side of the intake.
pub(super) enum Worklist<P: Platform> {
    Locked(VecDeque<TaggedItem>),
    LockFree(Takers<P>),
}

/// Items that the monitor looks at in each injector, at most.
const MOST_LOOKED_AT: usize = 4096;
/// Items that it takes out in one scan, at most.
const MOST_EXPEDITED: usize = 16;

/// Items that were taken out of a pool's intake and have not begun.
#[derive(Default)]
pub(super) struct Aside {
    /// Items that do not wait behind the hogs.
    pub(super) expedited: VecDeque<TaggedItem>,
    /// Items of the hogs' queues that stood in front of those. They run before everything that is in the intake.
    pub(super) deferred: VecDeque<TaggedItem>,
    /// Hogs that count as blocked until the expedited items have begun.
    pub(super) on_loan: Vec<usize>,
}

impl Aside {
    pub(super) fn has_waiting(&self) -> bool {
        !self.expedited.is_empty() || !self.deferred.is_empty()
    }

    /// Takes items of queues that do not have their share out of a pool's worklist and its open claims.
    pub(super) fn fill<P: Platform>(
        &mut self,
        worklist: &mut Worklist<P>,
        pool: &PoolShared<P>,
        has_its_share: impl Fn(LinkTag) -> bool,
    ) {
        match (worklist, &pool.intake) {
            (Worklist::Locked(list), _) => {
                let at = list.iter().position(|(_, tag)| !has_its_share(*tag));
                self.expedited.extend(at.and_then(|at| list.remove(at)));
            }
            (Worklist::LockFree(takers), Some(intake)) => {
                // Items that were claimed and have not begun are older than all items in the intake.
                for (_, range) in pool.slots.ranges() {
                    // Each steal takes the later half.
                    let claims: Vec<_> = std::iter::from_fn(|| range.steal()).collect();
                    for item in claims.iter().rev().flat_map(|claim| take_all(intake, claim)) {
                        let share = has_its_share(item.1);
                        if share { &mut self.deferred } else { &mut self.expedited }
                            .push_back(item);
                    }
                }
                for _ in 0..MOST_EXPEDITED {
                    let is_sought = |tag| !has_its_share(LinkTag(tag));
                    let found = intake.look_for(takers, MOST_LOOKED_AT, is_sought);
                    let Some((injector, before)) = found else { break };
                    let mut left = before + 1;
                    while left > 0
                        && let Some(claim) = intake.claim_at(takers, injector, left)
                    {
                        left -= claim.items();
                        self.deferred.extend(take_all(intake, &claim));
                    }
                    if left == 0 {
                        self.expedited.extend(self.deferred.pop_back());
                    }
                }
            }
            (Worklist::LockFree(_), None) => unreachable!("the lock-free worklist has an intake"),
        }
    }
}

/// Copies the items of a claim out, and releases them.
fn take_all<P: Platform>(intake: &Injectors<P>, claim: &Claim<P>) -> Vec<TaggedItem> {
    let take = |at| {
        // SAFETY: this function's caller owns the claim, and each place is taken once.
        let (item, tag) = unsafe { SegmentQueue::<P>::take(claim.segment, at) };
        (item, LinkTag(tag))
    };
    let items: Vec<_> = (claim.start..claim.end).map(take).collect();
    // SAFETY: these were taken just now.
    unsafe { intake.release(claim.segment, items.len() as u32) };
    items
}

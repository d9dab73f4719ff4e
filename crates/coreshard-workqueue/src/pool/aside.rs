//! Items that were taken out of a pool's intake and have not begun: see [`expedite`](super::expedite).

use std::collections::VecDeque;

use super::links::LinkTag;
use crate::base::item::Item;

#[derive(Default)]
pub(super) struct Aside {
    /// Items that do not wait behind the hogs.
    expedited: VecDeque<(Item, LinkTag)>,
    /// Items of the hogs' queues that stood in front of those. They go before all that is in the intake.
    deferred: VecDeque<(Item, LinkTag)>,
    /// Hogs that count as blocked until the expedited items have begun.
    on_loan: Vec<usize>,
}

impl Aside {
    pub(super) fn has_items(&self) -> bool {
        !self.expedited.is_empty() || !self.deferred.is_empty()
    }

    pub(super) fn expedited(&self) -> usize {
        self.expedited.len()
    }

    pub(super) fn expedite(&mut self, item: (Item, LinkTag)) {
        self.expedited.push_back(item);
    }

    pub(super) fn defer(&mut self, item: (Item, LinkTag)) {
        self.deferred.push_back(item);
    }

    pub(super) fn take_expedited(&mut self) -> Option<(Item, LinkTag)> {
        self.expedited.pop_front()
    }

    pub(super) fn take_deferred(&mut self) -> Option<(Item, LinkTag)> {
        self.deferred.pop_front()
    }

    pub(super) fn lend(&mut self, hog: usize) {
        self.on_loan.push(hog);
    }

    pub(super) fn take_loans(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.on_loan)
    }

    pub(super) fn is_unused(&self) -> bool {
        !self.has_items() && self.on_loan.is_empty()
    }
}

//! `max_active`: how many items of a queue may be in the pools at once.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use coreshard_platform::{Lock, Platform, Reading, fields};
use coreshard_topology::{CpuSet, NodeId, Pod};

use crate::base::item::Item;
use crate::config::request::MaxActive;
use crate::pool::LinkHead;

/// Up to this many items that may wait for one another get a worker each, however a limit is split (the kernel's
/// `WQ_DFL_MIN_ACTIVE`).
const MIN_SPLIT: usize = 8;

/// Returns a node's share of a limit: proportional to the node's part of all CPUs, rounded up, but enough for min(limit, 8)
/// items that wait for one another, wherever they were queued, and no more than the whole. The shares may sum to more than the
/// whole. (Linux, kernel/workqueue.c, `wq_update_node_max_active`.)
fn share_of(limit: usize, node_cpus: usize, all_cpus: usize) -> usize {
    let share = limit.saturating_mul(node_cpus).div_ceil(all_cpus.max(1));
    share.clamp(limit.min(MIN_SPLIT), limit)
}

/// The pool link that counted a waiting item in, and so lives until that item has finished.
pub(crate) struct CountedIn<P: Platform>(pub(crate) NonNull<LinkHead<P>>);

// SAFETY: a pool link is shared between threads as it is.
#[allow(unsafe_code)]
unsafe impl<P: Platform> Send for CountedIn<P> {}

/// Sends an item that has its turn now, through the pool link that counted it in.
pub(crate) type SendItem<P> = unsafe fn(NonNull<LinkHead<P>>, Item);

/// The items that a limiter counts.
#[derive(Clone, PartialEq, Eq)]
enum Share {
    All,
    OfNode(NodeId),
    /// The items of the pod with these CPUs, in any set of pools.
    OfPod(CpuSet),
}

/// A queue's limiters: one in all, one for each node, or one for each pod.
pub(crate) struct Limits<P: Platform> {
    send: SendItem<P>,
    asked: MaxActive,
    is_frozen: bool,
    /// With the CPUs of the node that the queue uses. A pod that spans several nodes is limited by the whole.
    limiters: Vec<(Share, usize, Arc<Limiter<P>>)>,
}

impl<P: Platform> Limits<P> {
    pub(crate) fn new(asked: MaxActive, send: SendItem<P>) -> Self {
        Self { send, asked, is_frozen: false, limiters: Vec::new() }
    }

    /// Returns true if items must pass a limiter.
    pub(crate) fn limits(&self) -> bool {
        self.is_frozen || self.asked != MaxActive::Unlimited
    }

    pub(crate) fn asked(&self) -> MaxActive {
        self.asked
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Returns the limiter of a pod. It stays the same while the queue lives, so that its count of active items stays valid as
    /// pods change.
    pub(crate) fn limiter(&mut self, pod: &Pod) -> Arc<Limiter<P>> {
        let name = match self.asked {
            MaxActive::EachPod(_) => Share::OfPod(pod.cpus.clone()),
            MaxActive::ByNode(_) => pod.node.map_or(Share::All, Share::OfNode),
            _ => Share::All,
        };
        if let Some((_, _, known)) = self.limiters.iter().find(|(share, ..)| *share == name) {
            return Arc::clone(known);
        }
        let limiter = Arc::new(Limiter::new(self.send));
        self.limiters.push((name, 0, Arc::clone(&limiter)));
        limiter
    }

    /// Sets the limit, and sends the items that it lets go.
    pub(crate) fn set_asked(&mut self, asked: MaxActive) {
        self.asked = asked;
        self.apply();
    }

    /// Freezes the queue, so that nothing begins, or thaws it and sends the items that may go.
    pub(crate) fn set_frozen(&mut self, is_frozen: bool) {
        self.is_frozen = is_frozen;
        self.apply();
    }

    /// Takes out the items that wait for their turn, except items that are run in any case.
    pub(crate) fn take_waiting(&self) -> Vec<(Item, CountedIn<P>)> {
        self.limiters.iter().flat_map(|(.., limiter)| limiter.take_waiting()).collect()
    }

    /// Sets how many CPUs of each node the queue uses, and splits the limit again.
    pub(crate) fn set_cpus(&mut self, cpus_of: impl Fn(NodeId) -> usize) {
        for (share, cpus, _) in &mut self.limiters {
            *cpus = if let Share::OfNode(node) = share { cpus_of(*node) } else { 0 };
        }
        self.apply();
    }

    fn apply(&self) {
        let all_cpus = self.limiters.iter().map(|(_, cpus, _)| cpus).sum();
        for (share, cpus, limiter) in &self.limiters {
            let most = match (self.asked, share) {
                _ if self.is_frozen => 0,
                (MaxActive::Unlimited, _) => usize::MAX,
                (MaxActive::Ordered, _) => 1,
                (MaxActive::ByNode(most), Share::OfNode(_)) => share_of(most, *cpus, all_cpus),
                (
                    MaxActive::Total(most) | MaxActive::ByNode(most) | MaxActive::EachPod(most),
                    _,
                ) => most,
            };
            limiter.set_most(most, self.asked == MaxActive::Unlimited);
        }
    }

    /// Returns how many items are in the pools, and how many wait for their turn.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let counts = self.limiters.iter().map(|(.., limiter)| limiter.counts());
        counts.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }
}

/// The result of a waiter's attempt to claim an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateAnswer {
    /// The waiter must run it.
    Claimed,
    /// Another thread has claimed it, or it was cancelled.
    Begun,
    /// Its queue is frozen.
    Frozen,
    /// Its queue was shut down at once: a worker sets it aside.
    Stopped,
}

/// The gate of a limited queue (or of its pods on a node). All items pass its lock on the way in and out, so the count is
/// exact, and items wait in order of arrival. A queue without a limit has no limiter.
pub(crate) struct Limiter<P: Platform> {
    send: SendItem<P>,
    turns: Lock<P, Turns<P>>,
}
fields!(Limiter<P: Platform> { send, turns });

struct Turns<P: Platform> {
    most: usize,
    /// No limit is set: the items wait only for a thaw.
    only_freezes: bool,
    active: usize,
    waiting: VecDeque<(Item, CountedIn<P>)>,
}
fields!(Turns<P: Platform> { most, only_freezes, active, waiting });

impl<P: Platform> Turns<P> {
    /// Returns the next item that may go, counted as active.
    fn next(&mut self) -> Option<(Item, CountedIn<P>)> {
        if self.active >= self.most {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.active += 1;
        Some(next)
    }
}

impl<P: Platform> Limiter<P> {
    fn new(send: SendItem<P>) -> Self {
        Self {
            send,
            turns: Lock::new(Turns {
                most: 0,
                only_freezes: false,
                active: 0,
                waiting: VecDeque::new(),
            }),
        }
    }

    /// Labels its fields, once it is at its final address.
    pub(crate) fn describe(&self) {
        P::describe(&raw const *self);
        self.turns.describe();
    }

    /// Returns the item if it has its turn; otherwise the item waits for its turn.
    #[must_use]
    pub(crate) fn push(&self, item: Item, link: NonNull<LinkHead<P>>) -> Option<Item> {
        let mut turns = self.turns.lock();
        if turns.active < turns.most && turns.waiting.is_empty() {
            turns.active += 1;
            return Some(item);
        }
        turns.waiting.push_back((item, CountedIn(link)));
        // Several items may have their turn if the limit was just raised. The thread that raised it sends them, and might never
        // finish if producers were faster; so each producer that adds an item sends two.
        let may_go = [turns.next(), turns.next()];
        drop(turns);
        may_go.into_iter().flatten().for_each(|next| self.send(next));
        None
    }

    #[allow(unsafe_code)]
    fn send(&self, (item, CountedIn(link)): (Item, CountedIn<P>)) {
        // The item may finish, and its pool link's pool become a past one, while this thread is still inside the pool.
        let _reading = Reading::<P>::begin();
        // SAFETY: the pool link lives until all items that it counted in have finished, and this one has not even begun.
        unsafe { (self.send)(link, item) };
    }

    pub(crate) fn one_is_over(&self) {
        let mut turns = self.turns.lock();
        turns.active -= 1;
        // One item left, so one may go. More may go only after the limit was raised, and that call sends them.
        let next = turns.next();
        drop(turns);
        if let Some(next) = next {
            self.send(next);
        }
    }

    fn take_waiting(&self) -> Vec<(Item, CountedIn<P>)> {
        let mut turns = self.turns.lock();
        let waiting = std::mem::take(&mut turns.waiting);
        let (awaited, taken) = waiting.into_iter().partition(|(item, _)| item.is_awaited());
        turns.waiting = awaited;
        let taken: VecDeque<_> = taken;
        taken.into()
    }

    pub(crate) fn most(&self) -> usize {
        self.turns.lock().most
    }

    /// Returns true if its queue has no limit: the limiter then only serves freezes.
    pub(crate) fn only_freezes(&self) -> bool {
        self.turns.lock().only_freezes
    }

    /// See [`PoolLink::begin_beside_pool`](super::pool_link::PoolLink::begin_beside_pool).
    pub(crate) fn begin_beside_pool(&self, claim: impl FnOnce() -> bool) -> GateAnswer {
        let turns = self.turns.lock();
        // Only a freeze sets it to 0.
        match turns.most {
            0 => GateAnswer::Frozen,
            _ if claim() => GateAnswer::Claimed,
            _ => GateAnswer::Begun,
        }
    }

    fn set_most(&self, most: usize, only_freezes: bool) {
        {
            let mut turns = self.turns.lock();
            (turns.most, turns.only_freezes) = (most, only_freezes);
        }
        loop {
            let next = self.turns.lock().next();
            let Some(next) = next else { return };
            self.send(next);
        }
    }

    fn counts(&self) -> (usize, usize) {
        let turns = self.turns.lock();
        (turns.active, turns.waiting.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use coreshard_platform::Host;

    use super::*;

    static FLOODED: OnceLock<Limiter<Host>> = OnceLock::new();
    static PUSHED: AtomicUsize = AtomicUsize::new(0);
    static SENT: AtomicUsize = AtomicUsize::new(0);

    const HELD_BACK: usize = 100;

    /// Enough to show that the sending would not end.
    const MANY: usize = 100 * HELD_BACK;

    fn push() {
        PUSHED.fetch_add(1, SeqCst);
        let item = Item::new(|| ());
        if FLOODED.get().unwrap().push(item, NonNull::dangling()).is_some() {
            SENT.fetch_add(1, SeqCst);
        }
    }

    /// Meanwhile three other producers, as fast as this one, have queued one item each.
    fn send(_item: Item) {
        SENT.fetch_add(1, SeqCst);
        if PUSHED.load(SeqCst) < MANY {
            (0..3).for_each(|_| push());
        }
    }

    #[test]
    fn a_raised_limit_is_not_waited_for_as_long_as_others_queue() {
        let send: SendItem<Host> = |_, item| send(item);
        let limiter = FLOODED.get_or_init(|| Limiter::new(send));
        (0..HELD_BACK).for_each(|_| push());
        assert_eq!((SENT.load(SeqCst), limiter.counts()), (0, (0, HELD_BACK)));
        limiter.set_most(usize::MAX, true);
        let pushed = PUSHED.load(SeqCst);
        assert!(pushed < 10 * HELD_BACK, "{pushed} were queued meanwhile");
        assert_eq!((SENT.load(SeqCst), limiter.counts()), (pushed, (pushed, 0)));
    }

    /// The cases of the kernel's rule: proportional, rounded up, at least min(limit, 8), at most
    /// the limit.
    #[test]
    fn a_limit_is_split_by_cpus_but_leaves_eight_everywhere() {
        let split = |limit, nodes: &[usize]| -> Vec<usize> {
            let all = nodes.iter().sum();
            nodes.iter().map(|cpus| share_of(limit, *cpus, all)).collect()
        };
        assert_eq!(split(64, &[16, 16]), [32, 32]);
        assert_eq!(split(64, &[16, 48]), [16, 48]);
        assert_eq!(split(100, &[1, 2]), [34, 67], "rounded up");
        assert_eq!(split(16, &[1, 63]), [8, 16], "at least eight");
        assert_eq!(split(4, &[8, 8]), [4, 4], "or the whole limit");
        assert_eq!(split(1, &[8, 8]), [1, 1]);
        assert_eq!(split(512, &[8]), [512]);
        assert_eq!(split(16, &[0, 8]), [8, 16], "a node without CPUs");
        assert_eq!(split(16, &[0]), [8]);
    }
}

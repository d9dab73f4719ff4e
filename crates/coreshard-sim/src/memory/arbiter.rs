//! Decides which CPU gets a contended line next.
//!
//! If a machine's file has `[costs.arbitration]`, requests for a line that is in transit, or kept, are not
//! served in their order:
//!
//! 1. A CPU that got a line keeps it for up to twice `hold`, on average for `hold`, so that its next accesses
//!    hit: the second half of a compare-exchange loop, or a retry. A ping-pong's published latency contains
//!    that time, so the transfer itself takes that much less. If `hold` is 0, a locked instruction that waits
//!    for its CPU's own stores to the line requests it with the others, but mostly (`FOLLOWS`) follows the
//!    last of these stores at once. So a CPU that releases a lock and takes it again is rarely overtaken, and
//!    others find it taken. A line that no CPU waits for stays with its owner until a locked instruction's
//!    request has arrived (`request`). A load has the line at once, as its CPU continues meanwhile. A
//!    transfer randomly takes up to `JITTER` longer; otherwise two loops of one length could miss each other
//!    forever.
//! 2. Then one of the waiting CPUs is drawn. The weight of each falls with the fourth power of its distance
//!    from the owner (beyond `reach`). So neighbours win more often, and a line rarely leaves its package.
//!    Another CPU of the owner's core counts as one of the same last-level cache: the core first gives the
//!    line to the CPU that requested it from outside. A CPU that was passed over eight times as often as
//!    there are waiting CPUs is served first. The part `request` of the latency was already spent in waiting.
//! 3. Loads are drawn among the others, and the home answers one after the other. A write that is drawn first
//!    is not delayed by them, and the loads that it overtakes see its value.
//! 4. If a load finds a line that its owner has written, it takes the line for itself (`loads_take`), as in
//!    protocols that expect a write to follow; a second load shares it.
//!
//! A line's waiters are stored here and not in the table of lines, since few lines have any.

use super::access::Access;
use super::lines::{ByPlace, Place};
use crate::machine::{Arbitration, NS, Ps};
use crate::random::Random;

/// No two requests take exactly the same time for the same distance.
const JITTER: Ps = NS;

/// How often a locked instruction follows its CPU's own store to the line before a waiting CPU gets the line:
/// 6 times in 7. On two CPUs of a Xeon (family 6, model 207) that push and pop under a test-and-set lock, 5.9
/// exchanges failed for each that took the lock from the other CPU.
const FOLLOWS: (u64, u64) = (6, 7);

/// A CPU that waits for a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) cpu: usize,
    pub(crate) access: Access,
    pub(crate) since: Ps,
    /// Whether no CPU waits for it.
    pub(crate) is_prefetch: bool,
    passed_over: u32,
}

impl Request {
    pub(super) const fn new(cpu: usize, access: Access, now: Ps) -> Self {
        Self { cpu, access, since: now, is_prefetch: false, passed_over: 0 }
    }

    pub(super) const fn of_prefetcher(cpu: usize, access: Access, now: Ps) -> Self {
        Self { is_prefetch: true, ..Self::new(cpu, access, now) }
    }
}

/// The CPUs that wait for one line.
#[derive(Debug, Default)]
struct Waiting {
    line: Option<Place>,
    requests: Vec<Request>,
}

pub(crate) struct Arbiter {
    pub(super) costs: Arbitration,
    slots: Vec<Waiting>,
    free: Vec<usize>,
    by_line: ByPlace<usize>,
    random: Random,
}

impl Arbiter {
    pub(super) fn new(costs: Arbitration, seed: u64) -> Self {
        let random = Random::new(seed ^ 0xA5A5_5A5A);
        Self { costs, slots: Vec::new(), free: Vec::new(), by_line: ByPlace::default(), random }
    }

    /// Draws how long an owner keeps a line: the request for it arrives at a random moment.
    pub(super) fn kept(&mut self, exclusive: bool) -> Ps {
        let hold = self.costs.hold;
        if exclusive && hold > 0 { self.random.below(2 * hold) } else { 0 }
    }

    /// Returns until when the owner of a requested line keeps it, since the request is in transit; 0 if it
    /// loses the line at once.
    #[inline]
    pub(super) fn request_arrives(&self, access: Access, now: Ps, is_elsewhere: bool) -> Ps {
        let travels = is_elsewhere && access.is_locked() && self.costs.hold == 0;
        if travels { now + self.costs.request } else { 0 }
    }

    /// Returns whether a locked instruction takes effect together with its CPU's preceding store, which waits
    /// for the line.
    pub(super) fn follows_at_once(&mut self) -> bool {
        self.random.below(FOLLOWS.1) < FOLLOWS.0
    }

    pub(super) fn jitter(&mut self) -> Ps {
        self.random.below(JITTER)
    }

    pub(super) fn has_waiters(&self, line: Place) -> bool {
        self.by_line.contains_key(&line)
    }

    /// Adds a waiting CPU. If it is the line's first, returns its slot, and the caller must schedule an event for it.
    pub(super) fn push(&mut self, line: Place, request: Request) -> Option<usize> {
        if let Some(slot) = self.by_line.get(&line) {
            self.slots[*slot].requests.push(request);
            return None;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Waiting::default());
            self.slots.len() - 1
        });
        self.slots[slot].line = Some(line);
        self.slots[slot].requests.push(request);
        self.by_line.insert(line, slot);
        Some(slot)
    }

    pub(super) fn line(&self, slot: usize) -> Option<Place> {
        self.slots[slot].line
    }

    /// Takes the request that is served next. `distance` is a CPU's distance from the line's owner. The slot
    /// becomes free if no request is left.
    pub(super) fn draw(&mut self, slot: usize, distance: impl Fn(usize) -> Ps) -> Request {
        let waiting = &mut self.slots[slot].requests;
        let most = 8 * waiting.len() as u32;
        let overdue = waiting.iter().position(|request| request.passed_over >= most);
        let drawn = overdue.unwrap_or_else(|| {
            let reach = self.costs.reach;
            if reach == 0 || waiting.len() == 1 {
                return 0;
            }
            // Integers, so that the draw is the same on every machine.
            let weight = |request: &Request| {
                let share = reach * 256 / (reach + distance(request.cpu));
                (share * share * share * share).max(1)
            };
            let all: u64 = waiting.iter().map(weight).sum();
            let mut left = self.random.below(all.max(1));
            let drawn = waiting.iter().position(|request| {
                let weight = weight(request);
                let found = left < weight;
                left = left.saturating_sub(weight);
                found
            });
            drawn.unwrap_or(0)
        });
        let served = waiting.remove(drawn);
        for request in waiting.iter_mut().take(drawn) {
            request.passed_over += 1;
        }
        if waiting.is_empty()
            && let Some(line) = self.slots[slot].line.take()
        {
            self.by_line.remove(&line);
            self.free.push(slot);
        }
        served
    }
}

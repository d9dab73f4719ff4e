//! What is to happen next: a heap of packed keys, in which each has four below it, so that there are few steps from one that must
//! wait for the one before it.
//!
//! A key is 128 bits: the time in picoseconds, a random number that settles ties, and what is to
//! happen. The event that is being handled stays at the top, as the least key of all, until it is
//! replaced or removed, so that a CPU that goes on costs one sift, not two.

use crate::machine::Ps;
use crate::random::Random;

/// What is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A CPU goes on.
    Cpu(usize),
    /// A thread's time runs out.
    Timer(usize),
    /// Some CPU goes offline.
    Offline,
    /// A CPU comes back.
    Online(usize),
    /// A line for which CPUs wait is free: the arbiter's slot.
    Line(usize),
    /// A CPU on which threads wait has its tick, whatever it computes.
    Tick(usize),
}

/// What the three highest bits of a key's last word say; the others are the number.
const KIND: u32 = 7 << 29;
const CPU: u32 = 0;
const LINE: u32 = 1 << 29;
const ONLINE: u32 = 2 << 29;
const OFFLINE: u32 = 3 << 29;
const TIMER: u32 = 4 << 29;
const TICK: u32 = 6 << 29;

pub(super) struct Events {
    heap: Vec<u128>,
    random: Random,
}

/// Keys below each.
const WAYS: usize = 4;

fn event_of(key: u128) -> Event {
    let what = key as u32;
    let number = (what & !KIND) as usize;
    match what & KIND {
        CPU => Event::Cpu(number),
        LINE => Event::Line(number),
        ONLINE => Event::Online(number),
        OFFLINE => Event::Offline,
        TIMER => Event::Timer(number),
        _ => Event::Tick(number),
    }
}

fn time_of(key: u128) -> Ps {
    (key >> 64) as Ps
}

impl Events {
    pub(super) fn new(seed: u64) -> Self {
        Self { heap: Vec::new(), random: Random::new(seed) }
    }

    #[inline]
    fn key(&mut self, time: Ps, what: Event) -> u128 {
        let (kind, number) = match what {
            Event::Cpu(cpu) => (CPU, cpu),
            Event::Line(slot) => (LINE, slot),
            Event::Online(cpu) => (ONLINE, cpu),
            Event::Offline => (OFFLINE, 0),
            Event::Timer(thread) => (TIMER, thread),
            Event::Tick(cpu) => (TICK, cpu),
        };
        let tie = match kind {
            // A line changes hands before a CPU that has it goes on at that very time.
            LINE => 0,
            // Ticks change no other chance.
            TICK => u32::MAX,
            _ => self.random.next() as u32,
        };
        let what = kind | number as u32;
        u128::from(time) << 64 | u128::from(tie) << 32 | u128::from(what)
    }

    /// The next event, which becomes the one that is handled.
    #[inline]
    pub(super) fn begin(&mut self) -> Option<(Ps, Event)> {
        let top = self.heap.first_mut()?;
        let first = std::mem::take(top);
        Some((time_of(first), event_of(first)))
    }

    /// The event after the one that is handled, unless an earlier one comes in between.
    #[inline]
    pub(super) fn after_this(&self) -> Option<Event> {
        self.below_first().map(event_of)
    }

    /// The least key but the first.
    #[inline]
    fn below_first(&self) -> Option<u128> {
        match self.heap.as_slice() {
            [_, a, b, c, d, ..] => Some(*a.min(b).min(c.min(d))),
            few => few.get(1..)?.iter().min().copied(),
        }
    }

    /// When the next event is due, while none is handled.
    pub(super) fn first_time(&self) -> Option<Ps> {
        self.heap.first().copied().map(time_of)
    }

    /// How many events there are, the one that is handled among them.
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// When the event after the one that is handled is due.
    #[inline]
    pub(super) fn next_time(&self) -> Ps {
        self.below_first().map_or(Ps::MAX, time_of)
    }

    /// The event that is handled is over.
    pub(super) fn end(&mut self) {
        self.heap.swap_remove(0);
        self.sift_down();
    }

    /// The event that is handled is over, and leads to another.
    #[inline]
    pub(super) fn end_with(&mut self, time: Ps, what: Event) {
        self.heap[0] = self.key(time, what);
        self.sift_down();
    }

    /// Adds an event.
    pub(super) fn push(&mut self, time: Ps, what: Event) {
        let key = self.key(time, what);
        self.heap.push(key);
        sift_up(&mut self.heap, key);
    }

    /// The first key finds its place. It is mostly a late one, so its place is near the bottom: the
    /// way there follows the smaller children without a look at it, and without a branch that the
    /// processor would have to guess, and then goes up again as far as need be.
    #[inline]
    fn sift_down(&mut self) {
        let Some(key) = self.heap.first().copied() else { return };
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        let mut child = 1;
        while let Some([a, b, c, d]) = heap.get(child..child + WAYS) {
            let (low, high) = (usize::from(b < a), 2 + usize::from(d < c));
            let least = child + if heap[child + high] < heap[child + low] { high } else { low };
            heap[at] = heap[least];
            at = least;
            child = WAYS * at + 1;
        }
        if let Some(least) = (child..heap.len()).min_by_key(|child| heap[*child]) {
            heap[at] = heap[least];
            at = least;
        }
        sift_up(&mut heap[..=at], key);
    }
}

/// Moves `key` from the last place of a heap up to its own.
#[inline]
fn sift_up(heap: &mut [u128], key: u128) {
    let mut at = heap.len() - 1;
    while at > 0 {
        let parent = (at - 1) / WAYS;
        if heap[parent] <= key {
            break;
        }
        heap[at] = heap[parent];
        at = parent;
    }
    heap[at] = key;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_times() {
        let mut events = Events::new(7);
        let mut random = Random::new(1);
        for number in 0..500 {
            events.push(random.below(1_000), Event::Cpu(number));
        }
        let (mut last, mut seen) = (0, 0);
        while let Some((time, what)) = events.begin() {
            assert!(time >= last);
            last = time;
            seen += 1;
            match what {
                // Some lead on to others, and never to the past.
                Event::Cpu(cpu) if cpu % 3 == 0 => {
                    events.push(time, Event::Timer(cpu));
                    events.end_with(time + 5, Event::Timer(cpu));
                }
                _ => events.end(),
            }
        }
        assert_eq!(seen, 500 + 2 * 167);
    }

    #[test]
    fn ties_are_settled_by_the_seed_alone() {
        let order = |seed| {
            let mut events = Events::new(seed);
            (0..20).for_each(|cpu| events.push(3, Event::Cpu(cpu)));
            let mut order = Vec::new();
            while let Some((_, Event::Cpu(cpu))) = events.begin() {
                order.push(cpu);
                events.end();
            }
            order
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}

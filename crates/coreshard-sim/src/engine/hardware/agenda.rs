//! The future events, and when each CPU continues.
//!
//! Events are packed keys in a heap. A key has 128 bits: the time in picoseconds, a random number that breaks
//! ties, and the event. The event being handled stays at the top, as the least key, until it is replaced or
//! removed, so that a continuing CPU costs one sift, not two.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::machine::Ps;
use crate::random::Random;

/// A future event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A CPU continues.
    Cpu(usize),
    /// A thread's timer expires.
    Timer(usize),
    /// Some CPU goes offline.
    Offline,
    /// A CPU comes back online.
    Online(usize),
    /// A line that CPUs wait for is free: the arbiter's slot.
    Line(usize),
    /// The tick of a CPU on which threads wait, whatever it computes.
    Tick(usize),
}

/// The three highest bits of a key's last word are the kind of event; the others are the number.
const KIND: u32 = 7 << 29;
const CPU: u32 = 0;
const LINE: u32 = 1 << 29;
const ONLINE: u32 = 2 << 29;
const OFFLINE: u32 = 3 << 29;
const TIMER: u32 = 4 << 29;
const TICK: u32 = 6 << 29;

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

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// The CPU's time while it does not run.
    clock: Ps,
    /// The time of its event; any other event for it is stale.
    next: Option<Ps>,
}

pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<u128>>,
    random: Random,
    /// By CPU.
    turns: Vec<Turn>,
    /// CPUs that run, are about to, or wait for a line. While there are none, only timers are left.
    busy: usize,
    /// Events that are not part of the program. If only these are left, the program is deadlocked.
    background: usize,
    horizon: Ps,
    /// Threads are switched only at waits, so nothing shortens a turn.
    at_waits: bool,
}

impl Agenda {
    pub(super) fn new(cpus: usize, seed: u64, at_waits: bool) -> Self {
        Self {
            heap: BinaryHeap::new(),
            random: Random::new(seed),
            turns: vec![Turn::default(); cpus],
            busy: 0,
            background: 0,
            horizon: 0,
            at_waits,
        }
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
            // A line changes hands before a CPU that has it continues at the same time.
            LINE => 0,
            // Ticks must not affect other random decisions.
            TICK => u32::MAX,
            _ => self.random.next() as u32,
        };
        let what = kind | number as u32;
        u128::from(time) << 64 | u128::from(tie) << 32 | u128::from(what)
    }

    pub(crate) const fn cpus(&self) -> usize {
        self.turns.len()
    }

    pub(super) const fn is_at_waits(&self) -> bool {
        self.at_waits
    }

    pub(crate) const fn has_busy_cpus(&self) -> bool {
        self.busy > 0
    }

    /// Returns true if no remaining event comes from the program, or leads to it.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy == 0 && !self.has_timers()
    }

    /// Returns true if the program has events, including the one being handled.
    pub(crate) fn has_timers(&self) -> bool {
        self.heap.len() > self.background
    }

    /// Returns when the next event is due, while none is handled.
    pub(crate) fn first_time(&self) -> Option<Ps> {
        self.heap.peek().map(|Reverse(key)| time_of(*key))
    }

    /// Returns the next event, and begins to handle it.
    #[inline]
    pub(crate) fn begin(&mut self) -> Option<(Ps, Event)> {
        let mut top = self.heap.peek_mut()?;
        let Reverse(first) = std::mem::replace(&mut *top, Reverse(0));
        Some((time_of(first), event_of(first)))
    }

    /// Returns the least key after the first.
    #[inline]
    fn below_first(&self) -> Option<u128> {
        match self.heap.as_slice() {
            [_, Reverse(one), Reverse(other), ..] => Some(*one.min(other)),
            few => few.get(1).map(|Reverse(key)| *key),
        }
    }

    /// Returns the time of the event after the one being handled.
    #[inline]
    pub(crate) fn next_time(&self) -> Ps {
        self.below_first().map_or(Ps::MAX, time_of)
    }

    pub(crate) fn push(&mut self, time: Ps, what: Event) {
        let key = self.key(time, what);
        self.heap.push(Reverse(key));
    }

    pub(crate) fn push_background(&mut self, time: Ps, what: Event) {
        self.push(time, what);
        self.background += 1;
    }

    /// Ends the current event.
    pub(crate) fn end(&mut self) {
        self.heap.pop();
    }

    /// Replaces the current event with one that it leads to.
    pub(crate) fn end_with(&mut self, time: Ps, what: Event) {
        let key = self.key(time, what);
        if let Some(mut top) = self.heap.peek_mut() {
            *top = Reverse(key);
        }
    }

    /// Ends the current event, which is not part of the program.
    pub(crate) fn end_background(&mut self) {
        self.background -= 1;
        self.end();
    }

    /// Schedules a CPU to continue at `time`. An earlier event for it becomes stale.
    pub(crate) fn step_at(&mut self, cpu: usize, time: Ps) {
        let turn = &mut self.turns[cpu];
        self.busy += usize::from(turn.next.is_none());
        turn.next = Some(time);
        self.push(time, Event::Cpu(cpu));
        self.lower_horizon(time);
    }

    /// Ends the current event: its CPU continues at `time`.
    pub(crate) fn step_on(&mut self, cpu: usize, time: Ps) {
        self.turns[cpu] = Turn { clock: time, next: Some(time) };
        self.busy += 1;
        self.end_with(time, Event::Cpu(cpu));
    }

    /// Begins a CPU's turn. Returns false if its event is stale.
    pub(crate) fn take_step(&mut self, cpu: usize, time: Ps) -> bool {
        let is_due = self.turns[cpu].next == Some(time);
        if is_due {
            self.turns[cpu].next = None;
            self.busy -= 1;
        }
        is_due
    }

    pub(crate) fn next_step(&self, cpu: usize) -> Option<Ps> {
        self.turns[cpu].next
    }

    pub(crate) fn clock(&self, cpu: usize) -> Ps {
        self.turns[cpu].clock
    }

    pub(crate) fn set_clock(&mut self, cpu: usize, time: Ps) {
        self.turns[cpu].clock = time;
    }

    /// Records that the running CPU waits for a line; it counts as busy.
    pub(super) fn begin_line_wait(&mut self) {
        self.busy += 1;
    }

    pub(super) fn end_line_wait(&mut self) {
        self.busy -= 1;
    }

    /// Returns until when the running CPU need not check whether others are earlier.
    #[inline]
    pub(crate) const fn horizon(&self) -> Ps {
        self.horizon
    }

    /// Begins the running CPU's turn, which lasts until another event is due, and until `limit` at most.
    pub(crate) fn begin_turn(&mut self, limit: Ps) {
        self.horizon = if self.at_waits { Ps::MAX } else { self.next_time().min(limit) };
    }

    /// Makes the running CPU check at `time` whether others are earlier.
    pub(crate) fn lower_horizon(&mut self, time: Ps) {
        if !self.at_waits {
            self.horizon = self.horizon.min(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_times() {
        let mut events = Agenda::new(0, 7, false);
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
                // Some events lead to others, and never to the past.
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
            let mut events = Agenda::new(0, seed, false);
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

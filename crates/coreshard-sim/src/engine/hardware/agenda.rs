//! When each CPU goes on, and until when the running one need not look whether another is earlier.

use super::events::{Event, Events};
use crate::machine::Ps;

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// The CPU's time while it does not run.
    clock: Ps,
    /// When its event comes; any other event for it is stale.
    next: Option<Ps>,
}

pub(crate) struct Agenda {
    events: Events,
    /// By CPU.
    turns: Vec<Turn>,
    /// CPUs that go on, are about to, or wait for a line: while there are none, only timers are left.
    busy: usize,
    /// Events that are not part of the program: if there are no others, the program is deadlocked.
    background: usize,
    horizon: Ps,
    /// Threads give way at waits alone, so nothing shortens a turn.
    at_waits: bool,
}

impl Agenda {
    pub(super) fn new(cpus: usize, seed: u64, at_waits: bool) -> Self {
        let turns = vec![Turn::default(); cpus];
        Self { events: Events::new(seed), turns, busy: 0, background: 0, horizon: 0, at_waits }
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

    /// True if nothing that is left comes from the program, or leads to it.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy == 0 && !self.has_timers()
    }

    /// True if the program has events, the one that is handled among them.
    pub(crate) fn has_timers(&self) -> bool {
        self.events.len() > self.background
    }

    /// When the next event is due, while none is handled.
    pub(crate) fn first_time(&self) -> Option<Ps> {
        self.events.first_time()
    }

    /// The next event, which becomes the one that is handled.
    #[inline]
    pub(crate) fn begin(&mut self) -> Option<(Ps, Event)> {
        self.events.begin()
    }

    /// The time of the event after the one that is handled.
    #[inline]
    pub(crate) fn next_time(&self) -> Ps {
        self.events.next_time()
    }

    /// The CPU that goes on after this event, if that is what comes next.
    #[inline]
    pub(crate) fn next_cpu(&self) -> Option<usize> {
        match self.events.after_this()? {
            Event::Cpu(cpu) => Some(cpu),
            _ => None,
        }
    }

    pub(crate) fn push(&mut self, time: Ps, what: Event) {
        self.events.push(time, what);
    }

    pub(crate) fn push_background(&mut self, time: Ps, what: Event) {
        self.events.push(time, what);
        self.background += 1;
    }

    /// Ends the event that is handled.
    pub(crate) fn end(&mut self) {
        self.events.end();
    }

    /// Replaces the event that is handled by one that it leads to.
    pub(crate) fn end_with(&mut self, time: Ps, what: Event) {
        self.events.end_with(time, what);
    }

    /// Ends the event that is handled, which is not part of the program.
    pub(crate) fn end_background(&mut self) {
        self.background -= 1;
        self.events.end();
    }

    /// Has a CPU go on at `time`; an event for it that is already on its way becomes stale.
    pub(crate) fn step_at(&mut self, cpu: usize, time: Ps) {
        let turn = &mut self.turns[cpu];
        self.busy += usize::from(turn.next.is_none());
        turn.next = Some(time);
        self.events.push(time, Event::Cpu(cpu));
        self.lower_horizon(time);
    }

    /// Ends the event that is handled: its CPU goes on at `time`.
    pub(crate) fn step_on(&mut self, cpu: usize, time: Ps) {
        self.turns[cpu] = Turn { clock: time, next: Some(time) };
        self.busy += 1;
        self.events.end_with(time, Event::Cpu(cpu));
    }

    /// Begins a CPU's turn. False if its event is stale.
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

    /// The running CPU waits for a line, and counts as busy.
    pub(super) fn begin_line_wait(&mut self) {
        self.busy += 1;
    }

    pub(super) fn end_line_wait(&mut self) {
        self.busy -= 1;
    }

    /// Until when the running CPU need not look whether others are earlier.
    #[inline]
    pub(crate) const fn horizon(&self) -> Ps {
        self.horizon
    }

    /// The running CPU's turn lasts until another event is due, and until `limit` at most.
    pub(crate) fn begin_turn(&mut self, limit: Ps) {
        self.horizon = if self.at_waits { Ps::MAX } else { self.next_time().min(limit) };
    }

    /// The running CPU looks at `time` whether others are earlier.
    pub(crate) fn lower_horizon(&mut self, time: Ps) {
        if !self.at_waits {
            self.horizon = self.horizon.min(time);
        }
    }
}

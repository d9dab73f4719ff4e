//! Running a program by hand: its first thread says how many items may begin and how far time goes.
//!
//! 1. The first thread runs until it waits. Others run where it has [let them](let_run), and no item begins on
//!    them but those that it allows: a thread that comes to an item's beginning stands there, first come first served.
//! 2. Time costs nothing and stands still, but where the first thread lets it pass: events are handled in order
//!    until the moment it has named.
//! 3. The run is *quiet* when no thread can go on before that moment. Then the first thread goes on, if it has let
//!    others run. If it waits for something else, an item may begin, one after the other, until what it waits for
//!    has come; and if none is there, the run has failed.

use std::time::Duration;

use super::state::{Pause, SimState};
use super::stuck::SimError;
use super::thread::{ThreadState, Wait};
use super::turn::{expect_sim, suspend, with};
use crate::machine::{NS, Ps, ps};
use crate::space::in_host;

/// The program's first thread.
const FIRST: usize = 0;

/// How often the first thread may look, in vain, before it is said that it looks in vain.
const LOOKS: u32 = 10_000;

/// On the first thread: lets up to `items` items begin, and time pass for `duration`. Returns when nothing can go
/// on: how many began.
pub(crate) fn let_run(items: u64, duration: Duration) -> u64 {
    let sim = expect_sim("items are run by hand");
    let begun = with(sim, |sim| {
        assert!(sim.hand.is_some(), "items are run by hand where the simulation is by hand alone");
        assert!(sim.thread == FIRST, "items are run by the test's own thread, not by an item");
        let begun = sim.items.begun;
        in_host(|| sim.give(items, ps(duration)));
        begun
    });
    suspend(sim, Pause::Waits);
    with(sim, |sim| {
        let hand = sim.hand.as_mut().expect("it was there");
        hand.allowed = 0;
        sim.items.begun - begun
    })
}

/// From here on the program runs as any other.
pub(crate) fn end_by_hand() {
    with(expect_sim("a program ends to be run by hand"), SimState::let_all_go);
}

/// Virtual time since the start, as the program's first thread has let it pass.
pub(crate) fn time_ns() -> u64 {
    with(expect_sim("the time is asked for"), |sim| sim.now / NS)
}

impl SimState {
    fn give(&mut self, items: u64, time: Ps) {
        let since = self.now;
        let hand = self.hand.as_mut().expect("looked at by the caller");
        hand.allowed = items;
        hand.until = hand.until.saturating_add(time);
        hand.looks = 0;
        self.threads[self.thread].state = ThreadState::Waiting { wait: Wait::Hand, since };
        self.let_held_go(items);
    }

    /// As many as may begin an item go on, first come first served.
    fn let_held_go(&mut self, most: u64) {
        for _ in 0..most {
            let Some(thread) = self.hand.as_mut().and_then(|hand| hand.held.pop_front()) else {
                return;
            };
            self.make_runnable(thread, self.now);
        }
    }

    /// True while the running thread may not begin an item. One that is inside another is a part of that.
    pub(super) fn is_held_by_hand(&self) -> bool {
        let Some(hand) = &self.hand else { return false };
        let first_waits = matches!(
            self.threads[FIRST].state,
            ThreadState::Waiting { wait, .. } if wait != Wait::Hand
        );
        hand.allowed == 0
            && !first_waits
            && self.thread != FIRST
            && self.threads[FIRST].state != ThreadState::Over
            && self.item_of(self.thread).is_none()
    }

    pub(super) fn wait_for_hand(&mut self) {
        let since = self.now;
        let thread = self.thread;
        self.threads[thread].state = ThreadState::Waiting { wait: Wait::Item, since };
        if let Some(hand) = &mut self.hand {
            in_host(|| hand.held.push_back(thread));
        }
    }

    /// The running thread begins an item.
    pub(super) fn hand_gives_item(&mut self) {
        let is_part = self.item_of(self.thread).is_some();
        if let Some(hand) = &mut self.hand
            && !is_part
        {
            hand.allowed = hand.allowed.saturating_sub(1);
        }
    }

    /// The running thread lets others go first, and does not wait.
    pub(super) fn looks_around(&mut self, times: u32) {
        let (is_first, now) = (self.thread == FIRST, self.now);
        let Some(hand) = self.hand.as_mut().filter(|hand| is_first && now <= hand.until) else {
            return;
        };
        hand.looks = hand.looks.saturating_add(times);
        if hand.looks >= LOOKS && self.broken_rule.is_none() {
            self.broken_rule = Some(in_host(|| {
                "the test's own thread looks again and again at something that does not change: where a test runs by \
                 hand, nothing runs and no time passes before it calls tick, run_until_idle or advance, or waits"
                    .to_owned()
            }));
        }
    }

    /// The running thread begins to wait.
    pub(super) fn hand_sees_wait(&mut self) {
        if let Some(hand) = &mut self.hand {
            hand.looks = 0;
        }
    }

    /// Between two events: lets the first thread go on, or an item begin, where nothing else can. `Err` where what
    /// the first thread waits for cannot come.
    pub(super) fn look_by_hand(&mut self, seed: u64) -> Result<(), SimError> {
        let Some(hand) = &mut self.hand else { return Ok(()) };
        let until = hand.until;
        let first = self.threads[FIRST].state;
        if first == ThreadState::Over || self.busy_cpus > 0 {
            return Ok(());
        }
        let next = self.events.first_time();
        if next.is_some_and(|next| next <= until) {
            return Ok(());
        }
        self.now = self.now.max(until);
        self.last_time = self.last_time.max(until);
        match first {
            ThreadState::Waiting { wait: Wait::Hand, .. } => {
                self.make_runnable(FIRST, until);
            }
            _ if !hand.held.is_empty() => self.let_held_go(1),
            _ if next.is_none() => return Err(SimError::Deadlock(self.stuck(seed))),
            _ => {
                let rule = "the test's own thread waits for what cannot come now: no item is left to run, and virtual \
                            time passes by advance alone"
                    .to_owned();
                return Err(SimError::Broken { rule, stuck: self.stuck(seed) });
            }
        }
        Ok(())
    }

    /// The program is over: what is left may end as it likes.
    pub(super) fn let_all_go(&mut self) {
        if self.hand.is_some() {
            let now = self.now;
            let held = self.hand.take().map(|hand| hand.held).unwrap_or_default();
            held.into_iter().for_each(|thread| {
                self.make_runnable(thread, now);
            });
        }
    }
}

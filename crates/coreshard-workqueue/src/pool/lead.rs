//! How far a worker lets the producers of short items get ahead of it.
//!
//! Who claims as soon as it can, where items come nearly as fast as it runs them, finds three or four each time, and looks at the slot
//! that the producer writes next: both want that line, and each claim costs the producer a transfer of it, some 100 ns. So a worker
//! whose claims are small waits a moment before it claims, twice as long each time as long as that brings it more items.
//!
//! Where the producers wait for their items, more do not come, or they come later. So a longer wait that brings hardly more is given up
//! at once; and one that was kept for a while must have brought more items in a second than none, or it is given up, too. After
//! each that is given up it takes longer until the next trial. Who waits delays an item by [`MAX_NS`] at most, and that where
//! millions come in a second.

/// Claims by which one length is judged.
const CLAIMS_TO_A_ROUND: u64 = 16;

/// Of a claim, on average: with fewer there is no flood.
const FEW_ITEMS: u64 = 3;

/// Items of a claim, on average, that pay for the line.
const ENOUGH_ITEMS: u64 = 16;

/// Of a claim, on average: more than these come without so long a wait.
const MANY_ITEMS: u64 = 20;

const FIRST_NS: u64 = 128;
const MAX_NS: u64 = 2_048;

/// Rounds without a wait, against which it is held.
const ROUNDS_WITHOUT: u32 = 32;

/// Rounds with it, until it is held against those.
const ROUNDS_WITH: u32 = 128;

/// Rounds between two trials, after one that failed.
const FIRST_REST: u32 = 64;
const MAX_REST: u32 = 4_096;

/// Items, and how long they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flow {
    items: u64,
    ns: u64,
}

impl Flow {
    fn add(&mut self, more: Self) {
        self.items += more.items;
        self.ns += more.ns;
    }

    /// By a tenth at least.
    fn is_above(self, other: Self) -> bool {
        10 * u128::from(self.items) * u128::from(other.ns)
            > 11 * u128::from(other.items) * u128::from(self.ns)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No wait, for so many rounds.
    Rest(u32),
    /// No wait, for so many rounds more, in which it is counted what comes.
    Without(u32),
    /// The wait was made longer; before, a round was of so many items.
    Trial(u64),
    /// A wait, for so many rounds more.
    With(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lead {
    ns: u64,
    phase: Phase,
    /// Claims of this round, and their items.
    claims: u64,
    items: u64,
    began_at_ns: u64,
    without: Flow,
    with: Flow,
    /// Rounds until the next trial, where one fails.
    rest: u32,
}

impl Lead {
    pub(super) const NONE: Self = Self {
        ns: 0,
        phase: Phase::Rest(0),
        claims: 0,
        items: 0,
        began_at_ns: 0,
        without: Flow { items: 0, ns: 0 },
        with: Flow { items: 0, ns: 0 },
        rest: FIRST_REST,
    };

    /// How long to wait before the next claim.
    #[inline]
    pub(super) fn ns(&self) -> u64 {
        // Before the first claim of a round nothing is known but what was before something else came in between.
        if self.claims > 0 { self.ns } else { 0 }
    }

    /// What is claimed now is none of that: long, or from this worker's own CPU.
    #[inline]
    pub(super) fn interrupt(&mut self) {
        self.claims = 0;
    }

    /// So many items were claimed now.
    #[inline]
    pub(super) fn claimed(&mut self, items: usize, now_ns: u64) {
        if self.claims == CLAIMS_TO_A_ROUND {
            let ns = now_ns.saturating_sub(self.began_at_ns);
            self.judge(Flow { items: self.items, ns });
            self.claims = 0;
        }
        if self.claims == 0 {
            (self.items, self.began_at_ns) = (0, now_ns);
        }
        self.claims += 1;
        self.items += items as u64;
    }

    #[inline(never)]
    fn judge(&mut self, round: Flow) {
        let is_lone = round.items < FEW_ITEMS * CLAIMS_TO_A_ROUND;
        let is_enough = round.items >= ENOUGH_ITEMS * CLAIMS_TO_A_ROUND;
        let are_many = round.items > MANY_ITEMS * CLAIMS_TO_A_ROUND;
        match self.phase {
            Phase::Rest(rounds) if rounds > 0 => self.phase = Phase::Rest(rounds - 1),
            Phase::Rest(_) => {
                (self.phase, self.without) = (Phase::Without(ROUNDS_WITHOUT), Flow::default());
            }
            Phase::Without(rounds) => {
                self.without.add(round);
                self.phase = Phase::Without(rounds - 1);
                if rounds == 1 {
                    self.begin_trial();
                }
            }
            Phase::Trial(before) => {
                let has_failed = round.items < before + before / 4;
                if has_failed && self.ns == FIRST_NS {
                    return self.give_up();
                }
                if has_failed || is_enough || self.ns == MAX_NS {
                    self.ns /= if has_failed { 2 } else { 1 };
                    (self.phase, self.with) = (Phase::With(ROUNDS_WITH), Flow::default());
                } else {
                    (self.phase, self.ns) = (Phase::Trial(round.items), self.ns * 2);
                }
            }
            Phase::With(rounds) => {
                self.with.add(round);
                self.phase = Phase::With(rounds - 1);
                if are_many {
                    self.ns -= self.ns / 4;
                }
                let is_worse = self.without.is_above(self.with);
                let is_better = self.with.is_above(self.without);
                // First it must not be worse, then better.
                let is_bad = match ROUNDS_WITH - rounds {
                    0..2 => false,
                    2..16 => is_worse,
                    _ => !is_better,
                };
                let is_over = rounds == 1 || is_lone || self.ns < FIRST_NS;
                if is_bad || (is_over && !is_better) {
                    self.give_up();
                } else if is_over {
                    // One success among failures may be chance.
                    self.rest = (self.rest / 2).max(FIRST_REST);
                    self.rest_for(0);
                }
            }
        }
    }

    /// Unless what came by itself is enough already, or too little.
    fn begin_trial(&mut self) {
        let items = self.without.items / u64::from(ROUNDS_WITHOUT);
        if (FEW_ITEMS * CLAIMS_TO_A_ROUND..ENOUGH_ITEMS * CLAIMS_TO_A_ROUND).contains(&items) {
            (self.phase, self.ns) = (Phase::Trial(items), FIRST_NS);
        } else {
            self.rest_for(0);
        }
    }

    fn give_up(&mut self) {
        self.rest_for(self.rest);
        self.rest = (self.rest * 2).min(MAX_REST);
    }

    fn rest_for(&mut self, rounds: u32) {
        (self.ns, self.phase) = (0, Phase::Rest(rounds));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What a claim takes beside its items, which take 15 ns each.
    const CLAIM_NS: u64 = 220;

    /// Producers that bring an item each `item_ns`, have at most so many under way, and pay for each claim.
    struct Producers {
        item_ns: u64,
        in_flight: u64,
        pays_ns: u64,
    }

    struct Trace {
        waited_ns: u64,
        items: u64,
        ns: u64,
    }

    fn claims(lead: &mut Lead, producers: &Producers, times: u32) -> Trace {
        let Producers { item_ns, in_flight, pays_ns } = *producers;
        let mut trace = Trace { waited_ns: 0, items: 0, ns: 0 };
        let (mut there, mut owed_ns) = (0, 0);
        for _ in 0..times {
            let items = there.min(32);
            lead.claimed(items as usize, trace.ns);
            let took = CLAIM_NS + items * 15 + lead.ns();
            owed_ns += took;
            let came = (owed_ns.saturating_sub(pays_ns) / item_ns).min(in_flight);
            owed_ns =
                if came == in_flight { 0 } else { owed_ns - pays_ns.min(owed_ns) - came * item_ns };
            there = there - items + came;
            trace.waited_ns += lead.ns();
            trace.items += items;
            trace.ns += took;
        }
        trace
    }

    const FLOOD: Producers = Producers { item_ns: 40, in_flight: u64::MAX, pays_ns: 100 };
    const CONVERSATION: Producers = Producers { item_ns: 30, in_flight: 4, pays_ns: 100 };

    #[test]
    fn producers_get_ahead_until_a_claim_is_worth_its_line() {
        let mut lead = Lead::NONE;
        let before = claims(&mut lead, &FLOOD, 100);
        claims(&mut lead, &FLOOD, 1_000);
        let after = claims(&mut lead, &FLOOD, 10_000);
        assert!(after.items > 10_000 * 12, "{}", after.items);
        assert!(after.items * before.ns > before.items * after.ns * 5 / 4, "no faster");
    }

    #[test]
    fn who_waits_for_its_items_is_hardly_waited_for() {
        for in_flight in [2, 3, 4, 8, 12, 16, 20] {
            let mut lead = Lead::NONE;
            let producers = Producers { in_flight, pays_ns: 0, ..CONVERSATION };
            claims(&mut lead, &producers, 400_000);
            let after = claims(&mut lead, &producers, 400_000);
            assert!(after.waited_ns * 20 < after.ns, "{in_flight}: {}", after.waited_ns);
        }
    }

    #[test]
    fn lone_items_and_full_claims_are_not_waited_for() {
        let lone = Producers { in_flight: 1, ..CONVERSATION };
        let ahead = Producers { item_ns: 5, ..FLOOD };
        for producers in [lone, ahead] {
            let mut lead = Lead::NONE;
            assert_eq!(claims(&mut lead, &producers, 10_000).waited_ns, 0);
        }
    }

    #[test]
    fn a_flood_that_turns_into_a_conversation_is_noticed_and_the_other_way_round() {
        let mut lead = Lead::NONE;
        claims(&mut lead, &FLOOD, 10_000);
        claims(&mut lead, &CONVERSATION, 400_000);
        let after = claims(&mut lead, &CONVERSATION, 400_000);
        assert!(after.waited_ns * 20 < after.ns, "{}", after.waited_ns);
        claims(&mut lead, &FLOOD, 150_000);
        assert!(claims(&mut lead, &FLOOD, 10_000).items > 10_000 * 12);
    }

    #[test]
    fn what_comes_from_its_own_cpu_or_is_long_is_not_waited_for() {
        let mut lead = Lead::NONE;
        claims(&mut lead, &FLOOD, 1_000);
        assert!(lead.ns() > 0);
        lead.interrupt();
        assert_eq!(lead.ns(), 0);
    }
}

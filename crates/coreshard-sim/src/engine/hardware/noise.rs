//! Random variation: costs vary, and CPUs are interrupted.
//!
//! Without it, two loops with a fixed ratio of lengths would meet at each turn or never, forever; a real
//! machine leaves that pattern after some thousand turns. Only a machine whose file says by how much
//! (`[costs.variation]`) has variation.

use crate::machine::{Ps, VARIATION_AT_PERCENT, Variation};
use crate::random::{Random, mix};

pub(crate) struct Noise {
    /// `None` if costs do not vary.
    of: Option<Variation>,
    random: Random,
}

impl Noise {
    pub(super) fn new(of: Option<Variation>, seed: u64) -> Self {
        Self { of, random: Random::new(mix(seed ^ 0x4E6F_6973_6521)) }
    }

    /// Draws the duration of a call, a wake-up or a switch.
    pub(crate) fn call(&mut self, cost: Ps) -> Ps {
        self.of.map_or(cost, |of| cost * self.drawn(of.calls) / 1_000)
    }

    /// Draws the duration of the exit from an idle state.
    pub(crate) fn exit(&mut self, cost: Ps) -> Ps {
        self.of.map_or(cost, |of| cost * self.drawn(of.exits) / 1_000)
    }

    /// Draws for how long interruptions occupy a CPU that runs for `time`.
    #[inline]
    pub(super) fn interruptions(&mut self, time: Ps) -> Ps {
        let Some(Variation { interrupted_every: every @ 1.., interrupted_for, .. }) = self.of
        else {
            return 0;
        };
        let by_chance = u64::from(self.random.below(every) < time % every);
        (time / every + by_chance).saturating_mul(interrupted_for)
    }

    /// Returns how many of `turns`, each of length `each`, pass, and whether the last one is interrupted. At
    /// most as many as take a sixteenth of the time between two interruptions, so that two are unlikely.
    pub(super) fn turns_before_interruption(&mut self, turns: u32, each: Ps) -> (u32, bool) {
        let every = self.of.map_or(0, |of| of.interrupted_every);
        if every == 0 {
            return (turns, false);
        }
        let most = (every / 16 / each).clamp(1, u64::from(turns));
        let is_interrupted = self.random.below(every) < most * each;
        let before = if is_interrupted { 1 + self.random.below(most) } else { most };
        (u32::try_from(before).unwrap_or(turns), is_interrupted)
    }

    /// Returns the duration of an interruption.
    pub(crate) fn interruption(&self) -> Ps {
        self.of.map_or(0, |of| of.interrupted_for)
    }

    /// Draws a factor, in thousandths: linear between the known points, and constant beyond them.
    fn drawn(&mut self, factors: [u64; VARIATION_AT_PERCENT.len()]) -> u64 {
        let at = self.random.below(100_000);
        let shares = VARIATION_AT_PERCENT.map(|percent| percent * 1_000);
        let above = shares.iter().position(|share| at < *share);
        match above {
            None => factors[factors.len() - 1],
            Some(0) => factors[0],
            Some(next) => {
                let (from, to) = (factors[next - 1], factors[next]);
                let (begin, end) = (shares[next - 1], shares[next]);
                from + (to - from) * (at - begin) / (end - begin)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIATION: Variation = Variation {
        calls: [900, 950, 1_000, 1_100, 1_500, 4_000],
        exits: [1_000; 6],
        interrupted_every: 1_000_000,
        interrupted_for: 10_000,
    };

    #[test]
    fn what_is_drawn_has_the_shares_that_were_given() {
        let mut noise = Noise::new(Some(VARIATION), 1);
        let mut drawn: Vec<u64> = (0..20_000).map(|_| noise.call(1_000_000)).collect();
        drawn.sort_unstable();
        for (percent, factor) in VARIATION_AT_PERCENT.into_iter().zip(VARIATION.calls) {
            let found = drawn[drawn.len() * percent as usize / 100] / 1_000;
            assert!(found.abs_diff(factor) <= factor / 20, "at {percent} %: {found}, not {factor}");
        }
        assert_eq!(noise.exit(7), 7, "a cost without variation is exact");
    }

    #[test]
    fn interruptions_come_as_often_as_they_are_said_to() {
        let mut noise = Noise::new(Some(VARIATION), 1);
        let all: Ps = (0..100_000).map(|_| noise.interruptions(1_000)).sum();
        assert!((80..=120).contains(&(all / 10_000)), "{all} ps in 100 ms");
        let long = noise.interruptions(5_000_000);
        assert!((50_000..=60_000).contains(&long), "{long}");
        let mut never = Noise::new(Some(Variation { interrupted_every: 0, ..VARIATION }), 1);
        assert_eq!(never.interruptions(Ps::MAX / 2), 0);
    }
}

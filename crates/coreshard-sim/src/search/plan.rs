//! The schedule and the faults of a run, decided by its seed.

use std::fmt;
use std::time::Duration;

use crate::engine::{FailedStarts, Failing, Faults, Schedule, Simulation};
use crate::machine::Machine;
use crate::profile::Profile;
use crate::random::{Random, mix};

/// Schedule and faults of one run of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed that determines the rest.
    pub seed: u64,
    /// The cost profile.
    pub profile: Profile,
    /// The choice of the next CPU, and the injected faults.
    pub faults: Faults,
}

impl Plan {
    /// Returns the plan of a seed.
    ///
    /// A third of all plans have a PCT schedule of depth 1 to 4. Each kind of fault is in a third of them, at
    /// a rate between rare and frequent.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        // This sequence must differ from the run's own.
        let mut random = Random::new(mix(seed ^ 0x5EA2_C400_0000_0000));
        let rate = |random: &mut Random, most: u64| {
            let rate = most >> random.below(6);
            u32::try_from(if random.below(3) == 0 { rate } else { 0 }).unwrap_or(u32::MAX)
        };
        let micros = |random: &mut Random, most: u64| Duration::from_micros(random.below(most) + 1);
        // Each field is drawn in the order of this list.
        let mut faults = Faults {
            schedule: match random.below(3) {
                0 => Schedule::Pct {
                    depth: random.below(4) as u32 + 1,
                    turns: 1 << (random.below(8) + 6),
                },
                _ => Schedule::Timed,
            },
            stalls_per_million: rate(&mut random, 50_000),
            longest_stall: micros(&mut random, 20),
            held_stores_per_million: rate(&mut random, 500_000),
            longest_hold: micros(&mut random, 20),
            spurious_wakeups_per_million: rate(&mut random, 200_000),
            delayed_wakeups_per_million: rate(&mut random, 200_000),
            longest_delay: micros(&mut random, 200),
            failed_spawns_per_million: rate(&mut random, 300_000),
            ..Faults::NONE
        };
        let goes_offline = random.below(4) == 0;
        let offline_every = Duration::from_millis(1) + micros(&mut random, 10_000);
        faults.offline_every = if goes_offline { offline_every } else { Duration::ZERO };
        faults.longest_offline = micros(&mut random, 2_000);
        faults.clock_jumps_per_million = rate(&mut random, 20_000);
        faults.longest_jump = micros(&mut random, 3_000);
        let profile = Profile::ALL[random.below(2) as usize];
        // A reached limit stays for a while, and it takes a while to detect it.
        faults.failed_starts = FailedStarts {
            at_most: random.below(8) as u32,
            longest: match random.below(2) {
                0 => Duration::ZERO,
                _ => micros(&mut random, 40_000),
            },
            longest_try: micros(&mut random, 400),
        };
        Self { seed, profile, faults }
    }

    /// Returns the plan of one step of a sweep: these calls fail.
    ///
    /// Seed 0 has the machine's own schedule and no other faults. Any other seed adds its schedule, stalls,
    /// delayed stores and late wake-ups.
    #[must_use]
    pub fn of_failing(seed: u64, failing: Failing) -> Self {
        let failing = Some(failing);
        if seed == 0 {
            let faults = Faults { failing, ..Faults::NONE };
            return Self { seed, profile: Profile::Futex, faults };
        }
        let mut plan = Self::of_seed(seed);
        plan.faults.failing = failing;
        plan.faults.failed_spawns_per_million = 0;
        plan.faults.spurious_wakeups_per_million = 0;
        plan.faults.offline_every = Duration::ZERO;
        plan.faults.clock_jumps_per_million = 0;
        plan
    }

    /// Returns the simulation that runs by this plan.
    #[must_use]
    pub fn simulation<'machine>(&self, machine: &'machine Machine) -> Simulation<'machine> {
        Simulation::new(machine).seed(self.seed).profile(self.profile).faults(self.faults)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = &self.faults;
        match faults.schedule {
            Schedule::Timed => write!(f, "timed")?,
            Schedule::Pct { depth, turns } => write!(f, "pct of depth {depth} in {turns} turns")?,
        }
        write!(f, ", costs {}", self.profile)?;
        let often = |f: &mut fmt::Formatter<'_>, rate: u32, what: &str, most: Option<Duration>| {
            if rate == 0 {
                return Ok(());
            }
            write!(f, ", {what} {:.2} %", f64::from(rate) / 10_000.0)?;
            most.map_or(Ok(()), |most| write!(f, " (up to {} µs)", most.as_micros()))
        };
        let (stall, delay) = (Some(faults.longest_stall), Some(faults.longest_delay));
        let (at_points, hold) = (faults.stalls_at_points_per_million, Some(faults.longest_hold));
        often(f, faults.stalls_per_million, "stalls", stall)?;
        often(f, at_points, "stalls at points of preemption", stall)?;
        often(f, faults.held_stores_per_million, "held stores", hold)?;
        often(f, faults.spurious_wakeups_per_million, "spurious wake-ups", delay)?;
        often(f, faults.delayed_wakeups_per_million, "late wake-ups", delay)?;
        often(f, faults.failed_spawns_per_million, "threads that do not start", None)?;
        if faults.failed_spawns_per_million > 0 {
            let FailedStarts { at_most, longest, longest_try } = faults.failed_starts;
            let (longest, longest_try) = (longest.as_micros(), longest_try.as_micros());
            write!(
                f,
                " (and up to {at_most} more, or all for {longest} µs; each tries for up to {longest_try} µs)"
            )?;
        }
        if let Some(failing) = faults.failing {
            write!(f, ", calls that fail {failing}")?;
        }
        often(f, faults.clock_jumps_per_million, "clock jumps", Some(faults.longest_jump))?;
        if !faults.offline_every.is_zero() {
            let (every, most) =
                (faults.offline_every.as_micros(), faults.longest_offline.as_micros());
            write!(f, ", a CPU offline every {every} µs (up to {most} µs)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_differ_and_all_kinds_of_faults_are_among_them() {
        let plans: Vec<Plan> = (0..500).map(Plan::of_seed).collect();
        assert_eq!(plans[7], Plan::of_seed(7));
        let count =
            |has: &dyn Fn(&Faults) -> bool| plans.iter().filter(|plan| has(&plan.faults)).count();
        for (kind, found) in [
            ("pct", count(&|faults| faults.schedule != Schedule::Timed)),
            ("stalls", count(&|faults| faults.stalls_per_million > 0)),
            ("stores", count(&|faults| faults.held_stores_per_million > 0)),
            ("spurious", count(&|faults| faults.spurious_wakeups_per_million > 0)),
            ("late", count(&|faults| faults.delayed_wakeups_per_million > 0)),
            ("spawns", count(&|faults| faults.failed_spawns_per_million > 0)),
            ("offline", count(&|faults| !faults.offline_every.is_zero())),
            ("clock", count(&|faults| faults.clock_jumps_per_million > 0)),
        ] {
            assert!((80..300).contains(&found), "{kind}: {found} of 500");
        }
        let text = Plan::of_seed(3).to_string();
        assert!(text.starts_with("timed") || text.starts_with("pct"), "{text}");
    }
}

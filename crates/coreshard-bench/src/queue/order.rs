//! The combinations of variants, and the order of their turns.

use std::fmt;

use coreshard_topology::Scope;
use coreshard_workqueue::{Intake, Wake};

use crate::error::BenchError;

/// One variant of each comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Combination {
    /// Which CPUs share a pool.
    pub scope: Scope,
    /// When a chosen worker is woken.
    pub wake: Wake,
    /// How an item enters a pool.
    pub intake: Intake,
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} · {} · {}", self.scope, self.wake, self.intake)
    }
}

/// Returns all combinations of the given variants, in the order of reports: scopes from fine to coarse, then
/// intakes and wake policies from the oldest. A variant that was given twice counts once.
pub(super) fn combinations(
    scopes: &[Scope],
    wakes: &[Wake],
    intakes: &[Intake],
) -> Result<Vec<Combination>, BenchError> {
    let missing = [
        ("scope", scopes.is_empty()),
        ("wake policy", wakes.is_empty()),
        ("intake", intakes.is_empty()),
    ];
    if let Some((what, _)) = missing.into_iter().find(|(_, missing)| *missing) {
        return Err(BenchError::no_variants(what));
    }
    let mut all = Vec::new();
    for scope in Scope::ALL.into_iter().filter(|it| scopes.contains(it)) {
        for wake in Wake::ALL.into_iter().filter(|it| wakes.contains(it)) {
            for intake in Intake::ALL.into_iter().filter(|it| intakes.contains(it)) {
                all.push(Combination { scope, wake, intake });
            }
        }
    }
    Ok(all)
}

fn differ_in_wake_alone(one: &Combination, other: &Combination) -> bool {
    (one.scope, one.intake) == (other.scope, other.intake)
}

/// Returns the indices of pairs: a combination, and the one that differs from it only by having the oldest
/// wake policy. Combinations of the oldest wake policy are omitted.
pub(super) fn baselines(combinations: &[Combination]) -> impl Iterator<Item = (usize, usize)> {
    combinations.iter().enumerate().filter_map(|(place, combination)| {
        let baseline =
            combinations.iter().position(|other| differ_in_wake_alone(combination, other))?;
        (baseline != place).then_some((place, baseline))
    })
}

/// The order of each run. It is shuffled, except that combinations that differ only in the wake policy follow
/// one another, in an order that is shuffled as well.
pub(super) struct RunOrder {
    /// Indices of combinations that differ only in the wake policy.
    groups: Vec<Vec<usize>>,
    random: fastrand::Rng,
}

impl RunOrder {
    pub(super) fn new(combinations: &[Combination], seed: u64) -> Self {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (place, combination) in combinations.iter().enumerate() {
            let of_its_kind = |group: &&mut Vec<usize>| {
                differ_in_wake_alone(&combinations[group[0]], combination)
            };
            match groups.iter_mut().find(of_its_kind) {
                Some(group) => group.push(place),
                None => groups.push(vec![place]),
            }
        }
        Self { groups, random: fastrand::Rng::with_seed(seed) }
    }

    pub(super) fn next_run(&mut self) -> Vec<usize> {
        self.random.shuffle(&mut self.groups);
        for group in &mut self.groups {
            self.random.shuffle(group);
        }
        self.groups.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Combination> {
        combinations(&Scope::ALL, &Wake::ALL, &Intake::ALL).unwrap()
    }

    #[test]
    fn combinations_are_reported_in_one_order_whatever_was_asked() {
        assert_eq!(all().len(), 36);
        let some = combinations(
            &[Scope::System, Scope::Cpu, Scope::System],
            &[Wake::Coalesced, Wake::UnderLock],
            &[Intake::LockFree],
        );
        let names: Vec<String> = some.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [
                "cpu · under-lock · lock-free",
                "cpu · coalesced · lock-free",
                "system · under-lock · lock-free",
                "system · coalesced · lock-free",
            ]
        );
    }

    #[test]
    fn a_comparison_without_variants_is_an_error_that_names_it() {
        let error = combinations(&Scope::ALL, &[], &Intake::ALL).unwrap_err();
        assert_eq!(error.to_string(), "no wake policy was given: expected at least one");
    }

    #[test]
    fn every_run_has_every_combination_once_with_wake_policies_side_by_side() {
        let all = all();
        let mut turns = RunOrder::new(&all, 1);
        let runs: Vec<Vec<usize>> = (0..5).map(|_| turns.next_run()).collect();
        for run in &runs {
            let mut sorted = run.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..36));
            for group in run.chunks(3) {
                assert!(group.iter().all(|it| differ_in_wake_alone(&all[*it], &all[group[0]])));
            }
        }
        assert!(runs.windows(2).all(|pair| pair[0] != pair[1]), "the order changes");
        assert_eq!(RunOrder::new(&all, 1).next_run(), runs[0], "a seed gives one order");
        assert_ne!(RunOrder::new(&all, 2).next_run(), runs[0]);
    }

    #[test]
    fn newer_wake_policies_are_held_against_the_oldest() {
        let all = all();
        let pairs: Vec<_> = baselines(&all).collect();
        assert_eq!(pairs.len(), 24);
        for (new, old) in pairs {
            assert!(differ_in_wake_alone(&all[new], &all[old]));
            assert_eq!(all[old].wake, Wake::UnderLock);
            assert_ne!(all[new].wake, Wake::UnderLock);
        }
    }
}

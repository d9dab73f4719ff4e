//! Calls of the running thread that are to fail, by their number or by chance.

use std::io;

use coreshard_platform::{AffinityError, SpawnError, ThreadSpec};

use super::failing::{Call, Failing, Lasts};
use super::state::SimState;
use crate::machine::{NS, Ps};

/// How long an interrupted wait lasts.
const INTERRUPTED_AFTER: Ps = 30_000 * NS;
/// How late a late wake-up comes.
const LATE_BY: Ps = 300_000 * NS;
/// How much longer than others a start takes that fails for a while: memory is sought first.
const SLOW_FAILURE: Ps = 100_000 * NS;

/// The error of a call that fails: a limit is reached.
pub(super) fn refusal() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

impl SimState {
    /// Counts a call of the running thread; true if it is to fail.
    pub(super) fn call_fails(&mut self, call: Call) -> bool {
        self.call_failures.fails(call, self.now)
    }

    /// How much longer a start takes that fails.
    pub(super) fn failed_start_delay(&self) -> Ps {
        match self.call_failures.plan {
            Some(Failing { lasts: Lasts::For(_), .. }) => SLOW_FAILURE,
            _ => 0,
        }
    }

    /// After how long a wait returns though nobody woke it, if it does; 0: at once.
    pub(super) fn cut_short_wait(&mut self) -> Option<Ps> {
        // Both are counted at each wait.
        let at_once = self.call_fails(Call::Wait).then_some(0);
        let later = self.call_fails(Call::Interrupt).then_some(INTERRUPTED_AFTER);
        at_once.or(later)
    }

    /// How late a wake-up comes, if it does.
    pub(super) fn late_wake(&mut self) -> Option<Ps> {
        self.call_fails(Call::Wake).then_some(LATE_BY)
    }

    /// Why a thread is not started, if that goes wrong.
    pub(super) fn refusal_to_start(&mut self, spec: &ThreadSpec) -> Option<SpawnError> {
        let name = || spec.name.clone();
        let now = self.now;
        let by_chance = self.injector.as_mut().and_then(|injector| injector.failed_spawn(now));
        let by_first = self.thread == 0;
        let is_spared = self.mode.spares_start.is_some_and(|spares| spares(&spec.name, by_first));
        let by_chance = by_chance.filter(|_| !is_spared);
        if let Some(delay) = by_chance {
            self.now += delay;
            return Some(SpawnError::refused(name(), refusal()));
        }
        if self.call_fails(Call::Start) {
            self.now += self.failed_start_delay();
            return Some(SpawnError::refused(name(), refusal()));
        }
        if spec.nice.is_some() && self.call_fails(Call::Nice) {
            return Some(SpawnError::refused(name(), refusal()));
        }
        match &spec.affinity {
            Some(cpus) if self.call_fails(Call::Affinity) => {
                let refused = AffinityError::refused(cpus.clone(), refusal());
                Some(SpawnError::affinity(name(), refused))
            }
            _ => None,
        }
    }
}

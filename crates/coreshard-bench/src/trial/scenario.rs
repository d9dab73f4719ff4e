//! The programs, and how one is run.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Platform, user};
use coreshard_topology::{Topology, input::quoted};
use coreshard_workqueue::{Intake, Wake};

use super::record::Record;
use super::stage::Stage;
use super::{cancels, programs, teams, under_lock};

/// Declares each program with its name and its function.
macro_rules! scenarios {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal: $run:path;)+) => {
        /// One of the programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Scenario {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Scenario {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            fn run<P: Platform>(self, stage: &Stage<'_, P>) -> Result<(), String> {
                match self {
                    $(Self::$variant => $run(stage),)+
                }
            }
        }
    };
}

scenarios! {
    /// A pool of one worker at a time, whose items wait, with and without announcing it.
    Blocking = "blocking": programs::blocking;
    /// The same, with all threads of the program on one CPU.
    OneCpu = "one-cpu": programs::one_cpu;
    /// The same, with one worker for the whole runtime, and a reserve.
    Rescuer = "rescuer": programs::rescuer;
    /// Items whose arrival and absence start and stop workers, with hooks.
    Hooks = "hooks": programs::hooks;
    /// Several producers that wait for their items.
    Handles = "handles": programs::handles;
    /// Periodic and delayed work, and its end.
    Periodic = "periodic": programs::periodic;
    /// Reusable work on queues with limits: queued, cancelled, flushed.
    Limits = "limits": programs::limits;
    /// Nested scopes.
    Scopes = "scopes": programs::scopes;
    /// Forks and joins.
    Forks = "forks": programs::forks;
    /// Freeze and thaw.
    Freeze = "freeze": programs::freeze;
    /// Changes of scope, mask and limit while items run.
    Change = "change": programs::change;
    /// Changes of the whole runtime's CPUs.
    Usable = "usable": programs::usable;
    /// Queues that are created and dropped with items in them.
    Drops = "drops": programs::drops;
    /// Futures that sleep, yield, and are cancelled.
    Tasks = "tasks": programs::tasks;
    /// Parallel loops under a lock, inside parallel loops.
    UnderLock = "under-lock": under_lock::under_lock;
    /// Items that are cancelled, awaited in vain, and detached.
    Cancels = "cancels": cancels::cancels;
    /// Teams whose members fork, spawn and receive broadcasts, and that end meanwhile.
    Teams = "teams": teams::teams;
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error when a text does not name a [`Scenario`].
#[derive(Clone, PartialEq, Eq)]
pub struct ParseScenarioError {
    /// The text as it is shown: in quotes, shortened.
    given: String,
}

impl fmt::Display for ParseScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Scenario::ALL.map(Scenario::name);
        write!(f, "invalid program of a sweep {}: expected one of {}", self.given, all.join(", "))
    }
}

coreshard_topology::readable_debug!(ParseScenarioError);

impl std::error::Error for ParseScenarioError {}

impl FromStr for Scenario {
    type Err = ParseScenarioError;

    fn from_str(text: &str) -> Result<Self, ParseScenarioError> {
        let found = Self::ALL.into_iter().find(|scenario| scenario.name() == text);
        found.ok_or_else(|| ParseScenarioError { given: quoted(text).to_string() })
    }
}

/// A scenario with its options.
#[derive(Clone, Debug)]
pub struct ScenarioTrial {
    /// The scenario.
    pub scenario: Scenario,
    /// The number of rounds.
    pub rounds: usize,
    topology: Topology,
    intake: Intake,
    wake: Wake,
}

impl ScenarioTrial {
    /// Creates a trial of a scenario on a machine; the seed decides the variants.
    #[must_use]
    pub fn new(scenario: Scenario, rounds: usize, seed: u64, topology: &Topology) -> Self {
        let from_newest = |count: usize| count - 1 - (seed % count as u64) as usize;
        Self {
            scenario,
            rounds,
            topology: topology.clone(),
            intake: Intake::ALL[from_newest(Intake::ALL.len())],
            wake: Wake::ALL[from_newest(Wake::ALL.len())],
        }
    }

    /// Runs the scenario.
    ///
    /// # Errors
    /// The promise that the workqueue broke, as a text.
    pub fn run<P: Platform>(&self, record: &Arc<Record>) -> Result<(), String> {
        let Self { rounds, topology, intake, wake, .. } = self;
        let stage = Stage::<P>::new(topology, *rounds, (*wake, *intake), record);
        user::call(|| self.scenario.run(&stage)).map_err(|thrown| {
            let what = thrown.message().map(str::to_owned);
            format!("the first thread panicked: {}", what.as_deref().unwrap_or("(not a text)"))
        })??;
        // Other threads finish the work that was left to them.
        P::sleep(Duration::from_millis(40));
        record.verdict()
    }
}

#[cfg(test)]
mod tests {
    use coreshard_platform::Host;

    use super::*;

    #[test]
    fn what_the_host_runs_keeps_its_promises() {
        let topology = Topology::host().unwrap();
        for scenario in Scenario::ALL {
            for seed in 0..2 {
                let record = Arc::new(Record::new(0..0));
                let trial = ScenarioTrial::new(scenario, 2, seed, &topology);
                let done = trial.run::<Host>(&record);
                done.unwrap_or_else(|broken| panic!("{scenario}: {broken}"));
            }
        }
    }

    #[test]
    fn scenarios_are_read_as_they_are_written() {
        for scenario in Scenario::ALL {
            assert_eq!(scenario.to_string().parse(), Ok(scenario));
        }
        let error = "blokcing".parse::<Scenario>().unwrap_err().to_string();
        assert!(error.contains("\"blokcing\"") && error.contains("blocking, one-cpu"), "{error}");
    }
}

//! What `tune` measured.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a candidate did under one load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Items per second: the median over the rounds.
    pub items_per_sec: f64,
    /// The slowest round.
    pub items_per_sec_min: f64,
    /// The fastest round.
    pub items_per_sec_max: f64,
    /// The worst round's 99th percentile of the time until an item ran, in nanoseconds.
    pub end_to_end_p99_ns: u64,
    /// The first quartile of the rounds.
    #[serde(default)]
    pub items_per_sec_q1: f64,
    /// The third quartile of the rounds.
    #[serde(default)]
    pub items_per_sec_q3: f64,
}

/// A scope and a size of shards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The affinity scope, spelled as in every option of the command.
    pub scope: String,
    /// The wanted number of cores in a shard; `None` where the scope has no shards.
    pub shard_cores: Option<usize>,
    /// Pools that it makes.
    pub pods: usize,
    /// Every CPU queues, and waits for each item.
    pub even: Load,
    /// One CPU queues bursts.
    pub lopsided: Load,
    /// As a load that was measured, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Load>,
    /// What it reaches of the best, under the load that suits it less: 0 to 1.
    pub worth: f64,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard_cores {
            Some(cores) => write!(f, "{} of {cores}", self.scope),
            None => self.scope.fmt(f),
        }
    }
}

/// What was tried, and which candidate is recommended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// From fine to coarse; those with the same pods as a finer one are left out.
    pub candidates: Vec<Candidate>,
    /// The place of the recommended one.
    pub best: usize,
    /// Others that are about as good.
    pub as_good: Vec<usize>,
    /// Rounds, with each seed where there are several.
    #[serde(default)]
    pub rounds: usize,
    /// Rounds in which the recommended one is the best, or about as good: of so many how many say how sure it is.
    #[serde(default)]
    pub agreeing: usize,
}

impl Tuning {
    /// The recommended candidate.
    ///
    /// # Panics
    /// Where `best` is the place of none, which no tuning has.
    #[must_use]
    pub fn recommended(&self) -> &Candidate {
        &self.candidates[self.best]
    }
}

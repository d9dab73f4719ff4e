//! What the experiment with an adapter measured, and what was published of it.

use serde::{Deserialize, Serialize};

use crate::Repeats;

/// Where completions are announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// On the CPU that submitted, as where the adapter has a vector for each CPU.
    Submitter,
    /// On CPUs of the adapter's own node, one for each job.
    #[default]
    AdapterNode,
}

/// What was published of a rung: thousands of requests a second, and the spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The average.
    pub kiops: f64,
    /// The slowest run.
    pub kiops_min: f64,
    /// The fastest run.
    pub kiops_max: f64,
    /// As it was published, in per cent.
    pub spread_pct: f64,
}

/// What a rung got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HbaRow {
    /// How shared tags are accounted.
    pub tags: String,
    /// How the device's counters lie.
    pub counters: String,
    /// Where both lie.
    pub memory: String,
    /// Its runs.
    pub runs: Repeats,
    /// What was published of it.
    pub published: Option<Published>,
}

/// The experiment's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HbaResults {
    /// The machine.
    pub machine: String,
    /// What the code ran on.
    pub platform: String,
    /// Jobs.
    pub jobs: usize,
    /// Devices behind the adapter.
    pub devices: usize,
    /// Requests in flight, each job.
    pub depth: u32,
    /// Where completions are announced.
    pub interrupts: Interrupts,
    /// A row a rung.
    pub rows: Vec<HbaRow>,
}

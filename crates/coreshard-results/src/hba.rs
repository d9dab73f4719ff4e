//! What the experiment with an adapter measured, and what was published of it.

use serde::{Deserialize, Serialize};

use crate::column::{Cell, Column, Unit, Value, always, minor, rows};
use crate::{Repeats, SeedSpreads};

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

/// What was published of a variant: thousands of requests a second, and the spread.
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

rows! {
    /// What a variant got.
    pub struct HbaRow {
        /// How shared tags are accounted.
        tags: String = Text [always("tags")];
        /// How the device's counters lie.
        counters: String = Text [always("counters")];
        /// Where both lie.
        memory: String = Text [always("memory")];
        /// Its runs.
        runs: Repeats = Text
            { Column::derived(Unit::PerSecondRounded, always("IOPS"), |it, _| Value::Figure(it.runs.average)) }
            { Column::derived(Unit::PerSecondRounded, minor("quartiles", 2), |it, _| it.seeds.quartiles("average")) }
            { Column::derived(Unit::Factor, always("× first"), |it, _| it.seeds.ratio_median("average")) }
            { Column::derived(Unit::Factor, minor("quartiles", 3), |it, _| it.seeds.ratio_quartiles("average")) }
            { Column::derived(Unit::Text, always("differs by"), |it, _| it.seeds.differs_by("average")) }
            { Column::derived(Unit::PerSecondRounded, minor("range", 1), |it, _| Value::Range(it.runs.min, it.runs.max)) }
            { Column::derived(Unit::Part, always("spread"), |it, _| Value::Figure(it.runs.spread)) };
        /// What was published of it.
        published: Option<Published> = Text
            { Column::derived(Unit::PerSecondRounded, always("published"), |it, _| published(it, |them| Value::Figure(them.kiops * 1e3))) }
            { Column::derived(Unit::PerSecondRounded, minor("range", 1), |it, _| published(it, |them| Value::Range(them.kiops_min * 1e3, them.kiops_max * 1e3))) }
            { Column::derived(Unit::Part, always("spread"), |it, _| published(it, |them| Value::Figure(them.spread_pct / 100.0))) };
        /// How figures are spread over seeds: `average` and `spread`.
        #[serde(default)]
        seeds: SeedSpreads = Text;
    }
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
    /// A row a variant.
    pub rows: Vec<HbaRow>,
    /// What a reader must know, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Cell for Repeats {
    fn value(&self) -> Value<'_> {
        Value::Absent
    }
}

impl Cell for Published {
    fn value(&self) -> Value<'_> {
        Value::Absent
    }
}

fn published(row: &HbaRow, figure: fn(&Published) -> Value<'static>) -> Value<'static> {
    row.published.as_ref().map_or(Value::Absent, figure)
}

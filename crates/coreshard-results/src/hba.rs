//! Results of the experiment with an adapter, beside published figures.

use serde::{Deserialize, Serialize};

use crate::column::{Cell, Column, Unit, Value, always, minor, rows};
use crate::{Repeats, SeedSpreads};

/// Where completion interrupts are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// On the submitting CPU, as with one adapter vector per CPU.
    Submitter,
    /// On CPUs of the adapter's node, one per job.
    #[default]
    AdapterNode,
}

/// Published figures of a variant: thousands of requests per second, and the spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The average.
    pub kiops: f64,
    /// The slowest run.
    pub kiops_min: f64,
    /// The fastest run.
    pub kiops_max: f64,
    /// The published spread, in percent.
    pub spread_pct: f64,
}

rows! {
    /// The figures of a variant.
    pub struct HbaRow {
        /// Accounting of shared tags.
        tags: String = Text [always("tags")];
        /// Layout of the device's counters.
        counters: String = Text [always("counters")];
        /// Placement of both.
        memory: String = Text [always("memory")];
        /// The runs.
        runs: Repeats = Text
            { Column::derived(Unit::PerSecondRounded, always("IOPS"), |it, _| Value::Figure(it.runs.average)) }
            { Column::derived(Unit::PerSecondRounded, minor("quartiles", 2), |it, _| it.seeds.quartiles("average")) }
            { Column::derived(Unit::Factor, always("× first"), |it, _| it.seeds.ratio_median("average")) }
            { Column::derived(Unit::Factor, minor("quartiles", 3), |it, _| it.seeds.ratio_quartiles("average")) }
            { Column::derived(Unit::Text, always("differs by"), |it, _| it.seeds.differs_by("average")) }
            { Column::derived(Unit::PerSecondRounded, minor("range", 1), |it, _| Value::Range(it.runs.min, it.runs.max)) }
            { Column::derived(Unit::Part, always("spread"), |it, _| Value::Figure(it.runs.spread)) };
        /// Published figures.
        published: Option<Published> = Text
            { Column::derived(Unit::PerSecondRounded, always("published"), |it, _| published(it, |them| Value::Figure(them.kiops * 1e3))) }
            { Column::derived(Unit::PerSecondRounded, minor("range", 1), |it, _| published(it, |them| Value::Range(them.kiops_min * 1e3, them.kiops_max * 1e3))) }
            { Column::derived(Unit::Part, always("spread"), |it, _| published(it, |them| Value::Figure(them.spread_pct / 100.0))) };
        /// Spread over seeds, of `average` and `spread`.
        #[serde(default)]
        seeds: SeedSpreads = Text;
    }
}

/// Results of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HbaResults {
    /// The machine.
    pub machine: String,
    /// The platform: `host` or `sim`.
    pub platform: String,
    /// Number of jobs.
    pub jobs: usize,
    /// Devices behind the adapter.
    pub devices: usize,
    /// Requests in flight per job.
    pub depth: u32,
    /// Where completion interrupts are handled.
    pub interrupts: Interrupts,
    /// One row per variant.
    pub rows: Vec<HbaRow>,
    /// Notes for interpreting the figures, one sentence each.
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

//! Results of `tune`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::column::{Column, Heading, Row, Unit, Value, always, minor};

/// The figures of a candidate under one load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Items per second: median over the rounds.
    pub items_per_sec: f64,
    /// Items per second in the slowest round.
    pub items_per_sec_min: f64,
    /// Items per second in the fastest round.
    pub items_per_sec_max: f64,
    /// 99th percentile of the time until an item ran in the worst round, in nanoseconds.
    pub end_to_end_p99_ns: u64,
    /// First quartile over the rounds.
    #[serde(default)]
    pub items_per_sec_q1: f64,
    /// Third quartile over the rounds.
    #[serde(default)]
    pub items_per_sec_q3: f64,
}

/// A scope and a shard size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The affinity scope, spelled as in the command's options.
    pub scope: String,
    /// Target number of cores in a shard; `None` if the scope has no shards.
    pub shard_cores: Option<usize>,
    /// Number of pools.
    pub pods: usize,
    /// The even load: every CPU queues items and waits for each.
    pub even: Load,
    /// The lopsided load: one CPU queues bursts.
    pub lopsided: Load,
    /// The measured load, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Load>,
    /// Throughput relative to the best candidate, under the load that suits this one less: 0 to 1, median over the
    /// rounds.
    pub worth: f64,
    /// First quartile over the rounds.
    #[serde(default)]
    pub worth_q1: f64,
    /// Third quartile over the rounds.
    #[serde(default)]
    pub worth_q3: f64,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard_cores {
            Some(cores) => write!(f, "{} of {cores}", self.scope),
            None => self.scope.fmt(f),
        }
    }
}

/// The candidates and the recommendation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// From fine to coarse. Candidates with the same pods as a finer one are omitted.
    pub candidates: Vec<Candidate>,
    /// Index of the recommended candidate.
    pub best: usize,
    /// Indexes of candidates that are about as good.
    pub as_good: Vec<usize>,
    /// Number of rounds, over all seeds.
    #[serde(default)]
    pub rounds: usize,
    /// Number of rounds with the recommended candidate as the best or about as good.
    #[serde(default)]
    pub agreeing: usize,
}

impl Tuning {
    /// Returns the recommended candidate.
    ///
    /// # Panics
    ///
    /// If `best` is out of range.
    #[must_use]
    pub fn recommended(&self) -> &Candidate {
        &self.candidates[self.best]
    }

    /// Returns the candidate with the highest rate under a load. It suits programs with that load.
    ///
    /// ```
    /// use coreshard_results::{Candidate, Load, Tuning};
    ///
    /// let candidate = |items_per_sec| Candidate { even: Load { items_per_sec, ..Load::default() }, ..Candidate::default() };
    /// let tuning = Tuning { candidates: vec![candidate(1.0), candidate(3.0)], ..Tuning::default() };
    /// assert_eq!(tuning.fastest(|it| it.even).even.items_per_sec, 3.0);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no candidate.
    #[must_use]
    pub fn fastest(&self, under: impl Fn(&Candidate) -> Load) -> &Candidate {
        let rate = |it: &Candidate| under(it).items_per_sec;
        let fastest = self.candidates.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        fastest.expect("there is a candidate")
    }

    /// Returns a table row for each candidate.
    ///
    /// ```
    /// use coreshard_results::{Candidate, Tuning};
    ///
    /// let tuning = Tuning { candidates: vec![Candidate::default(); 2], as_good: vec![1], ..Tuning::default() };
    /// let marks: Vec<&str> = tuning.rows().iter().map(|row| row.mark).collect();
    /// assert_eq!(marks, ["*", "~"]);
    /// ```
    pub fn rows(&self) -> Vec<TuningRow> {
        let mark = |at| match at {
            _ if at == self.best => "*",
            _ if self.as_good.contains(&at) => "~",
            _ => "",
        };
        let rows = self.candidates.iter().enumerate();
        rows.map(|(at, candidate)| TuningRow {
            mark: mark(at),
            name: candidate.to_string(),
            candidate: candidate.clone(),
        })
        .collect()
    }
}

/// A candidate as a table row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TuningRow {
    /// `*` for the recommended candidate, `~` for one that is about as good, otherwise empty.
    pub mark: &'static str,
    /// The candidate's name.
    pub name: String,
    /// The candidate's figures.
    pub candidate: Candidate,
}

/// Narrow tables drop tail latencies first, and quartiles of rates before quartiles of `worth`.
const TAIL: Heading = minor("e2e p99", 3);
const QUARTILES: Heading = minor("quartiles", 2);

fn rate(load: &Load) -> Value<'static> {
    Value::Figure(load.items_per_sec)
}

fn quartiles(load: &Load) -> Value<'static> {
    Value::Range(load.items_per_sec_q1, load.items_per_sec_q3)
}

fn tail(load: &Load) -> Value<'static> {
    Value::Whole(load.end_to_end_p99_ns)
}

fn seen(row: &TuningRow, of: fn(&Load) -> Value<'static>) -> Value<'static> {
    row.candidate.seen.as_ref().map_or(Value::Absent, of)
}

impl Row for TuningRow {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::derived(Unit::Text, always(""), |it, _| Value::Text(it.mark)),
        Column::derived(Unit::Text, always("candidate"), |it, _| Value::Text(&it.name)),
        Column::derived(Unit::Count, always("pools"), |it, _| {
            Value::Whole(it.candidate.pods as u64)
        }),
        Column::derived(Unit::PerSecondRounded, always("even items/s"), |it, _| {
            rate(&it.candidate.even)
        }),
        Column::derived(Unit::PerSecondRounded, QUARTILES, |it, _| quartiles(&it.candidate.even)),
        Column::derived(Unit::Nanoseconds, TAIL, |it, _| tail(&it.candidate.even)),
        Column::derived(Unit::PerSecondRounded, always("lopsided"), |it, _| {
            rate(&it.candidate.lopsided)
        }),
        Column::derived(Unit::PerSecondRounded, QUARTILES, |it, _| {
            quartiles(&it.candidate.lopsided)
        }),
        Column::derived(Unit::Nanoseconds, TAIL, |it, _| tail(&it.candidate.lopsided)),
        Column::derived(Unit::PerSecondRounded, always("this load"), |it, _| seen(it, rate)),
        Column::derived(Unit::PerSecondRounded, QUARTILES, |it, _| seen(it, quartiles)),
        Column::derived(Unit::Nanoseconds, TAIL, |it, _| seen(it, tail)),
        Column::derived(Unit::Part, always("worth"), |it, _| Value::Figure(it.candidate.worth)),
        Column::derived(Unit::Part, minor("quartiles", 1), |it, _| {
            Value::Range(it.candidate.worth_q1, it.candidate.worth_q3)
        }),
    ];
}

//! The results: plain data with a stable JSON form, computed from the runs of all cells.
//!
//! The keys up to and including `coreshard_ratio` are stable; keys are only ever added after them.
//! A figure that a peer or a workload does not have is `null`.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::cell::{Measured, Outcome, Params};
use crate::driver::Run;

/// All measurements of one run of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The machine in one line, as a person would name it.
    pub(crate) machine: String,
    /// Runs of each cell; the runs of different peers take turns.
    pub(crate) runs: usize,
    pub(crate) results: Vec<Row>,
    /// Notes for the reader, a sentence each.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

/// One peer under one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) params: Params,
    pub(crate) peer: String,
    /// Median over the runs.
    pub(crate) items_per_sec: Option<f64>,
    /// Latencies are taken from the samples of all runs merged.
    pub(crate) call_p50_ns: Option<u64>,
    pub(crate) call_p99_ns: Option<u64>,
    pub(crate) call_p999_ns: Option<u64>,
    pub(crate) end_to_end_p50_ns: Option<u64>,
    pub(crate) end_to_end_p99_ns: Option<u64>,
    /// The median over the runs, like the following figures.
    pub(crate) cpu_ns_per_item: Option<f64>,
    /// In the timed pass of a run.
    pub(crate) context_switches: Option<f64>,
    pub(crate) peak_rss_bytes: Option<f64>,
    pub(crate) allocations_per_item: Option<f64>,
    /// Coreshard's throughput over this peer's, run by run.
    pub(crate) coreshard_ratio: Option<Ratio>,

    /// The peer's CPU time per item over Coreshard's, run by run: steadier than throughput on a
    /// shared machine.
    #[serde(default)]
    pub(crate) coreshard_cpu_ratio: Option<Ratio>,
    pub(crate) end_to_end_p999_ns: Option<u64>,
    pub(crate) items_per_sec_min: Option<f64>,
    pub(crate) items_per_sec_max: Option<f64>,
    /// Figures that only this workload has; medians over the runs.
    #[serde(default)]
    pub(crate) figures: BTreeMap<String, f64>,
    /// Whether there are figures: if not, `note` says why.
    pub(crate) status: Status,
    pub(crate) note: Option<String>,
}

/// A ratio of two peers' figures, taken in each run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// The status of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Measured,
    /// The workload does not fit the peer.
    Unfit,
    /// The peer is not available on this machine.
    Absent,
    Failed,
    Hung,
}

impl Status {
    /// The word shown to the reader.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Unfit => "does not fit",
            Self::Absent => "absent",
            Self::Failed => "failed",
            Self::Hung => "hung",
        }
    }
}

/// The verdict of a ratio, given its noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ahead,
    Behind,
    /// Less than 10 % apart, and not always to the same side.
    Tie,
    /// Further apart than a tie, but not always to the same side.
    Unclear,
}

impl Ratio {
    /// Computes the ratio of two series of throughputs, run by run. None if they have no run in common.
    pub(crate) fn of(ours: &[Option<f64>], theirs: &[Option<f64>]) -> Option<Self> {
        let mut ratios: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?))
            .filter(|ratio| ratio.is_finite())
            .collect();
        let median = median(&mut ratios)?;
        Some(Self { median, min: ratios[0], max: ratios[ratios.len() - 1] })
    }

    pub(crate) fn verdict(self) -> Verdict {
        if self.min > 1.0 {
            Verdict::Ahead
        } else if self.max < 1.0 {
            Verdict::Behind
        } else if (self.median - 1.0).abs() < 0.1 {
            Verdict::Tie
        } else {
            Verdict::Unclear
        }
    }
}

/// The middle one, or the mean of the two in the middle; leaves the values sorted.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// The runs of one cell, in order.
pub(crate) struct Series {
    pub(crate) workload: String,
    pub(crate) params: Params,
    pub(crate) peer: String,
    pub(crate) runs: Vec<Run>,
}

impl Series {
    fn measured(&self) -> impl Iterator<Item = &Measured> {
        self.runs.iter().filter_map(|run| match run {
            Run::Ended(Outcome::Measured(measured)) => Some(&**measured),
            _ => None,
        })
    }

    /// By run; none if that run failed or throughput has no meaning.
    fn throughputs(&self) -> Vec<Option<f64>> {
        let throughput = |run: &Run| match run {
            Run::Ended(Outcome::Measured(measured)) if measured.elapsed_ns > 0 => {
                Some(measured.items as f64 * 1e9 / measured.elapsed_ns as f64)
            }
            _ => None,
        };
        self.runs.iter().map(throughput).collect()
    }

    /// CPU time per item, by run.
    fn cpu_ns_per_item(&self) -> Vec<Option<f64>> {
        let cpu = |run: &Run| match run {
            Run::Ended(Outcome::Measured(measured)) => {
                Some(measured.cpu_ns? as f64 / measured.items.max(1) as f64)
            }
            _ => None,
        };
        self.runs.iter().map(cpu).collect()
    }

    /// The status, and the reason if figures are missing.
    fn status(&self) -> (Status, Option<String>) {
        let problem = self.runs.iter().find_map(|run| match run {
            Run::Ended(Outcome::Measured(_)) => None,
            Run::Ended(Outcome::Unfit(reason)) => Some((Status::Unfit, reason.clone())),
            Run::Absent(reason) => Some((Status::Absent, reason.clone())),
            Run::Failed(reason) => Some((Status::Failed, reason.clone())),
            Run::Hung(limit) => {
                Some((Status::Hung, format!("not finished after {} s", limit.as_secs_f64())))
            }
        });
        let note = self.measured().find_map(|measured| measured.note.clone());
        match problem {
            None => (Status::Measured, note),
            Some((status, reason)) => match self.measured().count() {
                0 => (status, Some(reason)),
                good => {
                    let runs = self.runs.len();
                    let word = status.word();
                    let note = format!("{} of {runs} runs {word}: {reason}", runs - good);
                    (Status::Measured, Some(note))
                }
            },
        }
    }

    fn row(&self, ours: Option<&Series>) -> Row {
        let (status, note) = self.status();
        let throughputs = self.throughputs();
        let mut known: Vec<f64> = throughputs.iter().flatten().copied().collect();
        let items_per_sec = median(&mut known);
        let call = merged(self.measured().map(|measured| &measured.call));
        let end_to_end = merged(self.measured().map(|measured| &measured.end_to_end));
        let at = |histogram: &Option<Histogram<u64>>, quantile| {
            histogram.as_ref().map(|histogram| histogram.value_at_quantile(quantile))
        };
        let over_runs = |figure: fn(&Measured) -> Option<f64>| {
            median(&mut self.measured().filter_map(figure).collect::<Vec<_>>())
        };
        let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (name, value) in self.measured().flat_map(|measured| &measured.figures) {
            figures.entry(name.clone()).or_default().push(*value);
        }
        let ours = ours.filter(|ours| ours.peer != self.peer);
        let cpu = self.cpu_ns_per_item();
        Row {
            workload: self.workload.clone(),
            params: self.params.clone(),
            peer: self.peer.clone(),
            items_per_sec,
            call_p50_ns: at(&call, 0.5),
            call_p99_ns: at(&call, 0.99),
            call_p999_ns: at(&call, 0.999),
            end_to_end_p50_ns: at(&end_to_end, 0.5),
            end_to_end_p99_ns: at(&end_to_end, 0.99),
            cpu_ns_per_item: median(&mut cpu.iter().flatten().copied().collect::<Vec<_>>()),
            context_switches: over_runs(|m| m.context_switches.map(|count| count as f64)),
            peak_rss_bytes: over_runs(|m| m.peak_rss_bytes.map(|bytes| bytes as f64)),
            allocations_per_item: over_runs(|m| m.allocations_per_item),
            coreshard_ratio: ours.and_then(|ours| Ratio::of(&ours.throughputs(), &throughputs)),
            coreshard_cpu_ratio: ours.and_then(|ours| Ratio::of(&cpu, &ours.cpu_ns_per_item())),
            end_to_end_p999_ns: at(&end_to_end, 0.999),
            items_per_sec_min: known.first().copied(),
            items_per_sec_max: known.last().copied(),
            figures: figures
                .into_iter()
                .filter_map(|(name, mut values)| Some((name, median(&mut values)?)))
                .collect(),
            status,
            note,
        }
    }
}

/// A row for each series; the ratios are against the series of peer `coreshard` with the same
/// workload and parameters.
pub(crate) fn rows(series: &[Series]) -> Vec<Row> {
    let ours = |other: &Series| {
        series.iter().find(|one| {
            one.peer == "coreshard" && one.workload == other.workload && one.params == other.params
        })
    };
    series.iter().map(|one| one.row(ours(one))).collect()
}

fn merged<'a>(samples: impl Iterator<Item = &'a Vec<(u64, u64)>>) -> Option<Histogram<u64>> {
    let mut histogram = Histogram::new(3).expect("three digits are in range");
    for (value_ns, count) in samples.flatten() {
        histogram.record_n(*value_ns, *count).expect("the histogram grows as needed");
    }
    (!histogram.is_empty()).then_some(histogram)
}

#[cfg(test)]
#[path = "results_tests.rs"]
pub(crate) mod tests;

//! A cell: one peer under one workload, in a fresh process. This module has its input, `key=value` arguments,
//! and its output, lines of text. The programs of other languages take and print the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::measure::{Samples, Usage, clock_cost_ns};

/// The parameters of a workload that a user sees, such as `producers`.
pub(crate) type Params = BTreeMap<String, u64>;

/// The input of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) workload: String,
    pub(crate) peer: String,
    /// Items in the timed pass.
    pub(crate) items: u64,
    /// Workers the peer is to have; the process is bound to as many CPUs.
    pub(crate) workers: usize,
    /// The result of `measure::calibrate_rounds_per_ms`.
    pub(crate) rounds_per_ms: u64,
    pub(crate) params: Params,
}

impl Cell {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("workload={}", self.workload),
            format!("peer={}", self.peer),
            format!("items={}", self.items),
            format!("workers={}", self.workers),
            format!("rounds_per_ms={}", self.rounds_per_ms),
        ];
        arguments.extend(self.params.iter().map(|(name, value)| format!("{name}={value}")));
        arguments
    }

    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for argument in arguments {
            let (key, value) =
                argument.split_once('=').ok_or_else(|| format!("{argument}: not key=value"))?;
            values.insert(key.to_owned(), value.to_owned());
        }
        let mut take = |key: &str| values.remove(key).ok_or_else(|| format!("{key}= is missing"));
        let number = |key: &str, value: String| {
            value.parse::<u64>().map_err(|_| format!("{key}={value}: not a whole number"))
        };
        let (workload, peer) = (take("workload")?, take("peer")?);
        let items = number("items", take("items")?)?;
        let workers = number("workers", take("workers")?)? as usize;
        let rounds_per_ms = number("rounds_per_ms", take("rounds_per_ms")?)?;
        let params = values
            .into_iter()
            .map(|(key, value)| number(&key, value).map(|value| (key, value)))
            .collect::<Result<_, String>>()?;
        Ok(Self { workload, peer, items, workers, rounds_per_ms, params })
    }

    pub(crate) fn param(&self, name: &str) -> Result<u64, String> {
        self.params.get(name).copied().ok_or_else(|| format!("{name}= is missing"))
    }

    /// Rounds of `measure::spin` that last `ns`.
    pub(crate) fn rounds(&self, ns: u64) -> u64 {
        if ns == 0 { 0 } else { (self.rounds_per_ms * ns / 1_000_000).max(1) }
    }
}

/// The measurements of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    /// Items in the timed pass.
    pub(crate) items: u64,
    /// From the first producer's start to the last item's end. 0 if throughput has no meaning.
    pub(crate) elapsed_ns: u64,
    pub(crate) cpu_ns: Option<u64>,
    pub(crate) context_switches: Option<u64>,
    pub(crate) peak_rss_bytes: Option<u64>,
    pub(crate) allocations_per_item: Option<f64>,
    /// The duration of the submitting call, without the cost of the clock: value in nanoseconds, count.
    pub(crate) call: Vec<(u64, u64)>,
    /// From the submission to the end, as the workload defines it.
    pub(crate) end_to_end: Vec<(u64, u64)>,
    /// Figures that only this workload has.
    pub(crate) figures: BTreeMap<String, f64>,
    /// A remark about this row for the reader.
    pub(crate) note: Option<String>,
}

impl Measured {
    pub(crate) fn new(items: u64, elapsed_ns: u64, used: Usage) -> Self {
        Self {
            items,
            elapsed_ns,
            cpu_ns: Some(used.cpu_ns),
            context_switches: Some(used.voluntary_switches + used.involuntary_switches),
            ..Self::default()
        }
    }

    pub(crate) fn call(mut self, samples: Samples) -> Self {
        self.call = samples.less(clock_cost_ns()).counted();
        self
    }

    pub(crate) fn end_to_end(mut self, samples: Samples) -> Self {
        self.end_to_end = samples.counted();
        self
    }

    pub(crate) fn allocations(mut self, allocations: u64, items: u64) -> Self {
        self.allocations_per_item = Some(allocations as f64 / items.max(1) as f64);
        self
    }

    pub(crate) fn figure(mut self, name: &str, value: f64) -> Self {
        self.figures.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("items {}\nelapsed_ns {}\n", self.items, self.elapsed_ns);
        let optional = [
            ("cpu_ns", self.cpu_ns),
            ("context_switches", self.context_switches),
            ("peak_rss_bytes", self.peak_rss_bytes),
        ];
        let write = "writing to a string does not fail";
        for (name, value) in optional {
            if let Some(value) = value {
                writeln!(text, "{name} {value}").expect(write);
            }
        }
        if let Some(allocations) = self.allocations_per_item {
            writeln!(text, "allocations_per_item {allocations}").expect(write);
        }
        for (name, samples) in [("call", &self.call), ("end_to_end", &self.end_to_end)] {
            if !samples.is_empty() {
                text.push_str(name);
                for (value_ns, count) in samples {
                    write!(text, " {value_ns}x{count}").expect(write);
                }
                text.push('\n');
            }
        }
        for (name, value) in &self.figures {
            writeln!(text, "figure {name} {value}").expect(write);
        }
        if let Some(note) = &self.note {
            writeln!(text, "note {}", note.replace('\n', " ")).expect(write);
        }
        text.push_str("end\n");
        text
    }
}

/// The outcome of a cell that did not fail.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Measured(Box<Measured>),
    /// The workload does not fit this peer, for the reason given.
    Unfit(String),
}

impl Outcome {
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Measured(measured) => measured.to_text(),
            Self::Unfit(reason) => format!("unfit {}\nend\n", reason.replace('\n', " ")),
        }
    }

    /// Parses the output of a cell. Output without its `end` means that the cell died.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut measured = Measured::default();
        let mut unfit = None;
        for line in text.lines() {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            let bad = |what: &str| format!("the cell printed {what} as {key}: {value:.60}");
            let whole = || value.parse::<u64>().map_err(|_| bad("no whole number"));
            match key {
                "items" => measured.items = whole()?,
                "elapsed_ns" => measured.elapsed_ns = whole()?,
                "cpu_ns" => measured.cpu_ns = Some(whole()?),
                "context_switches" => measured.context_switches = Some(whole()?),
                "peak_rss_bytes" => measured.peak_rss_bytes = Some(whole()?),
                "allocations_per_item" => {
                    measured.allocations_per_item =
                        Some(value.parse().map_err(|_| bad("no number"))?);
                }
                "call" => measured.call = samples(value).ok_or_else(|| bad("no samples"))?,
                "end_to_end" => {
                    measured.end_to_end = samples(value).ok_or_else(|| bad("no samples"))?;
                }
                "figure" => {
                    let (name, number) = value.split_once(' ').ok_or_else(|| bad("no figure"))?;
                    let number = number.parse().map_err(|_| bad("no number"))?;
                    measured.figures.insert(name.to_owned(), number);
                }
                "note" => measured.note = Some(value.to_owned()),
                "unfit" => unfit = Some(value.to_owned()),
                "end" => {
                    return Ok(match unfit {
                        Some(reason) => Self::Unfit(reason),
                        None => Self::Measured(Box::new(measured)),
                    });
                }
                _ => return Err(format!("the cell printed an unknown line: {line:.60}")),
            }
        }
        Err("the cell stopped before it had printed its figures".to_owned())
    }
}

fn samples(text: &str) -> Option<Vec<(u64, u64)>> {
    text.split_whitespace()
        .map(|pair| {
            let (value, count) = pair.split_once('x')?;
            Some((value.parse().ok()?, count.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        Cell {
            workload: "flood".into(),
            peer: "rayon".into(),
            items: 10,
            workers: 2,
            rounds_per_ms: 500_000,
            params: Params::from([("producers".into(), 2), ("item_ns".into(), 0)]),
        }
    }

    #[test]
    fn arguments_are_read_back() {
        assert_eq!(Cell::parse(&cell().arguments()), Ok(cell()));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let mut arguments = cell().arguments();
        arguments[2] = "items=many".into();
        assert!(Cell::parse(&arguments).unwrap_err().contains("items=many"));
        arguments.remove(2);
        assert!(Cell::parse(&arguments).unwrap_err().contains("items="));
        assert!(cell().param("burst").unwrap_err().contains("burst="));
    }

    #[test]
    fn work_of_any_length_has_a_round() {
        assert_eq!(cell().rounds(0), 0);
        assert_eq!(cell().rounds(1), 1);
        assert_eq!(cell().rounds(2_000), 1_000);
    }

    #[test]
    fn figures_are_read_back() {
        let used = Usage { cpu_ns: 7, voluntary_switches: 1, involuntary_switches: 2 };
        let mut measured = Measured::new(10, 99, used)
            .call([3, 3, 4].into_iter().collect())
            .end_to_end([8].into_iter().collect())
            .allocations(25, 10)
            .figure("first_start_ns", 1.5);
        measured.note = Some("by a scope".into());
        let outcome = Outcome::Measured(Box::new(measured));
        assert_eq!(Outcome::parse(&outcome.to_text()), Ok(outcome));
        let unfit = Outcome::Unfit("has no join".into());
        assert_eq!(Outcome::parse(&unfit.to_text()), Ok(unfit));
    }

    #[test]
    fn a_text_that_was_cut_off_is_refused() {
        let text = Outcome::Measured(Box::default()).to_text();
        assert!(Outcome::parse(text.strip_suffix("end\n").unwrap()).is_err());
        assert!(Outcome::parse("items ten\nend\n").unwrap_err().contains("ten"));
        assert!(Outcome::parse("hello\nend\n").unwrap_err().contains("hello"));
    }
}

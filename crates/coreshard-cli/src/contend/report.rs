//! The results of `coreshard contend`.

use std::time::Duration;

use coreshard_sim::contend::{Contention, turning_point};
use serde::Serialize;

use crate::common::{counted, output};

/// Runs that take longer are announced.
const LONG: Duration = Duration::from_secs(5);

/// Says on standard error how long the runs will take, if that is long.
pub(super) fn announce(expected: Duration) {
    if let Some(note) = announcement(expected) {
        output::warn(&note);
    }
}

fn announcement(expected: Duration) -> Option<String> {
    let seconds = expected.as_secs();
    let much = match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} minutes", seconds.div_ceil(60)),
    };
    (expected > LONG)
        .then(|| format!("note: this takes about {much}; fewer numbers of threads take less"))
}

/// All results, as in `--json`.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) title: String,
    pub(super) machine: String,
    /// `sim`, or `host` for real threads.
    pub(super) platform: &'static str,
    /// Placement and time outside.
    pub(super) setting: String,
    /// The least and the most time outside, in nanoseconds.
    pub(super) outside_ns: (f64, f64),
    /// Runs of each figure that is not the queueing model's.
    pub(super) runs: usize,
    pub(super) points: Vec<Point>,
    pub(super) turning_point: Option<TurningPoint>,
    /// The lines that cost the threads most, the costliest first.
    pub(super) lines: Vec<LineShare>,
    pub(super) remedies: Vec<RemedyRow>,
    pub(super) notes: Vec<String>,
}

/// Figures for a number of threads.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    pub(super) threads: usize,
    /// Measured on real threads, or simulated.
    pub(super) run: Option<Figure>,
    pub(super) queueing: Option<Figure>,
    /// The larger of both throughputs over the smaller one, less 1.
    pub(super) apart: Option<f64>,
    /// The share of the threads' time that they waited for a CPU, if measured.
    pub(super) preempted: Option<f64>,
}

/// Throughput and time, with the range over runs and over the time outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) per_sec: f64,
    pub(super) per_sec_low: f64,
    pub(super) per_sec_high: f64,
    /// The time of a round's steps.
    pub(super) steps_ns: f64,
}

/// Where more threads stop helping.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct TurningPoint {
    pub(super) threads: usize,
    pub(super) per_sec: f64,
    /// Throughput with the most threads, over that of the turning point.
    pub(super) at_most: f64,
    /// The next lower number of threads that was tried.
    pub(super) fewer: Option<usize>,
}

/// How much a line costs the threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LineShare {
    pub(super) line: String,
    /// The share of the threads' time, or how busy the queueing model says it is.
    pub(super) share: f64,
    pub(super) is_busy_share: bool,
    pub(super) threads: usize,
}

/// The effect of a remedy with the most threads.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RemedyRow {
    pub(super) remedy: &'static str,
    pub(super) change: &'static str,
    pub(super) threads: usize,
    pub(super) run: Option<Figure>,
    pub(super) queueing: Option<Figure>,
    /// Throughput with the remedy over that without: the lowest and the highest of the models and of the time
    /// outside.
    pub(super) gain_low: f64,
    pub(super) gain_high: f64,
}

impl Figure {
    /// Returns the median throughput and the range of several runs. `figures` must not be empty.
    pub(super) fn of_runs(figures: &[(f64, f64)]) -> Self {
        let mut rates: Vec<f64> = figures.iter().map(|(per_sec, _)| *per_sec).collect();
        let mut times: Vec<f64> = figures.iter().map(|(_, steps_ns)| *steps_ns).collect();
        rates.sort_by(f64::total_cmp);
        times.sort_by(f64::total_cmp);
        Self {
            per_sec: rates[rates.len() / 2],
            per_sec_low: rates[0],
            per_sec_high: rates[rates.len() - 1],
            steps_ns: times[times.len() / 2],
        }
    }

    /// Returns how far two figures are apart: the largest ratio of their medians and ends, less 1.
    fn apart(self, other: Self) -> f64 {
        let ends = [
            (self.per_sec, other.per_sec),
            (self.per_sec_low, other.per_sec_low),
            (self.per_sec_high, other.per_sec_high),
        ];
        let ratios = ends.map(|(one, other)| one.max(other) / one.min(other) - 1.0);
        ratios.into_iter().fold(0.0, f64::max)
    }

    /// Joins the figures at the least and at the most time outside.
    pub(super) fn joined(least: Self, most: Self) -> Self {
        if least == most {
            return least;
        }
        let (low, high) =
            (least.per_sec_low.min(most.per_sec_low), least.per_sec_high.max(most.per_sec_high));
        Self {
            per_sec: (least.per_sec * most.per_sec).sqrt(),
            per_sec_low: low,
            per_sec_high: high,
            steps_ns: f64::midpoint(least.steps_ns, most.steps_ns),
        }
    }
}

impl TurningPoint {
    /// Formats the number of threads. It lies anywhere after the number that was tried before.
    pub(super) fn range(&self) -> String {
        match self.fewer.map(|fewer| fewer + 1).filter(|first| *first < self.threads) {
            Some(first) => format!("{first} to {}", counted(self.threads, "thread")),
            None => counted(self.threads, "thread"),
        }
    }
}

impl Point {
    /// `outside` tells that each figure is a range since the time outside is one.
    pub(super) fn new(
        threads: usize,
        run: Option<Figure>,
        queueing: Option<Figure>,
        outside: bool,
    ) -> Self {
        let of_medians = |figure: Figure| {
            let Figure { per_sec, .. } = figure;
            Figure { per_sec_low: per_sec, per_sec_high: per_sec, ..figure }
        };
        let compared = |figure: Figure| if outside { figure } else { of_medians(figure) };
        let apart = run.zip(queueing).map(|(one, other)| compared(one).apart(compared(other)));
        Self { threads, run, queueing, apart, preempted: None }
    }

    /// Returns the figure that counts: the run's, if there is one.
    pub(super) fn figure(&self) -> Figure {
        self.run.or(self.queueing).unwrap_or_default()
    }
}

impl Report {
    /// Computes the turning point from the points.
    pub(super) fn set_turning_point(&mut self) {
        let rates: Vec<f64> = self.points.iter().map(|point| point.figure().per_sec).collect();
        self.turning_point = turning_point(&rates).map(|at| TurningPoint {
            threads: self.points[at].threads,
            per_sec: rates[at],
            at_most: rates[rates.len() - 1] / rates[at],
            fewer: at.checked_sub(1).map(|before| self.points[before].threads),
        });
    }

    /// Returns the largest disagreement of the two models, if both were asked.
    pub(super) fn most_apart(&self) -> Option<f64> {
        self.points.iter().filter_map(|point| point.apart).max_by(f64::total_cmp)
    }
}

/// Returns the objects with their shares, the largest first.
pub(super) fn line_shares(
    contention: &Contention,
    shares: &[f64],
    is_busy_share: bool,
    threads: usize,
) -> Vec<LineShare> {
    let named = contention.objects.iter().zip(shares).map(|(object, share)| LineShare {
        line: object.name(),
        share: *share,
        is_busy_share,
        threads,
    });
    let mut lines: Vec<_> = named.filter(|line| line.share > 0.0).collect();
    lines.sort_by(|one, other| other.share.total_cmp(&one.share));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(per_sec: f64) -> Figure {
        Figure { per_sec, per_sec_low: per_sec, per_sec_high: per_sec, steps_ns: 1.0 }
    }

    #[test]
    fn long_runs_are_announced() {
        assert_eq!(announcement(Duration::from_secs(4)), None);
        let note = announcement(Duration::from_secs(90)).unwrap();
        assert!(note.starts_with("note: this takes about 90 s;"), "{note}");
        assert!(announcement(Duration::from_secs(400)).unwrap().contains("about 7 minutes"));
    }

    #[test]
    fn two_models_are_as_far_apart_as_their_ratio() {
        let point = Point::new(2, Some(figure(3.0)), Some(figure(2.0)), false);
        assert_eq!(point.apart, Some(0.5));
        assert_eq!(Point::new(2, Some(figure(3.0)), None, false).apart, None);
        let wide = Figure { per_sec_high: 8.0, ..figure(3.0) };
        assert_eq!(Point::new(2, Some(wide), Some(figure(2.0)), false).apart, Some(0.5));
        assert_eq!(Point::new(2, Some(wide), Some(figure(2.0)), true).apart, Some(3.0));
    }

    #[test]
    fn a_range_of_the_time_outside_is_a_range_of_the_figure() {
        let joined = Figure::joined(figure(9.0), figure(4.0));
        assert_eq!((joined.per_sec_low, joined.per_sec, joined.per_sec_high), (4.0, 6.0, 9.0));
    }

    #[test]
    fn the_turning_point_says_what_the_most_threads_still_give() {
        let points = [1.0, 4.0, 2.0];
        let points =
            (1..).zip(points).map(|(at, it)| Point::new(at, Some(figure(it)), None, false));
        let mut report = Report { points: points.collect(), ..Report::default() };
        report.set_turning_point();
        let expected = TurningPoint { threads: 2, per_sec: 4.0, at_most: 0.5, fewer: Some(1) };
        assert_eq!(report.turning_point, Some(expected));
    }
}

//! The figures that are asked for: each number of threads, and each remedy with the most of them.

use std::fmt;

use coreshard_sim::contend::{CPUS_OF_SHARD, Contention, Measured, Operation, Outside, Remedy};

use super::report::{Figure, Point, RemedyRow, Report, line_shares};
use crate::common::counted;

/// A contention with a number of threads.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) contention: &'a Contention,
    what: &'a str,
    pub(super) threads: usize,
    pub(super) outside_ns: f64,
}

impl fmt::Display for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, threads {}", self.what, self.threads)
    }
}

/// The answers to a question: each a figure, and by object how much of the threads' time it costs or how busy it is.
#[derive(Clone, Default)]
pub(super) struct Answer {
    pub(super) run: Option<(Figure, Vec<f64>)>,
    /// The throughput of each run; the same runs of all questions were made in turns, or with the same seed.
    rates: Vec<f64>,
    pub(super) queueing: Option<(Figure, Vec<f64>)>,
    /// The median share of the threads' time that they waited for a CPU.
    preempted: Option<f64>,
}

impl Answer {
    /// Returns the medians of several runs. `runs` must not be empty.
    pub(super) fn of_runs(runs: &[Measured]) -> Self {
        let figures: Vec<_> = runs.iter().map(|run| (run.per_sec, run.steps_ns)).collect();
        let share =
            |at: usize| runs.iter().map(|run| run.shares[at]).sum::<f64>() / runs.len() as f64;
        let shares = (0..runs[0].shares.len()).map(share).collect();
        let rates = runs.iter().map(|run| run.per_sec).collect();
        let mut preempted: Vec<_> = runs.iter().filter_map(|run| run.preempted).collect();
        preempted.sort_by(f64::total_cmp);
        let preempted = preempted.get(preempted.len() / 2).copied();
        Self { run: Some((Figure::of_runs(&figures), shares)), rates, queueing: None, preempted }
    }

    /// Returns the figure that counts.
    fn figure(&self) -> Figure {
        self.run.as_ref().or(self.queueing.as_ref()).map_or_else(Figure::default, |it| it.0)
    }
}

/// One of the two models' answers.
type Of = fn(&Answer) -> Option<&(Figure, Vec<f64>)>;
const RUN: Of = |answer| answer.run.as_ref();
const QUEUEING: Of = |answer| answer.queueing.as_ref();

/// The answers at the least and at the most time outside: one, or two.
struct Extremes(Vec<Vec<Answer>>);

impl Extremes {
    fn joined(&self, at: usize, of: Of) -> Option<Figure> {
        let ends: Option<Vec<Figure>> = self.0.iter().map(|end| Some(of(&end[at])?.0)).collect();
        ends?.into_iter().reduce(Figure::joined)
    }

    /// Returns the throughputs of a question over those of another one, of both models and all ends: the quartiles over the
    /// runs, pair by pair.
    fn gains(&self, at: usize, over: usize) -> Vec<f64> {
        let queueing = |end: &Vec<Answer>| {
            Some(QUEUEING(&end[at])?.0.per_sec / QUEUEING(&end[over])?.0.per_sec)
        };
        let of_end = |end: &Vec<Answer>| {
            let pairs = end[at].rates.iter().zip(&end[over].rates);
            let mut runs: Vec<_> = pairs.map(|(rate, over)| rate / over).collect();
            runs.sort_by(f64::total_cmp);
            let quartile = |quarters: usize| runs.get(quarters * runs.len() / 4).copied();
            [quartile(1), quartile(3), queueing(end)]
        };
        self.0.iter().flat_map(of_end).flatten().collect()
    }
}

/// Asks about all questions, and puts the answers together.
pub(super) fn report(
    contention: &Contention,
    threads: &[usize],
    ask: impl Fn(&[Question<'_>]) -> anyhow::Result<Vec<Answer>>,
) -> anyhow::Result<Report> {
    let most = *threads.last().expect("there is a number of threads");
    let changed = |remedy: Remedy| {
        // A copy for all CPUs is no change.
        let is_one_copy = remedy == Remedy::PerShard && most <= CPUS_OF_SHARD;
        let changed = if is_one_copy { None } else { remedy.apply(contention) };
        Some((remedy, changed?))
    };
    let remedies: Vec<(Remedy, Contention)> = Remedy::ALL.into_iter().filter_map(changed).collect();
    let lone_ns = match contention.outside {
        Outside::Ns(_) => 0.0,
        Outside::Share(..) => {
            let what = "one thread alone";
            let alone = ask(&[Question { contention, what, threads: 1, outside_ns: 0.0 }])?;
            alone[0].figure().steps_ns
        }
    };
    let (least_ns, most_ns) = contention.outside_ns(lone_ns);
    let mut questions = Vec::new();
    let times: &[f64] = if least_ns == most_ns { &[least_ns] } else { &[least_ns, most_ns] };
    for outside_ns in times.iter().copied() {
        let what = "as it is";
        questions.extend(threads.iter().map(|count| Question {
            contention,
            what,
            threads: *count,
            outside_ns,
        }));
        questions.extend(remedies.iter().map(|(remedy, contention)| Question {
            contention,
            what: remedy.name(),
            threads: most,
            outside_ns,
        }));
    }
    let answers = ask(&questions)?;
    let ends =
        Extremes(answers.chunks(threads.len() + remedies.len()).map(<[_]>::to_vec).collect());
    let points = threads
        .iter()
        .enumerate()
        .map(|(at, count)| {
            let (run, queueing) = (ends.joined(at, RUN), ends.joined(at, QUEUEING));
            let preempted = ends.0.iter().filter_map(|end| end[at].preempted).reduce(f64::max);
            Point { preempted, ..Point::new(*count, run, queueing, times.len() > 1) }
        })
        .collect();
    let last = threads.len() - 1;
    let row = |(number, (remedy, _)): (usize, &(Remedy, Contention))| {
        let at = threads.len() + number;
        let gains = ends.gains(at, last);
        RemedyRow {
            remedy: remedy.name(),
            change: remedy.change(),
            threads: most,
            run: ends.joined(at, RUN),
            queueing: ends.joined(at, QUEUEING),
            gain_low: gains.iter().copied().fold(f64::INFINITY, f64::min),
            gain_high: gains.iter().copied().fold(0.0, f64::max),
        }
    };
    let mut rows: Vec<_> = remedies.iter().enumerate().map(row).collect();
    // By the gain that both models agree on.
    rows.sort_by(|one, other| other.gain_low.total_cmp(&one.gain_low));
    let lines = match &answers[last] {
        Answer { run: Some((_, shares)), .. } => line_shares(contention, shares, false, most),
        Answer { queueing: Some((_, busy)), .. } => line_shares(contention, busy, true, most),
        _ => Vec::new(),
    };
    let mut report = Report {
        outside_ns: (least_ns, most_ns),
        points,
        lines,
        remedies: rows,
        ..Report::default()
    };
    report.set_turning_point();
    report.notes.extend(refusal(&report, times.len() > 1));
    report.notes.extend(preemption(&report));
    let unused = contention.unused();
    if !unused.is_empty() {
        report.notes.push(format!("no step uses {}", unused.join(", ")));
    }
    let sleeps = |contention: &Contention| {
        contention.steps.iter().any(|step| step.operation == Operation::Mutex)
    };
    if answers.iter().any(|answer| answer.queueing.is_some()) && sleeps(contention) {
        report.notes.push(
            "a mutex's waiters sleep, which no model here predicts well; measure before you decide"
                .to_owned(),
        );
    }
    Ok(report)
}

/// If threads wait longer than this share of their time for a CPU, it is reported.
const PREEMPTED: f64 = 0.03;

/// Reports that threads were preempted.
fn preemption(report: &Report) -> Option<String> {
    let most = |one: &&Point, other: &&Point| {
        one.preempted.unwrap_or(0.0).total_cmp(&other.preempted.unwrap_or(0.0))
    };
    let point = report.points.iter().max_by(most)?;
    let share = point.preempted.filter(|share| *share > PREEMPTED)?;
    Some(format!(
        "with {}, the threads waited for a CPU for {:.0} % of their time: other programs ran there, or the threads shared one",
        counted(point.threads, "thread"),
        share * 100.0
    ))
}

/// If the range of the rate is wider than this factor, the time outside decides, and no prediction is made.
const WIDEST: f64 = 3.0;

/// Says that no prediction is made if the unknown time outside decides.
fn refusal(report: &Report, is_range: bool) -> Option<String> {
    let factor = |point: &Point| point.figure().per_sec_high / point.figure().per_sec_low;
    let widest = report.points.iter().max_by(|one, other| factor(one).total_cmp(&factor(other)))?;
    let factor = factor(widest);
    (is_range && factor > WIDEST).then(|| {
        format!(
            "no prediction is made: with {}, the rate varies {factor:.0} times within the \
             given share of time outside; measure that share more closely",
            counted(widest.threads, "thread")
        )
    })
}

//! The answers of real threads on this machine.

use std::time::Duration;

use coreshard::Host;
use coreshard_bench::Progress;
use coreshard_sim::Machine as Simulated;
use coreshard_sim::contend::{
    Contention, Copies, Object, Operation, Outside, Pinning, Retry, Step, Until, measure,
    thread_counts,
};
use coreshard_topology::CpuId;

use super::questions::{Answer, Question};
use super::report::announce;
use crate::common::{Bar, Site, bail_input, counted, interrupted, other_load, output};
use crate::replay::time;

/// How long each run takes.
const RUN_FOR: Duration = Duration::from_millis(60);
/// How many runs there are for each figure.
pub(super) const RUNS: usize = 7;

/// This machine.
pub(super) struct Here {
    pub(super) name: String,
    pub(super) notes: Vec<String>,
    /// All usable CPUs, in the machine's order.
    cpus: Vec<CpuId>,
    /// The CPUs of one thread after the other.
    order: Vec<CpuId>,
    /// How long a round of the measuring loop takes beyond its steps. It is a part of the time outside.
    own_ns: f64,
}

impl Here {
    pub(super) fn read(contention: &Contention) -> anyhow::Result<Self> {
        let site = Site::here()?;
        // Only for the order of its CPUs.
        let machine = Simulated::with_round_costs(site.bench_machine.topology)?;
        let cpus: Vec<_> = machine.topology().cpus().iter().map(|cpu| cpu.id).collect();
        let order = contention.cpus(&machine).into_iter().map(|at| cpus[at]).collect();
        let mut notes = site.notes;
        notes.extend(other_load(cpus.len()));
        let own_ns = own_ns(contention.steps.len(), &cpus)?;
        if matches!(contention.outside, Outside::Ns(outside_ns) if outside_ns < own_ns) {
            let own = time(own_ns);
            notes.push(format!(
                "the measuring loop alone takes {own} a round, more than outside_ns"
            ));
        }
        Ok(Self { name: site.bench_machine.name, notes, cpus, order, own_ns })
    }

    /// Returns the numbers of threads for which there are CPUs.
    pub(super) fn threads(&self, asked: Option<Vec<usize>>) -> anyhow::Result<Vec<usize>> {
        let most = self.order.len();
        let are_given = asked.is_some();
        let mut counts = asked.unwrap_or_else(|| thread_counts(most.max(1)));
        let all = counts.len();
        counts.retain(|threads| *threads <= most);
        if counts.is_empty() {
            bail_input!(
                "this machine has {} for the threads: expected --machine, to simulate a larger one",
                counted(most, "CPU")
            );
        }
        if !are_given || counts.len() < all {
            output::warn(&format!(
                "note: this machine has {} for the threads; --machine simulates a larger one",
                counted(most, "CPU")
            ));
        }
        Ok(counts)
    }

    /// Runs each question several times, in turns, so that a disturbance meets all of them.
    pub(super) fn ask(&self, questions: &[Question<'_>]) -> anyhow::Result<Vec<Answer>> {
        let mut bar = Bar::new()?;
        bar.begin(RUNS * questions.len());
        announce(RUN_FOR * (RUNS * questions.len()) as u32);
        let mut runs = vec![Vec::new(); questions.len()];
        for _ in 0..RUNS {
            for (runs, question) in runs.iter_mut().zip(questions) {
                if bar.step(question).is_break() {
                    return Err(interrupted("interrupted: nothing is reported"));
                }
                let is_pinned = question.contention.pinning != Pinning::Unpinned;
                let pins = is_pinned.then_some(&self.order[..]);
                let until = Until::Elapsed(RUN_FOR);
                let outside_ns = (question.outside_ns - self.own_ns).max(0.0);
                let mut run = measure::<Host>(
                    question.contention,
                    question.threads,
                    outside_ns,
                    &self.cpus,
                    pins,
                    until,
                )?;
                run.steps_ns = (run.steps_ns - (question.outside_ns - outside_ns)).max(0.0);
                runs.push(run);
            }
        }
        Ok(runs.iter().map(|runs| Answer::of_runs(runs)).collect())
    }
}

/// Measures a round with this many steps that cost next to nothing: the shortest of several runs, as others were
/// interrupted.
fn own_ns(steps: usize, cpus: &[CpuId]) -> anyhow::Result<f64> {
    const TIMES: usize = 5;
    let load = Step {
        operation: Operation::Load,
        word: (0, 0),
        retry: Retry::AtOnce,
        reads: Vec::new(),
        writes: Vec::new(),
        inside_ns: 0.0,
        every: 1,
    };
    let nothing = Contention {
        title: String::new(),
        objects: vec![Object {
            words: vec!["it".to_owned()],
            copies: Copies::One,
            is_padded: false,
        }],
        steps: vec![load; steps],
        outside: Outside::Ns(0.0),
        threads: None,
        pinning: Pinning::Unpinned,
    };
    let mut least_ns = f64::INFINITY;
    for _ in 0..TIMES {
        let until = Until::Elapsed(RUN_FOR / 10);
        least_ns = least_ns.min(measure::<Host>(&nothing, 1, 0.0, cpus, None, until)?.steps_ns);
    }
    Ok(least_ns)
}

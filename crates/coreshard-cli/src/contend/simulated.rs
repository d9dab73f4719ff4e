//! The answers of the simulator and of the queueing model.

use std::num::NonZeroUsize;
use std::ptr;
use std::sync::Mutex;
use std::thread::available_parallelism;
use std::time::Instant;

use coreshard_sim::contend::queueing::predict;
use coreshard_sim::contend::{Measured, simulate};
use coreshard_sim::{Machine, Simulation};

use super::questions::{Answer, Question};
use super::report::{Figure, announce};
use crate::common::{each_with_each_seed, interrupted, stoppable, unless_stopped};

/// A simulated machine, and the models to ask.
pub(super) struct Simulated<'a> {
    pub(super) machine: &'a Machine,
    pub(super) simulates: bool,
    pub(super) queues: bool,
    pub(super) seeds: Vec<u64>,
}

impl Simulated<'_> {
    pub(super) fn ask(&self, questions: &[Question<'_>]) -> anyhow::Result<Vec<Answer>> {
        let mut answers = vec![Answer::default(); questions.len()];
        if self.simulates {
            for (answer, runs) in answers.iter_mut().zip(self.simulate(questions)?) {
                *answer = Answer::of_runs(&runs);
            }
        }
        if self.queues {
            for (answer, question) in answers.iter_mut().zip(questions) {
                let it = predict(
                    question.contention,
                    self.machine,
                    question.threads,
                    question.outside_ns,
                );
                let figure = Figure::of_runs(&[(it.per_sec, it.steps_ns)]);
                answer.queueing = Some((figure, it.busy));
            }
        }
        Ok(answers)
    }

    /// Simulates each question with each seed.
    fn simulate(&self, questions: &[Question<'_>]) -> anyhow::Result<Vec<Vec<Measured>>> {
        let run = |question: &Question<'_>, seed: u64| {
            let simulation = stoppable(Simulation::new(self.machine).seed(seed));
            let Question { contention, threads, outside_ns, .. } = *question;
            unless_stopped(simulate(contention, &simulation, threads, outside_ns))
        };
        // One run of the question with the most threads tells how long all will take.
        let known = Mutex::new(None);
        let most = questions.iter().max_by_key(|question| question.threads);
        let longest = most.filter(|_| questions.len() > 1);
        if let Some(longest) = longest {
            let start = Instant::now();
            *known.lock().expect("no holder panics") = run(longest, self.seeds[0]);
            let jobs = questions.len() * self.seeds.len();
            let at_once = available_parallelism().map_or(1, NonZeroUsize::get).min(jobs);
            announce(start.elapsed().mul_f64(jobs as f64 / at_once as f64));
        }
        let run_or_known = |question: &Question<'_>, seed: u64| {
            let is_known = longest.is_some_and(|it| ptr::eq(it, question)) && seed == self.seeds[0];
            let known = is_known.then(|| known.lock().expect("no holder panics").take()).flatten();
            known.or_else(|| run(question, seed))
        };
        let Some(runs) = each_with_each_seed(questions, &self.seeds, run_or_known)? else {
            return Err(interrupted("interrupted: nothing is reported"));
        };
        let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(runs.chunks(self.seeds.len()).map(<[_]>::to_vec).collect())
    }
}

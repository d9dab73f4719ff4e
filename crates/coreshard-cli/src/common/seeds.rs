//! Simulations with several seeds, in parallel on the available CPUs.
//!
//! Each result depends only on machine, seed and program. Results are collected in the order of the seeds, so they do
//! not depend on the number of CPUs.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use anyhow::Context;
use coreshard_bench::Progress;

use super::failure::bad_input;
use super::number::whole;
use super::progress::Bar;

/// Default number of seeds of a simulated benchmark.
pub(crate) const DEFAULT_SEEDS: u64 = 5;

/// The number of simulations per figure.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SeedsArgs {
    /// Simulate with N seeds, from --seed on; figures are medians over seeds, with quartiles [default: 5]
    #[arg(long, value_name = "N", requires = "machine", value_parser = whole::<u64, 1, 1_000>)]
    seeds: Option<u64>,
}

impl SeedsArgs {
    /// Returns the option's name if it was given: it needs a simulation.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.seeds.map(|_| "--seeds")
    }

    /// Returns the seeds, from `first` on.
    pub(crate) fn from(&self, first: u64) -> anyhow::Result<Vec<u64>> {
        seeds(first, self.seeds.unwrap_or(DEFAULT_SEEDS))
    }
}

/// Returns `number` seeds, from `first` on.
pub(crate) fn seeds(first: u64, number: u64) -> anyhow::Result<Vec<u64>> {
    Ok((first..seeds_end(first, number)?).collect())
}

/// Returns the seed after the last of `number` seeds.
pub(crate) fn seeds_end(first: u64, number: u64) -> anyhow::Result<u64> {
    let after = first.checked_add(number).with_context(|| {
        format!(
            "invalid number of seeds {number}, from {first} on: the last seed is {}",
            u64::MAX - 1
        )
    });
    after.map_err(bad_input)
}

/// Runs each of `items` with each seed, in parallel, with a progress bar. Returns the results item by item, or `None`
/// if a run was skipped or `run` returned `None`.
pub(crate) fn each_with_each_seed<T: Display + Sync, R: Send>(
    items: &[T],
    seeds: &[u64],
    run: impl Fn(&T, u64) -> Option<R> + Sync,
) -> anyhow::Result<Option<Vec<R>>> {
    let runs = items.len() * seeds.len();
    let mut bar = Bar::new()?;
    bar.begin(runs);
    let bar = Mutex::new(bar);
    let found = side_by_side(runs, |at| {
        let (item, seed) = (&items[at / seeds.len()], seeds[at % seeds.len()]);
        let goes_on = bar.lock().expect("no holder panics").step(item).is_continue();
        if goes_on { run(item, seed) } else { None }
    });
    Ok(found.into_iter().collect())
}

/// Calls `run` with 0 to `jobs` − 1 on all CPUs, and returns the results in that order.
pub(crate) fn side_by_side<R: Send>(jobs: usize, run: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let at_once = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(jobs);
    on_threads(at_once, jobs, run)
}

fn on_threads<R: Send>(at_once: usize, jobs: usize, run: impl Fn(usize) -> R + Sync) -> Vec<R> {
    if at_once <= 1 {
        return (0..jobs).map(run).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new((0..jobs).map(|_| None).collect::<Vec<Option<R>>>());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Relaxed);
                    if job >= jobs {
                        return;
                    }
                    let result = run(job);
                    done.lock().expect("no holder panics")[job] = Some(result);
                }
            });
        }
    });
    let done = done.into_inner().expect("no holder panics");
    done.into_iter().map(|result| result.expect("each job was run")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_by_number_whatever_runs_at_once() {
        for at_once in [1, 2, 7] {
            let squares = on_threads(at_once, 20, |job| job * job);
            assert!(squares.into_iter().eq((0..20).map(|job| job * job)), "{at_once} at once");
        }
    }
}

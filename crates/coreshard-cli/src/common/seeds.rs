//! Simulations with several seeds, side by side on the CPUs there are.
//!
//! Each is a function of machine, seed and program, and results are taken in the order of the seeds: so they are the
//! same whatever the number of CPUs.

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

/// Seeds of a simulated benchmark, where nothing else is asked for.
pub(crate) const DEFAULT_SEEDS: u64 = 5;

/// How many simulations a figure is a median of.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SeedsArgs {
    /// Simulate with N seeds from --seed on, side by side: figures are medians over them, with quartiles
    /// [default: 5]
    #[arg(long, value_name = "N", requires = "machine", value_parser = whole::<u64, 1, 1_000>)]
    seeds: Option<u64>,
}

impl SeedsArgs {
    /// The option that needs a simulation, where it was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.seeds.map(|_| "--seeds")
    }

    /// The seeds, of which `first` is the first.
    pub(crate) fn from(&self, first: u64) -> anyhow::Result<Vec<u64>> {
        seeds(first, self.seeds.unwrap_or(DEFAULT_SEEDS))
    }
}

/// So many seeds, of which `first` is the first.
pub(crate) fn seeds(first: u64, number: u64) -> anyhow::Result<Vec<u64>> {
    Ok((first..seeds_end(first, number)?).collect())
}

/// The seed after the last of so many.
pub(crate) fn seeds_end(first: u64, number: u64) -> anyhow::Result<u64> {
    let after = first.checked_add(number).with_context(|| {
        format!("there are no {number} seeds from {first} on: the last seed is {}", u64::MAX - 1)
    });
    after.map_err(bad_input)
}

/// Runs each of `items` with each seed, side by side, and shows how far that has come: what was returned, item by item. `None`
/// where one of them was not run, or `run` says that it was ended.
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
        let goes_on = bar.lock().expect("nobody panics with it held").step(item).is_continue();
        if goes_on { run(item, seed) } else { None }
    });
    Ok(found.into_iter().collect())
}

/// Calls `run` with 0 to `jobs` − 1, as many at once as there are CPUs, and returns what it returned, by number.
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
                    done.lock().expect("nobody panics with it held")[job] = Some(result);
                }
            });
        }
    });
    let done = done.into_inner().expect("nobody panics with it held");
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

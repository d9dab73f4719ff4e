//! The mixed load for long, with memory, threads and descriptors watched: none may keep growing.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::LoadOptions;
use crate::adversity::{descriptors, status_field};
use crate::ledger::Ledger;
use crate::load;

/// The resources of the process at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    memory_kib: u64,
    threads: u64,
    descriptors: u64,
}

impl Sample {
    fn take(begin: Instant) -> Result<Self> {
        let own = std::process::id() as libc::pid_t;
        let field = |name| status_field(own, name);
        Ok(Self {
            at: begin.elapsed(),
            memory_kib: field("VmRSS").context("/proc/self/status has no VmRSS")?,
            threads: field("Threads").context("/proc/self/status has no Threads")?,
            descriptors: descriptors(own).context("/proc/self/fd cannot be read")?,
        })
    }
}

/// A watched resource: its name, its value, and how much more does not count as growth.
type Watched = (&'static str, fn(&Sample) -> u64, u64);

/// The watched resources. In addition to a tenth, each may grow by an allowance: for the allocator's slack, for workers that
/// happen to exist, for files that happen to be open.
const WATCHED: [Watched; 3] = [
    ("memory, KiB", |sample| sample.memory_kib, 4096),
    ("threads", |sample| sample.threads, 8),
    ("descriptors", |sample| sample.descriptors, 8),
];

#[allow(clippy::print_stdout, clippy::print_stderr)]
pub(crate) fn run(options: &LoadOptions) -> Result<ExitCode> {
    let plan = options.plan();
    let ledger = Arc::new(Ledger::default());
    let begin = Instant::now();
    let before = Sample::take(begin)?;
    let (stop, stopped) = mpsc::channel::<()>();
    let pause = (plan.time / 200).max(Duration::from_millis(20));
    let watch = thread::Builder::new().name("soak-watch".into()).spawn(move || {
        let mut samples = Vec::new();
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            samples.push(Sample::take(begin)?);
        }
        anyhow::Ok(samples)
    })?;
    let site = load::Site::new(&ledger)?;
    let done = load::run(&plan, site)?;
    drop(stop);
    let samples = watch.join().expect("it returns errors")?;
    let balance = ledger.balance();
    println!("{done} operations in {:.0} s; {balance}", begin.elapsed().as_secs_f64());
    let mut wrong: Vec<String> = balance.verdict().err().into_iter().collect();
    println!("{:<14}{:>10}{:>42}{:>10}", "", "before", "median of each quarter", "most");
    for (name, value, slack) in WATCHED {
        // Without the samples taken while everything was dropped.
        let load: Vec<u64> =
            samples.iter().filter(|sample| sample.at < plan.time).map(value).collect();
        let quarters: Vec<u64> = load.chunks(load.len().div_ceil(4).max(1)).map(median).collect();
        let most = load.iter().max().copied().unwrap_or(0);
        let shown = quarters.iter().map(|median| format!("{median:>10}")).collect::<String>();
        println!("{name:<14}{:>10}  {shown:>40}{most:>10}", value(&before));
        // The first quarter is the start.
        if let [_, second, .., last] = quarters[..]
            && last > second + second / 10 + slack
        {
            wrong.push(format!("{name} grew from {second} to {last}"));
        }
    }
    let after = Sample::take(begin)?;
    // The process's own runtime may keep its monitor.
    if after.threads > before.threads + 4 || after.descriptors > before.descriptors + 4 {
        wrong.push(format!("left behind: {after:?}, before: {before:?}"));
    }
    if wrong.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("torture: broken guarantee: {}", wrong.join("; "));
    Ok(ExitCode::FAILURE)
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

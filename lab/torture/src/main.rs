//! Tortures Coreshard: all operations at once, under adverse conditions, while each item is accounted for.
//!
//! - `torture run`: the mixed load, for a time or a number of operations.
//! - `torture under ADVERSITY`: the load in child processes that are limited, stopped, denied calls.
//! - `torture kth KIND`: the k-th call of a kind fails, for every k.
//! - `torture soak`: the load for long, with memory, threads and descriptors watched.
//!
//! It exits with 0 if every accepted item ran once or was returned, and nothing hung.

mod adversity;
mod kth;
mod ledger;
mod load;
mod soak;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use ledger::Ledger;
use load::Plan;

#[cfg(test)]
testing::watch!();

/// The exit status of a run that hung.
pub(crate) const HUNG: i32 = 9;

#[derive(Parser)]
#[command(about = "Every operation of Coreshard at once, counted, under adversity")]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The mixed load, in this process.
    Run(LoadOptions),
    /// The mixed load in child processes, under an adversity.
    Under(adversity::Options),
    /// A short load in child processes whose k-th call of a kind fails, for every k.
    Kth(kth::Options),
    /// The mixed load for long, with memory, threads and descriptors watched.
    Soak(LoadOptions),
}

#[derive(Args, Clone)]
pub(crate) struct LoadOptions {
    /// The random seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that do operations.
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Ends after this many seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Ends after this many operations of each thread.
    #[arg(long, default_value_t = u64::MAX)]
    operations: u64,
    /// Only these operations.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// All but these operations.
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Once all queues are built, at most this many more threads may be started.
    #[arg(long)]
    spare_threads: Option<u64>,
    /// Succeeds if the runtime or the queues cannot be built and report it.
    #[arg(long)]
    setup_may_fail: bool,
    /// An operation that takes longer, in seconds, is a hang.
    #[arg(long, default_value_t = 60.0)]
    hang_after: f64,
}

impl LoadOptions {
    fn plan(&self) -> Plan {
        Plan {
            seed: self.seed,
            threads: self.threads,
            time: Duration::from_secs_f64(self.seconds),
            operations: self.operations,
            only: self.only.clone(),
            without: self.without.clone(),
            hang_after: Duration::from_secs_f64(self.hang_after),
        }
    }
}

fn main() -> Result<ExitCode> {
    match Command::parse().what {
        What::Run(options) => run(&options),
        What::Under(options) => adversity::run(&options),
        What::Kth(options) => kth::run(&options),
        What::Soak(options) => {
            let_signals_interrupt();
            soak::run(&options)
        }
    }
}

#[allow(clippy::print_stdout, clippy::print_stderr)]
fn run(options: &LoadOptions) -> Result<ExitCode> {
    let_signals_interrupt();
    let ledger = Arc::new(Ledger::default());
    let site = match load::Site::new(&ledger) {
        Err(error) if options.setup_may_fail => {
            println!("cannot be set up: {error:#}");
            return Ok(ExitCode::SUCCESS);
        }
        site => site?,
    };
    if let Some(spare) = options.spare_threads {
        // Plus the program's threads: one for each thread of operations, and one that detects hangs.
        adversity::limit_threads(spare + options.threads as u64 + 1)?;
    }
    let operations = load::run(&options.plan(), site)?;
    let balance = ledger.balance();
    println!("{operations} operations; {balance}");
    match balance.verdict() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(wrong) => {
            eprintln!("torture: broken guarantee: {wrong}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Lets SIGUSR1 interrupt system calls, and do nothing else.
#[allow(unsafe_code)]
fn let_signals_interrupt() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler does nothing, so it may run anywhere. Without SA_RESTART, calls end with EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
    }
}

/// Ends the process because a thread hangs.
#[allow(clippy::print_stderr)]
pub(crate) fn hung(operation: &str, after: Duration) -> ! {
    eprintln!("torture: hung: {operation} has not ended within {} s", after.as_secs_f64());
    if std::env::var_os("TORTURE_WAIT_FOR_DEBUGGER").is_some() {
        eprintln!("torture: process {} waits for a debugger", std::process::id());
        std::thread::sleep(Duration::from_secs(3600));
    }
    std::process::exit(HUNG)
}

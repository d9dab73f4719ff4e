//! The programs of the public suite of fork-join runtimes (tzcnt/runtime-benchmarks), written as the suite writes them for
//! other runtimes: no cut-off, one warm-up run and one timed run, the output in the suite's format.
//!
//! `suite PROGRAM EXECUTOR [THREADS [SIZE]]`

mod executor;
mod programs;

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};

use executor::{Coreshard, Executor, Plain, Rayon};

#[derive(Parser)]
#[command(name = "suite", about = "The public suite's fork-join programs")]
struct Arguments {
    program: Program,
    executor: Which,
    /// Workers; by default one for each CPU that the process may use.
    threads: Option<usize>,
    /// The problem's size; the suite's by default.
    size: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Program {
    /// The Fibonacci number 39, by two forks for each above 1.
    Fib,
    /// 10^8 leaves below nodes of ten.
    Skynet,
    /// All places of 14 queens, a fork for each next row.
    Nqueens,
    /// Two matrices of 2048 x 2048, by quarters down to 32 x 32.
    Matmul,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Coreshard,
    Rayon,
    /// Plain calls, one after the other: the time without any fork.
    Plain,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let threads = arguments
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let outcome = match arguments.executor {
        Which::Coreshard => measure::<Coreshard>(&arguments, threads),
        Which::Rayon => measure::<Rayon>(&arguments, threads),
        Which::Plain => measure::<Plain>(&arguments, threads),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("suite: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn measure<E: Executor>(arguments: &Arguments, threads: usize) -> Result<(), String> {
    println!("threads: {threads}");
    let executor = E::start(threads)?;
    let size = arguments.size;
    match arguments.program {
        Program::Fib => {
            let n = |warms_up| if warms_up { 30 } else { size.unwrap_or(39) };
            timed(
                |warms_up| executor.run(|| programs::fib::run::<E>(n(warms_up))),
                |warms_up, number| programs::fib::check(n(warms_up), number),
            )
        }
        Program::Skynet => {
            let depth = size.unwrap_or(8);
            timed(
                |_| executor.run(|| programs::skynet::run::<E>(depth)),
                |_, sum| programs::skynet::check(depth, sum),
            )
        }
        Program::Nqueens => timed(
            |_| executor.run(programs::nqueens::run::<E>),
            |_, places| programs::nqueens::check(places),
        ),
        Program::Matmul => {
            let n = size.unwrap_or(2048) as usize;
            timed(
                |_| executor.run(|| programs::matmul::run::<E>(n)),
                |_, product| programs::matmul::check(n, &product),
            )
        }
    }
}

/// Runs once to warm up (`true`), and once timed.
fn timed<T>(
    run: impl Fn(bool) -> T,
    check: impl Fn(bool, T) -> Result<(), String>,
) -> Result<(), String> {
    check(true, run(true))?;
    println!("runs:");
    let started = Instant::now();
    let given = run(false);
    let took = started.elapsed();
    check(false, given)?;
    println!("  - iteration_count: 1");
    println!("    duration: {} us", took.as_micros());
    println!("    max_rss: {} KiB", peak_rss_kib());
    Ok(())
}

fn peak_rss_kib() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills the structure.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_maxrss
}

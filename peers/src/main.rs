//! Coreshard beside the executors that people use instead, under the same load.
//!
//! The program starts itself once for each run of each cell (`--cell`), and the programs of other
//! languages likewise; it collects what they print.

mod arguments;
mod cell;
mod driver;
mod foreign;
mod machine;
mod measure;
mod page;
mod peer;
mod plan;
mod results;
mod table;
mod workload;

use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use arguments::Arguments;
use cell::Cell;
use driver::{Bounds, Program};
use results::{Results, Series};

#[cfg(not(feature = "mimalloc"))]
#[global_allocator]
static ALLOCATOR: measure::Counting<std::alloc::System> = measure::Counting(std::alloc::System);
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: measure::Counting<mimalloc::MiMalloc> = measure::Counting(mimalloc::MiMalloc);

#[cfg(test)]
testing::watch!();

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let outcome = match arguments.get(1).map(String::as_str) {
        Some("--cell") => run_cell(&arguments[2..]),
        _ => compare(&Arguments::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("coreshard-peers: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run_cell(arguments: &[String]) -> Result<(), String> {
    let outcome = workload::run(&Cell::parse(arguments)?)?;
    print!("{}", outcome.to_text());
    // Does not tear the executors down: some wait forever for their own threads.
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    std::process::exit(0);
}

/// Shows the current step on a terminal, in a line that the next one replaces.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

fn compare(arguments: &Arguments) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let cpus = driver::allowed_cpus().map_err(|error| error.to_string())?;
    let cpus: Vec<usize> = cpus.into_iter().take(arguments.cpus).collect();
    let bounds = Bounds { cpus, time_limit: Duration::from_secs(arguments.time_limit_s) };
    let programs: Vec<(String, Program)> =
        arguments.peers.iter().map(|peer| (peer.clone(), foreign::program(peer, &own))).collect();
    let rounds_per_ms = measure::calibrate_rounds_per_ms();
    let load_before = machine::load_average();
    let mut all = Vec::new();
    for workload in &arguments.workloads {
        for load in plan::loads(workload, arguments.extent()) {
            let programs: Vec<_> = programs
                .iter()
                .filter(|(peer, _)| peer != peer::FLOOR || load.has_floor())
                .collect();
            let mut series: Vec<Series> = programs
                .iter()
                .map(|(peer, _)| Series {
                    workload: load.workload.to_owned(),
                    params: load.params.clone(),
                    peer: peer.clone(),
                    runs: Vec::new(),
                })
                .collect();
            for run in 0..arguments.runs().min(load.most_runs) {
                // A B C, B C A, …
                for turn in 0..programs.len() {
                    let at = (run + turn) % programs.len();
                    let (peer, program) = programs[at];
                    progress(&format!("{workload} {:?}: run {} {peer}", load.params, run + 1));
                    let cell = Cell {
                        workload: load.workload.to_owned(),
                        peer: peer.clone(),
                        items: arguments.items.unwrap_or(load.items),
                        workers: bounds.cpus.len(),
                        rounds_per_ms,
                        params: load.params.clone(),
                    };
                    series[at].runs.push(driver::run(program, &cell, &bounds));
                }
            }
            all.append(&mut series);
            // After each load, so that a long run that is stopped leaves its results so far.
            write_files(arguments, &results_of(arguments, &bounds, &all, &load_before))?;
        }
    }
    progress("");
    let results = results_of(arguments, &bounds, &all, &load_before);
    print!("{}", table::render(&results));
    Ok(())
}

fn results_of(
    arguments: &Arguments,
    bounds: &Bounds,
    series: &[Series],
    load_before: &str,
) -> Results {
    Results {
        machine: machine::describe(&bounds.cpus),
        runs: arguments.runs(),
        results: results::rows(series),
        notes: machine::notes(load_before, &machine::load_average()),
    }
}

fn write_files(arguments: &Arguments, results: &Results) -> Result<(), String> {
    let write = |path: &Path, text: String| {
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    if let Some(path) = &arguments.html {
        write(path, page::render(results))?;
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(results).map_err(|error| error.to_string())?;
        write(path, text + "\n")?;
    }
    Ok(())
}

//! The kernel's own algorithms on a simulated machine.
//!
//! `cargo run --release -p coreshard-sim --example kernel_lab PROGRAM [MACHINE [THREADS [OPERATIONS [SEEDS]]]]`
#![allow(clippy::print_stdout, reason = "an example that prints its measurements")]

use std::num::NonZeroUsize;

use coreshard_bench::BenchMachine;
use coreshard_bench::kernel::{KernelBench, KernelProgram};
use coreshard_sim::{Machine, Profile, Sim, SimAlloc, Simulation};

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let program: KernelProgram = arguments.next().as_deref().unwrap_or("workqueue").parse()?;
    let name = arguments.next().unwrap_or_else(|| "grace".to_owned());
    let machine = match name.ends_with(".toml") {
        true => Machine::from_file(name.as_ref())?,
        false => Machine::named(&name)?,
    };
    let threads: usize = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let operations = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let seeds: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let only: Vec<String> = arguments.collect();
    let bench =
        KernelBench { threads: NonZeroUsize::new(threads), operations, ..KernelBench::default() };
    let place = BenchMachine::whole(name, "sim", machine.topology().clone());
    for case in KernelBench::cases(program) {
        if !only.is_empty() && !only.contains(&case.variant) && !only.contains(&case.setting) {
            continue;
        }
        for seed in 0..seeds {
            let simulation = Simulation::new(&machine).seed(seed).profile(Profile::InKernel);
            let run = simulation.run(|| bench.run::<Sim>(&place, &case))?;
            let summary = run.summary;
            let run = run.value?;
            println!(
                "{case}: {:.0}/s, {:.2} µs each, p50 p90 p95 {:?}, accesses {} misses {} ctx {} wake {} ipi {}",
                run.ops_per_sec,
                1e6 * place.usable.len().min(if threads == 0 { 1 << 20 } else { threads }) as f64
                    / run.ops_per_sec,
                run.percentiles_ns,
                summary.accesses,
                summary.misses,
                summary.context_switches,
                summary.wakeups,
                summary.ipis,
            );
        }
    }
    Ok(())
}

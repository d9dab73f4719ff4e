//! Which lines a workqueue's CPUs take from one another: one producer a CPU, each with one item
//! outstanding.
//!
//! `cargo run --release -p coreshard-sim --example queue_lines [SCOPE [INTAKE [WAKE [PROFILE]]]]`
#![allow(clippy::print_stdout, reason = "an example that prints its measurements")]

use std::sync::Arc;

use coreshard_platform::{Parker, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Machine, Profile, Sim, SimAlloc, Simulation};
use coreshard_topology::Scope;
use coreshard_workqueue::{Intake, Runtime, Wake};

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let scope: Scope = argument("cache").parse()?;
    let intake: Intake = argument("lock-free").parse()?;
    let wake: Wake = argument("coalesced").parse()?;
    let profile: Profile = argument("futex").parse()?;
    let machine = Machine::named("grace")?;
    let simulation = Simulation::new(&machine).profile(profile).record_lines(true);
    let run = simulation.run(|| {
        let topology = machine.topology().clone();
        let runtime = Runtime::<Sim>::builder(topology).build().expect("all CPUs");
        let builder = runtime.workqueue().scope(scope).intake(intake).wake(wake);
        let queue = builder.build().expect("a queue on all CPUs");
        let producers: Vec<_> = machine
            .topology()
            .cpus()
            .iter()
            .map(|cpu| {
                let queue = queue.clone();
                let spec = ThreadSpec {
                    affinity: Some([cpu.id].into_iter().collect()),
                    ..ThreadSpec::default()
                };
                let body = move || {
                    Sim::sleep(std::time::Duration::from_millis(5));
                    let done = Arc::new(Parker::<Sim>::new());
                    for _ in 0..200 {
                        let over = Arc::clone(&done);
                        let item = move || {
                            over.unpark();
                        };
                        queue.queue(item).expect("an open queue");
                        done.park();
                    }
                };
                Sim::spawn(spec, Box::new(body)).expect("the CPU is the machine's")
            })
            .collect();
        producers.into_iter().for_each(ThreadHandle::join);
    })?;
    let report = run.lines.expect("lines were recorded");
    let total: f64 = report.lines.iter().map(|line| line.cost_ns).sum();
    println!("{} lines, {total:.0} ns in all; the first of them:", report.lines.len());
    let first = report.to_string();
    first.lines().take(60).for_each(|line| println!("{line}"));
    Ok(())
}

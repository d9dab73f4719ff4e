//! What contended operations cost on a simulated machine, by the number of CPUs.
//!
//! `cargo run --release -p coreshard-sim --example contention MACHINE [CPUS]`; a machine is a preset's name or a file.
#![allow(clippy::print_stdout, reason = "an example that prints its measurements")]

#[path = "../tests/programs/mod.rs"]
mod programs;

use coreshard_sim::{Machine, SimAlloc, Simulation};

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

const OPERATIONS: [(&str, programs::Operation); 4] = [
    ("atomic add", programs::add),
    ("compare-exchange loop", programs::compare_exchange_loop),
    ("ticket lock", programs::ticket_lock),
    ("mutex", programs::mutex),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "grace".to_owned());
    let machine = match name.ends_with(".toml") {
        true => Machine::from_file(name.as_ref())?,
        false => Machine::named(&name)?,
    };
    let cpus = machine.topology().cpus().len();
    let most = arguments.next().map_or(Ok(cpus), |text| text.parse())?.min(cpus);
    for (operation, run) in OPERATIONS {
        print!("{operation:>22}");
        let mut threads = 1;
        while threads <= most {
            let simulation = Simulation::new(&machine).seed(1);
            let ns = simulation.run(|| programs::contended_ns(threads as u32, run))?.value;
            print!(" {threads}:{ns:.0}");
            threads += if threads < 4 { 1 } else { (threads / 4).max(1) };
        }
        println!();
    }
    Ok(())
}

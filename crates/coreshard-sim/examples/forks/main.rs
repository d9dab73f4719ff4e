//! Programs that do nothing but fork, on simulated machines: how much sooner are they over with more CPUs? On Coreshard's queues;
//! on a pool that sleeps and wakes as rayon's does; and on one whose idlers never sleep.
//!
//! `cargo run --release -p coreshard-sim --example forks [MACHINE [PROGRAM [CPUS [SCOPE [LINES]]]]]`
//!
//! As in `epyc-9654-2s fib:24:5 1,8,64,192 cache`. Prints a table in Markdown: the median of the runs of each pool, and how many
//! times as fast as the same calls without a fork on one CPU. Where LINES are asked for, of Coreshard's run on so many CPUs
//! the costliest cache lines follow.
#![allow(clippy::print_stdout, reason = "an example that prints its measurements")]

mod deque;
mod program;
mod registry;
mod stealing;

use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

use coreshard_platform::Platform;
use coreshard_sim::{LineReport, Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::{CpuSet, Scope};
use coreshard_workqueue::{Runtime, join};

use program::{Piece, Program};
use stealing::Stealing;

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

/// Of each pool; the first, in which its threads are started, do not count.
#[derive(Clone, Copy)]
struct Runs {
    all: usize,
    uncounted: usize,
}

impl Runs {
    /// Of a long program, fewer: they differ by less, and take longer to simulate.
    fn of(serial: Duration) -> Self {
        if serial > Duration::from_millis(5) {
            Self { all: 7, uncounted: 2 }
        } else {
            Self { all: 31, uncounted: 6 }
        }
    }
}

fn forked(program: Program, piece: Piece) -> u64 {
    let Some([left, right]) = program.split(piece) else { return program.leaf(piece) };
    let (one, other) = join::<Sim, _, _>(|| forked(program, left), || forked(program, right));
    one + other
}

/// The median of the times that `run` takes, which yields how often.
fn time(runs: Runs, right: u64, mut run: impl FnMut() -> u64) -> Duration {
    let mut times: Vec<Duration> = (0..runs.all)
        .map(|_| {
            let began = Sim::now();
            assert_eq!(run(), right, "each leaf is counted once");
            Sim::now() - began
        })
        .skip(runs.uncounted)
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn on_queue(
    runs: Runs,
    machine: &Machine,
    program: Program,
    right: u64,
    scope: Scope,
    cpus: &CpuSet,
) -> Duration {
    let runtime = Runtime::<Sim>::builder(machine.topology().clone()).build().expect("all CPUs");
    let queue = runtime.workqueue().name("forks").scope(scope).cpu_mask(cpus.clone());
    let queue = queue.build().expect("these CPUs");
    time(runs, right, || {
        queue.install(|| forked(program, program.root)).expect("the queue is open")
    })
}

fn on_model(
    runs: Runs,
    program: Program,
    right: u64,
    cpus: &CpuSet,
    idlers_sleep: bool,
) -> Duration {
    let pool = Stealing::start(program, cpus, idlers_sleep).expect("so many threads");
    let took = time(runs, right, || pool.run());
    pool.end();
    took
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let machine = Machine::named(&argument("grace"))?;
    let program: Program = argument("fib:24:5").parse()?;
    let all = machine.topology().online().len();
    let counts = argument(&format!("1,2,4,8,16,32,64,{all}"));
    let scope: Scope = argument("cache").parse()?;
    let shown: usize = argument("0").parse()?;
    let in_simulation = |run: &(dyn Fn() -> Duration + Sync)| {
        let took = Mutex::new(Duration::ZERO);
        Simulation::new(&machine).run(|| *took.lock().expect("nobody panics") = run())?;
        Ok::<_, Box<dyn Error>>(took.into_inner()?)
    };
    let right = Mutex::new(0);
    let serial = in_simulation(&|| {
        *right.lock().expect("nobody panics") = program.serial(program.root);
        let began = Sim::now();
        program.serial(program.root);
        Sim::now() - began
    })?;
    let (right, runs) = (right.into_inner()?, Runs::of(serial));
    println!("serial: {:.3} ms\n", serial.as_secs_f64() * 1e3);
    println!("| CPUs | Coreshard, ms | × | rayon's registry, ms | × | spinning, ms | × |");
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    for count in counts.split(',') {
        let count: usize = count.parse()?;
        let cpus: CpuSet = machine.topology().online().iter().take(count).collect();
        let pools: [&(dyn Fn() -> Duration + Sync); 3] = [
            &|| on_queue(runs, &machine, program, right, scope, &cpus),
            &|| on_model(runs, program, right, &cpus, true),
            &|| on_model(runs, program, right, &cpus, false),
        ];
        print!("| {} |", cpus.len());
        for pool in pools {
            let took = in_simulation(pool)?;
            let speedup = serial.as_secs_f64() / took.as_secs_f64();
            print!(" {:.3} | {speedup:.2} |", took.as_secs_f64() * 1e3);
        }
        println!();
        if shown > 0 {
            let run = Simulation::new(&machine).record_lines(true).run(pools[0])?;
            let lines = run.lines.ok_or("they were recorded")?;
            let first =
                LineReport { lines: lines.lines[..shown.min(lines.lines.len())].to_vec(), ..lines };
            println!("{first}");
        }
    }
    Ok(())
}

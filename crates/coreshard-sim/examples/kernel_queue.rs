//! The in-kernel workqueue benchmark on a simulated machine: one producer per CPU, each with one outstanding
//! item, sleeps until its item ran. The method is that of Linux' lib/test_workqueue.c.
//!
//! `cargo run --release -p coreshard-sim --example kernel_queue [MACHINE [PROFILE [ITEMS [SEED [SCOPE [INTAKE [WAKE]]]]]]]`.
//! A machine is a preset's name or a file; `all` selects all values.
#![allow(clippy::print_stdout, reason = "an example that prints its measurements")]

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use coreshard_platform::{AtomicInt, Parker, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Machine, Profile, Sim, SimAlloc, Simulation};
use coreshard_topology::Scope;
use coreshard_workqueue::{Intake, Runtime, Wake};

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

const SCOPES: [Scope; 6] =
    [Scope::Cpu, Scope::Smt, Scope::CacheShard, Scope::Cache, Scope::Numa, Scope::System];

struct Figures {
    items_per_s: f64,
    /// Nanoseconds, sorted.
    call_ns: Vec<u64>,
}

fn measure(machine: &Machine, scope: Scope, intake: Intake, wake: Wake, items: u64) -> Figures {
    let runtime = Runtime::<Sim>::builder(machine.topology().clone()).build().expect("all CPUs");
    let queue = runtime.workqueue().scope(scope).intake(intake).wake(wake);
    let queue = queue.build().expect("a queue on all CPUs");
    let go = Arc::new(<Sim as Platform>::AtomicU32::new(0));
    let producers: Vec<_> = machine
        .topology()
        .cpus()
        .iter()
        .map(|cpu| {
            let (queue, go) = (queue.clone(), Arc::clone(&go));
            let samples = Arc::new(std::sync::Mutex::new((0, 0, Vec::new())));
            let mine = Arc::clone(&samples);
            let spec = ThreadSpec {
                name: format!("producer {}", cpu.id),
                affinity: Some([cpu.id].into_iter().collect()),
                ..ThreadSpec::default()
            };
            let body = move || {
                while go.load(Relaxed) == 0 {
                    Sim::wait(&go, 0, None);
                }
                let done = Arc::new(Parker::<Sim>::new());
                let mut call_ns = Vec::with_capacity(items as usize);
                let start = Sim::now();
                for _ in 0..items {
                    let over = Arc::clone(&done);
                    let before = Sim::now();
                    let item = move || {
                        over.unpark();
                    };
                    queue.queue(item).expect("an open queue");
                    call_ns.push(Sim::now().ns_since(before));
                    done.park();
                }
                *mine.lock().unwrap() = (start.as_ns(), Sim::now().as_ns(), call_ns);
            };
            (samples, Sim::spawn(spec, Box::new(body)).expect("the CPU is the machine's"))
        })
        .collect();
    Sim::sleep(Duration::from_millis(1));
    go.store(1, Relaxed);
    Sim::wake_all(&raw const *go);
    let (mut first, mut last, mut call_ns) = (u64::MAX, 0, Vec::new());
    for (samples, thread) in producers {
        thread.join();
        let (start, end, samples) = &*samples.lock().unwrap();
        first = first.min(*start);
        last = last.max(*end);
        call_ns.extend_from_slice(samples);
    }
    call_ns.sort_unstable();
    let items_per_s = call_ns.len() as f64 * 1e9 / (last - first) as f64;
    Figures { items_per_s, call_ns }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "grace".to_owned());
    let machine = match name.ends_with(".toml") {
        true => Machine::from_file(name.as_ref())?,
        false => Machine::named(&name)?,
    };
    let profile: Profile = arguments.next().as_deref().unwrap_or("in-kernel").parse()?;
    let items = arguments.next().map_or(Ok(1_000), |text| text.parse())?;
    let seed = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let only: Vec<String> = arguments.collect();
    let wanted = |place: usize, variant: &dyn std::fmt::Display| {
        only.get(place).is_none_or(|only| only == "all" || *only == variant.to_string())
    };
    println!(
        "machine {}, {} CPUs, profile {profile}, {items} items a producer, seed {seed}",
        machine.topology().name(),
        machine.topology().cpus().len()
    );
    println!("| intake | wake | scope | items/s | p50 ns | p90 ns | p95 ns | accesses | host s |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for intake in Intake::ALL {
        for wake in Wake::ALL {
            for scope in SCOPES {
                if !(wanted(0, &scope) && wanted(1, &intake) && wanted(2, &wake)) {
                    continue;
                }
                let start = Instant::now();
                let simulation = Simulation::new(&machine)
                    .seed(seed)
                    .profile(profile)
                    .time_limit(Duration::from_secs(100));
                let run = simulation.run(|| measure(&machine, scope, intake, wake, items))?;
                let Figures { items_per_s, call_ns } = run.value;
                let at = |share: usize| call_ns[call_ns.len() * share / 100];
                println!(
                    "| {intake} | {wake} | {scope} | {items_per_s:.0} | {} | {} | {} | {} | {:.1} |",
                    at(50),
                    at(90),
                    at(95),
                    run.summary.accesses,
                    start.elapsed().as_secs_f64()
                );
            }
        }
    }
    Ok(())
}

//! How many memory accesses the simulator executes per second of the host's time.
//!
//! `cargo run --release -p coreshard-sim --example speed [CPUS [ACCESSES]]`
#![allow(clippy::print_stdout, reason = "an example that prints its measurements")]

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::Instant;

use coreshard_platform::{AtomicInt, Padded, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::CpuId;

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

type AtomicU64 = <Sim as Platform>::AtomicU64;
type Body = fn(&AtomicU64, &AtomicU64);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let cpus = u32::try_from(number(72)?)?;
    let accesses = number(20_000_000)?;
    let machine = Machine::named("grace")?;
    let programs: [(&str, Body); 4] = [
        ("own line, one load in two", |own, _| {
            own.load(Relaxed);
            own.store(1, Relaxed);
        }),
        ("own line, read-modify-write", |own, _| {
            own.fetch_add(1, Relaxed);
            own.fetch_add(1, Relaxed);
        }),
        ("one shared line in eight accesses", |own, shared| {
            for _ in 0..7 {
                own.load(Relaxed);
            }
            shared.fetch_add(1, AcqRel);
        }),
        ("one shared line only", |_, shared| {
            shared.fetch_add(1, AcqRel);
            shared.fetch_add(1, AcqRel);
        }),
    ];
    for (name, body) in programs {
        let start = Instant::now();
        let run = Simulation::new(&machine).run(|| {
            let shared = Arc::new(Padded::new(AtomicU64::new(0)));
            let threads: Vec<_> = (0..cpus)
                .map(|cpu| {
                    let shared = Arc::clone(&shared);
                    let spec = ThreadSpec {
                        affinity: Some([CpuId(cpu)].into_iter().collect()),
                        ..ThreadSpec::default()
                    };
                    let work = move || {
                        let own = Padded::new(AtomicU64::new(0));
                        // All threads begin together.
                        Sim::sleep(std::time::Duration::from_millis(5));
                        for _ in 0..accesses / u64::from(cpus) / 2 {
                            body(&own, &shared);
                        }
                    };
                    Sim::spawn(spec, Box::new(work)).expect("the machine has this CPU")
                })
                .collect();
            threads.into_iter().for_each(ThreadHandle::join);
        })?;
        let took = start.elapsed().as_secs_f64();
        println!(
            "{name}: {:.1} M accesses/s, {:.1} M resumes/s",
            run.summary.accesses as f64 / took / 1e6,
            run.summary.resumes as f64 / took / 1e6,
        );
    }
    Ok(())
}

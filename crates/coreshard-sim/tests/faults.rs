//! The workqueue on a machine where things go wrong: what it promises must hold all the same. The
//! count of runs is kept by host atomics, apart from all that is checked.

mod machines;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use coreshard_platform::{Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Faults, Machine, Profile, Sim, SimAlloc, Simulation};
use coreshard_topology::Scope;
use coreshard_workqueue::{Intake, Runtime, Wake};
use machines::TWO_SOCKETS;

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

const FAULTS: Faults = Faults {
    stalls_per_million: 20_000,
    longest_stall: Duration::from_micros(20),
    spurious_wakeups_per_million: 100_000,
    failed_spawns_per_million: 0,
};

/// Each of four producers queues items, some of which queue another; returns how often each ran.
fn run_items(machine: &Machine, scope: Scope, intake: Intake, wake: Wake) -> Vec<u32> {
    let runtime = Runtime::<Sim>::builder(machine.topology().clone())
        .idle_timeout(Duration::from_micros(300))
        .build()
        .unwrap();
    let queue = runtime.workqueue().scope(scope).intake(intake).wake(wake).build().unwrap();
    let ran: Arc<Vec<AtomicU32>> = Arc::new((0..4 * 40).map(|_| AtomicU32::new(0)).collect());
    let producers: Vec<_> = (0..4)
        .map(|producer| {
            let (queue, ran) = (queue.clone(), Arc::clone(&ran));
            let body = move || {
                for item in 0..20 {
                    let (inner, ran) = (queue.clone(), Arc::clone(&ran));
                    let number = producer * 40 + item * 2;
                    let work = move || {
                        ran[number].fetch_add(1, Relaxed);
                        let again = move || {
                            ran[number + 1].fetch_add(1, Relaxed);
                        };
                        inner.queue(again).unwrap();
                    };
                    queue.queue(work).unwrap();
                    if item % 6 == 0 {
                        Sim::sleep(Duration::from_micros(150));
                    }
                }
            };
            Sim::spawn(ThreadSpec::default(), Box::new(body)).unwrap()
        })
        .collect();
    producers.into_iter().for_each(ThreadHandle::join);
    drop(queue);
    drop(runtime);
    // The last handle may have been dropped inside an item, which leaves the waiting to a thread.
    Sim::sleep(Duration::from_millis(50));
    ran.iter().map(|count| count.load(Relaxed)).collect()
}

#[test]
fn every_item_runs_exactly_once_whatever_goes_wrong() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let seeds = 10;
    for seed in 0..seeds {
        for intake in Intake::ALL {
            for wake in Wake::ALL {
                for scope in [Scope::Smt, Scope::Cache, Scope::System] {
                    let profile = Profile::ALL[seed as usize % 2];
                    let simulation = Simulation::new(&machine)
                        .seed(seed)
                        .profile(profile)
                        .faults(FAULTS)
                        .time_limit(Duration::from_secs(60));
                    let run = simulation.run(|| run_items(&machine, scope, intake, wake));
                    let replay = format!("{scope} {intake} {wake} {profile} seed {seed}");
                    let ran = run.unwrap_or_else(|error| panic!("{replay}: {error}")).value;
                    assert!(ran.iter().all(|times| *times == 1), "{replay}: {ran:?}");
                }
            }
        }
    }
}

#[test]
fn a_seed_replays_its_faults() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let hash = |seed, faults| {
        let program = || run_items(&machine, Scope::Cache, Intake::LockFree, Wake::Coalesced);
        let simulation = Simulation::new(&machine).seed(seed).faults(faults);
        simulation.run(program).unwrap().summary.trace_hash
    };
    assert_eq!(hash(4, FAULTS), hash(4, FAULTS));
    assert_ne!(hash(4, FAULTS), hash(5, FAULTS));
    assert_ne!(hash(4, FAULTS), hash(4, Faults::default()));
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error_with_its_name() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let faults = Faults { failed_spawns_per_million: 1_000_000, ..Faults::default() };
    let run = Simulation::new(&machine).faults(faults).run(|| {
        let spec = ThreadSpec { name: "lost".to_owned(), ..ThreadSpec::default() };
        Sim::spawn(spec, Box::new(|| ())).unwrap_err().to_string()
    });
    assert!(run.unwrap().value.contains("\"lost\""));
}

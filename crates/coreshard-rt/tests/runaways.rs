//! Runaway tasks of the highest priority on every CPU at once: no thread of normal priority runs then, and
//! only the watchdog helps.

#[allow(dead_code, reason = "the other programs use the rest")]
#[path = "host/support.rs"]
mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Host, Platform};
use coreshard_rt::{Executor, Incident, Periodic, Priority};
use coreshard_sim::{Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::{CpuId, CpuSet};
use support::usable;
use testing::{Lack, NEVER, skip, wait_until, within};

testing::watch!();

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

const MS: Duration = Duration::from_millis(1);
const SCAN_PERIOD: Duration = Duration::from_millis(10);
const BUDGET: Duration = Duration::from_millis(20);

/// Returns the number of runs of a campaign whose figures are recorded. Each run must be in time.
fn runs() -> Option<u64> {
    std::env::var("CORESHARD_RT_RUNAWAYS").ok().and_then(|text| text.parse().ok())
}

/// Returns how far each demoted task had exceeded its budget.
fn beyond(incidents: &[Incident]) -> Vec<Duration> {
    let demoted = incidents.iter().filter_map(|incident| match incident {
        Incident::Demoted { used, budget, priority: 99, .. } => Some(*used - *budget),
        _ => None,
    });
    demoted.collect()
}

/// Executes one run. Returns `None` if this machine grants no priorities, or no watchdog above them.
fn all_run_away() -> Option<Vec<Duration>> {
    let (machine, cpus) = usable();
    let builder =
        Executor::<Host>::builder(&machine).cpus(cpus.clone()).priorities([Priority::MAX]);
    let executor = builder.watchdog_period(Some(SCAN_PERIOD)).build().ok()?;
    let stops = Arc::new(AtomicBool::new(false));
    // A safeguard: nothing else can stop them if the watchdog does not.
    let give_up = Host::now() + NEVER / 4;
    // They begin to spin together; meanwhile this thread gets no CPU.
    let together = Arc::new(Barrier::new(cpus.len()));
    let runaways: Vec<_> = cpus
        .iter()
        .map(|cpu| {
            let (stops, together) = (Arc::clone(&stops), Arc::clone(&together));
            let spins = move || {
                together.wait();
                while !stops.load(SeqCst) && Host::now() < give_up {}
            };
            let one = [cpu].into_iter().collect();
            executor.spawn_on(Priority::MAX, &one, Some(BUDGET), spins).unwrap()
        })
        .collect();
    // Behind each of them, a task waits for its CPU.
    let after: Vec<_> = cpus
        .iter()
        .map(|cpu| {
            let one = [cpu].into_iter().collect();
            executor.spawn_on(Priority::MAX, &one, None, || ()).unwrap()
        })
        .collect();
    after.into_iter().for_each(|handle| handle.join().unwrap());
    assert!(Host::now() < give_up, "no task was demoted");
    let beyond = beyond(&executor.take_incidents());
    assert_eq!(beyond.len(), cpus.len(), "all of them are demoted and reported");
    stops.store(true, SeqCst);
    runaways.into_iter().for_each(|handle| handle.join().unwrap());
    Some(beyond)
}

#[test]
fn runaways_of_the_highest_priority_on_all_cpus_are_demoted_and_the_cpus_go_on() {
    let mut all = Vec::new();
    for _ in 0..runs().unwrap_or(3) {
        let Some(beyond) = within(NEVER, all_run_away) else {
            return skip(Lack::Rt, "no priority 99, or no watchdog above it");
        };
        all.extend(beyond);
    }
    if let Some(runs) = runs() {
        all.sort();
        let late = all.iter().filter(|it| **it > SCAN_PERIOD * 2).count();
        let median = all[all.len() / 2];
        tell(&format!(
            "{runs} runs, {} tasks: over a budget of {BUDGET:?} by {median:?} (median), {:?} (maximum); \
             {late} by more than two scans",
            all.len(),
            all[all.len() - 1]
        ));
        assert_eq!(late, 0);
    }
}

#[allow(clippy::print_stderr)]
fn tell(figures: &str) {
    eprintln!("{figures}");
}

/// The kernel refuses SCHED_DEADLINE a period of more than 4.2 s.
#[test]
fn a_watchdog_that_scans_seldom_is_above_all_tasks_too() {
    let (machine, cpus) = usable();
    let with = |period| {
        let builder = Executor::<Host>::builder(&machine).cpus(cpus.clone());
        builder.watchdog_period(Some(period)).build().map(drop)
    };
    if with(SCAN_PERIOD).is_err() {
        return skip(Lack::Rt, "no watchdog above all tasks");
    }
    for seconds in [1, 4, 5, 60, 86_400] {
        // Other threads may hold all shares of SCHED_DEADLINE for a moment, and a finished one keeps its
        // share for up to a period.
        wait_until("there is a share", || match with(Duration::from_secs(seconds)) {
            Err(error) if format!("{error:?}").contains("os error 16") => false,
            built => built.map(|()| true).unwrap(),
        });
    }
}

/// On the simulated machine, accurate to the nanosecond: tasks and activations on all CPUs.
#[test]
fn a_runaway_is_found_within_two_looks() {
    let machine = Machine::named("xeon-hcc-2s").unwrap();
    let topology = machine.topology().clone();
    for seed in 0..6 {
        let topology = topology.clone();
        let run = Simulation::new(&machine).seed(seed).run(move || {
            let cpus: CpuSet = [1, 2, 130, 131].map(CpuId).into_iter().collect();
            let builder = Executor::<Sim>::builder(&topology).cpus(cpus.clone());
            let builder = builder.priorities([Priority::MAX]).watchdog_period(Some(SCAN_PERIOD));
            let executor = builder.build().unwrap();
            let stops = Arc::new(<Sim as Platform>::AtomicU32::new(0));
            let spins = || {
                let stops = Arc::clone(&stops);
                move || {
                    while stops.load(SeqCst) == 0 {
                        Sim::compute(Duration::from_micros(50));
                    }
                }
            };
            let mut handles = Vec::new();
            for cpu in cpus.iter().take(3) {
                Sim::sleep(MS * 3);
                let one = [cpu].into_iter().collect();
                handles
                    .push(executor.spawn_on(Priority::MAX, &one, Some(BUDGET), spins()).unwrap());
            }
            let began = Arc::new(AtomicU64::new(0));
            let (theirs, mut spin) = (Arc::clone(&began), Some(spins()));
            let task = Periodic {
                budget: Some(BUDGET),
                cpus: Some([CpuId(131)].into_iter().collect()),
                ..Periodic::every(MS * 100, Priority::MAX)
            };
            let body = move |_: &_| {
                theirs.fetch_add(1, SeqCst);
                spin.take().into_iter().for_each(|spin| spin());
            };
            let periodic = executor.periodic(task, body).unwrap();
            // Other tasks of the runaways' priority run on their CPUs while the runaways continue.
            let after: Vec<_> = cpus
                .iter()
                .map(|cpu| {
                    let one = [cpu].into_iter().collect();
                    executor.spawn_on(Priority::MAX, &one, None, || ()).unwrap()
                })
                .collect();
            after.into_iter().for_each(|handle| handle.join().unwrap());
            Sim::sleep(BUDGET * 2);
            let found = beyond(&executor.take_incidents());
            assert_eq!((found.len(), began.load(SeqCst)), (4, 1));
            stops.store(1, SeqCst);
            handles.into_iter().for_each(|handle| handle.join().unwrap());
            periodic.stop();
            found
        });
        let found = run.unwrap_or_else(|error| panic!("seed {seed}: {error}")).value;
        assert!(found.iter().all(|beyond| *beyond <= SCAN_PERIOD * 2), "seed {seed}: {found:?}");
    }
}

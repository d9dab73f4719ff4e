//! Tasks by deadline on a simulated machine: the nearest one runs.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform};
use coreshard_rt::{Executor, Overrun, Periodic, PeriodicStats, Priority, Urgency};
use coreshard_sim::{Machine, Sim, SimAlloc, Simulation};
use coreshard_topology::{CpuId, CpuSet};

testing::watch!();

#[global_allocator]
static ALLOCATOR: SimAlloc = SimAlloc;

const MS: Duration = Duration::from_millis(1);

/// Computes, and can be preempted every now and then: the simulation preempts where memory is touched.
fn work(duration: Duration) {
    let touched = <Sim as Platform>::AtomicU32::new(0);
    for _ in 0..duration.as_micros() / 20 {
        Sim::compute(Duration::from_micros(20));
        touched.load(Relaxed);
    }
}

/// Two tasks on one CPU that take 0.6 and 0.3 of it. Deadlines can be met only if the one with much to
/// do makes way for the other.
fn long_and_short(urgency: [Urgency; 2]) -> [PeriodicStats; 2] {
    let machine = Machine::named("xeon-hcc-2s").unwrap();
    let topology = machine.topology().clone();
    let run = Simulation::new(&machine).run(move || {
        let one: CpuSet = [CpuId(3)].into_iter().collect();
        let executor = Executor::<Sim>::builder(&topology).cpus(one).build().unwrap();
        let start = |urgency, period: u32, budget: u32, phase: u32| {
            let task = Periodic {
                urgency,
                period: MS * period,
                phase: MS * phase,
                deadline: None,
                budget: Some(MS * (budget + 1)),
                cpus: None,
                overrun: Overrun::Skip,
            };
            executor.periodic(task, move |_| work(MS * budget)).unwrap()
        };
        let long = start(urgency[0], 100, 59, 20);
        let short = start(urgency[1], 10, 2, 21);
        Sim::sleep(MS * 1_000);
        [long.stop(), short.stop()]
    });
    run.unwrap().value
}

#[test]
fn all_deadlines_are_met_by_the_nearest_first_and_not_by_the_first_come() {
    let [long, short] = long_and_short([Urgency::Deadline; 2]);
    assert!(long.activations >= 8 && short.activations >= 90, "{long:?} {short:?}");
    assert_eq!((long.late, short.late, short.skipped), (0, 0, 0));
    let same = Urgency::Fixed(Priority::new(50).unwrap());
    let [_, short] = long_and_short([same; 2]);
    assert!(short.late + short.skipped > 30, "at one priority the short one waits: {short:?}");
}

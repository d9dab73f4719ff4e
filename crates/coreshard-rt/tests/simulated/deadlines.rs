//! Tasks by deadline, and the placement of periodic tasks, on a simulated machine.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform};
use coreshard_rt::{Executor, Overrun, Periodic, PeriodicStats, Priority, Urgency};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::{CpuId, CpuSet};

const MS: Duration = Duration::from_millis(1);

/// Computes, with regular preemption points: the simulation preempts at memory accesses.
fn work(duration: Duration) {
    let touched = <Sim as Platform>::AtomicU32::new(0);
    for _ in 0..duration.as_micros() / 20 {
        Sim::compute(Duration::from_micros(20));
        touched.load(Relaxed);
    }
}

/// Two tasks on one CPU that use 0.6 and 0.3 of it. The deadlines can be met only if the long task yields to
/// the short one.
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

#[test]
fn no_periodic_task_is_put_on_a_cpu_that_is_offline() {
    let machine = Machine::named("xeon-hcc-2s").unwrap();
    let topology = machine.topology().clone();
    let run = Simulation::new(&machine).run(move || {
        let cpus: CpuSet = [3, 4].map(CpuId).into_iter().collect();
        let executor = Executor::<Sim>::builder(&topology).cpus(cpus.clone()).build().unwrap();
        let start = |budget| {
            let task = Periodic { budget, ..Periodic::every(MS, Priority::new(50).unwrap()) };
            executor.periodic(task, |_| ())
        };
        let budgets = [None, Some(MS / 100)];
        let before = start(budgets[1]).unwrap();
        let [offline, online] = if before.cpu() == CpuId(3) { [3, 4] } else { [4, 3] }.map(CpuId);
        executor.take_offline(offline).unwrap();
        for budget in budgets.into_iter().cycle().take(6) {
            let task = start(budget).unwrap();
            assert_eq!(task.cpu(), online, "{budget:?}");
        }
        // Running tasks continue there.
        let activations = before.stats().activations;
        Sim::sleep(MS * 10);
        assert!(before.stats().activations > activations);
        executor.take_offline(online).unwrap();
        for budget in budgets {
            let error = start(budget).unwrap_err().to_string();
            assert!(error.contains("CPUs 3-4 were taken offline"), "{error}");
        }
        executor.bring_online(offline).unwrap();
        assert_eq!(start(None).unwrap().cpu(), offline);
        before.stop();
    });
    run.unwrap();
}

//! Delays, periodic work and changes of a queue on the simulated machine: the runtime's own code in virtual time, in
//! which hours pass at once and times are exact.

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Lock, Platform};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::Scope;
use coreshard_workqueue::{MissedTick, Periodic, Runtime, Work};

const HOUR: Duration = Duration::from_secs(3_600);

/// The moments at which a periodic item ran, in seconds from the start, when its third tick takes
/// two periods and a half.
fn ticks(missed: MissedTick) -> Vec<u64> {
    let grace = Machine::named("grace").unwrap();
    let run = Simulation::new(&grace).seed(1).run(|| {
        let runtime = Runtime::<Sim>::builder(grace.topology().clone()).build().unwrap();
        let queue = runtime.workqueue().scope(Scope::Cache).build().unwrap();
        let ticks: Arc<Lock<Sim, Vec<u64>>> = Arc::new(Lock::new(Vec::new()));
        let (log, start) = (Arc::clone(&ticks), Sim::now());
        let tick = move || {
            let mut log = log.lock();
            log.push((Sim::now() - start).as_secs());
            let is_third = log.len() == 3;
            drop(log);
            if is_third {
                Sim::sleep(Duration::from_secs(25));
            }
        };
        let periodic = Periodic::start(&queue, Duration::from_secs(10), missed, tick).unwrap();
        Sim::sleep(Duration::from_millis(85_500));
        periodic.stop_and_wait().unwrap();
        ticks.lock().clone()
    });
    run.unwrap().value
}

#[test]
fn each_missed_tick_policy_ticks_when_it_says() {
    assert_eq!(ticks(MissedTick::Skip), [10, 20, 30, 60, 70, 80]);
    assert_eq!(ticks(MissedTick::Burst), [10, 20, 30, 55, 55, 60, 70, 80]);
    assert_eq!(ticks(MissedTick::Delay), [10, 20, 30, 65, 75, 85]);
}

#[test]
fn delays_of_hours_are_exact_and_an_idle_hour_costs_nothing() {
    let grace = Machine::named("grace").unwrap();
    let run = Simulation::new(&grace).seed(2).time_limit(HOUR * 100).run(|| {
        let runtime = Runtime::<Sim>::builder(grace.topology().clone()).build().unwrap();
        let queue = runtime.workqueue().build().unwrap();
        let late: Arc<Lock<Sim, Vec<Duration>>> = Arc::new(Lock::new(Vec::new()));
        let works: Vec<_> = (1..=20_u32)
            .map(|hours| {
                let (late, due) = (Arc::clone(&late), Sim::now() + HOUR * hours);
                let work = Work::new(move |_| late.lock().push(Sim::now() - due));
                work.queue_after(&queue, HOUR * hours).unwrap();
                work
            })
            .collect();
        assert!(works[4].cancel());
        assert!(works[7].modify_delay(&queue, HOUR * 30).unwrap());
        Sim::sleep(HOUR * 21);
        // While the queue has moved to other pools.
        queue.change().scope(Scope::Cpu).apply().unwrap();
        assert!(works[7].flush().unwrap(), "brought forward");
        queue.drain().unwrap();
        late.lock().clone()
    });
    let mut late = run.unwrap().value;
    late.sort_unstable();
    // The one whose delay was changed, of 8 hours at first, was brought forward after 21.
    let changed = late.pop().unwrap();
    assert_eq!(changed.as_secs(), 13 * 3_600, "{changed:?}");
    assert_eq!(late.len(), 18, "one was cancelled");
    let latest = late.last().unwrap();
    // A CPU that has rested for an hour takes its time to come back, now and then four times as long as mostly.
    assert!(*latest < Duration::from_micros(500), "{latest:?}");
}

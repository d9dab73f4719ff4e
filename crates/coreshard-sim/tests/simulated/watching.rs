//! A worker of the locked intake that has slept returns to spinning.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::{CpuId, Scope};
use coreshard_workqueue::{Intake, Runtime, Workqueue};

use crate::machines;

const SELDOM: usize = 20;
const OFTEN: usize = 500;

/// Returns the wake-ups by a producer that spins for the end of each item, and then does something else for
/// the given time.
fn wakeups(queue: &Workqueue<Sim>, items: usize, between: Duration) -> u64 {
    let before = queue.stats().total().wakeups;
    for _ in 0..items {
        let ran = Arc::new(<Sim as Platform>::AtomicU32::new(0));
        let theirs = Arc::clone(&ran);
        queue.queue(move || theirs.store(1, Release)).unwrap();
        while ran.load(Acquire) == 0 {
            Sim::spin_hint();
        }
        Sim::compute(between);
    }
    queue.stats().total().wakeups - before
}

/// While items are rare, each spin fails, and the next one is shorter. When they arrive at intervals of some
/// microseconds, the shortest spin is too short for them, and the longest is not.
#[test]
fn who_has_slept_for_each_item_watches_again_where_that_is_worth_it() {
    let machine = Machine::from_toml("16 vCPUs", machines::XEON_16_VCPU).unwrap();
    let topology = machine.topology().clone();
    let run = Simulation::new(&machine).run(move || {
        let runtime = Runtime::<Sim>::builder(topology).build().unwrap();
        let queue = runtime.workqueue().scope(Scope::Cache).intake(Intake::Locked).build().unwrap();
        let result = Arc::new(std::sync::Mutex::new((0, 0)));
        let (theirs, of_producer) = (Arc::clone(&result), queue.clone());
        let producer = move || {
            let seldom = wakeups(&of_producer, SELDOM, Duration::from_millis(1));
            let often = wakeups(&of_producer, OFTEN, Duration::from_micros(2));
            *theirs.lock().unwrap() = (seldom, often);
        };
        let affinity = Some([CpuId(0)].into_iter().collect());
        let spec = ThreadSpec { affinity, ..ThreadSpec::default() };
        Sim::spawn(spec, Box::new(producer)).unwrap().join();
        queue.shutdown(Duration::from_secs(1)).unwrap();
        *result.lock().unwrap()
    });
    let (seldom, often) = run.unwrap().value;
    assert!(seldom >= SELDOM as u64 - 2, "{seldom} of {SELDOM}");
    assert!(often < OFTEN as u64 / 10, "{often} of {OFTEN}");
}

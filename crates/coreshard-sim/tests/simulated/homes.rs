//! A worker that is woken outside its pod returns home, and stays there for a while.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard_platform::{Parker, Platform, ThreadHandle};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::{CpuId, Scope};
use coreshard_workqueue::{Intake, Runtime, Workqueue};

use crate::machines;
use crate::programs::pinned;

const PRODUCER: CpuId = CpuId(0);
const ITEMS: u64 = 400;
/// The time until the worker falls asleep.
const SILENCE: Duration = Duration::from_micros(50);

/// Queues items, one after the other, on a pool of the CPU that the producer occupies when it wakes the
/// worker. The kernel chooses another, idle CPU.
fn produce(queue: &Workqueue<Sim>) {
    let done = Arc::new(Parker::<Sim>::new());
    for _ in 0..ITEMS {
        Sim::sleep(SILENCE);
        Sim::compute(Duration::from_micros(5));
        let over = Arc::clone(&done);
        let item = move || {
            over.unpark();
        };
        queue.queue(item).unwrap();
        done.park();
    }
}

/// Returns how often a worker was brought home, how often it was woken, and in how many milliseconds.
fn brought_home(strict: bool) -> (u64, u64, u64) {
    let machine = Machine::from_toml("16 vCPUs", machines::XEON_16_VCPU).unwrap();
    let topology = machine.topology().clone();
    let run = Simulation::new(&machine).run(move || {
        let runtime = Runtime::<Sim>::builder(topology).build().unwrap();
        let builder = runtime.workqueue().scope(Scope::Cpu).intake(Intake::Locked);
        let queue = builder.strict(strict).build().unwrap();
        let (theirs, took) = (queue.clone(), Arc::new(Mutex::new(Duration::ZERO)));
        let measured = Arc::clone(&took);
        let producer = move || {
            let begun = Sim::now();
            produce(&theirs);
            *measured.lock().unwrap() = Sim::now() - begun;
        };
        pinned(PRODUCER, producer).join();
        let total = queue.stats().total();
        queue.shutdown(Duration::from_secs(1)).unwrap();
        let ms = took.lock().unwrap().as_millis() as u64;
        (total.repatriated, total.wakeups, ms)
    });
    run.unwrap().value
}

#[test]
fn who_was_brought_home_is_not_led_out_by_the_next_wake_up() {
    let (brought, woken, ms) = brought_home(false);
    assert!(woken > ITEMS / 2, "the worker is asleep when an item comes: {woken}");
    assert!(brought > 1, "it may leave again after a while: {brought} in {ms} ms");
    assert!(brought <= ms / 5 + 1, "at most once in 5 ms: {brought} in {ms} ms");
}

#[test]
fn who_may_not_leave_is_never_brought_home() {
    assert_eq!(brought_home(true).0, 0);
}

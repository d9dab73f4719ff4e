//! Tasks of fixed priority, as far as the machine grants them.

use std::time::Duration;

use coreshard::rt::{Executor, Periodic, Priority};
use fastrand::Rng;

use super::Site;

pub(super) fn tasks(site: &Site, rng: &mut Rng) {
    let Ok(topology) = coreshard::Topology::host() else { return };
    let priority = |rng: &mut Rng| Priority::new(rng.u8(1..50)).expect("1 to 99 are allowed");
    let builder = Executor::builder(&topology).cpus(site.cpus.clone());
    let Ok((executor, _)) = builder.build_degraded() else { return };
    for _ in 0..rng.u32(1..8) {
        let entry = site.ledger.entry("a real-time task");
        // Rejected if its thread cannot be started: then it was not returned, but dropped.
        let mut slot = Some(entry);
        let refused = std::sync::Arc::new(std::sync::Mutex::new(slot.take()));
        let item = std::sync::Arc::clone(&refused);
        let task = executor.spawn(priority(rng), move || {
            let entry = item.lock().expect("no holder panics").take();
            entry.expect("a task runs once").ran();
        });
        match task {
            Ok(task) if rng.bool() => {
                site.ledger.check(task.join().is_ok(), "a real-time task panicked");
            }
            Ok(_) => {}
            Err(_) => {
                if let Some(entry) = refused.lock().expect("no holder panics").take() {
                    entry.back();
                }
            }
        }
    }
    let period = Periodic::every(Duration::from_micros(500), priority(rng));
    if let Ok(periodic) = executor.periodic(period, |_| ()) {
        std::thread::sleep(Duration::from_micros(rng.u64(..2_000)));
        periodic.stop();
    }
}

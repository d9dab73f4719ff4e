//! Tasks and threads that have ended leave nothing behind. The only test in its process, since it checks the
//! whole process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::support::usable;
use coreshard_platform::Host;
use coreshard_rt::{Executor, Incident, Periodic, Priority};
use testing::{NEVER, within};

/// Returns the number of mappings of this process. A thread that is not joined keeps two: its stack and the
/// guard before it.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// The most mappings that may be added: mappings of the allocator, and stacks that the C library keeps for later
/// threads.
const MAX_ADDED: usize = 80;

#[test]
fn threads_are_joined_as_they_end() {
    testing::own_process!();
    within(NEVER * 2, || {
        let priority = Priority::new(30).unwrap();
        let (machine, cpus) = usable();
        let builder = Executor::<Host>::builder(&machine).cpus(cpus.clone());
        let builder = builder.watchdog_period(Some(Duration::from_millis(1)));
        let (executor, _) = builder.priorities([priority]).build_degraded().unwrap();

        let starts_and_stops = |times: usize| {
            for _ in 0..times {
                let every = Periodic::every(Duration::from_millis(1), priority);
                executor.periodic(every, |_| ()).unwrap().stop();
            }
        };
        starts_and_stops(50);
        let before = mappings();
        starts_and_stops(1_000);
        let grown = mappings().saturating_sub(before);
        assert!(grown < MAX_ADDED, "1,000 periodic tasks that were stopped keep {grown} mappings");

        // Each demoted task's thread is replaced, and exits with the task.
        let one = cpus.iter().take(1).collect();
        let budget = Some(Duration::from_micros(200));
        let demoted = |times: usize| {
            for _ in 0..times {
                let stops = Arc::new(AtomicBool::new(false));
                let theirs = Arc::clone(&stops);
                let spins = move || {
                    while !theirs.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                };
                let runaway = executor.spawn_on(priority, &one, budget, spins).unwrap();
                // It begins once the other one no longer occupies its place.
                executor.spawn_on(priority, &one, None, || ()).unwrap().join().unwrap();
                stops.store(true, SeqCst);
                runaway.join().unwrap();
            }
        };
        demoted(20);
        let before = mappings();
        demoted(100);
        let grown = mappings().saturating_sub(before);
        assert!(grown < MAX_ADDED, "100 threads of demoted tasks keep {grown} mappings");
        let incidents = executor.take_incidents();
        assert_eq!(incidents.len(), 120);
        assert!(incidents.iter().all(|it| matches!(it, Incident::Demoted { priority: 30, .. })));
    });
}

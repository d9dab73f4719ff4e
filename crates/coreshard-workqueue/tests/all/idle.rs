//! A runtime without work uses no CPU time: no thread polls.
//!
//! In a separate process, since the test looks at all threads of its process.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use coreshard_platform::{CpuClock, Host};
use coreshard_topology::{Scope, Topology, Usable};
use coreshard_workqueue::{Intake, Runtime, Wake};
use testing::NEVER;

/// How long all threads must stay asleep.
const QUIET: Duration = Duration::from_millis(300);

/// The number of context switches of each worker so far, by its name and thread id.
fn switches() -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        // A thread may exit between the listing and the read.
        let Ok(status) = fs::read_to_string(task.unwrap().path().join("status")) else { continue };
        let line = |key: &str| status.lines().find(|line| line.starts_with(key)).unwrap();
        if line("Name:").contains("cs-") {
            let counts = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(line);
            let id = format!("{} {}", line("Name:"), line("Pid:"));
            found.insert(id, counts.map(str::to_owned).to_vec());
        }
    }
    found
}

#[test]
fn idle_workers_never_run() {
    testing::own_process!();
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap().cpus().clone();
    let runtime = Runtime::<Host>::builder(topology).usable(usable).build().unwrap();
    let mut queues = Vec::new();
    for scope in Scope::ALL {
        for wake in Wake::ALL {
            for intake in Intake::ALL {
                let builder = runtime.workqueue().scope(scope).wake(wake).intake(intake);
                queues.push(builder.build().unwrap());
            }
        }
    }
    for queue in &queues {
        for _ in 0..100 {
            queue.queue(|| ()).unwrap();
        }
        queue.drain().unwrap();
    }
    // Workers spin for a while before they sleep, for longer on a loaded machine. A worker that polls
    // would run repeatedly, so no round would be quiet. The process may use a millisecond to read the
    // state of its threads.
    let started = Instant::now();
    loop {
        let before = switches();
        assert!(before.len() >= queues.len(), "the workers are found by their names: {before:?}");
        let clock = CpuClock::start();
        std::thread::sleep(QUIET);
        let used = clock.elapsed();
        let after = switches();
        if before == after && used < Duration::from_millis(1) {
            break;
        }
        assert!(started.elapsed() < NEVER, "{used:?} used; from {before:?} to {after:?}");
    }
}

//! An executor's changes of its process are undone when it is dropped. The only test in its process, since it
//! checks the whole process.

use std::fs;
use std::time::Duration;

use coreshard_platform::{Host, Platform, RealTime};
use coreshard_rt::{CeilingMutex, Executor, Periodic, Priority};
use coreshard_topology::{CpuSet, Topology};
use testing::{Lack, skip};

#[derive(Debug, PartialEq)]
struct Process {
    locked: String,
    threads: String,
    affinity: CpuSet,
    policy: coreshard_platform::Policy,
}

fn process() -> Process {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default().trim().to_owned()
    };
    Process {
        locked: line("VmLck:"),
        threads: line("Threads:"),
        affinity: coreshard_platform::affinity().unwrap(),
        policy: Host::policy(),
    }
}

#[test]
fn memory_threads_affinity_and_policy_are_as_before() {
    testing::own_process!();
    let before = process();
    let machine = Topology::host().unwrap();
    let cpus = &coreshard_platform::affinity().unwrap() & machine.online();
    let builder = Executor::<Host>::builder(&machine).cpus(cpus).lock_memory(true);
    let (executor, lacking) = builder.build_degraded().unwrap();
    let [low, high] = [20, 70].map(|level| Priority::new(level).unwrap());
    executor.spawn(high, || ()).unwrap().join().unwrap();
    let every = Periodic::every(Duration::from_millis(1), low);
    // It is not stopped, so the executor's drop does that.
    executor.periodic(every, |_| ()).unwrap();
    if executor.has_priorities() {
        let lock = CeilingMutex::<Host, ()>::new(high, ());
        let raised = lock.lock().unwrap();
        assert_ne!(process().policy, before.policy);
        drop(raised);
    } else {
        skip(Lack::Rt, "policies are not checked");
    }
    let during = process();
    assert_ne!(during.threads, before.threads);
    if lacking.is_empty() {
        assert_ne!(during.locked, before.locked);
    }
    drop(executor);
    // A joined thread may be counted for a moment longer.
    for _ in 0..1_000 {
        if process() == before {
            return;
        }
        Host::sleep(Duration::from_millis(1));
    }
    assert_eq!(process(), before);
}

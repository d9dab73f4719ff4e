//! The default CPUs of an executor: all CPUs that this process may use.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use crate::support::usable;
use coreshard_platform::{Host, Platform};
use coreshard_rt::{Executor, Priority};
use coreshard_topology::{CpuId, CpuSet, Topology};
use testing::{Lack, skip};

/// A cpuset with one CPU that contains this process until the value is dropped.
struct Cpuset {
    folder: PathBuf,
    parent: PathBuf,
}

impl Cpuset {
    fn enter(cpu: CpuId) -> io::Result<Self> {
        let topmost = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"]
            .map(Path::new)
            .into_iter()
            .find(|folder| folder.join("cpuset.cpus").exists())
            .ok_or(io::ErrorKind::NotFound)?;
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let of = |line: &str| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            matches!(controllers, "cpuset" | "").then(|| path.trim_start_matches('/').to_owned())
        };
        let path = groups.lines().find_map(of).ok_or(io::ErrorKind::NotFound)?;
        let parent = topmost.join(path);
        let folder = parent.join(format!("coreshard-rt-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Self { folder, parent };
        let mems = fs::read_to_string(group.parent.join("cpuset.mems"))?;
        fs::write(group.folder.join("cpuset.cpus"), cpu.to_string())?;
        fs::write(group.folder.join("cpuset.mems"), mems.trim())?;
        fs::write(group.folder.join("cgroup.procs"), std::process::id().to_string())?;
        Ok(group)
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let leave = fs::write(self.parent.join("cgroup.procs"), std::process::id().to_string());
        leave.and_then(|()| fs::remove_dir(&self.folder)).unwrap();
    }
}

/// Returns the machine, and the last of its CPUs that this process may use. An executor that uses more would
/// begin on the first one.
fn last_cpu() -> (Topology, CpuId) {
    let (machine, cpus) = usable();
    (machine, cpus.last().unwrap())
}

/// Checks an executor in a process that may only use `cpu`.
fn stays_on(machine: &Topology, cpu: CpuId) {
    let one: CpuSet = [cpu].into_iter().collect();
    let priority = Priority::new(40).unwrap();
    let builder = || Executor::<Host>::builder(machine);
    let (executor, _) = builder().build_degraded().unwrap();
    assert_eq!(*executor.cpus(), one);
    let ran_on = executor.spawn(priority, Host::current_cpu).unwrap();
    assert_eq!(ran_on.join().unwrap(), cpu);
    drop(executor);
    let (executor, _) = builder().priorities([priority]).build_degraded().unwrap();
    assert_eq!(executor.snapshot().len(), 1);
    let has_priorities = executor.has_priorities();
    drop(executor);
    // The watchdog needs SCHED_DEADLINE, which is for threads that may run on all CPUs.
    match builder().priorities([priority]).build() {
        Err(error) if has_priorities => {
            let error = error.to_string();
            let says = format!("may run on CPUs {one}, and the kernel gives this policy");
            assert!(error.contains(&says) && error.contains("watchdog_period(None)"), "{error}");
            assert!(!error.contains("RLIMIT"), "{error}");
        }
        built => assert!(!has_priorities || machine.online().len() == 1, "{built:?}"),
    }
}

#[test]
fn an_executor_stays_on_the_cpus_of_taskset() {
    testing::own_process!();
    let (machine, cpu) = last_cpu();
    // The main thread, as with a program that is started by taskset.
    let process = std::process::id().to_string();
    let taskset = Command::new("taskset").args(["-pc", &cpu.to_string(), &process]).output();
    if !taskset.is_ok_and(|output| output.status.success()) {
        return skip(Lack::Taskset, "it cannot be run");
    }
    stays_on(&machine, cpu);
}

#[test]
fn an_executor_stays_in_its_cpuset() {
    testing::own_process!();
    let (machine, cpu) = last_cpu();
    let _group = match Cpuset::enter(cpu) {
        Ok(group) => group,
        Err(error) => return skip(Lack::Cgroup, error),
    };
    stays_on(&machine, cpu);
}

//! The process's own runtime inside external limits: a CPU quota, an affinity.
//!
//! Each test runs this file's program again as a child, which enters the limits before it asks for
//! the runtime, and reports what it found.
#![allow(clippy::print_stdout, reason = "the child reports so")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use coreshard::Scope;
use testing::{Lack, skip};

const CHILD: &str = "CORESHARD_TEST_CHILD";

/// Not a test by itself: the child's part.
#[test]
fn child() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = coreshard::runtime().unwrap();
    let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
    for _ in 0..1_000 {
        queue.queue(|| ()).unwrap();
    }
    queue.drain().unwrap();
    let total = queue.stats().total();
    println!(
        "found: quota {:?} usable {} limit {} workers {} run {}",
        runtime.cpu_quota(),
        runtime.usable(),
        total.worker_limit,
        total.workers,
        total.run
    );
}

/// Runs `child` by a shell that does `first` before it becomes it.
fn run_child(first: &str) -> String {
    let script = format!("{first} exec \"$0\" --exact container::child --nocapture");
    let Output { stdout, stderr, status } = Command::new("sh")
        .args(["-c", &script])
        .arg(env::current_exe().unwrap())
        .env(CHILD, "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&stdout);
    assert!(status.success(), "{stdout}{}", String::from_utf8_lossy(&stderr));
    let found = stdout.find("found: ").unwrap_or_else(|| panic!("the child says {stdout}"));
    stdout[found..].lines().next().unwrap_or_default().to_owned()
}

/// A control group with a quota of half a CPU, for as long as it is held.
struct HalfACpu {
    folder: PathBuf,
    members: PathBuf,
}

impl HalfACpu {
    fn new() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, point, kind, options, ..] = fields[..] else { return None };
            let folder =
                Path::new(point).join(format!("coreshard-container-{}", std::process::id()));
            let (file, text) = match kind {
                "cgroup" if options.split(',').any(|option| option == "cpu") => {
                    ("cpu.cfs_quota_us", "50000")
                }
                "cgroup2" => ("cpu.max", "50000 100000"),
                _ => return None,
            };
            fs::create_dir(&folder).ok()?;
            let group = Self { members: folder.join("cgroup.procs"), folder };
            // The file must be the kernel's: a write must not make a plain one.
            let quota = group.folder.join(file);
            (quota.exists() && fs::write(quota, text).is_ok()).then_some(group)
        })
    }
}

impl Drop for HalfACpu {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            println!("{} is left behind: {error}", self.folder.display());
        }
    }
}

#[test]
fn half_a_cpu_gets_one_worker() {
    let Some(group) = HalfACpu::new() else {
        return skip(Lack::Cgroup, "none with a CPU quota can be made");
    };
    let found = run_child(&format!("echo $$ > {} &&", group.members.display()));
    assert!(found.starts_with("found: quota Some(0.5)"), "{found}");
    assert!(found.ends_with("limit 1 workers 1 run 1000"), "{found}");
}

#[test]
fn one_allowed_cpu_gets_one_worker() {
    let allowed = coreshard_platform::affinity().unwrap();
    let cpu = allowed.first().expect("this runs on a CPU");
    if Command::new("taskset").arg("-V").output().is_err() {
        return skip(Lack::Taskset, "it cannot be run");
    }
    let found = run_child(&format!("taskset -pc {cpu} $$ >&2 &&"));
    assert!(found.contains(&format!("usable {cpu} limit 1 workers 1 run 1000")), "{found}");
}

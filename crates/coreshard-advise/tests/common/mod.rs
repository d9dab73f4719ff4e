//! A recorded tree, made file by file. Tests of the command also use it.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::fs;
use std::path::Path;

use coreshard_topology::Topology;

/// A folder for created files.
pub(crate) struct Recording {
    folder: tempfile::TempDir,
}

impl Recording {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// The CPUs, caches and nodes of a machine.
    pub(crate) fn of(machine: &Topology) -> Self {
        let recording = Self::new();
        recording.file("sys/devices/system/cpu/online", &machine.online().to_string());
        for cpu in machine.cpus() {
            let folder = format!("sys/devices/system/cpu/cpu{}", cpu.id);
            let core = machine.cpus_of_core(cpu.core);
            recording.file(&format!("{folder}/topology/core_cpus_list"), &core.to_string());
            recording
                .file(&format!("{folder}/topology/physical_package_id"), &cpu.package.to_string());
            let llc = machine.llc(cpu.llc).unwrap();
            recording.file(&format!("{folder}/cache/index3/level"), "3");
            recording.file(&format!("{folder}/cache/index3/type"), "Unified");
            recording
                .file(&format!("{folder}/cache/index3/shared_cpu_list"), &llc.cpus.to_string());
        }
        for node in machine.node_ids() {
            let cpus = machine.cpus_of_node(*node).to_string();
            recording.file(&format!("sys/devices/system/node/node{node}/cpulist"), &cpus);
        }
        recording
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> &Self {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
        self
    }

    pub(crate) fn link(&self, name: &str, to: impl AsRef<Path>) -> &Self {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
        self
    }

    /// The kernel's files about its workqueues.
    pub(crate) fn kernel(&self, release: &str, default_scope: &str) -> &Self {
        let parameter = "sys/module/workqueue/parameters";
        let queues = "sys/devices/virtual/workqueue";
        self.file("proc/sys/kernel/osrelease", release)
            .file(&format!("{parameter}/default_affinity_scope"), default_scope)
            .file(&format!("{parameter}/cpu_intensive_thresh_us"), "10000")
            .file(&format!("{parameter}/watchdog_thresh"), "30")
            .file(&format!("{parameter}/power_efficient"), "N")
            .file(&format!("{parameter}/debug_force_rr_cpu"), "N")
            .file(&format!("{queues}/writeback/max_active"), "1024")
            .file(&format!("{queues}/writeback/per_cpu"), "0")
            .file(&format!("{queues}/writeback/nice"), "0")
            .file(&format!("{queues}/writeback/affinity_strict"), "0")
            .file(
                &format!("{queues}/writeback/affinity_scope"),
                &format!("default ({default_scope})"),
            )
    }
}

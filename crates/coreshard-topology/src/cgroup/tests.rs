//! Hierarchies as containers, hosts and old kernels show them.

use std::fs;

use tempfile::TempDir;

use super::*;

struct Recording {
    root: TempDir,
}

const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

impl Recording {
    fn new(mountinfo: &str, cgroup: &str) -> Self {
        let recording = Self { root: tempfile::tempdir().unwrap() };
        recording.file("proc/self/mountinfo", mountinfo).file("proc/self/cgroup", cgroup);
        recording
    }

    fn file(&self, name: &str, text: &str) -> &Self {
        let path = self.root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn limits(&self) -> Limits {
        limits(self.root.path()).unwrap()
    }

    fn cpus(&self) -> Option<f64> {
        self.limits().quota.map(|quota| quota.cpus)
    }

    fn sets(&self) -> Vec<String> {
        self.limits().cpusets.iter().map(|set| set.cpus.to_string()).collect()
    }

    fn error(&self) -> String {
        limits(self.root.path()).unwrap_err().to_string()
    }
}

#[test]
fn the_least_quota_of_all_ancestors_counts() {
    let recording = Recording::new(V2, "0::/a/b\n");
    recording.file("sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
    assert_eq!(recording.cpus(), Some(3.0));
    recording.file("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    let quota = recording.limits().quota.unwrap();
    assert_eq!(quota.cpus, 0.5);
    assert!(quota.file.ends_with("sys/fs/cgroup/a/cpu.max"));
    recording.file("sys/fs/cgroup/a/cpu.max", "max 100000\n");
    recording.file("sys/fs/cgroup/other/cpu.max", "1000 100000\n");
    assert_eq!(recording.cpus(), Some(3.0));
    recording.file("sys/fs/cgroup/a/b/cpu.max", "max\n");
    assert_eq!(recording.cpus(), None);
}

#[test]
fn the_innermost_cpuset_that_is_told_counts() {
    let recording = Recording::new(V2, "0::/a/b\n");
    recording.file("sys/fs/cgroup/cpuset.cpus.effective", "0-31\n");
    recording.file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_eq!(recording.sets(), ["0-31"]);
    recording.file("sys/fs/cgroup/a/cpuset.cpus.effective", "0-5\n");
    assert_eq!(recording.sets(), ["0-5"]);
    recording.file("sys/fs/cgroup/a/b/cpuset.cpus.effective", "\n");
    assert_eq!(recording.sets(), ["0-5"], "an empty file limits nothing");
}

#[test]
fn a_container_sees_its_own_group_as_the_root_of_the_mount() {
    // Without a cgroup namespace: the name is the host's, and the mount tells its root.
    let docker = "9 8 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    let recording = Recording::new(docker, "0::/docker/abc/inner\n");
    recording.file("sys/fs/cgroup/inner/cpu.max", "200000 100000");
    recording.file("sys/fs/cgroup/cpu.max", "100000 100000");
    assert_eq!(recording.cpus(), Some(1.0));

    // The name is the host's, and the group at the mount is unknown.
    let recording = Recording::new(V2, "0::/kubepods/pod1/abc\n");
    recording.file("sys/fs/cgroup/cpu.max", "150000 100000");
    assert_eq!(recording.cpus(), Some(1.5));

    // In a namespace, a process that was moved out of it.
    let recording = Recording::new(V2, "0::/../sibling\n");
    recording.file("sys/fs/cgroup/cpu.max", "150000 100000");
    recording.file("sys/fs/sibling/cpu.max", "10000 100000");
    assert_eq!(recording.cpus(), Some(1.5));

    // A name that only starts like the mount's root.
    let recording = Recording::new(docker, "0::/docker/abcdef\n");
    recording.file("sys/fs/cgroup/def/cpu.max", "10000 100000");
    assert_eq!(recording.cpus(), None);
}

#[test]
fn version_1_and_hybrid_hierarchies_are_read() {
    let mounts = "33 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                  35 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                  36 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let groups = "9:name=systemd:/sd\n3:cpuset:/jobs\n2:cpu,cpuacct:/slow/er\n0::/u\n";
    let recording = Recording::new(mounts, groups);
    assert_eq!((recording.cpus(), recording.sets()), (None, vec![]));
    recording.file("sys/fs/cgroup/cpu,cpuacct/slow/er/cpu.cfs_quota_us", "-1\n");
    recording.file("sys/fs/cgroup/cpu,cpuacct/slow/cpu.cfs_quota_us", "25000\n");
    recording.file("sys/fs/cgroup/cpu,cpuacct/slow/cpu.cfs_period_us", "50000\n");
    recording.file("sys/fs/cgroup/cpuset/jobs/cpuset.cpus", "2-3\n");
    recording.file("sys/fs/cgroup/systemd/sd/cpu.cfs_quota_us", "1\n");
    assert_eq!((recording.cpus(), recording.sets()), (Some(0.5), vec!["2-3".into()]));
    recording.file("sys/fs/cgroup/unified/u/cpu.max", "40000 100000");
    recording.file("sys/fs/cgroup/unified/u/cpuset.cpus.effective", "0-2");
    assert_eq!((recording.cpus(), recording.sets()), (Some(0.4), vec!["2-3".into(), "0-2".into()]));
}

#[test]
fn recordings_without_mountinfo_are_read_by_mounts_and_cpuset() {
    let recording = Recording { root: tempfile::tempdir().unwrap() };
    recording.file("proc/mounts", "none /proc proc rw 0 0\nnone /my\\040cgroup cgroup2 rw 0 0\n");
    recording.file("proc/self/cpuset", "/uid_2008/step_0\n");
    recording.file("my cgroup/uid_2008/step_0/cpuset.cpus.effective", "0-5\n");
    assert_eq!(recording.sets(), ["0-5"]);
}

#[test]
fn nothing_mounted_limits_nothing() {
    let recording = Recording { root: tempfile::tempdir().unwrap() };
    assert_eq!((recording.cpus(), recording.sets()), (None, vec![]));
    recording
        .file("proc/self/mountinfo", "garbage\n- -\n1 2 3\n")
        .file("proc/self/cgroup", "::\nx\n\n");
    assert_eq!((recording.cpus(), recording.sets()), (None, vec![]));
}

#[test]
fn malformed_files_are_named() {
    let recording = Recording::new(V2, "0::/\n");
    for text in ["much 100000", "0 100000", "100 0", "-5 100", ""] {
        recording.file("sys/fs/cgroup/cpu.max", text);
        let error = recording.error();
        assert!(error.contains("cgroup/cpu.max: expected \"QUOTA PERIOD\""), "{text}: {error}");
    }
    recording.file("sys/fs/cgroup/cpu.max", "max 100000");
    recording.file("sys/fs/cgroup/cpuset.cpus.effective", "0-");
    assert!(recording.error().ends_with("cpuset.cpus.effective"), "{}", recording.error());
}

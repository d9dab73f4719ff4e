use std::fs;

use super::*;

/// A process with a line of `/proc/self/status`, and a quota and cpuset of cgroup version 2.
fn process(status: &str, quota: &str, cpuset: &str) -> Result<Usable, TopologyError> {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("proc/self/status", &format!("Name:\tx\n{status}\nMems_allowed:\t1\n"));
    write("proc/self/cgroup", "0::/\n");
    write("proc/self/mountinfo", "1 2 0:3 / /cg rw - cgroup2 cgroup2 rw\n");
    write("cg/cpu.max", quota);
    write("cg/cpuset.cpus.effective", cpuset);
    let machine = Topology::from_synthetic("pack:1 l3:1 core:8 pu:1").unwrap();
    Usable::from_root(root.path(), &machine)
}

#[test]
fn what_is_usable_is_online_and_in_the_mask_and_in_the_cpuset() {
    let usable = process("Cpus_allowed_list:\t0-5,100", "max 100000", "2-31").unwrap();
    assert_eq!(usable.cpus().to_string(), "2-5");
    assert_eq!(usable.online().to_string(), "0-7");
    assert_eq!(usable.affinity().unwrap().to_string(), "0-5,100");
    assert_eq!(usable.cpusets().len(), 1);
    assert_eq!((usable.quota(), usable.worker_limit()), (None, 4));
}

#[test]
fn workers_follow_the_quota_rounded_up_but_never_exceed_the_cpus() {
    let limit = |quota: &str| process("Cpus_allowed_list: 0-3", quota, "").unwrap().worker_limit();
    assert_eq!(limit("50000 100000"), 1);
    assert_eq!(limit("100000 100000"), 1);
    assert_eq!(limit("100001 100000"), 2);
    assert_eq!(limit("1000 100000"), 1);
    assert_eq!(limit("99999999 1000"), 4);
}

#[test]
fn without_a_line_of_affinity_it_limits_nothing() {
    let usable = process("Threads: 1", "max", "").unwrap();
    assert_eq!((usable.affinity(), usable.cpus().len()), (None, 8));
}

#[test]
fn no_cpu_left_and_a_malformed_mask_are_errors() {
    let error = process("Cpus_allowed_list:\t0-3", "max", "4-7").unwrap_err().to_string();
    assert!(error.contains("may use none of its CPUs (0-7)"), "{error}");
    let error = process("Cpus_allowed_list:\t0-3,z", "max", "").unwrap_err();
    assert!(error.to_string().contains("proc/self/status, line 2, column 24: "), "{error}");
    assert_eq!(error.column(), Some(24));
}

#[test]
fn this_process_can_use_what_the_standard_library_says() {
    let host = Topology::host().unwrap();
    let usable = Usable::host(&host).unwrap();
    assert!(usable.cpus().is_subset(host.online()));
    // The standard library rounds the quota down and counts at least 1; it reads the mask as well.
    let theirs = std::thread::available_parallelism().unwrap().get();
    let ours = usable.worker_limit();
    assert!(
        ours == theirs || ours == theirs + 1,
        "{ours} workers, {theirs} by the standard library"
    );
}

/// Names of processes and mounts in these tables may contain any bytes.
#[test]
fn names_in_other_bytes_than_text_hide_no_limit() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("proc/self/status", b"Name:\t\xff\xfe\nCpus_allowed_list:\t0-5\n");
    write("proc/self/cgroup", b"1:name=\xff:/\xfe\n0::/\n");
    write(
        "proc/self/mountinfo",
        b"9 2 0:3 / /\xff rw - tmpfs x rw\n1 2 0:3 / /cg rw - cgroup2 cgroup2 rw\n",
    );
    write("cg/cpuset.cpus.effective", b"2-31\n\0");
    let machine = Topology::from_synthetic("pack:1 l3:1 core:8 pu:1").unwrap();
    assert_eq!(Usable::from_root(root.path(), &machine).unwrap().cpus().to_string(), "2-5");
}

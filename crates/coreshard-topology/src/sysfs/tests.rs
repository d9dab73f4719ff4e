//! Small machines, each with one oddity of the real ones it is named after.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{CpuId, CpuKind, CpuSet, LlcId, NodeId, Pods, Scope, ShardSize};

/// A recorded machine, written file by file.
struct Recording {
    root: TempDir,
}

impl Recording {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    /// A file below `sys/devices/`.
    fn file(&self, name: &str, text: &str) -> &Self {
        let path = self.root.path().join("sys/devices").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
        self
    }

    fn cpu(&self, cpu: u32, name: &str, text: &str) -> &Self {
        self.file(&format!("system/cpu/cpu{cpu}/{name}"), text)
    }

    /// A CPU as kernels since 5.x describe it.
    fn modern(&self, cpu: u32, core: (u32, &str), package: u32, l3: &str) -> &Self {
        self.cpu(cpu, "topology/core_id", &core.0.to_string());
        self.cpu(cpu, "topology/core_cpus_list", core.1);
        self.cpu(cpu, "topology/physical_package_id", &package.to_string());
        self.cache(cpu, 0, "1", "Data", core.1).cache(cpu, 1, "1", "Instruction", core.1);
        self.cache(cpu, 2, "2", "Unified", core.1).cache(cpu, 3, "3", "Unified", l3)
    }

    fn cache(&self, cpu: u32, index: u32, level: &str, kind: &str, shared: &str) -> &Self {
        let index = format!("cache/index{index}");
        self.cpu(cpu, &format!("{index}/level"), level);
        self.cpu(cpu, &format!("{index}/type"), kind);
        self.cpu(cpu, &format!("{index}/size"), "1024K");
        self.cpu(cpu, &format!("{index}/shared_cpu_list"), shared)
    }

    fn read(&self) -> Topology {
        Topology::from_sysfs(self.root.path()).unwrap()
    }

    fn error(&self) -> String {
        let error = Topology::from_sysfs(self.root.path()).unwrap_err();
        let mut text = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            text = format!("{text}: {source}");
        }
        text.replace(&*self.root.path().to_string_lossy(), "")
    }
}

fn counts(topology: &Topology) -> [usize; 5] {
    [
        topology.packages(),
        topology.llcs(),
        topology.cores(),
        topology.cpus().len(),
        topology.nodes(),
    ]
}

/// Recordings are made by tools that copy whole buffers.
#[test]
fn files_that_end_in_zeros_are_read() {
    let recording = two_packages();
    for (name, text) in [("online", "0-7\n\0"), ("present", "0-7\0\0")] {
        let path = recording.root.path().join("sys/devices/system/cpu").join(name);
        fs::write(path, text).unwrap();
    }
    let path = |name: &str| recording.root.path().join("sys/devices/system/cpu/cpu5").join(name);
    fs::write(path("topology/core_cpus_list"), "4-5\n\0").unwrap();
    fs::write(path("topology/physical_package_id"), "1\n\0").unwrap();
    fs::write(path("cache/index3/type"), "Unified\n\0").unwrap();
    let machine = recording.read();
    assert_eq!(counts(&machine), [2, 2, 4, 8, 2]);
    assert_eq!(machine.notes(), [""; 0]);
}

#[test]
fn an_empty_list_of_the_cpus_online_tells_nothing() {
    let recording = two_packages();
    recording.file("system/cpu/online", "").cpu(7, "online", "0").cpu(6, "online", "");
    let machine = recording.read();
    assert_eq!((machine.online().to_string(), machine.offline().to_string()), s("0-6", "7"));
    recording.cpu(3, "cache/index3/shared_cpu_list", "");
    recording.cpu(3, "cache/index3/shared_cpu_map", "0000000f");
    assert_eq!(counts(&recording.read()), [2, 2, 4, 7, 2]);
}

fn s(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

/// As containers show it that put a file of their own over the kernel's.
#[test]
fn the_machine_has_the_cpus_that_say_so_though_the_list_has_only_a_cgroups() {
    let recording = two_packages();
    recording.file("system/cpu/online", "2-3");
    for cpu in 1..8 {
        recording.cpu(cpu, "online", if cpu == 7 { "0" } else { "1" });
    }
    let machine = recording.read();
    assert_eq!((machine.online().to_string(), machine.offline().to_string()), s("1-6", "0,7"));
    assert!(machine.notes()[0].contains("CPUs 1,4-6 online by their own files"));
}

/// Eight caches that give their numbers and not their CPUs, and eight nodes of one package where no cache is
/// told: one cache for all would send each wake-up across the machine.
#[test]
fn caches_without_a_list_of_cpus_are_told_apart_by_their_numbers_or_nodes() {
    let recording = Recording::new();
    recording.file("system/cpu/online", "0-15");
    for cpu in 0..16 {
        recording.cpu(cpu, "topology/core_id", &cpu.to_string());
        recording.cpu(cpu, "topology/physical_package_id", "0");
        recording.file(&format!("system/node/node{}/cpulist", cpu / 2), &two(cpu));
    }
    let machine = recording.read();
    assert_eq!(counts(&machine), [1, 8, 16, 16, 8]);
    assert!(machine.notes()[0].contains("their package's part on their node"));
    for cpu in 0..16 {
        recording.cpu(cpu, "cache/index3/level", "3").cpu(cpu, "cache/index3/type", "Unified");
        recording.cpu(cpu, "cache/index3/id", &(cpu / 4).to_string());
    }
    let machine = recording.read();
    assert_eq!(counts(&machine), [1, 4, 16, 16, 8]);
    assert_eq!(machine.llc(LlcId(1)).unwrap().cpus.to_string(), "4-7");
}

fn two(cpu: u32) -> String {
    format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1)
}

#[test]
fn a_file_that_is_too_long_or_never_ends_is_an_error_that_tells_the_bound() {
    let recording = two_packages();
    recording.cpu(0, "topology/core_id", &"7".repeat(5_000));
    let error = recording.error();
    assert!(error.contains("at most 4096 bytes") && error.len() < 400, "{error}");
    recording.cpu(0, "topology/core_id", &"x\u{1b}]".repeat(1_000));
    let error = recording.error();
    assert!(error.contains("found \"x\\u{1b}]") && error.len() < 500, "{error}");
    recording.cpu(0, "topology/core_id", "0").file("system/cpu/online", &"0-7,".repeat(300_000));
    assert!(recording.error().contains("at most 1048576 bytes"));
    recording.file("system/cpu/online", &"0-65535,".repeat(100_000));
    let error = recording.error();
    assert!(error.contains("expected at most 1048576 CPUs"), "{error}");
    let online = recording.root.path().join("sys/devices/system/cpu/online");
    fs::remove_file(&online).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&online).status().unwrap().success());
    assert!(recording.error().contains("expected a regular file, found a pipe"));
}

#[test]
fn what_a_machine_is_called_steers_no_terminal() {
    let recording = two_packages();
    let info = recording.root.path().join("proc/cpuinfo");
    fs::create_dir_all(info.parent().unwrap()).unwrap();
    fs::write(info, b"processor\t: 0\nmodel name\t: Evil\x1b]0;owned\x07\x9b \xff CPU\n").unwrap();
    let machine = recording.read();
    assert_eq!(machine.model(), Some("Evil\u{fffd}]0;owned\u{fffd}\u{fffd} \u{fffd} CPU"));
}

fn two_packages() -> Recording {
    let recording = Recording::new();
    recording.file("system/cpu/online", "0-7").file("system/cpu/present", "0-7");
    for cpu in 0..8 {
        let package = cpu / 4;
        let core = cpu / 2;
        let siblings = format!("{}-{}", core * 2, core * 2 + 1);
        let l3 = format!("{}-{}", package * 4, package * 4 + 3);
        recording.modern(cpu, (core % 2, &siblings), package, &l3);
    }
    recording.file("system/node/node0/cpulist", "0-3").file("system/node/node1/cpulist", "4-7");
    recording
}

#[test]
fn a_machine_without_oddities_is_read_without_notes() {
    let machine = two_packages().read();
    assert_eq!(counts(&machine), [2, 2, 4, 8, 2]);
    assert_eq!(machine.notes(), [""; 0]);
    let cpu = machine.cpu(CpuId(6)).unwrap();
    // The kernel's core number starts anew in each package; ours does not.
    assert_eq!((cpu.core.0, cpu.os_core, cpu.node), (3, Some(1), Some(NodeId(1))));
    let llc = machine.llc(LlcId(1)).unwrap();
    assert_eq!((llc.level, llc.size_bytes), (Some(3), Some(1 << 20)));
    assert_eq!(llc.cpus.to_string(), "4-7");
}

#[test]
fn old_kernels_write_masks_and_no_list_of_the_cpus_online() {
    let recording = Recording::new();
    for cpu in 0..4 {
        let mask = if cpu % 2 == 0 { "00000000,00000005" } else { "00000000,0000000a" };
        recording.cpu(cpu, "topology/core_id", "0");
        recording.cpu(cpu, "topology/physical_package_id", &(cpu % 2).to_string());
        recording.cpu(cpu, "topology/thread_siblings", mask);
        recording.cpu(cpu, "cache/index0/level", "2").cpu(cpu, "cache/index0/type", "Unified");
        recording.cpu(cpu, "cache/index0/shared_cpu_map", mask);
    }
    for (cpu, online) in [(1, "1"), (2, "1"), (3, "0")] {
        recording.cpu(cpu, "online", online);
    }
    recording.file("system/node/node0/cpumap", "00000000,0000000f");
    let machine = recording.read();
    assert_eq!(counts(&machine), [2, 2, 2, 3, 1]);
    assert_eq!(machine.offline().to_string(), "3");
    assert_eq!(machine.cpus_of_core(machine.cpu(CpuId(0)).unwrap().core).to_string(), "0,2");
}

#[test]
fn numbers_may_be_sparse_and_cpus_offline() {
    let recording = Recording::new();
    recording.file("system/cpu/online", "0,100,4095").file("system/cpu/present", "0-1,100,4095");
    for cpu in [0, 100, 4095] {
        recording.modern(cpu, (cpu, &cpu.to_string()), 36, "0-4095");
    }
    recording.cpu(1, "online", "0");
    recording.file("system/node/node8/cpulist", "0-1,100").file("system/node/node250/cpulist", "");
    let machine = recording.read();
    assert_eq!(counts(&machine), [1, 1, 3, 3, 1]);
    assert_eq!(machine.offline().to_string(), "1");
    assert_eq!(machine.memory_only_nodes(), [NodeId(250)]);
    assert_eq!(machine.cpu(CpuId(4095)).unwrap().node, None);
    assert!(machine.notes().join("\n").contains("CPU 4095 without a NUMA node"));
    assert!(machine.cpu(CpuId(4096)).is_none());
}

#[test]
fn without_an_l3_the_l2_is_last() {
    let recording = Recording::new();
    recording.file("system/cpu/online", "0-1");
    for cpu in 0..2 {
        recording.cpu(cpu, "topology/thread_siblings_list", &cpu.to_string());
        recording.cpu(cpu, "topology/physical_package_id", "0");
        recording.cache(cpu, 0, "1", "Data", &cpu.to_string());
        recording.cache(cpu, 1, "2", "Unified", &cpu.to_string());
    }
    let machine = recording.read();
    assert_eq!(counts(&machine), [1, 2, 2, 2, 0]);
    assert_eq!(machine.llc(LlcId(0)).unwrap().level, Some(2));
}

#[test]
fn without_any_cache_the_package_stands_in_and_a_note_says_so() {
    let recording = Recording::new();
    recording.file("system/cpu/online", "0-3");
    for cpu in 0..4 {
        recording.cpu(cpu, "topology/core_id", &(cpu % 2).to_string());
        recording.cpu(cpu, "topology/physical_package_id", &(cpu / 2).to_string());
    }
    let machine = recording.read();
    assert_eq!(counts(&machine), [2, 2, 4, 4, 0]);
    assert_eq!(machine.llc(LlcId(0)).unwrap().level, None);
    let notes = machine.notes().join("\n");
    assert!(notes.contains("CPUs 0-3 without a cache; their package is treated"), "{notes}");
    assert!(notes.contains("CPUs 0-3 without a NUMA node"), "{notes}");
}

#[test]
fn without_any_topology_every_cpu_is_a_core() {
    let recording = Recording::new();
    recording.file("system/cpu/online", "0-1").cpu(0, "uevent", "").cpu(
        1,
        "topology/core_id",
        "-1",
    );
    recording.cpu(1, "topology/physical_package_id", "-1");
    let machine = recording.read();
    assert_eq!(counts(&machine), [1, 1, 2, 2, 0]);
    let notes = machine.notes().join("\n");
    for words in ["0-1 without a core", "0-1 without a package", "0-1 without a cache"] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
}

#[test]
fn cores_are_told_by_number_where_there_are_no_siblings() {
    let recording = Recording::new();
    recording.file("system/cpu/online", "0-3");
    for cpu in 0..4 {
        recording.cpu(cpu, "topology/core_id", "7");
        recording.cpu(cpu, "topology/die_id", &(cpu % 2).to_string());
        recording.cpu(cpu, "topology/package_cpus_list", "0-3");
    }
    let machine = recording.read();
    assert_eq!(counts(&machine)[..3], [1, 1, 2]);
    assert_eq!(machine.cpus_of_core(machine.cpu(CpuId(1)).unwrap().core).to_string(), "1,3");
}

#[test]
fn two_l3s_in_one_package_and_kinds_by_capacity() {
    let recording = Recording::new();
    recording.file("system/cpu/online", "0-5");
    for (cpu, capacity) in [(0, 718), (1, 731), (2, 718), (3, 997), (4, 1017), (5, 1024)] {
        let l3 = if cpu < 3 { "0-2" } else { "3-5" };
        recording.modern(cpu, (cpu, &cpu.to_string()), 36, l3);
        recording.cpu(cpu, "cpu_capacity", &capacity.to_string());
    }
    recording.file("system/node/node0/cpulist", "0-5");
    let machine = recording.read();
    assert_eq!(counts(&machine), [1, 2, 6, 6, 1]);
    let kinds: Vec<CpuKind> = machine.cpus().iter().map(|cpu| cpu.kind).collect();
    assert_eq!(kinds[..3], [CpuKind::Efficiency; 3]);
    assert_eq!(kinds[3..], [CpuKind::Performance; 3]);
}

#[test]
fn hybrid_kinds_come_from_the_counter_devices_first() {
    let recording = Recording::new();
    recording.file("system/cpu/online", "0-3");
    for (cpu, core) in [(0, "0-1"), (1, "0-1"), (2, "2"), (3, "3")] {
        recording.modern(cpu, (cpu / 2 * 8, core), 0, "0-3");
    }
    let alike = recording.read();
    assert!(alike.cpus().iter().all(|cpu| cpu.kind == CpuKind::Unknown));

    for (cpu, frequency) in [(0, "1900000"), (1, "1900000"), (2, "1400000"), (3, "1400000")] {
        recording.cpu(cpu, "cpufreq/base_frequency", frequency);
    }
    let told = |machine: &Topology| {
        let fast = machine.cpus().iter().filter(|cpu| cpu.kind == CpuKind::Performance);
        fast.map(|cpu| cpu.id).collect::<CpuSet>().to_string()
    };
    let by_frequency = recording.read();
    assert_eq!(told(&by_frequency), "0-1");
    assert!(by_frequency.notes().join("").contains("base_frequency"));

    recording.file("cpu_core/cpus", "0-2").file("cpu_atom/cpus", "3");
    assert_eq!(told(&recording.read()), "0-2");
}

#[test]
fn cores_that_span_nodes_are_united_and_contradictions_noted() {
    let recording = two_packages();
    recording.file("system/node/node0/cpulist", "0-4").file("system/node/node1/cpulist", "4-7");
    recording.cpu(3, "cache/index3/shared_cpu_list", "3");
    let machine = recording.read();
    // CPU 4 is in both nodes, and node 0 is taken; CPU 5 is its sibling and follows.
    assert_eq!(machine.cpu(CpuId(5)).unwrap().node, Some(NodeId(0)));
    let notes = machine.notes().join("\n");
    assert!(notes.contains("CPU 4 in several NUMA nodes"), "{notes}");
    assert!(notes.contains("CPUs 4 and 5 are one core but differ in NUMA node"), "{notes}");
    assert!(notes.contains("CPUs 0-2 disagree with others on which CPUs share"), "{notes}");
    assert!(notes.contains("1 of 2 last-level caches span NUMA nodes"), "{notes}");
    let pods = Pods::new(&machine, machine.online(), Scope::Cache, ShardSize::DEFAULT).unwrap();
    let lists: Vec<String> = pods.iter().map(|pod| pod.cpus.to_string()).collect();
    assert_eq!(lists, ["0-3", "4-5", "6-7"]);
}

#[test]
fn restriction_keeps_numbers_and_drops_what_is_left_empty() {
    let machine = two_packages().read();
    let kept = machine.restrict(&"5-6".parse().unwrap()).unwrap();
    assert_eq!(counts(&kept), [1, 1, 2, 2, 1]);
    assert_eq!(kept.cpu(CpuId(6)).unwrap().node, Some(NodeId(1)));
    assert_eq!(kept.llc(LlcId(0)).unwrap().level, Some(3));
    assert!(kept.cpu(CpuId(0)).is_none());
    assert!(machine.restrict(&CpuSet::new()).unwrap_err().to_string().contains("at least one CPU"));
    let error = machine.restrict(&"6-9".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("8-9") && error.contains("0-7"), "{error}");
}

#[test]
fn malformed_files_are_named_with_what_was_found() {
    let cases = [
        (
            "system/cpu/online",
            "0-x",
            "/sys/devices/system/cpu/online: CPU list \"0-x\", column 3: ",
        ),
        ("system/cpu/online", "0-4294967295", "column 3: expected a CPU number up to 65535"),
        (
            "system/cpu/cpu1/topology/core_id",
            "one",
            "cpu1/topology/core_id: expected a whole number, found \"one\"",
        ),
        ("system/cpu/cpu1/topology/physical_package_id", "99999999999", "at most 32 bits"),
        (
            "system/cpu/cpu1/topology/core_cpus_list",
            "0,,1",
            "core_cpus_list: CPU list \"0,,1\", column 3",
        ),
        ("system/cpu/cpu0/cache/index3/level", "?", "index3/level: expected a whole number"),
        (
            "system/cpu/cpu0/cache/index3/type",
            "Trace",
            "index3/type: expected Unified, Data or Instruction",
        ),
        ("system/cpu/cpu1/cache/index3/shared_cpu_list", "3-1", "shared_cpu_list: CPU list"),
        ("system/node/node1/cpulist", "4-", "node1/cpulist: CPU list \"4-\", column 3"),
        ("system/cpu/cpu70000/online", "1", "invalid CPU 70000"),
        ("cpu_core/cpus", "a", "cpu_core/cpus: CPU list"),
    ];
    for (file, text, expected) in cases {
        let recording = two_packages();
        recording.file(file, text);
        let error = recording.error();
        assert!(error.contains(expected), "{file}: {error}");
    }
    let recording = two_packages();
    fs::write(recording.root.path().join("sys/devices/system/cpu/online"), [0xff, 0xfe]).unwrap();
    assert!(recording.error().contains("expected text"), "{}", recording.error());
}

#[test]
fn a_folder_without_sys_is_named() {
    let recording = two_packages();
    let error = Topology::from_sysfs(recording.root.path().join("sys")).unwrap_err().to_string();
    assert!(error.contains("expected a folder that holds sys/devices/system/cpu"), "{error}");
    assert!(error.contains("the folder above this one is suitable"), "{error}");
    assert!(Topology::from_sysfs(Path::new("/does/not/exist")).is_err());
}

#[test]
fn the_model_is_told_by_cpuinfo_or_else_by_firmware() {
    let recording = two_packages();
    let tree = recording.root.path().join("sys/firmware/devicetree/base");
    fs::create_dir_all(&tree).unwrap();
    fs::write(tree.join("model"), "Raspberry Pi 5 Model B Rev 1.0\0").unwrap();
    assert_eq!(recording.read().model(), Some("Raspberry Pi 5 Model B Rev 1.0"));
    recording.file("virtual/dmi/id/product_name", "NVIDIA_DGX_Spark");
    assert_eq!(recording.read().model(), Some("NVIDIA_DGX_Spark"));
    let proc = recording.root.path().join("proc");
    fs::create_dir(&proc).unwrap();
    fs::write(proc.join("cpuinfo"), "processor\t: 0\nmodel name\t: A CPU @ 2.0GHz\n").unwrap();
    assert_eq!(recording.read().model(), Some("A CPU @ 2.0GHz"));
}

#[test]
fn this_host_is_read() {
    let host = Topology::host().unwrap();
    assert_eq!(host.name(), "host");
    let parallelism = std::thread::available_parallelism().unwrap().get();
    assert!(host.cpus().len() >= parallelism, "{} CPUs, {parallelism} usable", host.cpus().len());
    let pods = Pods::new(&host, host.online(), Scope::Smt, ShardSize::DEFAULT).unwrap();
    assert_eq!(pods.len(), host.cores());
}

#[test]
fn figures_that_cannot_be_read_leave_kinds_unknown_and_a_note() {
    let recording = two_packages();
    recording.cpu(0, "cpu_capacity", "<unsupported>");
    let machine = recording.read();
    assert!(
        machine.notes().join("").contains("kinds of CPUs are unknown"),
        "{:?}",
        machine.notes()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_content_of_a_file_makes_the_reader_panic(
        file in proptest::sample::select(vec![
            "system/cpu/online", "system/cpu/present", "system/cpu/cpu1/topology/core_id",
            "system/cpu/cpu1/topology/core_cpus_list", "system/cpu/cpu1/topology/physical_package_id",
            "system/cpu/cpu1/cache/index3/level", "system/cpu/cpu1/cache/index3/size",
            "system/cpu/cpu1/cache/index3/shared_cpu_list", "system/node/node1/cpulist",
            "system/node/node4000000000/cpulist", "cpu_atom/cpus",
        ]),
        text in "[-0-9,KM]{0,8}|.{0,8}",
    ) {
        let recording = two_packages();
        recording.file("cpu_core/cpus", "0-3").file(file, &text);
        // Whatever is read is consistent: pods of every scope can be laid out.
        if let Ok(machine) = Topology::from_sysfs(recording.root.path()) {
            for scope in Scope::ALL {
                prop_assert!(Pods::new(&machine, machine.online(), scope, ShardSize::DEFAULT).is_ok());
            }
        }
    }
}

/// `fast` performance cores with two CPUs each, then `thrifty` efficiency cores with an L2 cache for each four, behind
/// one L3.
fn hybrid(fast: u32, thrifty: u32, has_clusters: bool) -> Topology {
    let recording = Recording::new();
    let cpus = 2 * fast + thrifty;
    let all = format!("0-{}", cpus - 1);
    recording.file("system/cpu/online", &all);
    for cpu in 0..cpus {
        let is_fast = cpu < 2 * fast;
        let first = if is_fast { cpu / 2 * 2 } else { cpu };
        let core = if is_fast { format!("{first}-{}", first + 1) } else { cpu.to_string() };
        recording.modern(cpu, (first, &core), 0, &all);
        let beyond = cpu.saturating_sub(2 * fast);
        let quad = 2 * fast + beyond / 4 * 4;
        let shared = if is_fast { core } else { format!("{quad}-{}", quad + 3) };
        recording.cache(cpu, 2, "2", "Unified", &shared);
        if has_clusters {
            recording.cpu(cpu, "topology/cluster_cpus_list", &shared);
        }
    }
    recording.file("cpu_core/cpus", &format!("0-{}", 2 * fast - 1));
    recording.file("cpu_atom/cpus", &format!("{}-{}", 2 * fast, cpus - 1));
    recording.read()
}

#[test]
fn a_shard_has_cores_of_one_kind_and_whole_clusters() {
    for has_clusters in [true, false] {
        for (fast, thrifty, expected) in [
            (4, 8, &["0-7", "8-15"][..]),
            (6, 8, &["0-11", "12-19"]),
            (2, 8, &["0-3", "4-11"]),
            // 12 cores make two shards, which cannot have six each.
            (8, 12, &["0-15", "16-23", "24-27"]),
            (8, 16, &["0-15", "16-23", "24-31"]),
        ] {
            let machine = hybrid(fast, thrifty, has_clusters);
            let shards =
                Pods::new(&machine, machine.online(), Scope::CacheShard, ShardSize::DEFAULT);
            let lists: Vec<_> = shards.unwrap().iter().map(|pod| pod.cpus.to_string()).collect();
            assert_eq!(lists, expected, "{fast} and {thrifty}");
        }
    }
    // A cluster exceeds the target size.
    let machine = hybrid(2, 8, true);
    let pairs = Pods::new(&machine, machine.online(), Scope::CacheShard, ShardSize::new(2));
    let lists: Vec<_> = pairs.unwrap().iter().map(|pod| pod.cpus.to_string()).collect();
    assert_eq!(lists, ["0-3", "4-5", "6-7", "8-9", "10-11"]);
}

#[test]
fn a_part_of_a_machine_has_its_nodes_of_memory_alone() {
    let recording = Recording::new();
    recording.file("system/cpu/online", "0-3");
    for cpu in 0..4 {
        recording.modern(cpu, (cpu, &cpu.to_string()), 0, "0-3");
    }
    recording.file("system/node/node0/cpulist", "0-1").file("system/node/node1/cpulist", "2-3");
    recording.file("system/node/node2/cpulist", "");
    let part = recording.read().restrict(&"0-1".parse().unwrap()).unwrap();
    assert_eq!(part.node_ids(), [NodeId(0)]);
    assert_eq!(part.memory_only_nodes(), [NodeId(2)], "not the one whose CPUs were left out");
}

//! `coreshard topo` as users and programs call it.
#![allow(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use coreshard_topology::{Preset, Topology};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use testing::{Lack, skip};

const SCOPES: [&str; 6] = ["cpu", "smt", "cache_shard", "cache", "numa", "system"];

fn coreshard(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("coreshard").unwrap();
    command.args(args);
    command
}

fn json(args: &[&str]) -> Value {
    let mut all = vec!["topo", "--json"];
    all.extend(args);
    let output = coreshard(&all).assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).unwrap()
}

fn machine(text: &str) -> Value {
    json(&["--machine", text])
}

fn lists(machine: &Value, scope: &str) -> Vec<String> {
    let pods = machine["scopes"][scope]["pods"].as_array().unwrap();
    pods.iter().map(|pod| pod["cpus"].as_str().unwrap().to_owned()).collect()
}

/// The number of CPUs in a list without strides.
fn count(list: &str) -> usize {
    let range = |item: &str| {
        let (start, end) = item.split_once('-').unwrap_or((item, item));
        end.parse::<usize>().unwrap() - start.parse::<usize>().unwrap() + 1
    };
    list.split(',').map(range).sum()
}

fn sizes(machine: &Value) -> Vec<usize> {
    lists(machine, "cache_shard").iter().map(|list| count(list)).collect()
}

#[test]
fn json_has_the_documented_shape_and_order() {
    let found = machine("pack:2 numa:1 l3:1 core:120 pu:2");
    let keys: Vec<&String> = found.as_object().unwrap().keys().collect();
    assert_eq!(keys[..7], ["machine", "cpus", "cores", "llcs", "nodes", "packages", "scopes"]);
    assert_eq!(found["machine"], "pack:2 numa:1 l3:1 core:120 pu:2");
    for (key, value) in [("cpus", 480), ("cores", 240), ("llcs", 2), ("nodes", 2), ("packages", 2)]
    {
        assert_eq!(found[key], value, "{key}");
    }
    let scopes: Vec<&String> = found["scopes"].as_object().unwrap().keys().collect();
    assert_eq!(scopes, SCOPES);
    let counts = SCOPES.map(|scope| lists(&found, scope).len());
    assert_eq!(counts, [480, 240, 30, 2, 2, 1]);
    let pods = &found["scopes"]["cache_shard"]["pods"];
    assert_eq!(pods[29], serde_json::json!({"id": 29, "cpus": "464-479", "node": 1}));
    let system = &found["scopes"]["system"]["pods"][0];
    assert_eq!(*system, serde_json::json!({"id": 0, "cpus": "0-479", "node": null}));
}

#[test]
fn shards_have_the_published_sizes() {
    assert_eq!(sizes(&machine("pack:1 l3:1 core:72 pu:1")), [8; 9]);
    assert_eq!(sizes(&machine("pack:1 l3:1 core:36 pu:1")), [8, 7, 7, 7, 7]);
    assert_eq!(sizes(&machine("core:36 pu:1")), [8, 7, 7, 7, 7]);
    assert_eq!(sizes(&machine("pack:1 l3:1 core:11 pu:1")), [11]);
    assert_eq!(sizes(&machine("pack:1 l3:1 core:12 pu:1")), [6, 6]);
    assert_eq!(sizes(&machine("core:6 pu:2")), [12]);
    assert_eq!(lists(&machine("pack:1 l3:1 core:72 pu:1"), "cache_shard")[8], "64-71");
}

#[test]
fn shard_size_is_an_option_and_its_limits_are_told() {
    let small = ["--machine", "grace", "--shard-size"];
    assert_eq!(sizes(&json(&[small[0], small[1], small[2], "4"])).len(), 18);

    let one = json(&["--machine", "grace", "--shard-size", "1"]);
    assert_eq!((sizes(&one).len(), &one["shard_size"]), (72, &Value::from(1)));

    let huge = json(&["--machine", "grace", "--shard-size", "1000"]);
    assert_eq!(sizes(&huge), [72]);
    let notes = huge["notes"].to_string();
    assert!(notes.contains("shard size 1000 exceeds the 72 cores"), "{notes}");
}

#[test]
fn the_table_shows_the_machine_its_scopes_and_its_shards() {
    let table = coreshard(&["topo", "--machine", "kunpeng-920"]).assert().success();
    table
        .stdout(contains("Kunpeng 920"))
        .stdout(predicate::str::is_match(r"(?m)^cache_shard +8 +8 +8$").unwrap())
        .stdout(predicate::str::is_match(r"(?m)^ +5 +1 +1 +8 +40-47$").unwrap())
        .stdout(contains("cache = numa (2 pods)"))
        .stderr("");
}

#[test]
fn the_drawing_shows_every_cpu_once() {
    let drawing = coreshard(&["topo", "--machine", "xeon-hcc-2s", "--format", "svg"]);
    let output = { drawing }.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    assert!(text.starts_with("<svg "), "{}", &text[..40]);
    for cpu in 0..480 {
        assert_eq!(text.matches(&format!("<title>CPU {cpu}</title>")).count(), 1, "CPU {cpu}");
    }
    for label in ["Package 1", "NUMA node 1", "L3 #1", "shard 29: CPUs 232-239,472-479"] {
        assert!(text.contains(label), "{label}");
    }
}

#[test]
fn names_are_escaped_in_the_drawing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a<b>&.xml");
    fs::write(&path, "<topology><object type='PU' os_index='0'/></topology>").unwrap();
    let path = path.to_str().unwrap();
    let drawing = coreshard(&["topo", "--machine", path, "--format", "svg"]).assert().success();
    drawing.stdout(contains("a&lt;b&gt;&amp;.xml").and(contains("a<b>").not()));
}

#[test]
fn this_host_tells_what_may_be_used() {
    let found = json(&[]);
    assert_eq!(found["machine"], "host");
    let usable = found["usable"].as_str().unwrap();
    assert_eq!(found["cpus"].as_u64().unwrap() as usize, count(usable));
    assert!(count(found["online"].as_str().unwrap()) >= count(usable));
    let limit = found["worker_limit"].as_u64().unwrap() as usize;
    assert!((1..=count(usable)).contains(&limit));
    let keys =
        ["affinity", "cgroup_cpusets", "cpu_quota", "offline", "notes", "model", "shard_size"];
    for key in keys {
        assert!(found.get(key).is_some(), "{key}");
    }
    coreshard(&["topo"])
        .assert()
        .success()
        .stdout(contains("CPUs online: "))
        .stdout(contains("workers"));
}

#[test]
fn an_affinity_mask_narrows_the_machine() {
    let host = json(&[]);
    let first = host["usable"].as_str().unwrap().split([',', '-']).next().unwrap().to_owned();
    let binary = assert_cmd::cargo::cargo_bin("coreshard");
    let mut taskset = Command::new("taskset");
    taskset.args(["-c", &first]).arg(&binary).arg("topo");
    let Ok(output) = taskset.output() else {
        return skip(Lack::Taskset, "it cannot be run");
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("usable    1 of "), "{text}");
    assert!(text.contains(&format!("affinity {first}")), "{text}");
    assert!(text.contains("at most 1 worker "), "{text}");
}

/// A folder of `/sys`, `/proc` and cgroup files of one process.
fn recording() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("sys/devices/system/cpu/online", "0-3\n");
    for cpu in 0..4 {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        write(&format!("{folder}/topology/core_cpus_list"), &cpu.to_string());
        write(&format!("{folder}/topology/physical_package_id"), "0");
        write(&format!("{folder}/cache/index0/level"), "3");
        write(&format!("{folder}/cache/index0/type"), "Unified");
        write(&format!("{folder}/cache/index0/shared_cpu_list"), "0-3");
    }
    write("sys/devices/system/node/node2/cpulist", "\n");
    write("sys/devices/cpu_core/cpus", "0-1");
    write("sys/devices/cpu_atom/cpus", "2-3");
    write("proc/self/status", "Cpus_allowed_list:\t0-2\n");
    write("proc/self/cgroup", "0::/job\n");
    write("proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write("sys/fs/cgroup/job/cpuset.cpus.effective", "1-3\n");
    write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    root
}

#[test]
fn a_recorded_process_is_limited_as_it_was() {
    let root = recording();
    let found = json(&["--machine", root.path().to_str().unwrap()]);
    assert_eq!((&found["online"], &found["usable"]), (&"0-3".into(), &"1-2".into()));
    assert_eq!((&found["affinity"], &found["cgroup_cpusets"][0]), (&"0-2".into(), &"1-3".into()));
    assert_eq!((&found["cpu_quota"], &found["worker_limit"]), (&1.5.into(), &2.into()));
    assert_eq!((&found["performance"], &found["efficiency"]), (&"1".into(), &"2".into()));
    assert_eq!(found["cpus"], 2);
    assert_eq!(lists(&found, "cache_shard"), ["1", "2"], "cores of one kind");
    assert_eq!(lists(&found, "cache"), ["1-2"]);
    assert_eq!(found["memory_only_nodes"], serde_json::json!([2]));
    let mut text = coreshard(&["topo", "--machine", root.path().to_str().unwrap()]);
    text.assert().stdout(contains("and 1 with memory only"));
    assert_eq!(found["scopes"]["numa"]["pods"][0]["node"], Value::Null);
}

#[test]
fn malformed_files_and_descriptions_end_with_status_2() {
    let bad = |args: &[&str], words: &[&str]| {
        let mut all = vec!["topo"];
        all.extend(args);
        let mut assert = coreshard(&all).assert().code(2).stdout("");
        for word in words {
            assert = assert.stderr(contains(*word));
        }
    };
    bad(&["--machine", "pack:2 corn:4 pu:1"], &["column 8", "\"corn\""]);
    bad(&["--machine", "core:72"], &["column 8", "the last level must be pu"]);
    bad(&["--machine", "graec"], &["\"graec\"", "epyc-9654-2s"]);
    bad(&["--sysfs", "/does/not/exist"], &["/does/not/exist", "sys/devices/system/cpu"]);
    bad(&["--machine", "/does/not/exist.xml"], &["/does/not/exist.xml"]);
    bad(&["--machine", "grace", "--machine", "/"], &["cannot be used"]);
    bad(&["--shard-size", "0"], &["--shard-size", "at least 1"]);
    bad(&["--shard-size", "-1"], &["--shard-size"]);
    bad(&["--shard-size", "many"], &["--shard-size"]);
    bad(&["--format", "yaml"], &["svg"]);

    let root = recording();
    let path = root.path().to_str().unwrap();
    fs::write(root.path().join("sys/fs/cgroup/job/cpu.max"), "lots\n").unwrap();
    bad(&["--machine", path], &["sys/fs/cgroup/job/cpu.max", "\"lots\""]);
    fs::write(root.path().join("sys/devices/system/cpu/online"), "0-3,x\n").unwrap();
    bad(&["--machine", path], &["sys/devices/system/cpu/online", "column 5"]);
    let xml = root.path().join("m.xml");
    fs::write(&xml, "<topology>\n<object type='PU' os_index='x'/>\n</topology>").unwrap();
    bad(&["--machine", xml.to_str().unwrap()], &["m.xml, line 2, column 1", "os_index"]);
}

#[test]
fn alone_it_prints_a_short_help_with_three_examples() {
    let output = coreshard(&[]).assert().success().get_output().stdout.clone();
    let help = String::from_utf8(output).unwrap();
    let examples = help.lines().filter(|line| line.starts_with("  coreshard ")).count();
    assert_eq!(examples, 3, "{help}");
    assert!(help.lines().count() < 32, "{help}");
}

/// A control group of this machine, for as long as it is held.
struct HeldGroup {
    folder: std::path::PathBuf,
    quota: [(&'static str, &'static str); 2],
    members: &'static str,
}

impl HeldGroup {
    /// Half a CPU, in the hierarchy that can set it.
    fn with_half_a_cpu() -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
        let name = format!("coreshard-test-{}", std::process::id());
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, point, kind, options, ..] = fields[..] else { continue };
            let has_cpu = options.split(',').any(|option| option == "cpu");
            let (quota, members) = match kind {
                "cgroup" if has_cpu => {
                    let period = ("cpu.cfs_period_us", "100000");
                    ([period, ("cpu.cfs_quota_us", "50000")], "tasks")
                }
                "cgroup2" => ([("cgroup.type", ""), ("cpu.max", "50000 100000")], "cgroup.procs"),
                _ => continue,
            };
            let folder = Path::new(point).join(&name);
            if fs::create_dir(&folder).is_ok() {
                let group = Self { folder, quota, members };
                if group.set() {
                    return Ok(group);
                }
            }
        }
        Err("no control group with a CPU quota can be made here".to_owned())
    }

    fn set(&self) -> bool {
        self.quota.iter().all(|(file, text)| {
            // The quota's own file must be there already; a write must not make a plain file.
            let path = self.folder.join(file);
            text.is_empty() || (path.exists() && fs::write(path, text).is_ok())
        })
    }
}

impl Drop for HeldGroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            println!("{} is left behind: {error}", self.folder.display());
        }
    }
}

#[test]
fn a_quota_of_half_a_cpu_leaves_one_worker() {
    let group = match HeldGroup::with_half_a_cpu() {
        Ok(group) => group,
        Err(reason) => return skip(Lack::Cgroup, reason),
    };
    let binary = assert_cmd::cargo::cargo_bin("coreshard");
    let enter = format!(
        "echo $$ > {} && exec \"$0\" topo --json",
        group.folder.join(group.members).display()
    );
    let output = Command::new("sh").arg("-c").arg(enter).arg(&binary).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!((&found["cpu_quota"], &found["worker_limit"]), (&0.5.into(), &1.into()));
}

/// As a person sees it in a terminal of the usual width.
#[test]
fn every_machine_fits_in_80_columns() {
    let presets = Topology::presets().unwrap();
    for machine in presets.iter().map(Preset::name).chain(["core:4096 pu:1"]) {
        let mut terminal = crate::terminal::Terminal::of(400, 80, &["topo", "--machine", machine]);
        assert_eq!(terminal.exit_code(), Some(0), "{machine}");
        let wrapped = terminal.wrapped();
        assert!(wrapped.is_empty(), "{machine}: {wrapped:#?}");
    }
}

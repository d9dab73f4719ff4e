//! `coreshard advise`: here, on machines that were recorded, and on none.
#![allow(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coreshard_topology::Topology;
use serde_json::Value;
use testing::{Lack, skip};

#[allow(unreachable_pub, reason = "it is also a module of other test programs")]
use crate::recordings::Recording;

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_coreshard")
}

fn run(arguments: &[&str]) -> Output {
    Command::new(program()).arg("advise").args(arguments).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[arguments, &["--json"]].concat())).unwrap()
}

fn finding<'advice>(advice: &'advice Value, rule: &str) -> &'advice Value {
    let findings = advice["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["rule"]["id"] == rule);
    found.unwrap_or_else(|| panic!("{rule} said nothing: {findings:#?}"))
}

/// All settings that the advice reads, or could be tempted to write.
fn settings() -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(folder: &Path, depth: usize, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth > 0 {
                walk(&path, depth - 1, found);
            } else if kind.is_file() {
                found.insert(path.clone(), fs::read(&path).unwrap_or_default());
            }
        }
    }
    let mut found = BTreeMap::new();
    for (folder, depth) in [
        ("/sys/devices/virtual/workqueue", 2),
        ("/sys/module/workqueue/parameters", 1),
        ("/sys/kernel/tracing/instances", 1),
    ] {
        walk(Path::new(folder), depth, &mut found);
    }
    let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    for disk in disks {
        for file in ["scheduler", "rq_affinity", "nr_requests"] {
            let path = disk.path().join("queue").join(file);
            found.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
    }
    let interrupts = fs::read_dir("/proc/irq").into_iter().flatten().flatten();
    for interrupt in interrupts {
        let path = interrupt.path().join("smp_affinity_list");
        found.insert(path.clone(), fs::read(&path).unwrap_or_default());
    }
    for file in ["sched_rt_runtime_us", "sched_rt_period_us"] {
        let path = Path::new("/proc/sys/kernel").join(file);
        found.insert(path.clone(), fs::read(&path).unwrap_or_default());
    }
    found
}

/// A measurement creates a tracefs instance that is visible to the other tests, so only one test at a time measures.
fn tracer() -> MutexGuard<'static, ()> {
    static TRACER: Mutex<()> = Mutex::new(());
    TRACER.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn this_machine_is_read_and_nothing_in_it_changes() {
    let _alone = tracer();
    let before = settings();
    let text = stdout(&[]);
    let advice = json(&[]);
    assert!(text.contains("Keep:") && text.contains("default affinity scope"), "{text}");
    let topology = Topology::host().unwrap();
    assert_eq!(advice["machine"]["cpus"], topology.cpus().len());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(advice["facts"]["kernel"]["release"], release.trim());
    for (file, key) in
        [("default_affinity_scope", "default_scope"), ("cache_shard_size", "cache_shard_size")]
    {
        let path = format!("/sys/module/workqueue/parameters/{file}");
        let now = fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let told = &advice["facts"]["workqueues"][key];
        let told = told.as_str().map(str::to_owned).or(told.as_u64().map(|it| it.to_string()));
        assert_eq!(told, now, "{file}");
    }
    for emit in ["sysfs", "boot", "tuned", "udev", "builder"] {
        assert!(stdout(&["--emit", emit]).ends_with('\n'), "{emit}");
    }
    assert_eq!(settings(), before);
}

#[test]
fn nobody_is_told_the_same() {
    if !rustix_is_root() {
        skip(Lack::Root, "advice as another user");
        return;
    }
    // Copy the command to a folder that every user can read: the build folder may be accessible to root only.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("coreshard");
    fs::copy(program(), &copy).unwrap();
    Command::new("chmod").args(["-R", "a+rx"]).arg(folder.path()).status().unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["advise", "--json"]);
    let Ok(output) = command.current_dir("/").output() else {
        skip(Lack::Root, "advice as another user: setpriv is missing");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mine = json(&[]);
    assert_eq!(theirs["facts"]["workqueues"], mine["facts"]["workqueues"]);
    assert_eq!(theirs["verdict"], mine["verdict"]);
}

fn rustix_is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status
        .lines()
        .any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}

/// A machine with 16 cores behind one cache: small enough to be simulated in a test.
fn wide(release: &str, scope: &str) -> Recording {
    let recording =
        Recording::of(&Topology::from_synthetic("pack:1 numa:1 l3:1 core:16 pu:1").unwrap());
    recording.kernel(release, scope);
    recording
}

#[test]
fn a_scope_that_is_too_wide_is_changed_and_the_change_simulated() {
    let recording = wide("7.1.3", "cache");
    let folder = recording.path().to_str().unwrap();
    // Enough for bursts to settle. In the first 400 µs all workers may still be awake, so that no wake-up is needed,
    // and the wider pool has more workers.
    let items = ["--machine", folder, "--items", "200"];
    let advice = json(&items);
    let found = finding(&advice, "default-scope");
    assert_eq!((&found["verdict"], &advice["verdict"]), (&"change".into(), &"change".into()));
    assert_eq!(found["simulated"]["what"], "cache_shard over cache");
    let simulated = &found["simulated"];
    assert_eq!((&simulated["seeds"], &simulated["items"]), (&5.into(), &200.into()));
    for load in ["even", "lopsided"] {
        let range = simulated[format!("{load}_range")].as_array().unwrap();
        let [least, most] = [0, 1].map(|at| range[at].as_f64().unwrap());
        let median = simulated[load].as_f64().unwrap();
        assert!(least <= median && median <= most, "{load}: {simulated:#}");
    }
    // On one lock or on two, no seed says otherwise.
    for load in ["even_range", "lopsided_range"] {
        assert!(simulated[load][0].as_f64().unwrap() > 1.05, "{load}: {simulated:#}");
    }
    let again = json(&items);
    assert_eq!(again["findings"], advice["findings"], "equal simulations are equal");

    let text = stdout(&["--sysfs", folder, "--no-check"]);
    for part in ["Recommended: 1 change", "undo:", "risk:", "expected:", "because:"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    for (emit, line) in [
        ("sysfs", "echo cache_shard > /sys/module/workqueue/parameters/default_affinity_scope"),
        ("boot", "workqueue.default_affinity_scope=cache_shard"),
        ("tuned", "/sys/module/workqueue/parameters/default_affinity_scope=cache_shard"),
        ("udev", "# not a device attribute: default-scope"),
        ("builder", ".scope(Scope::CacheShard)"),
    ] {
        let text = stdout(&["--machine", folder, "--no-check", "--emit", emit]);
        assert!(text.contains(line), "{emit}: {text}");
    }
}

/// The keys in docs/ADVISE.md are exactly the printed ones.
#[test]
fn the_keys_of_json_are_those_of_its_page() {
    let page =
        include_str!("../../../../docs/ADVISE.md").split_once("## Keys of `--json`").unwrap().1;
    let (whole, of_finding) = page.split_once("| key of a finding").unwrap();
    let told = |table: &str| -> Vec<String> {
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let mut keys: Vec<_> = rows.map(|(key, _)| key.to_owned()).collect();
        keys.sort();
        keys
    };
    let printed = |value: &Value| -> Vec<String> {
        let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let recording = wide("7.1.3", "cache");
    let advice = json(&["--machine", recording.path().to_str().unwrap(), "--items", "100"]);
    assert_eq!(told(whole), printed(&advice));
    let found = finding(&advice, "default-scope");
    assert_eq!(told(of_finding), printed(found));
    for (key, parts) in [
        ("rule", &found["rule"]),
        ("settings", &found["settings"][0]),
        ("expected", &found["expected"]),
        ("simulated", &found["simulated"]),
    ] {
        let row = of_finding.lines().find(|line| line.starts_with(&format!("| `{key}`"))).unwrap();
        for part in printed(parts) {
            assert!(row.contains(&format!("`{part}`")), "{key}.{part} is not described");
        }
    }
    let row = whole.lines().find(|line| line.starts_with("| `facts`")).unwrap();
    for part in printed(&advice["facts"]) {
        assert!(row.contains(&format!("`{part}`")), "facts.{part} is not described");
    }
}

#[test]
fn what_is_right_is_left() {
    for (release, scope) in [("7.1.3", "cache_shard"), ("7.2.0-rc1", "cache_shard")] {
        let recording = wide(release, scope);
        let advice = json(&["--machine", recording.path().to_str().unwrap()]);
        assert_eq!(advice["verdict"], "leave", "{advice:#}");
    }
    let text = stdout(&["--machine", "grace", "--kernel", "7.1"]);
    assert!(text.contains("No change is sure to improve"), "{text}");
    let text = stdout(&["--machine", "epyc-9654-2s", "--kernel", "6.12"]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("cache_shard and cache are the same pools here"), "{text}");
}

#[test]
fn the_lines_for_a_shell_are_a_shells() {
    let recording = wide("7.1.3", "system");
    recording
        .file("sys/devices/virtual/workqueue/it's; $(odd)/max_active", "1024")
        .file("sys/devices/virtual/workqueue/it's; $(odd)/affinity_scope", "system");
    recording.file("sys/module/workqueue/parameters/default_affinity_scope", "cache_shard");
    let folder = recording.path().to_str().unwrap();
    let text = stdout(&["--machine", folder, "--no-check", "--emit", "sysfs"]);
    let line = text.lines().find_map(|line| line.strip_prefix("# consider: ")).unwrap();
    // The line, with the words that it would write printed in place of that.
    let script = format!("printf '%s\\n' {}", line.replacen("echo default > ", "", 1));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let path = "/sys/devices/virtual/workqueue/it's; $(odd)/affinity_scope\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), path, "{script}");
}

#[test]
fn what_cannot_be_used_is_one_sentence() {
    let recording = wide("7.1.3", "cache_shard");
    let folder = recording.path().to_str().unwrap().to_owned();
    for arguments in [
        &["--machine", folder.as_str(), "--kernel", "7.1"][..],
        &["--kernel", "seven"],
        &["--machine", "/proc/self/fd"],
        &["--machine", folder.as_str(), "--seconds", "1"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty());
    }
    recording.file("sys/module/workqueue/parameters/watchdog_thresh", "\u{1b}[2Jsoon");
    let text = stdout(&["--machine", &folder]);
    assert!(text.contains("note: ") && text.contains("expected a whole number"), "{text}");
    assert!(!text.contains('\u{1b}'));
    fs::remove_dir_all(recording.path().join("sys/devices/system/cpu")).unwrap();
    let output = run(&["--machine", &folder]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("sys/devices/system/cpu"));
}

/// Measures in a separate mount namespace, so that nothing is mounted for others.
#[test]
fn workqueues_are_measured_by_the_kernels_tracepoints_and_nothing_stays() {
    let _alone = tracer();
    let script = format!(
        "[ -d /sys/kernel/tracing/instances ] || mount -t tracefs tracefs /sys/kernel/tracing || exit; \
         '{}' advise --seconds 1 --json && ls /sys/kernel/tracing/instances",
        program()
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
    let output = output.ok().filter(|output| output.status.success());
    let Some(output) = output else {
        skip(Lack::Tracefs, "measuring the kernel's workqueues");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let (advice, instances) = text.split_at(text.rfind("\n}\n").unwrap() + 3);
    assert!(!instances.contains("coreshard-advise"), "{instances}");
    let advice: Value = serde_json::from_str(advice).unwrap();
    if advice["measured"].is_null() {
        skip(Lack::Tracefs, format!("measuring: {}", advice["lacking"]));
        return;
    }
    assert!(advice["measured"]["seconds"].as_f64().unwrap() >= 1.0);
    let queues = advice["measured"]["queues"].as_array().unwrap();
    // A kernel that does nothing at all for a second is none.
    assert!(!queues.is_empty(), "{advice:#}");
    for queue in queues {
        assert!(queue["ended"].as_u64() <= queue["started"].as_u64(), "{queue:#}");
        assert!(
            queue["delay"]["p50_us"].as_u64() <= queue["delay"]["max_us"].as_u64(),
            "{queue:#}"
        );
    }
    assert_ne!(finding(&advice, "measured-rescues")["statement"], "");
}

/// Mounts an empty file system over tracefs, for this test only.
#[test]
fn who_may_not_measure_is_told_what_lacks_and_gets_the_rest() {
    let _alone = tracer();
    let script = format!(
        "for place in /sys/kernel/tracing /sys/kernel/debug; do mount -t tmpfs none $place || exit; done; \
         '{}' advise --seconds 1",
        program()
    );
    let is_mounted = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .any(|place| Path::new(place).join("instances").is_dir());
    let text = if is_mounted && rustix_is_root() {
        let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            skip(Lack::Mount, "advice without tracefs: it cannot be covered here");
            return;
        };
        String::from_utf8(output.stdout).unwrap()
    } else {
        stdout(&["--seconds", "1"])
    };
    assert!(text.contains("cannot measure: "), "{text}");
    assert!(text.contains("default affinity scope"), "{text}");
}

/// The pools that a simulation of this very topology finds best, and not the same ones for any.
#[test]
fn lines_for_a_program_are_tuned_to_the_machine() {
    let lines = |machine: &str, more: &[&str]| {
        let arguments = [&["--machine", machine, "--emit", "builder"], more].concat();
        stdout(&arguments)
    };
    let one = lines("pack:1 core:1 pu:1", &[]);
    assert!(one.contains("simulated on this topology") && one.contains("Scope::Cpu"), "{one}");
    let wide = lines("pack:1 numa:1 l3:1 core:16 pu:1", &["--items", "20"]);
    assert!(wide.contains("with 5 layouts and without a measured load"), "{wide}");
    assert!(wide.contains(".scope("), "{wide}");
    assert_eq!(wide, lines("pack:1 numa:1 l3:1 core:16 pu:1", &["--items", "20"]));
    let default = lines("grace", &["--no-check"]);
    assert!(default.contains("without a simulation") && default.contains(".shard_size(8)"));
}

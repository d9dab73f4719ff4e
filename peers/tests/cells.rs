//! Every Rust peer under every workload, in tiny runs: each either returns measurements or the reason why the
//! workload does not fit it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

testing::watch!();

const RUST: &str = "coreshard,rayon,tokio,async-executor,bevy_tasks,crossbeam-channel,threadpool,\
                    rusty_pool,chili,floor";

/// A temporary file of this test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("coreshard-peers-{}-{name}", std::process::id())))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // It does not exist if the test failed before writing it.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_coreshard-peers"))
}

fn rows_of(workload: &str, items: u32) -> Vec<Value> {
    let json = File::new(&format!("{workload}.json"));
    let output = program()
        .args(["--workloads", workload, "--peers", RUST, "--runs", "1", "--quick"])
        .args(["--items", &items.to_string(), "--json"])
        .arg(&json.0)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&std::fs::read(&json.0).unwrap()).unwrap();
    results["results"].as_array().unwrap().clone()
}

/// Returns the rows. Each must be measured or unfit, and these peers must be measured.
fn check(workload: &str, items: u32, measured: &[&str]) -> Vec<Value> {
    let rows = rows_of(workload, items);
    for row in &rows {
        let status = row["status"].as_str().unwrap();
        let fits = measured.contains(&row["peer"].as_str().unwrap());
        assert_eq!(status, if fits { "measured" } else { "unfit" }, "{row:#}");
    }
    rows.into_iter().filter(|row| row["status"] == "measured").collect()
}

const SPAWNING: [&str; 8] = [
    "coreshard",
    "rayon",
    "tokio",
    "async-executor",
    "bevy_tasks",
    "crossbeam-channel",
    "threadpool",
    "rusty_pool",
];

fn is_positive(row: &Value, key: &str) -> bool {
    row[key].as_f64().is_some_and(|value| value > 0.0)
}

#[test]
fn flood() {
    let peers = [&SPAWNING[..], &["floor"]].concat();
    for row in check("flood", 400, &peers) {
        assert!(is_positive(&row, "items_per_sec"), "{row:#}");
        if row["peer"] == "floor" {
            assert!(is_positive(&row["figures"], "allocation_ns"), "{row:#}");
            continue;
        }
        for key in ["cpu_ns_per_item", "peak_rss_bytes", "end_to_end_p99_ns"] {
            assert!(is_positive(&row, key), "{key}: {row:#}");
        }
        // Boxed closures are counted.
        if row["peer"] == "crossbeam-channel" {
            assert!(row["allocations_per_item"].as_f64().unwrap() >= 1.0, "{row:#}");
        }
        assert_eq!(row["coreshard_ratio"].is_null(), row["peer"] == "coreshard", "{row:#}");
    }
}

#[test]
fn ping_pong() {
    let peers = [&SPAWNING[..], &["floor"]].concat();
    for row in check("ping-pong", 40, &peers) {
        assert!(is_positive(&row, "end_to_end_p50_ns"), "{row:#}");
    }
}

#[test]
fn burst() {
    for row in check("burst", 128, &SPAWNING) {
        let figures = &row["figures"];
        let first = figures["first_start_ns"].as_f64().unwrap();
        assert!(first <= figures["last_start_ns"].as_f64().unwrap(), "{row:#}");
    }
}

#[test]
fn trickle() {
    let peers = [&SPAWNING[..], &["floor"]].concat();
    for row in check("trickle", 10, &peers) {
        assert!(is_positive(&row, "cpu_ns_per_item"), "{row:#}");
        assert!(row["items_per_sec"].is_null() && row["coreshard_ratio"].is_null(), "{row:#}");
    }
}

#[test]
fn fork_join() {
    for row in check("fork-join", 2_000, &["coreshard", "rayon", "chili"]) {
        assert!(is_positive(&row, "items_per_sec"), "{row:#}");
    }
}

#[test]
fn parallel_for() {
    let peers = ["coreshard", "rayon", "bevy_tasks", "chili"];
    for row in check("parallel-for", 3_000, &peers) {
        assert!(is_positive(&row, "items_per_sec"), "{row:#}");
    }
}

#[test]
fn futures() {
    for row in check("async", 500, &["coreshard", "tokio", "async-executor", "bevy_tasks"]) {
        assert!(is_positive(&row, "items_per_sec"), "{row:#}");
    }
}

#[test]
fn blocking() {
    for row in check("blocking", 2, &SPAWNING) {
        assert!(is_positive(&row["figures"], "threads"), "{row:#}");
    }
}

#[test]
fn many_pools() {
    for row in check("many-pools", 1_600, &SPAWNING) {
        let threads = row["figures"]["threads"].as_f64().unwrap();
        // One pool serves all of Coreshard's queues.
        if row["peer"] != "coreshard" {
            assert!(threads >= 16.0, "{row:#}");
        }
    }
}

#[test]
fn mixed() {
    for row in check("mixed", 20, &SPAWNING) {
        assert!(is_positive(&row, "end_to_end_p99_ns"), "{row:#}");
        assert!(is_positive(&row["figures"], "large_per_sec"), "{row:#}");
    }
}

#[test]
fn what_is_not_known_is_refused_with_what_is() {
    let output = program().args(["--workloads", "deluge"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("many-pools"), "{errors}");
    let output = program().args(["--cell", "workload=flood"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("peer="), "{errors}");
}

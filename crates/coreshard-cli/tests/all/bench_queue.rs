//! `coreshard bench queue` as its users call it. Figures are never judged: they are the machine's.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command as Process;

use crate::common::{Ending, wait_until};
use assert_cmd::Command;
use coreshard::{Intake, Scope, Wake};
use predicates::prelude::*;
use serde_json::Value;
use testing::NEVER;

/// As small as it gets: two producers, twenty items, one run.
const SMALL: [&str; 6] = ["--threads", "2", "--items", "20", "--runs", "1"];

fn bench(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("coreshard").unwrap();
    command.current_dir(folder).args(["bench", "queue"]);
    command
}

fn small(folder: &Path) -> Command {
    let mut command = bench(folder);
    command.args(SMALL);
    command
}

fn json_of(command: &mut Command) -> Value {
    let output = command.args(["--json", "-"]).assert().success().get_output().clone();
    // All of standard output is one JSON text: anything before or after it is an error here.
    serde_json::from_slice(&output.stdout).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn notes(value: &Value) -> String {
    let notes = value["notes"].as_array().unwrap();
    notes.iter().map(|note| note.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn json_has_the_promised_keys_in_order_and_their_types() {
    let folder = tempfile::tempdir().unwrap();
    let all = ["--scopes", "cpu,smt,cache_shard,cache,numa,system"];
    let results = json_of(small(folder.path()).args(all));
    let top = ["machine", "platform", "threads", "items_per_thread", "runs", "results"];
    assert_eq!(keys(&results)[..top.len()], top);
    assert!(results["machine"].as_str().unwrap().contains("CPU"));
    assert_eq!(results["platform"], "host");
    assert_eq!(results["threads"], 2);
    assert_eq!(results["items_per_thread"], 20);
    assert_eq!(results["runs"], 1);
    assert_eq!(results["mode"], "closed");
    assert_eq!(results["virtual_topology"], false);
    assert!(results["kernel"].as_str().unwrap().starts_with("Linux "));

    let cells = results["results"].as_array().unwrap();
    let of_cell = [
        "scope",
        "wake",
        "intake",
        "items_per_sec",
        "items_per_sec_min",
        "items_per_sec_max",
        "p50_ns",
        "p90_ns",
        "p95_ns",
        "p99_ns",
        "max_ns",
        "end_to_end_p50_ns",
        "end_to_end_p99_ns",
    ];
    for cell in cells {
        assert_eq!(keys(cell)[..of_cell.len()], of_cell);
        for key in &of_cell[3..6] {
            assert!(cell[key].as_f64().unwrap() > 0.0, "{key}: {cell}");
        }
        for key in &of_cell[6..] {
            assert!(cell[key].is_u64(), "{key}: {cell}");
        }
    }
    let combinations: Vec<String> = cells
        .iter()
        .map(|cell| {
            ["scope", "wake", "intake"]
                .map(|comparison| cell[comparison].as_str().unwrap())
                .join(" ")
        })
        .collect();
    let mut expected = Vec::new();
    for scope in Scope::ALL {
        for wake in Wake::ALL {
            expected.extend(Intake::ALL.map(|intake| format!("{scope} {wake} {intake}")));
        }
    }
    assert_eq!(combinations, expected);
}

#[test]
fn json_on_standard_output_stands_alone_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = small(folder.path());
    let output = command.args(["--json", "-", "--scopes", "cpu"]).output().unwrap();
    assert!(output.status.success());
    assert!(output.stdout.starts_with(b"{") && output.stdout.ends_with(b"}\n"));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(files(folder.path()), [""; 0]);
}

#[test]
fn alone_it_prints_a_table_and_writes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    small(folder.path())
        .args(["--scopes", "cpu,system", "--wake", "coalesced"])
        .assert()
        .success()
        .stdout(predicate::str::contains("lock-free").and(predicate::str::contains("items/s")))
        .stderr(predicate::str::contains("./coreshard-bench.html"));
    assert_eq!(files(folder.path()), ["coreshard-bench.html"]);
    let page = fs::read_to_string(folder.path().join("coreshard-bench.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));
}

#[test]
fn every_form_goes_to_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    small(folder.path())
        .args(["--scopes", "smt", "--intake", "locked", "--wake", "under-lock,coalesced"])
        .args(["--json", "a.json", "--csv", "b.csv", "--html", "c.html"])
        .assert()
        .success()
        .stdout(predicate::str::contains("under-lock"));
    assert_eq!(files(folder.path()), ["a.json", "b.csv", "c.html"]);
    let json = fs::read(folder.path().join("a.json")).unwrap();
    let results: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(results["results"].as_array().unwrap().len(), 2);
    let csv = fs::read_to_string(folder.path().join("b.csv")).unwrap();
    assert_eq!(csv.lines().count(), 3, "a header and two rows: {csv}");
}

#[test]
fn a_flood_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = small(folder.path());
    let results = json_of(command.args(["--outstanding", "8", "--scopes", "cache"]));
    assert_eq!((&results["mode"], &results["outstanding"]), (&"flood".into(), &8.into()));
    assert!(notes(&results).contains("8 items in flight"), "{}", notes(&results));
}

#[test]
fn a_report_that_cannot_be_written_is_found_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--json", "--csv", "--html"] {
        // Were it found afterwards, this would take years.
        bench(folder.path())
            .args(["--items", "1000000000000", option, "no/such/folder/report"])
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains("cannot write the report"));
    }
    bench(folder.path())
        .args(["--items", "1000000000000", "--json", "one", "--csv", "one"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("two reports have the same file one"));
    bench(folder.path())
        .args(["--items", "1000000000000", "--json", "made", "--csv", "."])
        .assert()
        .code(2);
    assert_eq!(files(folder.path()), [""; 0], "nothing is left behind");
}

#[test]
fn wrong_options_are_named_with_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 12] = [
        (&["--scopes", "cpu,cache-shard"], "cache_shard"),
        (&["--scopes", ""], "invalid affinity scope \"\""),
        (&["--scopes", "cpu,,smt"], "invalid affinity scope \"\""),
        (&["--wake", "after_unlock"], "under-lock, after-unlock, coalesced"),
        (&["--intake", "free"], "locked, lock-free"),
        (&["--threads", "0"], "expected at least 1"),
        (&["--threads", "100000"], "at most 65536"),
        (&["--items", "0"], "expected at least 1"),
        (&["--items", "-3"], "-3"),
        (&["--runs", "0"], "expected at least 1"),
        (&["--outstanding", "0"], "expected at least 1"),
        (&["--machine", "pack:2 l3:x"], "column"),
    ];
    for (options, said) in cases {
        bench(folder.path())
            .args(options)
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains(said));
    }
    assert_eq!(files(folder.path()), [""; 0]);
}

#[test]
fn a_machine_that_is_not_this_one_is_called_virtual() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = small(folder.path());
    let options = ["--machine", "pack:1 l3:2 core:4 pu:1", "--wake", "coalesced"];
    let results = json_of(command.args(options));
    assert_eq!(results["virtual_topology"], true);
    assert_eq!(results["machine"], "pack:1 l3:2 core:4 pu:1");
    assert!(notes(&results).contains("virtual topology: 8 virtual CPUs"), "{}", notes(&results));
    let cells = results["results"].as_array().unwrap();
    let pods: Vec<u64> = cells.iter().step_by(2).map(|it| it["pods"].as_u64().unwrap()).collect();
    assert_eq!(pods, [8, 2, 1]);
    let once = "cache_shard = cache here: 2 pods; measured once";
    assert!(notes(&results).contains(once), "{}", notes(&results));
    // And in the table, for people.
    small(folder.path())
        .args(options)
        .args(["--csv", "report.csv"])
        .assert()
        .success()
        .stdout(predicate::str::contains("virtual"));
}

#[test]
fn more_producers_than_cpus_are_allowed_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let producers = (std::thread::available_parallelism().unwrap().get() + 1).to_string();
    let mut command = bench(folder.path());
    command.args(["--threads", &producers, "--items", "10", "--runs", "1", "--scopes", "system"]);
    let results = json_of(&mut command);
    assert!(notes(&results).contains(&format!("{producers} producers share")));
}

#[test]
fn an_affinity_mask_is_respected() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Process::new(assert_cmd::cargo::cargo_bin("coreshard"));
    command
        .args(["bench", "queue", "--items", "20", "--runs", "1", "--json", "-"])
        .current_dir(folder.path());
    // A process inherits the mask of the thread that starts it: this is what taskset does.
    let narrow = std::thread::spawn(move || {
        let one = coreshard_platform::affinity().unwrap().iter().take(1).collect();
        coreshard_platform::set_affinity(&one).unwrap();
        command.output().unwrap()
    });
    let output = narrow.join().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["threads"], 1);
    assert!(results["machine"].as_str().unwrap().ends_with("1 CPU"));
    let cells = results["results"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["pods"] == 1));
    let collapsed = "cpu = smt = cache_shard = cache = numa = system here: 1 pod";
    assert!(notes(&results).contains(collapsed), "{}", notes(&results));
}

#[test]
fn ctrl_c_and_sigterm_end_it_with_what_was_measured() {
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        is_ended_with_what_was_measured_by(signal, status);
    }
}

fn is_ended_with_what_was_measured_by(signal: &str, expected: i32) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.csv");
    // Turns take about a millisecond of CPU time each.
    let arguments = ["bench", "queue", "--items", "20", "--runs", "10000", "--csv", "report.csv"];
    let mut child = Ending::command_that_computes(folder.path(), &arguments);
    child.signal(signal);
    let status = wait_until("it has ended", NEVER, || child.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(expected), "{signal}");
    let text = |pipe: &mut dyn Read| {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    };
    let (out, err) = (child.0.stdout.as_mut().unwrap(), child.0.stderr.as_mut().unwrap());
    assert!(text(err).contains("interrupted"));
    assert!(text(out).contains("ended early"));
    assert!(fs::read_to_string(report).unwrap().lines().count() > 1);
}

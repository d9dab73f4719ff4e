//! `coreshard sweep` as engines call it: in any order, several at once, killed and called again.

use std::fs;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use crate::common::Ending;
use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

const MACHINE: &str = "pack:2 numa:1 l3:1 core:2 pu:2";

fn sweep(words: &[&str]) -> Command {
    let mut command = Command::cargo_bin("coreshard").unwrap();
    command.arg("sweep").args(words);
    command
}

fn said(words: &[&str]) -> String {
    String::from_utf8(sweep(words).assert().success().get_output().stdout.clone()).unwrap()
}

fn plan(folder: &str, seeds: &str) {
    let study =
        ["--scopes", "cpu,cache_shard", "--shard-sizes", "1,2", "--items", "5", "--seeds", seeds];
    let words =
        [&["plan", folder, "--machines", MACHINE, "--machines", "pocket"], &study[..]].concat();
    let runs = 8 * seeds.parse::<u64>().unwrap();
    assert_eq!(said(&words), format!("{runs} runs\n"));
}

fn missing(folder: &str) -> Vec<u64> {
    said(&["status", folder, "--missing"]).lines().map(|line| line.parse().unwrap()).collect()
}

/// The commands of HyperQueue's job file, by their numbers.
fn jobs(folder: &str) -> Vec<(i64, Vec<String>)> {
    let path = said(&["hyperqueue", folder]);
    let jobs: toml::Table = fs::read_to_string(path.trim_end()).unwrap().parse().unwrap();
    let tasks = jobs["task"].as_array().unwrap().iter().map(|task| {
        let words = task["command"].as_array().unwrap().iter();
        assert_eq!(task["stdout"].as_str(), Some("none"));
        (
            task["id"].as_integer().unwrap(),
            words.map(|it| it.as_str().unwrap().to_owned()).collect(),
        )
    });
    tasks.collect()
}

fn start(words: &[String]) -> Ending {
    let mut process = Process::new(&words[0]);
    Ending(process.args(&words[1..]).stdout(Stdio::null()).spawn().unwrap())
}

#[test]
fn results_are_the_same_bytes_whoever_ran_what_in_which_order() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name).display().to_string());
    plan(&one, "2");
    let numbers: Vec<String> = (0..16).map(|number| number.to_string()).collect();
    let words: Vec<&str> =
        ["run", &one].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    assert_eq!(said(&words).lines().count(), 16);
    assert!(said(&["run", &one, "3"]).contains("run 3: pack:2 numa:1 l3:1 core:2 pu:2, cpu, shards of 2, coalesced, lock-free, seed 1: already has results"));

    // The other study: two at once, from the last run to the first; one is killed, and half are left for later.
    plan(&other, "2");
    let tasks = jobs(&other);
    assert!(tasks.iter().map(|(id, _)| *id).eq(0..16));
    for two in tasks[8..].rchunks(2) {
        let both: Vec<_> = two.iter().map(|(_, words)| start(words)).collect();
        for mut process in both {
            assert!(process.0.wait().unwrap().success());
        }
    }
    let mut killed = start(&tasks[0].1);
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    let left = missing(&other);
    // It may have been done before it was killed.
    assert!(left.ends_with(&[1, 2, 3, 4, 5, 6, 7]) && left.len() <= 8, "{left:?}");
    let error = format!("{} runs have no results, first {}", left.len(), left[0]);
    sweep(&["gather", &other]).assert().code(1).stderr(contains(error));
    let left = jobs(&other);
    assert!(left.iter().map(|(id, _)| *id as u64).eq(missing(&other)));
    // The first of them by two workers at once.
    let both = [start(&left[0].1), start(&left[0].1)];
    for mut process in both {
        assert!(process.0.wait().unwrap().success());
    }
    for (_, words) in &left[1..] {
        assert!(start(words).0.wait().unwrap().success());
    }
    assert_eq!(said(&["status", &other]), "16 of 16 runs have results\n");

    let [one, other] = [one, other].map(|folder| {
        let path = said(&["gather", &folder]);
        fs::read(path.trim_end()).unwrap()
    });
    assert!(one == other);
    // Twice, over its own file.
    let path = folder.path().join("one");
    said(&["gather", path.to_str().unwrap()]);
    assert!(fs::read(path.join("results.jsonl")).unwrap() == one);
}

#[test]
fn a_line_has_the_run_and_the_figures_of_the_benchmark() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    plan(&place, "3");
    said(&["run", &place, "17"]);
    let line = fs::read_to_string(folder.path().join("runs/000017.json")).unwrap();
    let row: Value = serde_json::from_str(&line).unwrap();
    let keys: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
    let first = ["run", "machine", "shard_size", "seed", "threads", "items_per_thread", "scope"];
    assert_eq!(keys[..7], first);
    assert_eq!(
        (&row["run"], &row["machine"], &row["seed"]),
        (&17.into(), &"pocket".into(), &2.into())
    );
    let mut bench = Command::cargo_bin("coreshard").unwrap();
    bench.args(["bench", "queue", "--sim", "--machine", "pocket", "--scopes", "cpu"]);
    bench.args([
        "--wake",
        "coalesced",
        "--intake",
        "lock-free",
        "--shard-size",
        "2",
        "--items",
        "5",
    ]);
    bench.args(["--seed", "2", "--seeds", "1", "--json", "-"]);
    let output = bench.assert().success().get_output().stdout.clone();
    let results: Value = serde_json::from_slice(&output).unwrap();
    let cell = &results["results"][0];
    assert_eq!(row["threads"], results["threads"]);
    for key in ["scope", "wake", "intake", "items_per_sec", "max_ns", "end_to_end_p99_ns", "pods"] {
        assert_eq!(row[key], cell[key], "{key}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_reason_and_nothing_is_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("study").display().to_string();
    let refused = |words: &[&str], why: &str| {
        sweep(words).assert().code(2).stdout(predicate::str::is_empty()).stderr(contains(why));
    };
    refused(&["plan", &place, "--machines", "nowhere"], "nowhere");
    refused(
        &["plan", &place, "--machines", "pocket", "--seeds", "1000000"],
        "expected at most 1000000 runs",
    );
    refused(&["run", &place, "0"], "is not a usable study folder");
    assert!(!Path::new(&place).exists(), "a rejected command leaves nothing");
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("study.json"), "my studies").unwrap();
    refused(
        &["plan", &theirs.display().to_string(), "--machines", "pocket"],
        "is not a usable study folder",
    );
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1, "nor in a foreign folder");
    plan(&place, "1");
    plan(&place, "1");
    let twice = folder.path().join("twice").display().to_string();
    let words = ["plan", &twice, "--machines", "pocket", "--machines", "pocket", "--scopes", "cpu"];
    assert_eq!(said(&words), "5 runs\n", "of a machine that was named twice");
    refused(&["plan", &place, "--machines", "grace"], "holds another study");
    refused(&["run", &place, "3", "8"], "expected 0 to 7");
    assert_eq!(missing(&place).len(), 8);
    let words: Vec<String> = (0..8).map(|number| number.to_string()).collect();
    said(&["run", &place].into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>());
    // Results of another run in a run's place.
    let runs = Path::new(&place).join("runs");
    fs::copy(runs.join("000004.json"), runs.join("000005.json")).unwrap();
    let named = "000005.json does not hold the results of run 5";
    sweep(&["gather", &place]).assert().code(1).stderr(contains(named));
    assert_eq!(missing(&place), [5]);
    sweep(&["run", &place, "5"])
        .assert()
        .code(1)
        .stderr(contains(named).and(contains("remove it")));
    // And a part of them, or none.
    let whole = fs::read(runs.join("000003.json")).unwrap();
    for length in [whole.len() / 2, 0] {
        fs::write(runs.join("000003.json"), &whole[..length]).unwrap();
        assert_eq!(missing(&place), [3, 5], "of {length} bytes");
        let named = "000003.json does not hold the results of run 3";
        sweep(&["gather", &place]).assert().code(1).stderr(contains(named));
        sweep(&["run", &place, "3"]).assert().code(1).stderr(contains(named));
    }
    fs::write(runs.join("000003.json"), whole).unwrap();
    fs::remove_file(runs.join("000005.json")).unwrap();
    assert_eq!(missing(&place), [5]);
    said(&["run", &place, "5"]);
    fs::write(Path::new(&place).join("results.jsonl"), "my notes").unwrap();
    refused(&["gather", &place], "was not written by coreshard");
    assert_eq!(fs::read_to_string(Path::new(&place).join("results.jsonl")).unwrap(), "my notes");
}

/// A study may be gone on with from anywhere.
#[test]
fn a_machines_file_is_found_from_any_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../coreshard-sim/src/machine/pocket.toml"),
        folder.path().join("here.toml"),
    )
    .unwrap();
    let words = ["plan", "study", "--machines", "here.toml", "--scopes", "cpu", "--items", "5"];
    sweep(&words).current_dir(folder.path()).assert().success();
    let place = folder.path().join("study").display().to_string();
    said(&["run", &place, "0"]);
    assert_eq!(missing(&place), [1, 2, 3, 4]);
}

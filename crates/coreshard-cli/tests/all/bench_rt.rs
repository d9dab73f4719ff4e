//! `coreshard bench rt`: on this machine in small, and on a simulated one.

use std::fs;
use std::io::Read;

use assert_cmd::Command;
use predicates::prelude::*;
use serde_json::Value;
use testing::NEVER;

use crate::common::{Ending, wait_until};

fn coreshard(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("coreshard").expect("the command is built");
    command.args(["bench", "rt"]).args(arguments);
    command
}

#[test]
fn the_index_is_measured_here_and_simulated_the_same_each_time() {
    coreshard(&["index", "--rounds", "500", "--runs", "2"])
        .assert()
        .success()
        .stdout(predicate::str::contains("per-llc").and(predicate::str::contains("× packed")));
    let simulated =
        ["index", "--machine", "xeon-hcc-2s", "--cpus", "24", "--rounds", "20", "--json", "-"];
    let once = || coreshard(&simulated).assert().success().get_output().stdout.clone();
    let first = once();
    assert_eq!(first, once());
    let results: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!((&results["platform"], &results["threads"]), (&"sim".into(), &24.into()));
    assert_eq!(results["results"].as_array().unwrap().len(), 4);
    let lines = [&simulated[..7], &["--variants", "packed", "--c2c", "3"]].concat();
    coreshard(&lines).assert().success().stdout(predicate::str::contains("PackedLevel.count"));
}

#[test]
fn cyclic_writes_cyclictests_keys_and_a_page_with_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let [json, page] = ["c.json", "c.html"].map(|name| folder.path().join(name));
    let small = ["cyclic", "--cycles", "20", "--interval-us", "500", "--allow-degraded"];
    coreshard(&small)
        .args(["--no-memory-lock", "--threads", "1", "--json"])
        .arg(&json)
        .arg("--html")
        .arg(&page)
        .assert()
        .success();
    let results: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(results["thread"]["0"]["cycles"], 20);
    assert!(fs::read_to_string(page).unwrap().contains("<svg"));
}

#[test]
fn pipelines_and_inversions_run_on_a_simulated_machine() {
    let machine = ["--machine", "xeon-hcc-2s", "--cpus", "16", "--variants", "packed,per-llc"];
    coreshard(&[&["transcode", "--frames", "3", "--priority", "99"], &machine[..]].concat())
        .assert()
        .success()
        .stdout(predicate::str::contains("2 instances of 8 CPUs, priority 99"));
    let folder = tempfile::tempdir().unwrap();
    let [page, json] = ["pi.html", "pi.json"].map(|name| folder.path().join(name));
    coreshard(&[&["pi", "--rounds", "5", "--groups", "4"], &machine[..]].concat())
        .arg("--html")
        .arg(&page)
        .arg("--json")
        .arg(&json)
        .assert()
        .success()
        .stdout(predicate::str::contains("4 groups of three"));
    // In virtual time: the high task did wait, for two switches and more, so there was an inversion.
    let results: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    for variant in results.as_array().unwrap() {
        let shortest = variant["waits"]["by_ns"].as_object().unwrap().keys();
        let shortest = shortest.map(|ns| ns.parse::<u64>().unwrap()).min().unwrap();
        assert!(shortest > 1_000, "{variant}");
    }
    let page = fs::read_to_string(page).unwrap();
    // One with a dot for each seed, and one for each variant.
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(page.contains("100 inversions, median"), "{page}");
}

/// In the table, in JSON and in a picture; nothing of the kind with one seed.
#[test]
fn simulated_figures_are_medians_over_seeds_with_quartiles() {
    let machine =
        ["--machine", "pocket", "--cpus", "4", "--variants", "packed,per-llc", "--json", "-"];
    let folder = tempfile::tempdir().unwrap();
    for (bench, figure) in [
        (["index", "--rounds", "10"], "ops_per_sec"),
        (["cyclic", "--cycles", "10"], "p99_ns"),
        (["pi", "--rounds", "5"], "inversions_per_sec"),
        (["transcode", "--frames", "3"], "frames_per_sec"),
    ] {
        let of = |more: &[&str]| -> Value {
            let instance: &[&str] =
                if bench[0] == "transcode" { &["--instance-cpus", "2"] } else { &[] };
            let output =
                coreshard(&[&bench, &machine[..], instance, more].concat()).assert().success();
            let results: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
            if results.is_array() { results } else { results["results"].clone() }
        };
        let page = folder.path().join(bench[0]);
        let variants = of(&["--html", page.to_str().unwrap()]);
        for (at, variant) in variants.as_array().unwrap().iter().enumerate() {
            let spread = &variant["seeds"][figure];
            let each = spread["each"].as_array().unwrap();
            let mut each: Vec<f64> = each.iter().map(|it| it.as_f64().unwrap()).collect();
            each.sort_by(f64::total_cmp);
            assert_eq!(each.len(), 5, "{variant}");
            let [q1, q3] = ["q1", "q3"].map(|quartile| spread[quartile].as_f64().unwrap());
            assert_eq!((q1, variant[figure].as_f64().unwrap(), q3), (each[1], each[2], each[3]));
            assert_eq!(spread["over_first"].is_object(), at > 0, "{variant}");
        }
        assert!(
            fs::read_to_string(&page).unwrap().contains(", of each run, on a logarithmic scale")
        );
        let one = of(&["--seeds", "1"]);
        assert!(
            one.as_array().unwrap().iter().all(|variant| variant["seeds"] == serde_json::json!({})),
            "{one}"
        );
    }
}

/// Also inside a single simulation, which would run for minutes.
#[test]
fn a_signal_ends_what_is_simulated() {
    let rt = "bench rt cyclic --machine xeon-hcc-2s --cycles 1000000 --seeds 1 --json report.json";
    let kernel =
        "bench kernel nfs --machine pocket --operations 1000000 --seeds 1 --json report.json";
    // An hour for each item.
    let tune = "tune --machine pocket --items 2 --seeds 1 --item-us 3600000000";
    for (command, told) in [
        (rt, "interrupted before all variants ran"),
        (kernel, "interrupted before all runs finished"),
        (tune, "interrupted before all candidates ran"),
    ] {
        for (signal, expected) in [("INT", 130), ("TERM", 143)] {
            let folder = tempfile::tempdir().unwrap();
            let arguments: Vec<&str> = command.split(' ').collect();
            let mut child = Ending::command_that_computes(folder.path(), &arguments);
            child.signal(signal);
            let status = wait_until("it has ended", NEVER, || child.0.try_wait().unwrap());
            assert_eq!(status.code(), Some(expected), "{signal}: {command}");
            let mut said = String::new();
            child.0.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
            assert!(said.contains(told), "{said}");
            let left = fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(left, 0, "no file is left half written: {command}");
        }
    }
}

#[test]
fn what_cannot_be_is_a_clear_sentence() {
    coreshard(&["cyclic", "--priority", "100"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("invalid priority 100: expected 1 to 99"));
    coreshard(&["index", "--variants", "striped"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("expected packed, padded, split or per-llc"));
}

//! `coreshard bench queue --sim` and `coreshard c2c`: the command on machines that are not there.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;
use serde_json::Value;

fn coreshard(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("coreshard").expect("the command is built");
    command.args(arguments);
    command
}

const BENCH: [&str; 14] = [
    "bench",
    "queue",
    "--machine",
    "grace",
    "--sim",
    "--scopes",
    "cache",
    "--wake",
    "coalesced",
    "--threads",
    "8",
    "--items",
    "20",
    "--json",
];

fn json_of(path: &Path, seed: &str) -> String {
    let mut arguments = BENCH.to_vec();
    let path = path.to_str().expect("a path of ASCII");
    arguments.extend([path, "--seed", seed]);
    coreshard(&arguments).assert().success();
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_simulated_benchmark_gives_the_same_results_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = json_of(&folder.path().join("1"), "5");
    assert_eq!(first, json_of(&folder.path().join("2"), "5"));
    assert_ne!(first, json_of(&folder.path().join("3"), "6"));
    let results: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(results["platform"], "sim");
    assert_eq!(results["results"].as_array().unwrap().len(), 2, "{first}");
    let notes = results["notes"].to_string();
    assert!(notes.contains("simulated: costs futex, seed 5"), "{notes}");
}

/// Each combination is simulated on a separate machine.
#[test]
fn a_variant_makes_the_same_figures_beside_others_as_alone() {
    let results = |more: &[&str]| -> Value {
        let small =
            ["bench", "queue", "--sim", "--machine", "pocket", "--items", "10", "--json", "-"];
        let output = coreshard(&[&small, more].concat()).assert().success().get_output().clone();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let alone = ["--scopes", "cache", "--wake", "coalesced", "--intake", "locked"];
    let beside = ["--scopes", "cpu,cache", "--intake", "locked"];
    let [alone, beside] = [results(&alone), results(&beside)];
    let cells = beside["results"].as_array().unwrap();
    assert_eq!(cells.len(), 6);
    assert_eq!(alone["results"][0], cells[5]);
    // The same holds for the smaller machines.
    let scaled = |variants: &[&str]| results(&[variants, &["--cpus", "1,2,4"]].concat());
    let [alone, beside] = [["--wake", "coalesced"], ["--wake", "under-lock,coalesced"]]
        .map(|wake| scaled(&[&["--scopes", "numa", "--intake", "locked"], &wake[..]].concat()));
    assert_eq!(alone["curves"][0]["points"].as_array().unwrap().len(), 3);
    assert_eq!((&alone["curves"][0], &alone["threads"]), (&beside["curves"][1], &4.into()));
    assert_eq!(beside["wake_ratios"].as_array().unwrap().len(), 1);
}

#[test]
fn the_lines_of_a_simulated_queue_are_shown_with_functions_and_as_json() {
    let c2c =
        ["c2c", "--machine", "grace", "--scope", "cache", "--intake", "locked", "--items", "5"];
    coreshard(&c2c)
        .assert()
        .success()
        .stdout(predicate::str::contains("line 0 ").and(predicate::str::contains("lock_asleep")));
    let text = coreshard(&c2c).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    let first = text.lines().find(|line| line.starts_with("line 0 ")).unwrap();
    assert!(first.contains("Pool.state.word"), "{first}");
    // A line that costs a hundredth of the costliest, or more, is named. Below are the items' own, of no field.
    let waited_ns = |line: &str| {
        let (_, rest) = line.split_once("waited ").unwrap();
        rest.split_once(" ns").unwrap().0.parse::<u64>().unwrap()
    };
    let costliest: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("line ") && waited_ns(line) >= waited_ns(first) / 100)
        .collect();
    assert!(costliest.iter().all(|line| !line.contains("arena+")), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let mut arguments = c2c.to_vec();
    arguments.extend(["--json", "-", "--trace", trace.to_str().unwrap()]);
    let output = coreshard(&arguments).assert().success().get_output().stdout.clone();
    let rows: Vec<Value> = serde_json::from_slice(&output).unwrap();
    assert!(!rows.is_empty());
    for key in [
        "line",
        "node",
        "offset",
        "hitm_remote",
        "hitm_local",
        "stores",
        "store_hits",
        "store_misses",
        "load_cycles_mean",
        "hitm_local_cycles_mean",
        "cpus",
        "records",
    ] {
        assert!(rows.iter().all(|row| row[key].is_number()), "{key}");
    }
    for key in ["field", "function", "source"] {
        assert!(rows.iter().all(|row| row[key].is_string()), "{key}");
    }
    assert!(rows.iter().any(|row| !row["callers"].as_array().unwrap().is_empty()));
    let trace: Value = serde_json::from_str(&fs::read_to_string(trace).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 72);
}

#[test]
fn a_machine_that_cannot_be_simulated_is_a_clear_sentence_and_status_2() {
    coreshard(&["c2c", "--machine", "graec"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("\"graec\"").and(predicate::str::contains("grace,")));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    fs::write(
        &file,
        "synthetic = \"pack:1 core:2 pu:1\"\n[costs]\nwake = { ns = -1, source = \"s\" }\n",
    )
    .unwrap();
    coreshard(&["bench", "queue", "--sim", "--machine", file.to_str().unwrap()])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("mine.toml, line 3: wake.ns is -1; expected 0 to"));
    coreshard(&["bench", "queue", "--sim"]).assert().code(2);
    coreshard(&["bench", "queue", "--seed", "1"]).assert().code(2);
}

#[test]
fn a_search_says_what_it_tried_and_a_replay_whether_it_is_the_same_run() {
    coreshard(&["sim", "search", "--seeds", "40", "--from", "7"]).assert().success().stdout(
        predicate::str::contains("40 seeds from 7 on, 16 CPUs")
            .and(predicate::str::contains("no failure")),
    );
    let replay = ["sim", "replay", "--machine", "pocket", "--seed"];
    let with = |seed: &str| coreshard(&[&replay[..], &[seed]].concat()).assert();
    let first = with("3-9").success().get_output().stdout.clone();
    let text = String::from_utf8(first.clone()).unwrap();
    assert!(text.starts_with("seed 9 passes"), "{text}");
    let trace = text.trim().rsplit(' ').next().unwrap();
    let again = with(&format!("3-9-{trace}")).success();
    assert_eq!((&again.get_output().stdout, again.get_output().stderr.len()), (&first, 0));
    // It was not replayed, whatever the other run did.
    let other = with("3-9-0000000000000001").code(1).stdout(text.clone());
    other.stderr(predicate::str::contains("this run differs"));
}

#[test]
fn a_seed_of_another_version_is_a_clear_sentence_and_status_2() {
    for (seed, said) in [
        ("9-42", "is of version 9 of the search, and this is version"),
        ("x", "invalid replay seed"),
    ] {
        coreshard(&["sim", "replay", "--seed", seed])
            .assert()
            .code(2)
            .stderr(predicate::str::contains(said));
    }
    let error = coreshard(&["sim", "search", "--machine", "graec"]).assert().code(2);
    error.stderr(predicate::str::contains("graec"));
}

#[test]
fn a_calibrated_machine_can_be_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("here.toml");
    let path = file.to_str().unwrap();
    // The other tests use the CPUs at the same time. Figures that contradict one another are refused: measure again.
    let refused = predicate::str::contains("the measurements are inconsistent");
    let measured = (0..20)
        .map(|_| coreshard(&["calibrate", "--rounds", "5", "-o", path]).assert())
        .find(|it| !refused.eval(&String::from_utf8_lossy(&it.get_output().stderr)));
    let measured = measured.expect("one of 20 measurements is consistent");
    measured.success().stdout(predicate::str::contains("wake-up without a waiter"));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("synthetic = \"pack:") && text.contains("measured: "), "{text}");
    coreshard(&["c2c", "--machine", path, "--items", "5"]).assert().success();
    let bench = ["bench", "queue", "--sim", "--machine", path, "--items", "20", "--json", "-"];
    coreshard(&bench).assert().success().stdout(predicate::str::contains("\"sim\""));
    coreshard(&["calibrate", "-o", "no/such/folder/here.toml"]).assert().code(2);
}

#[test]
fn curves_over_cpus_come_with_the_scalability_law_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let bench = ["bench", "queue", "--sim", "--machine", "pocket", "--items", "30", "--runs", "1"];
    let variants = ["--scopes", "cache,system", "--wake", "coalesced", "--cpus", "auto"];
    let mut arguments = [&bench[..], &variants].concat();
    arguments.extend(["--html", page.to_str().unwrap()]);
    coreshard(&arguments)
        .assert()
        .success()
        .stdout(predicate::str::contains("16 CPUs").and(predicate::str::contains("σ")));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("scaling-system-title") && page.contains("\"kappa\""));
    let output = coreshard(&[&bench[..], &variants, &["--json", "-"]].concat()).output().unwrap();
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let curves = results["curves"].as_array().unwrap();
    assert_eq!(curves.len(), 4);
    for curve in curves {
        let cpus: Vec<u64> = curve["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point["cpus"].as_u64().unwrap())
            .collect();
        assert_eq!(cpus, [1, 2, 4, 8, 16]);
        assert!(
            curve["usl"]["sigma"].is_number() && curve["usl"]["lambda"].as_f64().unwrap() > 0.0
        );
    }
    for (cpus, said) in [("0", "at least 1"), ("2,x", "x"), ("17", "expected 1 to 16")] {
        let mut arguments = bench.to_vec();
        arguments.extend(["--json", "-", "--cpus", cpus]);
        let asserted = coreshard(&arguments).assert().code(2);
        let said = predicate::str::contains(said).or(predicate::str::contains("whole number"));
        asserted.stderr(said);
    }
    coreshard(&["bench", "queue", "--machine", "grace", "--cpus", "1,2", "--json", "-"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("--cpus needs the real machine or --sim"));
}

#[test]
fn tuning_tries_scopes_and_recommends_one_with_the_evidence() {
    let tune = ["tune", "--machine", "pocket", "--items", "20"];
    let output = coreshard(&tune).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output.clone()).unwrap();
    for candidate in ["cpu ", "smt ", "cache ", "numa ", "system "] {
        let is_there = |line: &str| line.trim_start_matches([' ', '*', '~']).starts_with(candidate);
        assert!(text.lines().any(is_there), "{text}");
    }
    let is_best = |line: &&str| line.trim_start().starts_with("* ");
    assert_eq!(text.lines().filter(is_best).count(), 1, "{text}");
    assert_eq!(text.lines().nth(2).unwrap().matches("quartiles").count(), 3, "{text}");
    assert!(
        text.contains("Recommended for ") && text.contains(".scope(coreshard::Scope::"),
        "{text}"
    );
    assert_eq!(coreshard(&tune).output().unwrap().stdout, output, "equal seeds, equal advice");
    coreshard(&["tune", "--machine", "graec"]).assert().code(2);
    coreshard(&["tune", "--seed", "1"]).assert().code(2);
}

#[test]
fn tuning_measures_this_machine_where_no_other_is_named() {
    coreshard(&["tune", "--items", "20", "--rounds", "2"]).assert().success().stdout(
        predicate::str::contains("measured").and(predicate::str::contains("Recommended for ")),
    );
}

#[test]
fn a_sweep_says_what_it_did_and_its_steps_can_be_replayed() {
    let sweep = ["sim", "search", "--kth", "wait", "--rounds", "1", "--seeds", "1"];
    let some = [&sweep[..], &["--programs", "forks,freeze", "--up-to", "5"]].concat();
    coreshard(&some).assert().success().stdout(
        predicate::str::contains("freeze: up to call 5 of each kind")
            .and(predicate::str::contains(" runs with a failing call in each, 2 programs")),
    );
    let replay = ["sim", "replay", "--program", "forks", "--kth", "wait:3:x1", "--seed"];
    let with = |seed: &str| coreshard(&[&replay[..], &[seed]].concat()).assert();
    let first = with("3-0").success().get_output().stdout.clone();
    let first = String::from_utf8(first).unwrap();
    let trace = first.trim().rsplit(' ').next().unwrap().to_owned();
    with(&format!("3-0-{trace}")).success().stdout(first).stderr("");
    let error = coreshard(&["sim", "search", "--kth", "stat"]).assert().code(2);
    error.stderr(predicate::str::contains("invalid kind of call \"stat\""));
    let alone = coreshard(&["sim", "replay", "--seed", "3-0", "--kth", "wait:3:x1"]).assert();
    alone.code(2).stderr(predicate::str::contains("--program"));
}

/// A sweep by `bench queue` over all candidates finds no faster one than `tune` names for the even load.
#[test]
fn the_fastest_candidate_is_that_of_a_sweep() {
    const MACHINE: [&str; 2] = ["--machine", "l3:1 core:12 pu:1"];
    let json = |words: &[&str]| -> Value {
        let words = [words, &MACHINE, &["--items", "20", "--seeds", "3", "--json"]].concat();
        let output = coreshard(&words).assert().success().get_output().stdout.clone();
        serde_json::from_slice(&output).unwrap()
    };
    let tuning = json(&["tune", "--load", "even"]);
    let candidates = tuning["candidates"].as_array().unwrap();
    let name = |it: &Value| match it["shard_cores"].as_u64() {
        Some(cores) => format!("{} of {cores}", it["scope"].as_str().unwrap()),
        None => it["scope"].as_str().unwrap().to_owned(),
    };
    let swept = candidates.iter().map(|candidate| {
        let cores = candidate["shard_cores"].as_u64().unwrap_or(8).to_string();
        let scope = candidate["scope"].as_str().unwrap();
        let variants = ["--wake", "coalesced", "--intake", "lock-free", "--runs", "1"];
        let one = ["bench", "queue", "--sim", "--scopes", scope, "--shard-size", &cores];
        let found = json(&[&one[..], &variants].concat());
        (found["results"][0]["items_per_sec"].as_f64().unwrap(), name(candidate))
    });
    let swept: Vec<(f64, String)> = swept.collect();
    assert!(swept.len() > 3, "{swept:?}");
    let (most, fastest) = swept.iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    assert_eq!(tuning["fastest_even"], **fastest, "{swept:?}");
    assert_eq!(tuning["optimised_for"], "the even load");
    // Those that are as good are told apart by their pools.
    let best = name(&candidates[tuning["best"].as_u64().unwrap() as usize]);
    let (rate, _) = swept.iter().find(|(_, name)| *name == best).unwrap();
    assert!(*rate >= 0.97 * most, "{best}: {swept:?}");
    // Without a load the advice is another, and says so.
    let unknown = json(&["tune"]);
    assert_eq!(unknown["fastest_even"], **fastest);
    assert_eq!(unknown["optimised_for"], "the least loss if the load is not known");
}

/// A candidate's figure is what it is alone: whatever other loads are tried, and whichever command asks.
#[test]
fn a_candidates_figure_is_its_own() {
    let json = |arguments: &[&str]| -> Value {
        let output = coreshard(arguments).assert().success().get_output().stdout.clone();
        serde_json::from_slice(&output).unwrap()
    };
    let even = |arguments: &[&str]| -> Vec<(String, f64)> {
        let words = ["tune", "--machine", "core:4 pu:2", "--items", "30", "--seeds", "2", "--json"];
        let tuning = json(&[&words, arguments].concat());
        let candidates = tuning["candidates"].as_array().unwrap().iter();
        let figure = |it: &Value| it["even"]["items_per_sec"].as_f64().unwrap();
        candidates.map(|it| (it["scope"].as_str().unwrap().to_owned(), figure(it))).collect()
    };
    let alone = even(&[]);
    assert!(alone.len() > 2, "{alone:?}");
    for other in [&["--producers", "1"][..], &["--item-us", "9"]] {
        assert_eq!(even(other), alone, "{other:?}");
    }
    for (scope, figure) in alone.iter().filter(|(scope, _)| scope != "cache_shard") {
        let words = [
            "bench",
            "queue",
            "--sim",
            "--machine",
            "core:4 pu:2",
            "--items",
            "30",
            "--seeds",
            "2",
        ];
        let own =
            ["--wake", "coalesced", "--intake", "lock-free", "--json", "-", "--scopes", scope];
        let results = json(&[&words[..], &own].concat());
        // Medians are computed in different ways, so the last digit may differ.
        let own = results["results"][0]["items_per_sec"].as_f64().unwrap();
        assert!((own / figure - 1.0).abs() < 1e-12, "{scope}: {own}, not {figure}");
    }
    // A simulated round is a seed more.
    let [two, four] =
        [["--rounds", "2", "--seeds", "1"], ["--rounds", "1", "--seeds", "2"]].map(|it| {
            json(&[&["tune", "--machine", "pocket", "--items", "5", "--json"], &it[..]].concat())
        });
    assert_eq!(two, four);
}

/// Threads of real time that have every CPU stop by themselves: no other thread does so.
#[test]
fn wake_ups_that_cannot_be_kept_up_with_end() {
    for machine in ["core:1 pu:1", "core:2 pu:1"] {
        let cyclic = ["bench", "rt", "cyclic", "--sim", "--machine", machine, "--cycles", "20"];
        let dense = ["--interval-us", "1", "--distance-us", "0", "--seeds", "1", "--json", "-"];
        let output = coreshard(&[&cyclic[..], &dense].concat()).assert().success();
        let results: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
        assert_eq!(results["thread"]["0"]["cycles"], 20, "{results:#}");
    }
}

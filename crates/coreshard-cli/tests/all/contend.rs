//! `coreshard contend`.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use tempfile::TempDir;

const LOCK: &str = r#"
title = "a free list"
lines = [["lock", "head"]]
outside_ns = 200
steps = [{ spin-lock = "lock", writes = ["head"], inside_ns = 20 }]
"#;

/// A folder with a description in it.
struct Described {
    folder: TempDir,
}

impl Described {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("it.toml"), text).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn contend(&self, arguments: &[&str]) -> Assert {
        let mut command = Command::cargo_bin("coreshard").unwrap();
        command
            .current_dir(self.folder.path())
            .args(["contend", "it.toml"])
            .args(arguments)
            .assert()
    }

    fn text(&self, arguments: &[&str]) -> String {
        let done = self.contend(arguments).success();
        String::from_utf8(done.get_output().stdout.clone()).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.text(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn error(&self, arguments: &[&str]) -> String {
        let failed = self.contend(arguments).code(2);
        String::from_utf8(failed.get_output().stderr.clone()).unwrap()
    }
}

const ON_POCKET: [&str; 6] = ["--machine", "pocket", "--threads", "1,4,16", "--seeds", "2"];

#[test]
fn both_models_say_where_it_turns_which_line_limits_and_what_helps() {
    let text = Described::new(LOCK).text(&ON_POCKET);
    for words in [
        "a free list\npocket; threads unpinned, 200 ns outside; medians over 2 seeds\n",
        "threads  simulated       time   queueing       time   apart  rounds/s\n",
        "turning point: ",
        "lines, share of the threads' time with",
        "error: the models differ by up to ",
        "with 16 threads",
        "a copy for each CPU",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for remedy in ["pad", "per 8 CPUs", "per CPU", "batch", "back off", "queue lock", "combine"] {
        assert!(text.lines().any(|line| line.starts_with(remedy)), "{remedy}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn json_and_drawing_have_the_same_results_each_time() {
    let described = Described::new(LOCK);
    let with_svg = [&ON_POCKET[..], &["--svg", "it.svg", "--json"]].concat();
    let first = described.text(&with_svg);
    let drawn = fs::read_to_string(described.path("it.svg")).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("turning point: "), "{drawn}");
    assert_eq!(described.text(&with_svg), first);
    assert_eq!(fs::read_to_string(described.path("it.svg")).unwrap(), drawn);
    let json: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&json["machine"], &json["platform"]), (&"pocket".into(), &"sim".into()));
    let last = &json["points"][2];
    assert_eq!(last["threads"], 16);
    let [run, queueing] = ["run", "queueing"].map(|model| last[model]["per_sec"].as_f64().unwrap());
    let apart = run.max(queueing) / run.min(queueing) - 1.0;
    assert!((last["apart"].as_f64().unwrap() - apart).abs() < 1e-9, "{json}");
    assert_eq!(json["remedies"].as_array().unwrap().len(), 7, "{json}");
}

#[test]
fn the_keys_of_the_results_are_documented() {
    let json = Described::new(LOCK).json(&ON_POCKET);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/RESULTS.md");
    let page = fs::read_to_string(page).unwrap();
    for (name, of) in [
        ("contend", &json),
        ("contend: each of `points` and `remedies`", &json["points"][0]),
        ("contend: each of `points` and `remedies`", &json["remedies"][0]),
        ("contend: each `run` and `queueing`", &json["points"][0]["run"]),
    ] {
        let (_, rest) = page.split_once(&format!("\n## {name}\n")).unwrap();
        let section = rest.split("\n## ").next().unwrap();
        for key in of.as_object().unwrap().keys() {
            assert!(section.contains(&format!("\n| `{key}` |")), "{name}: {key}");
        }
    }
}

#[test]
fn numbers_of_threads_that_were_not_tried_make_the_turning_point_a_range() {
    let add =
        Described::new("outside_ns = 600\nplacement = \"spread\"\nsteps = [{ add = \"it\" }]");
    let found = |threads| {
        let machine = ["--machine", "pocket", "--model", "queueing", "--threads", threads];
        (add.json(&machine)["turning_point"].clone(), add.text(&machine))
    };
    let (turn, text) = found("1,2,10,16");
    assert_eq!((&turn["threads"], &turn["fewer"]), (&10.into(), &2.into()), "{text}");
    assert!(text.contains("turning point: 3 to 10 threads"), "{text}");
    let (turn, text) = found("1,2,8,10,16");
    assert_eq!((&turn["threads"], &turn["fewer"]), (&10.into(), &8.into()), "{text}");
    assert!(text.contains("turning point: 9 to 10 threads"), "{text}");
}

#[test]
fn the_queueing_model_alone_simulates_nothing() {
    let json = Described::new(LOCK).json(&["--machine", "grace", "--model", "queueing"]);
    assert_eq!(json["runs"], 0);
    assert_eq!(json["lines"][0]["line"], "lock + head");
    let points = json["points"].as_array().unwrap();
    assert_eq!(points.last().unwrap()["threads"], 72);
    assert!(points.iter().all(|point| point["run"].is_null() && !point["queueing"].is_null()));
}

/// Real threads, as many as this machine has CPUs for. How fast they are is not this test's business.
#[test]
fn without_a_machine_real_threads_are_measured() {
    let described = Described::new("outside_ns = 0\nsteps = [{ add = \"it\" }]");
    let json = described.json(&["--threads", "1"]);
    assert_eq!((&json["platform"], &json["title"]), (&"host".into(), &"it".into()));
    assert!(json["points"][0]["run"]["per_sec"].as_f64().unwrap() > 0.0, "{json}");
    assert!(json["points"][0]["queueing"].is_null(), "{json}");
    let error = described.error(&["--threads", "60000"]);
    assert!(error.contains("expected --machine, to simulate a larger one"), "{error}");
    let error = described.error(&["--model", "queueing"]);
    assert!(error.contains("--machine"), "{error}");
}

#[test]
fn a_wide_share_of_time_outside_gives_a_range_and_no_prediction() {
    let share = |range: &str| {
        let text = LOCK.replace("outside_ns = 200", &format!("outside_share = {range}"));
        Described::new(&text).text(&["--machine", "pocket", "--threads", "1", "--seeds", "1"])
    };
    let wide = share("[0.5, 0.98]");
    assert!(wide.contains("50 to 98 % of a lone thread's time outside"), "{wide}");
    assert!(wide.contains("note: no prediction is made: with 1 thread,"), "{wide}");
    let narrow = share("[0.5, 0.6]");
    assert!(narrow.contains("M–") && !narrow.contains("no prediction"), "{narrow}");
}

#[test]
fn what_no_step_uses_and_what_no_model_knows_is_said() {
    let text = LOCK.replace("spin-lock", "mutex").replace("\"head\"]]", "\"head\", \"haed\"]]");
    let text = Described::new(&text).text(&ON_POCKET);
    assert!(text.contains("note: no step uses haed\n"), "{text}");
    assert!(text.contains("note: a mutex's waiters sleep, which no model here predicts"), "{text}");
    let small =
        Described::new(LOCK).text(&["--machine", "pocket", "--threads", "8", "--seeds", "1"]);
    assert!(!small.contains("per 8 CPUs") && !small.contains("note:"), "{small}");
}

#[test]
fn wrong_input_names_the_file_the_line_and_what_is_accepted() {
    let wrong = Described::new(&LOCK.replace("spin-lock", "spin_lock"));
    let error = wrong.error(&ON_POCKET);
    for words in
        ["it.toml, line 5: unknown key \"spin_lock\"", "expected an operation (load, store,"]
    {
        assert!(error.contains(words), "{error}");
    }
    let missing = Described::new(&LOCK.replace("outside_ns = 200", ""));
    let error = missing.error(&ON_POCKET);
    assert!(error.contains("expected outside_ns (0 if threads do nothing else)"), "{error}");
    let error = Described::new(LOCK).error(&["--machine", "pocket", "--threads", "17"]);
    assert!(error.contains("invalid number of threads 17: expected at most 16"), "{error}");
    let far = Described::new(&format!("placement = \"900\"\n{LOCK}"));
    let error = far.error(&["--machine", "pocket"]);
    assert!(error.contains("invalid placement: pocket has none of these CPUs"), "{error}");
}

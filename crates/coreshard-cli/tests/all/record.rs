//! `coreshard record` and `coreshard replay`, from a C program to the names of the fields that fight.
//!
//! The programs are compiled here, by the compiler that links every test.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testing::{Lack, skip};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/record");

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn coreshard(&self) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("coreshard"));
        // One for all tests: it is a compiler's run.
        command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command.current_dir(self.folder.path());
        command
    }

    /// Compiles a program of the folder beside this file for recording.
    fn compile(&self, name: &str, options: &[&str]) -> PathBuf {
        let flags = self.coreshard().args(["record", "--flags", "c"]).output().unwrap();
        assert!(flags.status.success(), "{}", String::from_utf8_lossy(&flags.stderr));
        let flags = String::from_utf8(flags.stdout).unwrap();
        let program = self.path(name);
        let done = Command::new("cc")
            .args(["-O1", "-pthread"])
            .args(options)
            .arg("-o")
            .arg(&program)
            .arg(Path::new(PROGRAMS).join(format!("{name}.c")))
            .args(flags.split_whitespace())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        program
    }

    /// Compiles it as it is, by this compiler.
    fn compile_plain(&self, compiler: &str, name: &str, options: &[&str]) -> PathBuf {
        let program = self.path(name);
        let done = Command::new(compiler)
            .args(["-O1", "-g", "-pthread"])
            .args(options)
            .arg("-o")
            .arg(&program)
            .arg(Path::new(PROGRAMS).join(format!("{name}.c")))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        program
    }

    fn record(&self, program: &Path, arguments: &[&str]) -> Option<i32> {
        let done = self
            .coreshard()
            .args(["record", "-o", "it.trace"])
            .args(arguments)
            .arg("--")
            .arg(program)
            .output()
            .unwrap();
        done.status.code()
    }

    fn replay(&self, machine: &str) -> Value {
        let arguments = ["replay", "it.trace", "--machine", machine, "--json", "-"];
        let done = self.coreshard().args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stdout).unwrap()
    }
}

/// The fields of a line, each once.
fn fields(line: &Value) -> Vec<&str> {
    let words = line["words"].as_array().unwrap();
    let mut fields: Vec<_> = words.iter().filter_map(|word| word["field"].as_str()).collect();
    fields.dedup();
    fields
}

#[test]
fn two_counters_in_one_struct_are_named_and_told_to_be_false_sharing() {
    let place = Place::new();
    let program = place.compile("counters", &[]);
    assert_eq!(place.record(&program, &[]), Some(7), "the program's own status");
    let report = place.replay("epyc-9654-2s");
    let line = &report["lines"][0];
    assert_eq!(line["sharing"], "false", "{line:#}");
    assert_eq!(line["advice"], "separate");
    assert!(line["object"].as_str().unwrap().starts_with("struct device"), "{line:#}");
    assert_eq!(fields(line), ["queue", "issued", "done"]);
    let places: Vec<_> =
        line["words"].as_array().unwrap().iter().map(|word| &word["place"]).collect();
    assert!(
        places.iter().any(|place| place["function"] == "issue" && place["line"].as_u64() > Some(0))
    );

    let arguments = ["replay", "it.trace", "--machine", "epyc-9654-2s", "--html", "it.html"];
    let svg = ["--svg", "it.svg"];
    assert!(place.coreshard().args(arguments).args(svg).output().unwrap().status.success());
    // The object now and then: both fields twice, each in its writer's colour, and no style sheet.
    let drawing = std::fs::read_to_string(place.path("it.svg")).unwrap();
    for shown in ["issued, 8 bytes; written by 2", "done, 8 bytes; written by 3"] {
        assert_eq!(drawing.matches(shown).count(), 2, "{drawing}");
    }
    assert!(
        drawing.contains(" × as fast: ") && drawing.contains("written by thread 3"),
        "{drawing}"
    );
    assert!(!drawing.contains("<style") && !drawing.contains("var("), "{drawing}");
    let page = std::fs::read_to_string(place.path("it.html")).unwrap();
    for shown in ["/counters&quot; on epyc-9654-2s", "thread 2", "thread 3", "issue (counters.c:"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
}

/// The type of memory that a function takes is told by its variables, and inlined functions by their entries.
#[test]
fn split_debug_information_tells_types_and_functions_as_other_does() {
    let told = |options: &[&str]| {
        let place = Place::new();
        let program = place.compile("counters", options);
        assert_eq!(place.record(&program, &[]), Some(7));
        let report = place.replay("epyc-9654-2s");
        let line = report["lines"][0].clone();
        let functions: std::collections::BTreeSet<_> = line["words"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word["place"]["function"].to_string())
            .collect();
        (line["object"].clone(), fields(&line).join(" "), functions)
    };
    let whole = told(&[]);
    assert!(whole.0.as_str().unwrap().starts_with("struct device"), "{whole:?}");
    assert_eq!(told(&["-gsplit-dwarf"]), whole);
}

#[test]
fn lines_that_cost_next_to_nothing_are_shown_where_so_many_are_asked_for() {
    if !has("qemu-x86_64") || !cfg!(target_arch = "x86_64") {
        return skip(Lack::Qemu, "qemu-x86_64 does not start");
    }
    let place = Place::new();
    // Built for the other engine, which a replay says.
    let program = place.compile("counters", &[]);
    assert_eq!(place.record(&program, &["--engine", "qemu"]), Some(7));
    let shown = |options: &[&str]| {
        let arguments = ["replay", "it.trace", "--machine", "epyc-9654-2s"];
        let done = place.coreshard().args(arguments).args(options).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let (few, more) = (shown(&[]), shown(&["--lines", "10"]));
    let lines = |text: &str| text.lines().filter(|line| line.starts_with("line ")).count();
    assert!(lines(&few) < 10, "{few}");
    assert!(few.contains("; --lines 10 shows them"), "{few}");
    assert_eq!(lines(&more), 10, "{more}");
    assert!(few.contains("note: the program was built for the engine tsan"), "{few}");
}

fn kinds_are_told_apart(report: &Value) {
    let lines = report["lines"].as_array().unwrap();
    let of = |name: &str| {
        let is_it =
            |line: &&Value| line["object"].as_str().is_some_and(|object| object.starts_with(name));
        lines.iter().find(is_it).unwrap_or_else(|| panic!("no line of {name}: {report:#}"))
    };
    assert_eq!(
        (&of("total")["sharing"], &of("total")["advice"]),
        (&"true".into(), &"split".into())
    );
    assert_eq!(of("account")["advice"], "lock_and_data");
    assert_eq!(
        (&of("hits")["sharing"], &of("hits")["advice"]),
        (&"false".into(), &"pad_elements".into())
    );
    assert_eq!(
        (&of("settings")["sharing"], &of("settings")["advice"]),
        (&"true".into(), &"read_mostly".into())
    );
}

#[test]
fn one_counter_a_lock_an_array_and_settings_are_told_apart() {
    let place = Place::new();
    let program = place.compile("kinds", &[]);
    assert_eq!(place.record(&program, &[]), Some(0));
    let report = place.replay("epyc-9654-2s");
    kinds_are_told_apart(&report);
}

#[test]
fn memory_that_threads_have_one_after_the_other_is_not_fought_for() {
    let place = Place::new();
    let program = place.compile("reused", &[]);
    assert_eq!(place.record(&program, &[]), Some(7), "the second gets the first one's memory");
    let report = place.replay("epyc-9654-2s");
    let fought = |line: &&Value| line["sharing"] == "false" && line["cost_ns"].as_f64() > Some(1e3);
    let fought: Vec<_> = report["lines"].as_array().unwrap().iter().filter(fought).collect();
    assert!(fought.is_empty(), "{fought:#?}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("both have it at once here: 1 of 2 such pieces"), "{notes}");
}

#[test]
fn short_pieces_that_threads_have_one_after_the_other_are_not_fought_for() {
    let place = Place::new();
    let program = place.compile("nodes", &[]);
    assert_eq!(place.record(&program, &[]), Some(0));
    let report = place.replay("epyc-9654-2s");
    assert_eq!(report["findings"].as_array().unwrap().len(), 0, "{report:#}");
    let share = report["taken_back_ns"].as_f64().unwrap() / report["running_ns"].as_f64().unwrap();
    assert!(share < 0.01, "{share}: {report:#}");
}

/// The lines that a replay prints.
fn shown(place: &Place) -> Vec<String> {
    let arguments = ["replay", "it.trace", "--machine", "epyc-9654-2s"];
    let done = place.coreshard().args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_replay_begins_with_objects_remedies_gains_and_the_next_command() {
    let place = Place::new();
    let program = place.compile("counters", &[]);
    assert_eq!(place.record(&program, &[]), Some(7));
    let lines = shown(&place);
    let has_all = |line: &str, parts: &[&str]| parts.iter().all(|part| line.contains(part));
    assert!(
        has_all(&lines[0], &["1. ", " % of the time: struct device, taken at counters.c:", "done"]),
        "{lines:#?}"
    );
    assert!(
        has_all(&lines[1], &["false sharing: give each thread's data", " × as fast"]),
        "{lines:#?}"
    );
    let next = "next: coreshard layout --replay it.trace --machine epyc-9654-2s";
    let at = lines.iter().position(|line| line == next).unwrap();
    assert!(at <= 5, "{lines:#?}");
    assert!(lines[..at].iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    // An access that happened once, when the object was made, is not shown.
    assert!(!lines.iter().any(|line| line.contains("queue")), "{lines:#?}");

    // The next command shows the gain that the verdict predicts.
    let gain = place.replay("epyc-9654-2s")["findings"][0]["gain"].as_f64().unwrap();
    let of = &place.layouts("epyc-9654-2s", &[])[0];
    let best = of["before_ns"].as_f64().unwrap() / of["proposals"][0]["after_ns"].as_f64().unwrap();
    assert!((gain - best).abs() < 1e-9 && gain > 1.01, "{gain} {best}");
}

#[test]
fn each_field_to_separate_that_is_not_found_is_named() {
    let place = Place::new();
    let program = place.compile("counters", &[]);
    assert_eq!(place.record(&program, &[]), Some(7));
    let replay = ["replay", "it.trace", "--machine", "epyc-9654-2s", "--apart", "done"];
    let done = place.coreshard().args(replay).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let others = ["--apart", "don", "--apart", "x.done"];
    let done = place.coreshard().args(replay).args(others).output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(told.contains("invalid --apart \"don\", \"x.done\": expected fields"), "{told}");
}

#[test]
fn the_keys_of_findings_are_documented() {
    let place = Place::new();
    let program = place.compile("counters", &[]);
    assert_eq!(place.record(&program, &[]), Some(7));
    let report = place.replay("epyc-9654-2s");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/RESULTS.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = |name: &str| {
        let (_, rest) = page.split_once(&format!("\n## {name}\n")).unwrap();
        rest.split("\n## ").next().unwrap().to_owned()
    };
    let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for (name, keys) in [
        ("replay", keys(&report)),
        ("replay: each of `findings`", keys(&report["findings"][0])),
        ("replay: each of `fields` of a finding", keys(&report["findings"][0]["fields"][0])),
    ] {
        let text = section(name);
        for key in keys {
            assert!(text.contains(&format!("\n| `{key}` |")), "{name}: {key}");
        }
    }
}

#[test]
fn neighbours_buckets_a_ring_and_a_table_get_the_right_advice() {
    let found = |case: u32| {
        let place = Place::new();
        let program = place.compile("neighbours", &[&format!("-DCASE={case}")]);
        assert_eq!(place.record(&program, &[]), Some(0));
        let report = place.replay("epyc-9654-2s");
        (report["findings"].clone(), shown(&place))
    };
    let (globals, lines) = found(1);
    assert_eq!(globals[0]["advice"], "separate", "{globals:#}");
    let first = &lines[0];
    assert!(first.contains("sent and received") || first.contains("received and sent"), "{first}");

    let (buckets, _) = found(2);
    assert_eq!(buckets[0]["object"], "buckets", "{buckets:#}");
    assert_eq!(buckets[0]["advice"], "pad_elements", "{buckets:#}");

    let (ring, _) = found(3);
    assert_eq!(ring[0]["object"], "ring", "{ring:#}");
    assert_eq!(ring[0]["advice"], "own_words", "{ring:#}");

    let (table, lines) = found(4);
    assert_eq!(table.as_array().unwrap().len(), 0, "{table:#}");
    assert!(lines[0].starts_with("no object costs 1 %"), "{lines:#?}");
    assert!(lines[1].ends_with(" --latent"), "{lines:#?}");
}

#[test]
fn words_of_a_stack_get_a_layout_and_a_gain() {
    let place = Place::new();
    let program = place.compile("shared_stack", &[]);
    assert_eq!(place.record(&program, &[]), Some(0));
    let finding = place.replay("epyc-9654-2s")["findings"][0].clone();
    assert_eq!(finding["kind"], "stack", "{finding:#}");
    assert_eq!(finding["advice"], "separate", "{finding:#}");
    assert!(finding["gain"].as_f64() > Some(1.1), "{finding:#}");
    let types = place.layouts("epyc-9654-2s", &[]);
    assert_eq!(types[0]["name"], finding["object"], "{types:#}");
    let proposal = &types[0]["proposals"][0];
    assert_ne!(place_of(proposal, "bytes 0–7") / 64, place_of(proposal, "bytes 8–15") / 64);
}

#[test]
fn memory_that_was_something_else_before_has_the_name_of_what_it_is() {
    let place = Place::new();
    let program = place.compile("retyped", &[]);
    assert_eq!(place.record(&program, &[]), Some(7), "both had the same memory");
    let report = place.replay("epyc-9654-2s");
    let line = &report["lines"][0];
    assert!(line["object"].as_str().unwrap().starts_with("struct gauge"), "{line:#}");
    let named = fields(line);
    assert!(named.contains(&"left") && named.contains(&"right"), "{line:#}");
    assert!(
        named.iter().any(|field| field.starts_with("struct parcel") && field.ends_with("weight")),
        "{line:#}"
    );
    let types = place.layouts("epyc-9654-2s", &[]);
    let names: Vec<_> = types.as_array().unwrap().iter().map(|of| &of["name"]).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].as_str().unwrap().starts_with("struct gauge"), "{names:?}");
    let fields = types[0]["fields"].as_array().unwrap();
    let writers = |name: &str| {
        let field = fields.iter().find(|field| field["name"] == name).unwrap();
        field["writers"].as_array().unwrap().len()
    };
    assert_eq!((writers("left"), writers("right"), writers("limit")), (1, 1, 0), "{types:#}");
}

#[test]
fn a_program_that_is_killed_leaves_a_recording() {
    let place = Place::new();
    let program = place.compile("counters", &["-DKILLED"]);
    assert_eq!(place.record(&program, &[]), Some(128 + 9));
    let report = place.replay("pocket");
    assert!(report["accesses"].as_u64().unwrap() > 1_000, "{report:#}");
    assert_eq!(report["lines"][0]["sharing"], "false");
}

#[test]
fn a_program_that_was_not_built_for_recording_leaves_no_empty_recording() {
    let place = Place::new();
    let plain = place.compile_plain("cc", "counters", &[]);
    let record = |options: &[&str], path: Option<&str>| {
        let mut command = place.coreshard();
        command.args(["record", "-o", "it.trace"]).args(options).arg("--").arg(&plain);
        command.envs(path.map(|path| ("PATH", path)));
        let done = command.output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (status, said) = record(&["--engine", "tsan"], None);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("nothing was recorded") && said.contains("--flags"), "{said}");
    // Without QEMU it is an error before the program starts.
    let (status, said) = record(&[], Some("/nonexistent"));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("not built for recording") && said.contains("qemu-user"), "{said}");
    assert!(!place.path("it.trace").exists());
    assert_eq!(leftovers(&place), [""; 0]);

    // One that was built for it needs no QEMU.
    let built = place.compile("kinds", &[]);
    let mut command = place.coreshard();
    command.args(["record", "-o", "it.trace", "--"]).arg(built).env("PATH", "/nonexistent");
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_program_that_was_not_built_for_recording_is_emulated() {
    if !has("qemu-x86_64") || !cfg!(target_arch = "x86_64") {
        return skip(Lack::Qemu, "qemu-x86_64 does not start");
    }
    let place = Place::new();
    let plain = place.compile_plain("cc", "counters", &[]);
    assert_eq!(place.record(&plain, &[]), Some(7));
    let report = place.replay("epyc-9654-2s");
    assert!(report["findings"][0]["object"].as_str().unwrap().starts_with("struct device"));
}

/// Records a program that waits, until `signals` have ended it one after the other; its status.
/// Compiles the program as it is under another name.
fn plain_build(place: &Place) -> PathBuf {
    let plain = place.path("plain");
    std::fs::rename(place.compile_plain("cc", "counters", &[]), &plain).unwrap();
    plain
}

#[test]
fn a_recording_has_the_pace_of_the_program_without_the_flags() {
    let place = Place::new();
    let plain = plain_build(&place);
    let built = place.compile("counters", &[]);
    assert_eq!(place.record(&built, &[]), Some(7));
    let without = place.replay("epyc-9654-2s")["virtual_ns"].as_f64().unwrap();
    let option = format!("--pace={}", plain.display());
    assert_eq!(place.record(&built, &["--force", &option]), Some(7));
    let with = place.replay("epyc-9654-2s")["virtual_ns"].as_f64().unwrap();
    assert!((with / without - 1.0).abs() > 0.001, "{with} and {without}");

    let refused = |options: &[&str], program: &Path, what: &str| {
        let mut command = place.coreshard();
        let done = command.args(["record", "--force"]).args(options).arg(program).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && said.contains(what), "{said}");
    };
    refused(&["--pace"], &built, "expected --pace=BUILD");
    refused(&["--pace=./counters"], &built, "was built for recording");
    refused(&["--pace=./absent"], &built, "cannot find the program");
    refused(&["--pace", "--from", "1"], &built, "cannot be used with");
}

#[test]
fn an_emulated_program_is_also_run_as_it_is() {
    if !has("qemu-x86_64") || !cfg!(target_arch = "x86_64") {
        return skip(Lack::Qemu, "qemu-x86_64 does not start");
    }
    let place = Place::new();
    let plain = plain_build(&place);
    let mut command = place.coreshard();
    let done = command.args(["record", "--pace", "-o", "it.trace", "--"]).arg(&plain).output();
    let done = done.unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(7) && !said.contains("without a pace"), "{said}");
}

fn ended_by(place: &Place, program: &Path, signals: &[Signal]) -> Option<i32> {
    let mut command = place.coreshard();
    command.args(["record", "-o", "it.trace", "--"]).arg(program);
    // Not the terminal's group, whose Ctrl-C the program would have by itself.
    let mut recorder = command.process_group(0).spawn().unwrap();
    let ready = place.path("ready");
    while !ready.exists() {
        assert!(recorder.try_wait().unwrap().is_none(), "it has ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(ready).unwrap();
    let id = Pid::from_child(&recorder);
    let (first, further) = signals.split_first().unwrap();
    kill_process(id, *first).unwrap();
    for signal in further {
        // Two that come at once may be one: so again and again.
        std::thread::sleep(Duration::from_millis(50));
        assert!(recorder.try_wait().unwrap().is_none(), "{signals:?}: the first has ended it");
        while recorder.try_wait().unwrap().is_none() {
            kill_process(id, *signal).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    recorder.wait().unwrap().code()
}

fn leftovers(place: &Place) -> Vec<String> {
    let files = std::fs::read_dir(place.folder.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn a_recording_that_is_interrupted_is_whole() {
    let place = Place::new();
    let waits = place.compile("waits", &[]);
    let is_whole = || {
        let report = place.replay("pocket");
        assert!(report["accesses"].as_u64().unwrap() > 40_000, "{report:#}");
        assert_eq!(report["lines"][0]["sharing"], "false");
        assert_eq!(leftovers(&place), [""; 0]);
        std::fs::remove_file(place.path("it.trace")).unwrap();
    };
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        assert_eq!(ended_by(&place, &waits, &[signal]), Some(status));
        is_whole();
    }
    // One that does not end by them.
    let stubborn = place.compile("waits", &["-DSTUBBORN"]);
    for signals in [[Signal::INT, Signal::TERM], [Signal::TERM, Signal::TERM]] {
        assert_eq!(ended_by(&place, &stubborn, &signals), Some(137), "{signals:?}");
        is_whole();
    }
}

#[test]
fn what_does_not_start_leaves_nothing_and_a_program_is_not_replaced_by_its_recording() {
    let place = Place::new();
    let program = place.compile("counters", &[]);
    let before = std::fs::read(&program).unwrap();
    for name in ["./absent", "/"] {
        let done = place.coreshard().args(["record", "-o", "it.trace", "--", name]).output();
        assert_eq!(done.unwrap().status.code(), Some(2), "{name}");
        assert_eq!(leftovers(&place), [""; 0], "{name}");
    }
    let command = ["record", "--force", "-o", "counters", "--", "./counters"];
    let done = place.coreshard().args(command).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("it would replace"), "{said}");
    assert_eq!(std::fs::read(&program).unwrap(), before);
}

#[test]
fn a_line_is_as_long_as_the_machines() {
    let place = Place::new();
    let program = place.compile("counters", &[]);
    assert_eq!(place.record(&program, &[]), Some(7));
    let words = ["layout", "--replay", "it.trace", "--machine", "pocket", "--line-bytes", "128"];
    let done = place.coreshard().args(words).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("--line-bytes") && said.contains("--replay"), "{said}");
}

#[test]
fn what_is_missing_is_told() {
    let place = Place::new();
    let done =
        place.coreshard().args(["replay", "/bin/true", "--machine", "pocket"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("at offset 0"));
    // A bound that is reached at once.
    let program = place.compile("counters", &[]);
    assert_eq!(place.record(&program, &["--max-size", "1"]), Some(7));
    assert!(place.replay("pocket")["notes"].to_string().contains("after the maximum file size"));
}

#[test]
fn a_recording_that_grows_too_large_is_sampled_and_says_so() {
    let place = Place::new();
    let program = place.compile("busy", &[]);
    for most in [4_000_000, 40_000_000] {
        let size = most.to_string();
        let options = ["--max-size", &size, "--max-memory", "67108864"];
        assert_eq!(place.record(&program, &options), Some(0));
        let bytes = std::fs::metadata(place.path("it.trace")).unwrap().len();
        assert!((most / 2..most).contains(&bytes), "{bytes} of {most}");
        let notes = place.replay("epyc-9654-2s")["notes"].to_string();
        assert!(notes.contains("the recording lacks the time between slices: from "), "{notes}");
        // The program is sampled to its end.
        assert!(!notes.contains("maximum file size"), "{notes}");
    }
    let lines = shown(&place);
    assert!(lines[0].contains(" of the time: sides"), "{lines:#?}");
    let is_head = |line: &&String| line.starts_with("sampled: the recording lacks the time");
    assert_eq!(lines.iter().filter(is_head).count(), 1, "{lines:#?}");

    let done = place.coreshard().args(["record", "--max-memory", "1000", "./busy"]).output();
    let done = done.unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("at least 67108864"));
}

#[test]
fn memory_of_libraries_has_the_type_that_they_allocate() {
    let place = Place::new();
    let flags = place.coreshard().args(["record", "--flags", "c++"]).output().unwrap();
    let flags = String::from_utf8(flags.stdout).unwrap();
    let program = place.path("vectors");
    let done = Command::new("c++")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(Path::new(PROGRAMS).join("vectors.cpp"))
        .args(flags.split_whitespace())
        .output();
    let Ok(done) = done else { return skip(Lack::CppCompiler, "c++ does not start") };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(place.record(&program, &[]), Some(0));
    let report = place.replay("epyc-9654-2s");
    let objects: Vec<_> =
        report["objects"].as_array().unwrap().iter().map(|of| &of["object"]).collect();
    // Functions that take them have variables of other types of these sizes.
    for name in ["array of long int", "Gauge", "Board"] {
        let start = format!("{name}, taken at vectors.cpp:");
        let is_it = |of: &&&Value| of.as_str().unwrap().starts_with(&start);
        assert!(objects.iter().any(|of| is_it(&of)), "no {name}: {objects:#?}");
    }
    // An array within an object is spread.
    let types = place.layouts("epyc-9654-2s", &[]);
    let board = types
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["name"].as_str().unwrap().starts_with("Board"));
    let best = &board.unwrap()["proposals"][0];
    assert_eq!(best["what"], "each element of an array in it begins a line", "{best:#}");
    assert!(best["suggestion"].as_str().unwrap().ends_with("elements of: marks"), "{best:#}");
}

#[test]
fn waiting_is_shown_by_lock_and_costs_no_wake_up_for_each_turn() {
    let place = Place::new();
    let program = place.compile("account", &[]);
    assert_eq!(place.record(&program, &[]), Some(0));
    let report = place.replay("epyc-9654-2s");
    let lock = &report["locks"][0];
    assert_eq!((&lock["object"], &lock["field"]), (&"account".into(), &"lock".into()), "{lock:#}");
    assert!(lock["waits"].as_u64() > Some(0) && lock["waited_ns"].as_f64() > Some(0.0));
    // A wake-up takes some microseconds, and the lock is held for some nanoseconds.
    let each_ns = report["virtual_ns"].as_f64().unwrap() / 80_000.0;
    assert!(each_ns < 500.0, "{each_ns} ns a turn");
    let lines = shown(&place);
    assert!(
        lines.iter().take(5).any(|line| line.starts_with("waiting for a lock, ")),
        "{lines:#?}"
    );
}

/// Checks the notes about child processes, and about programs that replace the recorded one.
fn processes_are_told_of(place: &Place, program: &Path, options: &[&str]) {
    const PROCESS: &str = "the recording lacks a further process";
    const EXEC: &str = "the recording lacks everything after exec";
    for (how, told) in [
        ("", [false, false]),
        ("fork", [true, false]),
        ("fork and exec", [true, false]),
        ("fork and leave", [true, false]),
        ("vfork", [true, false]),
        ("spawn", [true, false]),
        ("system", [true, false]),
        ("popen", [true, false]),
        ("exec", [false, true]),
        ("itself", [false, true]),
        // A call that fails.
        ("absent", [false, false]),
    ] {
        let mut command = place.coreshard();
        command.args(["record", "-o", "it.trace"]).args(options).arg("--").arg(program).arg(how);
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(7), "{how}: {said}");
        let notes = place.replay("pocket")["notes"].to_string();
        for text in [said, notes] {
            assert_eq!([PROCESS, EXEC].map(|it| text.contains(it)), told, "{how}: {text}");
        }
    }
}

#[test]
fn processes_that_are_not_recorded_are_told_of() {
    let place = Place::new();
    let program = place.compile("processes", &[]);
    processes_are_told_of(&place, &program, &[]);
}

#[test]
fn processes_that_are_not_recorded_are_told_of_in_emulation() {
    if !has("qemu-x86_64") || !cfg!(target_arch = "x86_64") {
        return skip(Lack::Qemu, "qemu-x86_64 does not start");
    }
    let place = Place::new();
    let program = place.compile_plain("cc", "processes", &[]);
    processes_are_told_of(&place, &program, &["--engine", "qemu"]);
}

#[test]
fn a_proposed_layout_is_worth_more_than_what_is_there() {
    let place = Place::new();
    let program = place.compile("counters", &[]);
    assert_eq!(place.record(&program, &[]), Some(7));
    let arguments = ["layout", "--replay", "it.trace", "--machine", "epyc-9654-2s", "--json"];
    let done = place.coreshard().args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let types: Value = serde_json::from_slice(&done.stdout).unwrap();
    let best = &types[0]["proposals"][0];
    let lost = |of: &Value, key: &str| of[key].as_f64().unwrap();
    assert!(lost(best, "lost_after_ns") * 10.0 < lost(&types[0], "lost_before_ns"), "{types:#}");
    assert_eq!(best["spent_bytes"], 128);
    assert!(best["suggestion"].as_str().unwrap().contains("_Alignas(64)"), "{best:#}");
}

impl Place {
    /// What `coreshard layout --replay` says, with these options.
    fn layouts(&self, machine: &str, options: &[&str]) -> Value {
        let arguments = ["layout", "--replay", "it.trace", "--machine", machine, "--json"];
        let done = self.coreshard().args(arguments).args(options).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stdout).unwrap()
    }

    /// Records a program built with LAYOUT as given, and replays it on two packages of 240 CPUs.
    fn of_layout(&self, name: &str, layout: u32) -> Value {
        let program = self.compile(name, &[&format!("-DLAYOUT={layout}")]);
        assert_eq!(self.record(&program, &[]), Some(0));
        self.replay("xeon-hcc-2s")
    }
}

/// Returns the new offset of a field in a proposal.
fn place_of(proposal: &Value, field: &str) -> u64 {
    let order = proposal["order"].as_array().unwrap();
    order.iter().find(|its| its[0] == field).unwrap_or_else(|| panic!("no {field}: {proposal:#}"))
        [1]
    .as_u64()
    .unwrap()
}

#[test]
fn a_devices_counters_are_named_and_the_remedies_rank_as_published() {
    let place = Place::new();
    let virtual_ns = |report: &Value| report["virtual_ns"].as_f64().unwrap();
    let per_cpu = virtual_ns(&place.of_layout("requests", 2));
    let padded = virtual_ns(&place.of_layout("requests", 1));
    let report = place.of_layout("requests", 0);
    let packed = virtual_ns(&report);
    assert!(packed > 1.1 * padded && padded > 2.0 * per_cpu, "{packed} {padded} {per_cpu}");
    let lines = report["lines"].as_array().unwrap();
    let of = |name: &str| {
        let is_it = |line: &&Value| line["object"].as_str().unwrap().starts_with(name);
        lines.iter().find(is_it).unwrap_or_else(|| panic!("no line of {name}: {report:#}"))
    };
    assert!(fields(of("struct device")).contains(&"issued"));
    assert!(fields(of("struct device")).contains(&"done"));
    assert_ne!(of("struct device")["sharing"], "true");
    // The linker may put other data on the same line.
    assert!(fields(of("host")).starts_with(&["active", "limit"]));

    let types = place.layouts("xeon-hcc-2s", &[]);
    let all = types.as_array().unwrap().iter();
    let device = all.clone().find(|of| of["name"].as_str().unwrap().starts_with("struct device"));
    let best = &device.unwrap()["proposals"][0];
    assert_ne!(place_of(best, "issued") / 64, place_of(best, "done") / 64, "as was published");
    let host = all.clone().find(|of| of["name"] == "host").unwrap();
    let best = &host["proposals"][0];
    assert_ne!(place_of(best, "active") / 64, place_of(best, "limit") / 64, "as was published");
}

#[test]
#[ignore = "at night: records 480 threads"]
fn a_priority_vectors_mask_goes_to_a_line_of_its_own_at_night() {
    let place = Place::new();
    // The result of a thread depends on the threads that run at the same time, and so does its work.
    let median = |layout: u32| {
        let replayed = || place.of_layout("priorities", layout)["virtual_ns"].as_f64().unwrap();
        let mut times: Vec<f64> = (0..9).map(|_| replayed()).collect();
        times.sort_unstable_by(f64::total_cmp);
        times[4]
    };
    let padded = median(1);
    let typical = median(0);
    assert!(typical > padded, "{typical} {padded}");
    // If other programs separated the threads during the recording, they hardly contended, and the recording is not
    // representative.
    let mut replays = (0..100).map(|_| place.of_layout("priorities", 0));
    let fought = |report: &Value| report["virtual_ns"].as_f64().unwrap() >= typical;
    let report = replays.find(fought).expect("every second one is as slow as the median");
    let packed = report["virtual_ns"].as_f64().unwrap();
    let line = &report["lines"][0];
    assert_eq!(line["object"], "vecs", "{line:#}");
    let named = fields(line);
    // All threads go from the one level to the other and back; which costs more is a matter of the run.
    let has = |level: &str| {
        ["count", "mask"].iter().all(|its| named.contains(&&*format!("[{level}].{its}")))
    };
    assert!(has("1") || has("100"), "{named:?}");
    let types = place.layouts("xeon-hcc-2s", &[]);
    assert_eq!(types[0]["name"], "vecs");
    let best = &types[0]["proposals"][0];
    assert_ne!(place_of(best, "count") / 64, place_of(best, "mask") / 64, "as was published");
    assert!(best["after_ns"].as_f64().unwrap() < packed, "{best:#}");
}

#[test]
fn a_layout_keeps_what_is_pinned_and_what_is_last() {
    let place = Place::new();
    let program = place.compile("journal", &[]);
    assert_eq!(place.record(&program, &[]), Some(0));
    let types = place.layouts("epyc-9654-2s", &["--pin", "taken"]);
    assert!(types[0]["name"].as_str().unwrap().starts_with("struct journal"), "{types:#}");
    let proposals = types[0]["proposals"].as_array().unwrap();
    assert!(!proposals.is_empty());
    let least = types[0]["before_ns"].as_f64().unwrap() * 0.99;
    let is_worth = |of: &Value| of["after_ns"].as_f64().unwrap() <= least;
    assert!(proposals.iter().all(is_worth), "{types:#}");
    for proposal in proposals {
        assert_eq!(place_of(proposal, "taken"), 8, "it is pinned: {proposal:#}");
        let tail = place_of(proposal, "text");
        for field in ["magic", "taken", "given", "as"] {
            assert!(place_of(proposal, field) < tail, "a flexible tail is last: {proposal:#}");
        }
        // A union is one piece, however many fields it has.
        assert_eq!(proposal["order"].as_array().unwrap().len(), 5, "{proposal:#}");
    }
    let best = &proposals[0];
    assert_ne!(place_of(best, "taken") / 64, place_of(best, "given") / 64);
    assert!(best["after_ns"].as_f64() < types[0]["before_ns"].as_f64(), "{types:#}");

    let arguments = ["layout", "--replay", "it.trace", "--machine", "epyc-9654-2s"];
    let done = place.coreshard().args(arguments).args(["--pin", "nothing"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        told.contains("a field \"nothing\": expected one of magic, taken, given, as, text"),
        "{told}"
    );

    let done = place.coreshard().args(arguments).args(["--format", "svg"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let drawing = String::from_utf8(done.stdout).unwrap();
    assert!(drawing.contains("taken at 8, 8 bytes: written by thread 2"), "{drawing}");
    assert!(drawing.contains("given at 16, 8 bytes: written by thread 3"), "{drawing}");
    assert!(drawing.contains("magic at 0, 8 bytes: never written"), "{drawing}");
}

#[test]
fn what_would_be_fought_for_elsewhere_is_told() {
    let place = Place::new();
    let program = place.compile("slots", &[]);
    assert_eq!(place.record(&program, &[]), Some(0));
    let of = |name: &str, cases: &Value| -> Vec<(u64, u64)> {
        let all = cases.as_array().unwrap().iter();
        let found = all.filter(|of| of["object"].as_str().unwrap().starts_with(name));
        let cases = found.flat_map(|of| of["elsewhere"].as_array().unwrap());
        let number = |case: &Value, key: &str| case[key].as_u64().unwrap();
        let mut cases: Vec<_> =
            cases.map(|case| (number(case, "shift_bytes"), number(case, "line_bytes"))).collect();
        cases.sort_unstable();
        cases
    };
    let latent = place.layouts("epyc-9654-2s", &["--latent"]);
    // Both ends of a slot are written by its thread: wherever a border falls between them, two threads have a line.
    let shifts: Vec<_> =
        [(0, 128)].into_iter().chain((8..64).step_by(8).map(|shift| (shift, 64))).collect();
    assert_eq!(of("struct slot, taken at slots.c", &latent), shifts, "{latent:#}");
    // Shifts that the type's alignment forbids are not reported.
    assert_eq!(of("aligned", &latent), [(0, 128)], "{latent:#}");
    let report = place.replay("epyc-9654-2s");
    let lines = report["lines"].as_array().unwrap().iter();
    let slots = lines.filter(|line| line["object"].as_str().unwrap().starts_with("struct slot"));
    assert!(slots.clone().all(|line| line["sharing"] != "false"), "as it lies: {report:#}");
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|done| done.status.success())
}

#[test]
fn a_program_as_it_is_is_seen_in_emulation() {
    if !has("qemu-x86_64") || !cfg!(target_arch = "x86_64") {
        return skip(Lack::Qemu, "qemu-x86_64 does not start");
    }
    let place = Place::new();
    let program = place.compile_plain("cc", "counters", &[]);
    assert_eq!(place.record(&program, &["--engine", "qemu"]), Some(7), "the program's own status");
    let report = place.replay("epyc-9654-2s");
    let line = &report["lines"][0];
    assert!(
        line["object"].as_str().unwrap().starts_with("struct device, taken at counters.c"),
        "{line:#}"
    );
    assert_eq!((&line["sharing"], &line["advice"]), (&"false".into(), &"separate".into()));
    let of = |field: &str, access: &str| -> u64 {
        let words = line["words"].as_array().unwrap().iter();
        let found = words.filter(|word| word["field"] == field && word["access"] == access);
        found.map(|word| word["count"].as_u64().unwrap()).sum()
    };
    // Exactly the accesses in the source are recorded.
    assert_eq!((of("issued", "load"), of("done", "load")), (30_001, 30_001), "{line:#}");
    assert!((30_000..30_003).contains(&of("issued", "store")), "{line:#}");
    assert!(!report["notes"].to_string().contains("lacks"), "{report:#}");

    let program = place.compile_plain("cc", "kinds", &[]);
    assert_eq!(place.record(&program, &["--engine", "qemu"]), Some(0));
    kinds_are_told_apart(&place.replay("epyc-9654-2s"));

    // A static program reports no locks except waits, but its variables still have names.
    let program = place.compile_plain("cc", "kinds", &["-static"]);
    assert_eq!(place.record(&program, &["--engine", "qemu"]), Some(0));
    let report = place.replay("epyc-9654-2s");
    assert!(report["notes"].to_string().contains("not linked dynamically"), "{report:#}");
    let objects = report["lines"].as_array().unwrap().iter().map(|line| &line["object"]);
    assert!(objects.clone().any(|object| object == "hits"), "{report:#}");

    let done = place
        .coreshard()
        .args(["record", "--engine", "qemu", "--"])
        .arg(place.path("it.trace"))
        .output();
    let done = done.unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("not a 64-bit ELF program"));
}

#[test]
fn a_go_program_is_seen_in_emulation() {
    if !has("qemu-x86_64") || !cfg!(target_arch = "x86_64") {
        return skip(Lack::Qemu, "qemu-x86_64 does not start");
    }
    let place = Place::new();
    let program = place.path("workers");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(Path::new(PROGRAMS).join("workers.go"))
        .envs([("CGO_ENABLED", "0"), ("GO111MODULE", "off"), ("GOTOOLCHAIN", "local")])
        .env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache"))
        .output();
    let Ok(built) = built else { return skip(Lack::Go, "go does not start") };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    assert_eq!(place.record(&program, &[]), Some(0));
    let findings = place.replay("epyc-9654-2s")["findings"].clone();
    // The stacks of Go's threads lie in its heap, and its counters are on none of them.
    let first = findings[0]["object"].as_str().unwrap();
    assert!(first.starts_with("memory that main.main.func1 uses at workers.go:"), "{findings:#}");
    assert_ne!(findings[0]["sharing"], "true", "{findings:#}");
    assert_eq!(findings[0]["advice"], "separate", "{findings:#}");
}

#[test]
fn a_program_of_another_processor_is_seen_in_emulation() {
    if !has("qemu-aarch64") {
        return skip(Lack::Qemu, "qemu-aarch64 does not start");
    }
    if !has("aarch64-linux-gnu-gcc") || !Path::new("/usr/aarch64-linux-gnu").is_dir() {
        return skip(Lack::ArmCompiler, "aarch64-linux-gnu-gcc does not start");
    }
    let place = Place::new();
    let program = place.compile_plain("aarch64-linux-gnu-gcc", "kinds", &[]);
    assert_eq!(place.record(&program, &["--engine", "qemu"]), Some(0));
    kinds_are_told_apart(&place.replay("graviton4"));
}

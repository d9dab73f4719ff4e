use super::*;

/// A valid file, which tests modify.
const RIGHT: &str = include_str!("../../tests/machines/two-sockets.toml");

fn error_of(text: &str) -> MachineError {
    Machine::from_toml("m.toml", text).expect_err("the file is invalid")
}

/// Returns the number of the line that contains `part`.
fn line_with(text: &str, part: &str) -> usize {
    1 + text.lines().position(|line| line.contains(part)).unwrap()
}

#[test]
fn every_preset_can_be_simulated_and_cites_each_number() {
    for name in Preset::names() {
        let machine = Machine::named(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(machine.topology().cpus().len() <= MAX_CPUS);
        for (key, ..) in costs::KEYS {
            let cost = machine.source(key);
            assert!(cost.is_none_or(|source| source.len() > 4), "{name}: {key}");
        }
        assert!(machine.source("idle").is_some() && machine.source("latency_llc").is_some());
    }
}

#[test]
fn latencies_follow_the_distance() {
    let machine = Machine::from_toml("m", RIGHT).unwrap();
    let latency = |one, other| machine.latency_ns(CpuId(one), CpuId(other));
    assert_eq!(latency(0, 1), Some(8.0));
    assert_eq!(latency(0, 2), Some(25.0));
    assert_eq!(latency(0, 4), Some(99.5));
    assert_eq!(latency(0, 8), Some(192.0));
    assert_eq!((latency(3, 3), latency(0, 99)), (None, None));
}

#[test]
fn a_missing_number_names_its_key_and_the_tables_line() {
    for (key, ..) in costs::KEYS.iter().filter(|(_, need, _)| *need != costs::Need::Never) {
        let start = format!("{key} = ");
        let text: String = RIGHT
            .lines()
            .filter(|line| !line.starts_with(&start))
            .map(|l| format!("{l}\n"))
            .collect();
        let error = error_of(&text);
        assert!(error.to_string().contains(&format!("no {key},")), "{error}");
        assert_eq!(error.line(), Some(line_with(&text, "[costs]")));
    }
    let text = RIGHT.split("[[costs.idle]]").next().unwrap();
    assert!(error_of(text).to_string().contains("no idle"));
}

#[test]
fn costs_that_follow_from_others_need_not_be_given() {
    let derived =
        ["atomic", "clock_read", "memory_remote", "futex", "thread_create", "slice", "wake"];
    let is_given = |line: &&str| !derived.iter().any(|key| line.starts_with(&format!("{key} =")));
    let text: String = RIGHT.lines().filter(is_given).map(|line| format!("{line}\n")).collect();
    let machine = Machine::from_toml("m", &text).unwrap();
    let costs = machine.costs();
    assert_eq!((costs.atomic, costs.memory_remote), (18 * costs.cycle, 2 * costs.memory_local));
    assert_eq!(costs.slice, 3_000 * 1_000 * NS);
    assert!(machine.source("slice").unwrap().starts_with("derived: Linux"));
    assert!(costs.scheduler.is_some_and(|details| details.wake_lines > 0));
    assert!(Machine::from_toml("m", RIGHT).unwrap().costs().scheduler.is_none());

    let no_answer = RIGHT.replace("shared_read =", "timer =");
    assert!(error_of(&no_answer).to_string().contains("no shared_read,"));
    let text = no_answer.split("[costs.arbitration]").next().unwrap();
    let locked = format!("{text}\n[costs.arbitration]\nlocked_ns = 7\nsource = \"s\"\n");
    assert_eq!(Machine::from_toml("m", &locked).unwrap().costs().shared_read, 7 * NS);
}

#[test]
fn a_number_that_cannot_be_names_its_key_and_line() {
    for (wrong, words) in [
        ("{ ns = -3, source = \"s\" }", "wake.ns is -3; expected 0 to"),
        ("{ ns = 1e12, source = \"s\" }", "wake.ns is 1e12; expected 0 to"),
        ("{ ns = nan, source = \"s\" }", "wake.ns is nan"),
        ("{ ns = \"5\", source = \"s\" }", "wake.ns is \"5\"; expected a number"),
        ("{ ns = 5 }", "wake has no source"),
        ("{ source = \"s\" }", "wake has no ns"),
        ("{ ns = 5, source = \" \" }", "source of wake is \" \"; expected a text"),
        ("{ ns = 5, source = \"s\", us = 1 }", "wake has an unknown key \"us\""),
        ("5", "wake is invalid: expected a table"),
    ] {
        let text: String = RIGHT
            .lines()
            .map(|line| {
                if line.starts_with("wake =") {
                    format!("wake = {wrong}\n")
                } else {
                    format!("{line}\n")
                }
            })
            .collect();
        let error = error_of(&text);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.line(), Some(line_with(&text, "wake =")), "{error}");
        assert!(error.to_string().starts_with("machine m.toml, line "), "{error}");
    }
}

#[test]
fn numbers_that_contradict_one_another_are_told() {
    for (key, ns, words) in [
        ("l1_hit", "0", "l1_hit is 0"),
        ("atomic", "0.1", "atomic is 0.1, less than l1_hit, "),
        ("memory_local", "0.1", "memory_local is 0.1, less than l1_hit, "),
        ("memory_remote", "10", "memory_remote is 10, less than memory_local, "),
        ("cycle", "0", "cycle is 0"),
        ("slice", "0", "slice is 0"),
        ("latency_smt", "0.1", "latency_smt is 0.1, less than l1_hit, "),
        ("latency_llc", "0", "latency_llc is 0, less than l1_hit, "),
        ("latency_llc", "5", "latency_llc is 5, less than latency_smt, 8: "),
        ("latency_package", "5", "latency_package is 5, less than latency_llc, 25: "),
        ("latency_remote", "5", "latency_remote is 5, less than latency_llc, 25: "),
        ("latency_remote", "0", "latency_remote is 0, less than l1_hit, "),
        ("latency_package", "0", "latency_package is 0, less than l1_hit, "),
        ("latency_smt", "1e-300", "latency_smt is 0, less than l1_hit, "),
        ("memory_remote", "0", "memory_remote is 0, less than memory_local, "),
    ] {
        let start = format!("{key} =");
        let text: String = RIGHT
            .lines()
            .map(|line| {
                if line.starts_with(&start) {
                    format!("{key} = {{ ns = {ns}, source = \"s\" }}\n")
                } else {
                    format!("{line}\n")
                }
            })
            .collect();
        let error = error_of(&text);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.line(), Some(line_with(&text, &start)), "{error}");
    }
    let deeper = format!("{RIGHT}\n[[costs.idle]]\nafter_ns = 5\nexit_ns = 1\nsource = \"s\"\n");
    assert!(error_of(&deeper).to_string().contains("shallow ones first"));
    let polls = RIGHT.replacen("after_ns", "polls = 1\nafter_ns", 1);
    assert!(error_of(&polls).to_string().contains("idle.polls is 1; expected true or false"));
    let misspelt = RIGHT.replacen("after_ns", "pols = true\nafter_ns", 1);
    assert!(error_of(&misspelt).to_string().contains("an idle state has an unknown key \"pols\""));
}

/// Returns a file with a table `[costs.arbitration]` that has these lines in addition to its source.
fn arbitrated(lines: &str) -> String {
    let before = RIGHT.split("[costs.arbitration]").next().unwrap();
    format!("{before}\n[costs.arbitration]\n{lines}\nsource = \"s\"\n")
}

#[test]
fn a_request_takes_no_longer_than_the_latency_it_is_a_part_of() {
    let text = arbitrated("request_ns = 26");
    let error = error_of(&text);
    assert!(error.to_string().contains("request_ns is 26, more than latency_llc, 25: "), "{error}");
    assert_eq!(error.line(), Some(line_with(&text, "request_ns")));
    assert!(Machine::from_toml("m", &arbitrated("request_ns = 25")).is_ok());
}

#[test]
fn what_a_machine_of_load_and_store_exclusive_does_not_have_is_told() {
    for other in ["far_atomic_ns = 9", "misses_at_once = 4"] {
        assert!(Machine::from_toml("m", &arbitrated(other)).is_ok());
        let text = arbitrated(&format!("load_and_store_exclusive = true\n{other}"));
        let error = error_of(&text);
        assert!(error.to_string().contains("load_and_store_exclusive is true"), "{error}");
        assert_eq!(error.line(), Some(line_with(&text, other)), "{error}");
    }
}

#[test]
fn errors_name_what_was_given() {
    for (line, words) in [
        (
            "misses_at_once = 65",
            "arbitration.misses_at_once is 65; expected a whole number from 0 to 64",
        ),
        ("pair_prefetch = 1", "arbitration.pair_prefetch is 1; expected true or false"),
        ("hold_ns = 1e300", "arbitration.hold_ns is 1e300; expected 0 to"),
        ("hold_ns = 1\nhold_ns = 2", "duplicate key: \"hold_ns\""),
    ] {
        let error = error_of(&arbitrated(line)).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn by_how_much_costs_vary_is_said_by_factors_that_do_not_become_smaller() {
    let file = |calls: &str, interrupted_for_ns: u32| {
        format!(
            "{RIGHT}\n[costs.variation]\ncalls = {calls}\nexits = [1, 1, 1, 1, 1, 1]\ninterrupted_every_ns = 1000\n\
             interrupted_for_ns = {interrupted_for_ns}\nsource = \"s\"\n"
        )
    };
    let right = "[0.5, 0.9, 1.0, 1.1, 2, 4.5]";
    let machine = Machine::from_toml("m", &file(right, 100)).unwrap();
    assert_eq!(machine.costs().variation.unwrap().calls, [500, 900, 1_000, 1_100, 2_000, 4_500]);
    for wrong in
        ["1", "[1, 1]", "[1, 1, 1, 1, 1, 0.9]", "[0, 1, 1, 1, 1, 1]", "[1, 1, 1, 1, 1, \"2\"]"]
    {
        let error = error_of(&file(wrong, 100));
        assert!(
            error.to_string().contains("variation.calls is invalid: expected a list of 6 factors"),
            "{error}"
        );
        assert!(error.to_string().contains("at 5, 25, 50, 75, 95, 99 %"), "{error}");
    }
    let error = error_of(&file(right, 600));
    assert!(error.to_string().contains("more than half of interrupted_every_ns"), "{error}");
    assert_eq!(error.line(), Some(line_with(&file(right, 600), "interrupted_for_ns")));
    let misspelt = file(right, 100).replace("exits", "exit");
    assert!(error_of(&misspelt).to_string().contains("variation has an unknown key \"exit\""));
    let less = file(right, 100).replace("interrupted_every_ns = 1000\n", "");
    assert!(error_of(&less).to_string().contains("variation has no interrupted_every_ns"));
    let typical = Machine::from_toml("m", &format!("{RIGHT}\n[costs.variation]\nsource = \"s\"\n"));
    assert_eq!(typical.unwrap().costs().variation, Machine::pocket().costs().variation);
}

#[test]
fn keys_that_nobody_knows_are_told_with_their_line() {
    let text = RIGHT.replace("wake =", "wakes =");
    let error = error_of(&text);
    assert!(error.to_string().contains("unknown cost \"wakes\": expected"), "{error}");
    assert_eq!(error.line(), Some(line_with(&text, "wakes =")));
    let error = error_of(&format!("sintetic = \"core:2\"\n{RIGHT}"));
    assert!(error.to_string().contains("line 1") && error.to_string().contains("sintetic"));
    assert!(error_of("synthetic = \"core:2 pu:1\"\n").to_string().contains("no table [costs]"));
    assert!(error_of("[costs]\n").to_string().contains("no synthetic"));
    assert_eq!(error_of("a = 1\nb = \n").line(), Some(2));
    let bytes = error_of(&RIGHT.replace("[costs]\n", "[costs]\nline_bytes = 100\n"));
    assert!(bytes.to_string().contains("line_bytes is 100; expected 64 or 128"), "{bytes}");
}

#[test]
fn a_measured_matrix_replaces_the_latencies_and_must_fit_the_machine() {
    let file = |rows: &str| {
        let text: String = RIGHT
            .replace("pack:2 numa:1 l3:2 core:2 pu:2", "pack:1 l3:1 core:2 pu:1")
            .lines()
            .filter(|line| !line.starts_with("latency_"))
            .map(|line| format!("{line}\n"))
            .collect();
        let matrix = format!("[costs]\nlatency_matrix = {{ ns = {rows}, source = \"here\" }}\n");
        text.replace("[costs]\n", &matrix)
    };
    let machine = Machine::from_toml("m", &file("[[0, 31.5], [30, 0]]")).unwrap();
    assert_eq!(machine.latency_ns(CpuId(0), CpuId(1)), Some(31.5));
    assert_eq!(machine.latency_ns(CpuId(1), CpuId(0)), Some(30.0));
    for (rows, words) in [
        ("[[0, 1]]", "1 rows; this machine has 2 CPUs"),
        ("[[0, 1], [1]]", "1 numbers in row 1"),
        ("[[0, 1], [0, 0]]", "row 1, column 0, is 0"),
        ("[[0, 1], [-1, 0]]", "row 1, column 0, is -1"),
        ("[[5, 1], [1, 0]]", "row 0, column 0, is not 0"),
        ("3", "expected a list of rows"),
    ] {
        let error = error_of(&file(rows));
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.line().is_some());
    }
}

#[test]
fn a_machine_that_is_too_large_and_a_file_that_is_not_there_are_told() {
    let text = RIGHT.replace("pack:2 numa:1 l3:2 core:2 pu:2", "pack:2 numa:1 l3:2 core:200 pu:2");
    let error = error_of(&text).to_string();
    assert!(error.contains("1600 CPUs: expected at most 1024"), "{error}");
    let error = Machine::from_file(Path::new("/nowhere/m.toml")).unwrap_err().to_string();
    assert!(error.contains("cannot read /nowhere/m.toml"), "{error}");
    let error = Machine::named("graec").unwrap_err().to_string();
    assert!(error.contains("grace"), "{error}");
}

/// In an earlier version, the first of these requested 32 GiB at once; the others waited, or came back whole
/// in their error.
#[test]
fn a_machines_file_costs_no_more_than_a_machine_does() {
    let rows = vec!["[]"; 65_536].join(",");
    let huge =
        format!("synthetic='pu:65536'\n[costs]\nlatency_matrix={{ns=[{rows}],source='x'}}\n");
    assert!(error_of(&huge).to_string().contains("65536 CPUs: expected at most 1024"));
    let numa = format!("synthetic='{} pu:1'\n[costs]\n", "[numa]".repeat(5_000));
    assert!(error_of(&numa).to_string().contains("at most 4096 NUMA nodes"));
    let long = " ".repeat((16 << 20) + 1);
    assert!(error_of(&long).to_string().contains("at most 16777216 bytes"));
    let key = format!("\"{}\\u001b\" = 1\n", "k".repeat(100_000));
    let error = error_of(&key).to_string();
    assert!(error.contains("unknown key \"kkk") && error.len() < 400, "{error}");
    let pipe = std::env::temp_dir().join(format!("coreshard-machine-{}.toml", std::process::id()));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = Machine::from_file(&pipe).unwrap_err().to_string();
    std::fs::remove_file(&pipe).unwrap();
    assert!(error.contains("expected a regular file, found a pipe"), "{error}");
}

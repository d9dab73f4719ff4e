//! External input and output files: foreign files, odd or hostile machines, and invalid options.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;

/// The command in a folder; nothing here takes it a minute.
fn coreshard(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("coreshard").unwrap();
    command.current_dir(folder).args(args).timeout(Duration::from_secs(120));
    command
}

/// The smallest measurement.
const BENCH: [&str; 13] = [
    "bench",
    "queue",
    "--items",
    "5",
    "--runs",
    "1",
    "--scopes",
    "system",
    "--wake",
    "coalesced",
    "--intake",
    "locked",
    "--threads=1",
];
/// A command that would take years: errors are found earlier.
const FOR_EVER: [&str; 4] = ["bench", "queue", "--items", "1000000000000"];

const PAGE: &str = "coreshard-bench.html";

#[test]
fn a_page_of_that_name_that_is_not_ours_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join(PAGE);
    fs::write(&page, "<html>my own</html>").unwrap();
    coreshard(folder.path(), &FOR_EVER)
        .assert()
        .code(2)
        .stderr(contains("coreshard-bench.html").and(contains("--force")));
    assert_eq!(fs::read_to_string(&page).unwrap(), "<html>my own</html>");
    coreshard(folder.path(), &BENCH).arg("--force").assert().success();
    assert!(fs::read_to_string(&page).unwrap().contains("content=\"coreshard\""));
    // Ours is replaced without a word.
    coreshard(folder.path(), &BENCH).assert().success();
}

#[test]
fn no_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "somebody's").unwrap();
    symlink(&precious, folder.path().join(PAGE)).unwrap();
    coreshard(folder.path(), &FOR_EVER).assert().code(2).stderr(contains("it is a link"));
    coreshard(folder.path(), &BENCH).arg("--force").assert().success();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "somebody's");
    assert!(!fs::symlink_metadata(folder.path().join(PAGE)).unwrap().is_symlink());
}

#[test]
fn every_form_is_known_again_and_every_command_keeps_to_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    let forms = ["--json", "r.json", "--csv", "r.csv", "--html", "r.html"];
    for _ in 0..2 {
        coreshard(folder.path(), &BENCH).args(forms).assert().success();
        let c2c =
            ["c2c", "--machine", "pocket", "--items", "2", "--json", "c.json", "--trace", "t.json"];
        coreshard(folder.path(), &c2c).assert().success();
        let index =
            ["bench", "rt", "index", "--machine", "pocket", "--rounds", "2", "--json", "i.json"];
        coreshard(folder.path(), &index).assert().success();
    }
    for name in ["r.json", "c.json", "t.json", "i.json"] {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }
    for mine in ["mine", "mine.toml"] {
        fs::write(folder.path().join(mine), "notes").unwrap();
    }
    let commands: [&[&str]; 5] = [
        &["c2c", "--machine", "pocket", "--json", "mine"],
        &["c2c", "--machine", "pocket", "--trace", "mine"],
        &["sim", "replay", "--seed", "3-1", "--trace", "mine"],
        &["calibrate", "--output", "mine.toml"],
        &["bench", "rt", "pi", "--rounds", "1000000000", "--html", "mine"],
    ];
    for command in commands {
        coreshard(folder.path(), command)
            .assert()
            .code(2)
            .stderr(contains("mine").and(contains("was not written by coreshard")));
    }
    for mine in ["mine", "mine.toml"] {
        assert_eq!(fs::read_to_string(folder.path().join(mine)).unwrap(), "notes");
    }
    let without_ending = ["calibrate", "--output", "here.txt"];
    let says = contains("here.txt: expected a name that ends in .toml");
    coreshard(folder.path(), &without_ending).assert().code(2).stderr(says);
    let to_stdout = ["bench", "queue", "--sim", "--machine", "pocket", "--csv", "-"];
    let says = contains("use ./- for a file named");
    coreshard(folder.path(), &to_stdout).assert().code(2).stderr(says);
    let twice = ["--json", "one", "--csv", "./one"];
    coreshard(folder.path(), &FOR_EVER)
        .args(twice)
        .assert()
        .code(2)
        .stderr(contains("two reports"));
}

#[test]
fn help_is_a_word_too() {
    let folder = tempfile::tempdir().unwrap();
    coreshard(folder.path(), &["help"]).assert().success().stdout(contains("bench queue"));
    coreshard(folder.path(), &["help", "bench", "queue"])
        .assert()
        .success()
        .stdout(contains("--outstanding").and(contains("--force")));
    // It writes to its own folder alone.
    coreshard(folder.path(), &["sweep", "gather", "--help"])
        .assert()
        .success()
        .stdout(contains("--force").not());
}

/// Help and version, which the parser prints. A closed reader is not an error.
#[test]
fn what_cannot_be_printed_is_an_error_and_a_closed_pipe_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let commands: [&[&str]; 7] = [
        &[],
        &["--help"],
        &["--version"],
        &["help", "bench", "queue"],
        &["topo", "--machine", "pocket"],
        &["advise", "--machine", "pocket"],
        &["generate", "completions", "bash"],
    ];
    let run = |words: &[&str], to: Stdio| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_coreshard"));
        command.current_dir(folder.path()).args(words).stdout(to).output().unwrap()
    };
    for words in commands {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let full = run(words, full.into());
        let error = String::from_utf8_lossy(&full.stderr);
        assert_eq!(full.status.code(), Some(1), "{words:?}: {error}");
        assert!(error.contains("cannot write to standard output"), "{words:?}: {error}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = run(words, writer.into());
        assert!(closed.status.success() && closed.stderr.is_empty(), "{words:?}: {closed:?}");
    }
}

#[test]
fn input_that_never_ends_or_is_too_large_is_refused_with_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["pipe.xml", "pipe.toml"] {
        assert!(std::process::Command::new("mkfifo").arg(path(name)).status().unwrap().success());
    }
    let sparse = fs::File::create(path("large.xml")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["topo", "--machine", "pipe.xml"], "expected a regular file, found a pipe"),
        (&["topo", "--machine", "/dev/zero"], "expected a regular file, found a device"),
        (&["topo", "--machine", "."], "sys/devices/system/cpu"),
        (&["topo", "--machine", "large.xml"], "expected at most 33554432 bytes"),
        (&["tune", "--machine", "pipe.toml"], "expected a regular file, found a pipe"),
        (&["topo", "--machine", "numa:9999 pu:1"], "expected at most 4096 NUMA nodes"),
        (&["topo", "--machine", "/dev/null"], "expected a regular file, found a device"),
    ];
    for (args, said) in cases {
        coreshard(folder.path(), args).assert().code(2).stderr(contains(said));
    }
}

/// A recorded machine with 16,384 CPUs that each list all of them. Keeping their sets would take 64 MiB.
#[test]
#[ignore = "at night: reads a machine of 65,536 CPUs"]
fn a_recorded_machine_takes_no_more_memory_for_what_its_cpus_say_of_one_another_at_night() {
    let folder = tempfile::tempdir().unwrap();
    let cpus = folder.path().join("sys/devices/system/cpu");
    let cpu = folder.path().join("cpu/topology");
    fs::create_dir_all(&cpus).unwrap();
    fs::create_dir_all(&cpu).unwrap();
    fs::write(cpu.join("core_cpus_list"), "0-16383").unwrap();
    for number in 0..16_384 {
        symlink(folder.path().join("cpu"), cpus.join(format!("cpu{number}"))).unwrap();
    }
    Command::new("sh")
        .args(["-c", "ulimit -v 65536 && exec \"$0\" topo --machine \"$1\""])
        .args([Path::new(env!("CARGO_BIN_EXE_coreshard")), folder.path()])
        .timeout(Duration::from_secs(120))
        .assert()
        .success()
        .stdout(contains("16384"));
}

#[test]
fn a_recorded_machine_is_told_whole_and_steers_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join("a\u{1b}]m").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for cpu in 0..4 {
        let cpu_folder = format!("sys/devices/system/cpu/cpu{cpu}");
        write(&format!("{cpu_folder}/topology/core_id"), &cpu.to_string());
        write(&format!("{cpu_folder}/topology/physical_package_id"), &(cpu / 2).to_string());
    }
    write("sys/devices/system/cpu/online", "0-3\n\0");
    write("proc/cpuinfo", "model name : \u{1b}]0;x\u{7} \u{9b}2J \u{202e}CPU\n");
    write("proc/self/cgroup", "0::/\n");
    write("proc/self/mountinfo", "1 2 0:3 / /cg rw - cgroup2 cgroup2 rw\n");
    write("cg/cpuset.cpus.effective", "0-1\n");
    for format in ["--format=table", "--json", "--format=svg"] {
        let args = ["topo", "--machine", "a\u{1b}]m", format];
        let output = coreshard(folder.path(), &args).assert().success().get_output().stdout.clone();
        let text = String::from_utf8(output).unwrap();
        let steers = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        assert!(!text.contains(steers), "{text:?}");
        if format == "--format=table" {
            assert!(
                text.contains("packages  1 of 2") && text.contains("2 of 4 (1 per core): 0-1"),
                "{text}"
            );
        } else if format == "--json" {
            let found: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(found["machine_has"]["cpus"], 4);
            assert_eq!((&found["cpus"], &found["online"]), (&2.into(), &"0-3".into()));
        }
    }
    let wrong = ["topo", "--machine", "\u{1b}[31m"];
    coreshard(folder.path(), &wrong).assert().code(2).stderr(contains("\u{1b}").not());
}

/// Nothing is cut to what there is without a word.
#[test]
fn what_is_asked_beyond_the_machine_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let asked: [(&[&str], &str); 10] = [
        (
            &["bench", "rt", "index", "--machine", "pocket", "--threads", "17"],
            "invalid --threads 17: expected 1 to 16",
        ),
        (
            &["bench", "rt", "index", "--machine", "pocket", "--cpus", "8", "--group", "9"],
            "invalid --group 9: expected 1 to 8",
        ),
        (
            &["bench", "rt", "cyclic", "--machine", "pocket", "--cpus", "17"],
            "invalid --cpus 17: expected 1 to 16",
        ),
        (
            &["bench", "rt", "transcode", "--machine", "pocket", "--instance-cpus", "17"],
            "invalid --instance-cpus 17: expected 1 to 16",
        ),
        (
            &["bench", "rt", "pi", "--machine", "pocket", "--priority", "2"],
            "invalid --priority 2: expected 3 to 99",
        ),
        (
            &["bench", "queue", "--sim", "--machine", "pocket", "--seed", "18446744073709551612"],
            "invalid number of seeds 5, from 18446744073709551612 on",
        ),
        (
            &[
                "bench",
                "kernel",
                "scsi",
                "--machine",
                "pocket",
                "--seed",
                "18446744073709551615",
                "--seeds",
                "2",
            ],
            "invalid number of seeds 2, from 18446744073709551615 on",
        ),
        (
            &["bench", "kernel", "workqueue", "--machine", "pocket", "--threads", "17"],
            "invalid number of threads 17: expected 1 to 16",
        ),
        (
            &["tune", "--machine", "pocket", "--producers", "17"],
            "invalid --producers 17: expected 1 to 16",
        ),
        (
            &["sim", "search", "--from", "18446744073709551615", "--seeds", "2"],
            "invalid number of seeds 2, from 18446744073709551615 on",
        ),
    ];
    for (command, says) in asked {
        coreshard(folder.path(), command).assert().code(2).stderr(contains(says));
    }
}

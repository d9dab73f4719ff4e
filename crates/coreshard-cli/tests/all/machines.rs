//! One option and one grammar for machines: every command that takes a machine takes it in every form.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;

/// The commands with `--machine`, in small: what each is given besides the machine.
const COMMANDS: [&[&str]; 14] = [
    &["topo"],
    &["advise"],
    &["tune", "--items", "2"],
    &["tune", "--items", "2", "--sim"],
    &["c2c", "--items", "2", "--sim"],
    &["bench", "queue", "--items", "2", "--runs", "1", "--scopes", "cache", "--json", "-"],
    &["bench", "queue", "--sim", "--items", "2", "--runs", "1", "--scopes", "cache", "--json", "-"],
    &["bench", "rt", "index", "--sim", "--cpus", "2", "--rounds", "2"],
    &["bench", "rt", "cyclic", "--sim", "--cpus", "2", "--cycles", "2"],
    &["bench", "rt", "pi", "--sim", "--cpus", "2", "--rounds", "1"],
    &["bench", "rt", "transcode", "--sim", "--cpus", "2", "--instance-cpus", "2", "--frames", "1"],
    ADAPTER,
    &["sim", "search", "--seeds", "2"],
    &["sim", "replay", "--seed", "3-1"],
];

const ADAPTER: &[&str] = &["bench", "block", "--compare", "--sim"];

/// Two cores with separate caches, each with two CPUs.
const SMALL: &str = "pack:1 l3:2 core:1 pu:2";

/// A machine's file, hwloc's file and a recorded machine, all in `folder`.
fn machines(folder: &Path) -> [String; 3] {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let costs = include_str!("../../../coreshard-sim/src/machine/pocket.toml");
    let costs = costs.split_once('\n').expect("its first line describes it").1;
    let file = write("here.toml", &format!("synthetic = \"{SMALL}\"\n{costs}"));
    let cpus: String = (0..4)
        .map(|cpu| {
            format!(
                "<object type='Core' cpuset='0x{:x}'><object type='PU' os_index='{cpu}' \
                 cpuset='0x{:x}'/></object>",
                1 << cpu,
                1 << cpu
            )
        })
        .collect();
    let xml = write(
        "here.xml",
        &format!(
            "<topology version='2.0'><object type='Machine' cpuset='0xf'><object type='Package' \
             cpuset='0xf'><object type='L3Cache' depth='3' cpuset='0xf'>{cpus}</object></object></object>\
             </topology>"
        ),
    );
    write("recorded/sys/devices/system/cpu/online", "0-3\n");
    for cpu in 0..4 {
        let cpu_folder = format!("recorded/sys/devices/system/cpu/cpu{cpu}");
        write(&format!("{cpu_folder}/topology/core_cpus_list"), &cpu.to_string());
        write(&format!("{cpu_folder}/topology/physical_package_id"), "0");
    }
    let recorded = folder.join("recorded").to_str().unwrap().to_owned();
    [file, xml, recorded]
}

#[test]
fn every_command_takes_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let [file, xml, recorded] = machines(folder.path());
    for command in COMMANDS {
        for machine in ["pocket", SMALL, "1 2 2", &file, &xml, &recorded] {
            let assert = Command::cargo_bin("coreshard")
                .unwrap()
                .args(command)
                .args(["--machine", machine])
                .current_dir(&folder)
                .assert();
            let output = assert.get_output();
            let said = String::from_utf8_lossy(&output.stderr);
            let is_done = output.status.success() && !output.stdout.is_empty();
            // The experiment with an adapter has 16 jobs, and knows the machine well enough to say so.
            let is_small = command == ADAPTER && said.contains("need more cores than");
            assert!(is_done || is_small, "{command:?} --machine {machine}: {said}");
        }
    }
}

/// Presets are large.
#[test]
fn presets_are_taken_too() {
    for command in [COMMANDS[0], COMMANDS[7], &["c2c", "--items", "1", "--scope", "cpu"]] {
        let mut run = Command::cargo_bin("coreshard").unwrap();
        run.args(command).args(["--machine", "grace"]).assert().success();
    }
}

#[test]
fn what_is_none_of_the_forms_is_one_sentence_and_status_2_everywhere() {
    for command in COMMANDS {
        Command::cargo_bin("coreshard")
            .unwrap()
            .args(command)
            .args(["--machine", "graec"])
            .assert()
            .code(2)
            .stderr(predicate::str::contains("\"graec\"").and(predicate::str::contains("grace,")))
            .stderr(predicate::str::contains("pocket").and(predicate::str::contains(".toml")));
    }
}

/// A simulation with assumed costs must say so.
#[test]
fn whose_costs_are_simulated_is_said() {
    for (machine, is_said) in [(SMALL, true), ("pocket", false)] {
        let output = Command::cargo_bin("coreshard")
            .unwrap()
            .args(["tune", "--items", "2", "--machine", machine])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.contains("with a server's rounded costs"), is_said, "{text}");
    }
}

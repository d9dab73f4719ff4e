//! The command line that a search prints reproduces its failure, run by a shell in another process.
//!
//! The released command cannot plant bugs, so this test program replaces it: a script named `coreshard` calls it, and
//! it acts as the command with a bug planted.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use clap::Parser;
use coreshard_workqueue::canary::{Canary, plant};
use testing::{NEVER, within};

use crate::Cli;

/// The arguments of the replacement, separated by this character.
const ARGUMENTS: &str = "CORESHARD_SIM_TEST_ARGUMENTS";
const BETWEEN: char = '\u{1f}';
/// Makes the replacement plant the bug.
const PLANT: &str = "CORESHARD_SIM_TEST_PLANT";
/// Separates the replacement's output from the test harness's.
const EDGE: &str = "\n---- the command ----\n";

/// Any machine that can be simulated.
const MACHINE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../coreshard-sim/tests/machines/two-sockets.toml");

const TO_REPLAY: &str = "to replay it: ";

/// Not a test by itself: acts as the command.
#[test]
fn stands_in_for_the_command() {
    let Some(arguments) = env::var_os(ARGUMENTS) else { return };
    let arguments = arguments.into_string().unwrap();
    let cli = Cli::try_parse_from(["coreshard"].into_iter().chain(arguments.split(BETWEEN)));
    let Some(crate::Command::Sim(args)) = cli.unwrap().command else {
        panic!("{arguments:?} is not a command of sim")
    };
    plant(env::var_os(PLANT).map(|_| Canary::LostWakeup));
    crate::common::output::print(EDGE).unwrap();
    let done = super::run(&args);
    crate::common::output::print(EDGE).unwrap();
    let _ = done.map_err(|error| crate::common::report(&error));
    // Skip the test harness's output.
    std::process::exit(0)
}

/// A folder with a script named `coreshard`.
fn stand_in() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coreshard");
    let test = concat!(module_path!(), "::stands_in_for_the_command");
    let (_crate, test) = test.split_once("::").unwrap();
    let program = env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\nIFS=$(printf '\\037')\nexport {ARGUMENTS}=\"$*\"\nexec '{}' --exact {test} --nocapture\n",
        program.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Returns what a shell prints for this line on both streams.
fn shell(line: &str, stand_in: &Path, planted: bool) -> (String, String) {
    let mut path = OsString::from(stand_in);
    path.push(":");
    path.push(env::var_os("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path).env_remove(PLANT);
    if planted {
        command.env(PLANT, "1");
    }
    let Output { stdout, stderr, .. } = within(NEVER, move || command.output().unwrap());
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    let parts: Vec<_> = stdout.split(EDGE).collect();
    let [_, said, ..] = parts[..] else { panic!("{line}: {stdout}{stderr}") };
    (said.to_owned(), stderr)
}

/// Searches with the bug planted, and runs the printed line with and without the bug.
fn is_replayed_by_its_line(search: &str) {
    let stand_in = stand_in();
    let (found, said) = shell(search, stand_in.path(), true);
    let line = found.lines().find_map(|line| line.strip_prefix(TO_REPLAY));
    let line = line.unwrap_or_else(|| panic!("nothing was found: {found}{said}"));
    assert!(line.starts_with("coreshard sim replay "), "{line}");

    let (again, warned) = shell(line, stand_in.path(), true);
    assert!(found.contains(&again) && again.contains(" fails: "), "{found}{again}");
    assert!(!warned.contains("this run differs"), "{warned}");

    let (without, warned) = shell(line, stand_in.path(), false);
    assert!(without.contains(" passes: "), "it is the planted bug: {without}");
    assert!(warned.contains("this run differs from the printed one"), "{warned}");
}

#[test]
fn the_line_that_a_search_prints_brings_it_about_again() {
    is_replayed_by_its_line("coreshard sim search --seeds 4000");
}

/// The machine's file has a name that needs quoting.
#[test]
fn the_line_names_its_machine_for_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("it's $mine.toml");
    fs::copy(MACHINE, &file).unwrap();
    let name = file.to_str().unwrap().replace('\'', "'\\''");
    is_replayed_by_its_line(&format!("coreshard sim search --seeds 4000 --machine '{name}'"));
}

/// Runs all programs: which of them hit the bug depends on timing.
#[test]
fn the_line_that_a_sweep_prints_brings_it_about_again() {
    is_replayed_by_its_line("coreshard sim search --kth wait --up-to 10 --rounds 3");
}

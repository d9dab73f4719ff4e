//! The short torture: every adversity and some failed calls of each kind. `ci/torture.sh` runs the long one at night.

use std::process::Command;

testing::watch!();

#[track_caller]
fn torture(words: &[&str]) {
    let mut shell = Command::new("sh");
    // A case that ends its process leaves no core.
    shell.args(["-c", "ulimit -c 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_torture")]);
    let output = shell.args(words).env("RUST_BACKTRACE", "0").output().unwrap();
    let [out, err] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success(), "torture {words:?}: {}\n{out}{err}", output.status);
}

#[test]
fn the_load_runs_under_every_adversity_for_two_runs_each() {
    torture(&["under", "all", "--runs", "2", "--seconds", "0.7"]);
}

#[test]
fn calls_of_every_kind_fail_one_by_one_for_some_seconds() {
    torture(&["kth", "all", "--up-to", "600", "--step", "60", "--operations", "30"]);
}

//! The `RAYON_` variables. Each case has its own process: the test runs its own program.
#![allow(clippy::print_stdout, reason = "a case's result")]

use std::env;
use std::process::Command;

/// Returns how many threads the global pool has in a process with these variables, if the program requests `asked`.
fn threads(asked: Option<usize>, variables: &[(&str, &str)]) -> usize {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "environment::say_threads"]);
    for name in ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    if let Some(asked) = asked {
        command.env("ASKED", asked.to_string());
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let said = text.split("threads: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    said.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[test]
#[ignore = "the others run it"]
fn say_threads() {
    if let Ok(asked) = env::var("ASKED") {
        let builder = rayon_core::ThreadPoolBuilder::new().num_threads(asked.parse().unwrap());
        builder.build_global().unwrap();
    }
    println!("threads: {} ", rayon_core::current_num_threads());
}

#[test]
fn the_number_of_threads() {
    let machine = threads(None, &[]);
    assert!(machine > 0);
    let (new, old) = ("RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS");
    assert_eq!(threads(None, &[(new, "3")]), 3);
    assert_eq!(threads(None, &[(old, "5")]), 5);
    assert_eq!(threads(None, &[(new, "3"), (old, "5")]), 3);
    assert_eq!(threads(None, &[(new, "0"), (old, "5")]), machine);
    assert_eq!(threads(None, &[(new, "x"), (old, "5")]), 5);
    assert_eq!(threads(None, &[(new, "x"), (old, "0")]), machine);
    assert_eq!(threads(Some(0), &[(new, "3")]), 3);
    assert_eq!(threads(Some(7), &[(new, "3")]), 7);
}

//! The `CORESHARD_` variables. Each case has its own process: the test runs its own program.
#![allow(clippy::print_stdout, reason = "a case's result")]

use std::env;
use std::process::{Command, Output};

const ALL: [&str; 5] = [
    "CORESHARD_WAKE",
    "CORESHARD_INTAKE",
    "CORESHARD_SCOPE",
    "CORESHARD_SHARD_SIZE",
    "CORESHARD_INSIGHT",
];

/// Runs an ignored test of this file in a process with these variables.
fn run(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture"]);
    command.arg(format!("coreshard_environment::{test}"));
    for name in ALL {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).output().unwrap()
}

#[test]
#[ignore = "the others run it"]
fn work() {
    assert_eq!(rayon_core::join(|| 1, || 2), (1, 2));
    let pool = crate::support::pool(3);
    assert_eq!(pool.broadcast(|thread| thread.index()), [0, 1, 2]);
    let mut sums = [0; 100];
    pool.scope(|scope| {
        for (index, sum) in sums.iter_mut().enumerate() {
            scope.spawn(move |_| *sum = index);
        }
    });
    assert_eq!(sums.iter().sum::<usize>(), 4950);
}

#[test]
#[ignore = "the others run it"]
fn say_error_of_a_pool() {
    let error = rayon_core::ThreadPoolBuilder::new().build().unwrap_err();
    assert!(std::error::Error::source(&error).is_some());
    println!("the error: {error}");
}

#[test]
fn every_rung_works() {
    for (name, values) in [
        ("CORESHARD_WAKE", ["under-lock", "after-unlock", "coalesced"].as_slice()),
        ("CORESHARD_INTAKE", &["locked", "lock-free"]),
        ("CORESHARD_SCOPE", &["system", "numa", "cache", "cache_shard", "smt", "cpu"]),
        ("CORESHARD_SHARD_SIZE", &["1", "3", "1000"]),
        ("CORESHARD_INSIGHT", &["0"]),
    ] {
        for value in values {
            let output = run("work", &[(name, value)]);
            assert!(output.status.success(), "{name}={value}: {output:?}");
        }
    }
}

const WRONG: [(&str, &str, &str); 5] = [
    ("CORESHARD_WAKE", "often", "under-lock, after-unlock, coalesced"),
    ("CORESHARD_INTAKE", "open", "locked, lock-free"),
    ("CORESHARD_SCOPE", "socket", "cpu, smt, cache_shard, cache, numa, system"),
    ("CORESHARD_SHARD_SIZE", "0", "a number of cores, from 1"),
    ("CORESHARD_INSIGHT", "on", "0, 1"),
];

#[test]
fn what_is_not_allowed_is_an_error_of_a_pool() {
    for (name, value, allowed) in WRONG {
        let output = run("say_error_of_a_pool", &[(name, value)]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{output:?}");
        for part in [name, value, allowed] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}

#[test]
fn what_is_not_allowed_is_a_panic_of_the_global_pool() {
    for (name, value, allowed) in WRONG {
        let output = run("work", &[(name, value)]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{output:?}");
        for part in [name, value, allowed] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}

#[test]
#[cfg(not(feature = "insight"))]
fn insight_needs_its_feature() {
    let output = run("say_error_of_a_pool", &[("CORESHARD_INSIGHT", "1")]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("feature `insight`"), "{output:?}");
}

#[test]
#[ignore = "the other runs it"]
#[cfg(feature = "insight")]
fn look() {
    rayon_core::join(|| (), || ());
    let client = coreshard::insight::InsightClient::of_process(std::process::id()).unwrap();
    let snapshot = client.snapshot().unwrap();
    let program = std::fs::read_to_string(format!("/proc/{}/comm", std::process::id())).unwrap();
    assert_eq!(snapshot.program, program.trim_end());
    let names: Vec<_> = snapshot.queues.iter().map(|queue| &*queue.name).collect();
    assert_eq!(names, ["rayon"]);
}

#[test]
#[cfg(feature = "insight")]
fn insight_is_served() {
    let output = run("look", &[("CORESHARD_INSIGHT", "1")]);
    assert!(output.status.success(), "{output:?}");
    let output = run("look", &[]);
    assert!(!output.status.success(), "{output:?}");
}

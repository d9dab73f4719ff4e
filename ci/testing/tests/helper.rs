//! The helpers as tests use them: each case is a test of this program, run alone in another process.

use std::process::{Command, Output};
use std::sync::mpsc;
use std::time::Duration;

use testing::{Lack, skip, within};

testing::watch!();

const CASE: &str = "CORESHARD_TESTING_CASE";

/// Whether this is the process that `alone` has started for the test of this name.
fn is_alone(name: &str) -> bool {
    std::env::var_os(CASE).is_some_and(|case| case == name)
}

/// Runs only this test of this program, in a new process.
fn alone(name: &str, variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name]).env(CASE, name).env_remove("CORESHARD_REQUIRE");
    command.env_remove("CORESHARD_SKIPS").envs(variables.iter().copied());
    let Output { status, stdout, stderr } =
        within(testing::NEVER, move || command.output().unwrap());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn waits_for_what_never_comes() {
    let (_say, hear) = mpsc::channel::<()>();
    hear.recv().unwrap();
}

#[test]
fn a_hanging_test_is_ended_and_named_with_its_place() {
    let name = "a_hanging_test_is_ended_and_named_with_its_place";
    if is_alone(name) {
        return waits_for_what_never_comes();
    }
    let (code, _, stderr) = alone(name, &[("CORESHARD_TEST_LIMIT", "1")]);
    assert_eq!(code, Some(124), "{stderr}");
    for words in [
        "HANGS: the test a_hanging_test_is_ended_and_named_with_its_place has not finished after 1s",
        "HANGS: a_hanging_test_is_ended_and_named_with_its_place is here:",
        "waits_for_what_never_comes",
    ] {
        assert!(stderr.contains(words), "{words:?} is not in {stderr}");
    }
}

/// Two threads with the same name for the kernel, and a child process that would keep the pipe open.
#[test]
fn what_is_not_over_for_its_child_is_ended_with_it() {
    let name = "what_is_not_over_for_its_child_is_ended_with_it";
    if is_alone(name) {
        let status =
            within(Duration::from_secs(3_600), || Command::new("sleep").arg("3600").status());
        panic!("{status:?}");
    }
    let (code, _, stderr) = alone(name, &[("CORESHARD_TEST_LIMIT", "1")]);
    assert_eq!(code, Some(124), "{stderr}");
    assert!(stderr.contains("one of the tests what_is_not_over_"), "{stderr}");
    assert_eq!(stderr.matches(&format!("HANGS: {name} is here:")).count(), 2, "{stderr}");
}

#[test]
fn a_skip_is_seen_and_listed_and_fails_where_the_machine_has_it() {
    let name = "a_skip_is_seen_and_listed_and_fails_where_the_machine_has_it";
    if is_alone(name) {
        return skip(Lack::Rt, "no priorities,\n  as an example");
    }
    let line = format!("rt: {name} (ci/testing/tests/helper.rs): no priorities,; as an example\n");
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    let listed = || std::fs::read_to_string(&list).unwrap();
    for required in ["", "io_uring"] {
        let variables =
            [("CORESHARD_SKIPS", list.to_str().unwrap()), ("CORESHARD_REQUIRE", required)];
        let (code, _, stderr) = alone(name, &variables);
        assert_eq!((code, stderr), (Some(0), format!("SKIPPED for lack of {line}")));
    }
    assert_eq!(listed(), line.repeat(2));
    let (code, stdout, _) = alone(name, &[("CORESHARD_REQUIRE", "io_uring,rt")]);
    assert_eq!(code, Some(101));
    assert!(
        stdout.contains(&format!("CORESHARD_REQUIRE says that this machine has {line}")),
        "{stdout}"
    );
    let (code, stdout, _) = alone(name, &[("CORESHARD_REQUIRE", "rt,uring")]);
    assert_eq!(code, Some(101));
    assert!(stdout.contains("CORESHARD_REQUIRE names \"uring\""), "{stdout}");
}

#[test]
fn what_is_not_over_in_time_is_a_failed_test() {
    let name = "what_is_not_over_in_time_is_a_failed_test";
    if is_alone(name) {
        return within(Duration::from_millis(10), waits_for_what_never_comes);
    }
    let (code, stdout, _) = alone(name, &[]);
    assert_eq!(code, Some(101));
    assert!(stdout.contains("it hangs: not finished after 10ms"), "{stdout}");
}

#[test]
#[should_panic(expected = "its own words")]
fn a_panic_within_a_time_is_the_test_s() {
    within(testing::NEVER, || panic!("its own words"));
}

#[test]
fn what_holds_at_last_was_waited_for() {
    let mut looks = 0;
    testing::wait_until("ten looks", || {
        looks += 1;
        looks == 10
    });
    assert_eq!(within(testing::NEVER, || 7), 7);
}

#[test]
fn a_test_with_a_process_of_its_own_is_alone_in_it() {
    testing::own_process!();
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.map(|it| std::fs::read_to_string(it.unwrap().path().join("comm")).unwrap());
    let tests: Vec<_> = names.filter(|name| name.starts_with("a_")).collect();
    assert_eq!(tests.len(), 1, "{tests:?}");
}

#[test]
#[should_panic(expected = "right words")]
#[ignore = "the next test runs it"]
fn a_panic_that_is_expected_and_another_one_that_comes() {
    testing::own_process!();
    panic!("other words");
}

#[test]
fn a_test_that_should_panic_gets_no_process_of_its_own() {
    let name = "a_panic_that_is_expected_and_another_one_that_comes";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", name, "--ignored"]).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("cannot be used in a test that should panic"), "{stderr}");
}

#[test]
fn a_process_of_its_own_on_another_thread_is_refused() {
    let name = "a_process_of_its_own_on_another_thread_is_refused";
    if is_alone(name) {
        let place = "helper::a_process_of_its_own_on_another_thread_is_refused::here";
        drop(std::thread::spawn(move || testing::is_own_process(place)).join());
        return;
    }
    let (code, _, stderr) = alone(name, &[]);
    assert_eq!(code, None, "{stderr}");
    assert!(stderr.contains("must be called by the test itself"), "{stderr}");
}

#[test]
fn a_failure_in_a_process_of_its_own_is_the_tests() {
    let name = "a_failure_in_a_process_of_its_own_is_the_tests";
    if is_alone(name) {
        testing::own_process!();
        panic!("words of the inner process");
    }
    let (code, stdout, _) = alone(name, &[]);
    assert_eq!(code, Some(101));
    assert!(stdout.contains("exit status: 101"), "{stdout}");
    assert!(stdout.contains("words of the inner process"), "{stdout}");
}

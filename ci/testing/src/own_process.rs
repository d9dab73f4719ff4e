//! Tests that need a separate process: they count its threads, fork it, change its limits or its environment, or may end
//! it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the harness keeps what a test prints"
)]

use std::process::{Command, Stdio};
use std::{env, process, thread};

use crate::watchdog;

/// The environment variable with the test that a process was started for.
const VARIABLE: &str = "CORESHARD_TEST_OWN_PROCESS";

/// Runs the test in a separate process. It must be the test's first statement. So one program can have tests that share a
/// process and tests that cannot.
///
/// ```no_run
/// #[test]
/// fn nothing_is_left() {
///     testing::own_process!();
///     // The only test of this process.
/// }
/// ```
///
/// # Panics
/// Panics if that process fails. The message has its exit status and its output.
///
/// # Aborts
/// Aborts in a test that `should_panic`, since its verdict would be inverted, and if it is not called on the test's own
/// thread, since the panic could be caught.
#[macro_export]
macro_rules! own_process {
    () => {
        if !$crate::is_own_process({
            fn here() {}
            ::std::any::type_name_of_val(&here)
        }) {
            return;
        }
    };
}

/// Returns true in the process of the test that contains `place`, the path of a function inside that test. In the
/// process of all tests, runs that process and returns false. [`own_process!`](crate::own_process) calls it.
///
/// # Panics
/// Panics if the process fails.
#[doc(hidden)]
#[must_use]
pub fn is_own_process(place: &str) -> bool {
    let name = name_of(place);
    if env::var_os(VARIABLE).is_some_and(|it| it == *name) {
        return true;
    }
    let mut child = Command::new(env::current_exe().expect("the test program has a path"));
    child.args(["--exact", &name, "--nocapture", "--include-ignored"]).env(VARIABLE, &name);
    // The child's watchdog must report first: it can report the stack of the test.
    if let Some(limit) = watchdog::limit() {
        child.env(watchdog::VARIABLE, (limit.as_secs() * 4 / 5).max(1).to_string());
    }
    let output = child.stdin(Stdio::null()).output().expect("a process can be started");
    let printed =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    let [stdout, stderr] = printed;
    if stdout.contains(&format!("test {name} - should panic")) {
        refuse(&format!("{name}: own_process! cannot be used in a test that should panic"));
    }
    let ran = stdout.contains("test result: ok. 1 passed");
    assert!(output.status.success() && ran, "{name}: {}\n{stdout}{stderr}", output.status);
    print!("{stdout}");
    eprint!("{stderr}");
    // Reports skips past the harness, as in a test without a separate process.
    for line in stderr.lines().filter(|line| line.starts_with("SKIPPED ")) {
        watchdog::say(&format!("{line}\n"));
    }
    false
}

/// Returns the harness's name of the test with a function at `place`: `program::module::test::here`.
fn name_of(place: &str) -> String {
    let path = place.strip_suffix("::here").unwrap_or(place);
    let (_, name) = path.split_once("::").unwrap_or(("", path));
    // With more than one thread, the harness names each test's thread after the test, which checks the path.
    let thread = thread::current();
    if !matches!(thread.name(), Some(it) if it == name || it == "main") {
        refuse(&format!("{name}: own_process! must be called by the test itself"));
    }
    name.to_owned()
}

/// Ends the process: a panic could be caught, or be what a test expects.
fn refuse(what: &str) -> ! {
    watchdog::say(&format!("\n{what}\n"));
    process::abort()
}

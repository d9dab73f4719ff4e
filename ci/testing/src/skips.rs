//! Skipped tests: reported at once, listed at the end, and an error if the machine should have the feature.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::panic::Location;
use std::path::Path;
use std::thread;

use crate::Lack;

/// The file that a line is added to for each skip.
const LIST: &str = "CORESHARD_SKIPS";

/// The features that the machine has: names of [`Lack`], separated by commas.
const REQUIRED: &str = "CORESHARD_REQUIRE";

/// Reports that the test of this thread, or a part of it, was skipped because the machine lacks a feature. Reports to
/// stderr past the harness, which hides the output of passing tests, and to the file named by `CORESHARD_SKIPS`.
///
/// # Panics
/// Panics if `CORESHARD_REQUIRE` contains the feature, or a name that is not a [`Lack`].
#[track_caller]
pub fn skip(lack: Lack, reason: impl Display) {
    let place = Location::caller();
    let thread = thread::current();
    let test = thread.name().unwrap_or("(a thread without a name)");
    // The reason may have several lines.
    let reason = reason.to_string();
    let reason = reason
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ");
    let line = format!("{lack}: {test} ({}): {reason}\n", place.file());
    if let Some(required) = std::env::var_os(REQUIRED) {
        let is_required =
            requires(&required.to_string_lossy(), lack).unwrap_or_else(|error| panic!("{error}"));
        assert!(!is_required, "{REQUIRED} says that this machine has {line}");
    }
    io::stderr()
        .write_all(format!("SKIPPED for lack of {line}").as_bytes())
        .expect("stderr is open");
    if let Some(list) = std::env::var_os(LIST) {
        add(Path::new(&list), &line)
            .unwrap_or_else(|error| panic!("{LIST}: {}: {error}", list.display()));
    }
}

/// Whether `lack` is among the names in `required`.
fn requires(required: &str, lack: Lack) -> Result<bool, String> {
    let names: Vec<_> =
        required.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let is_name = |name: &str| Lack::ALL.iter().any(|lack| lack.name() == name);
    match names.iter().find(|name| !is_name(name)) {
        Some(wrong) => {
            let all: Vec<_> = Lack::ALL.iter().map(|lack| lack.name()).collect();
            Err(format!("{REQUIRED} names {wrong:?}; expected some of {}", all.join(", ")))
        }
        None => Ok(names.contains(&lack.name())),
    }
}

/// Adds the line in one write, since other processes may add lines at the same time.
fn add(list: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(list)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_required_or_not_or_wrong() {
        assert_eq!(requires("", Lack::Rt), Ok(false));
        assert_eq!(requires("io_uring, rt,", Lack::Rt), Ok(true));
        assert_eq!(requires("io_uring,rt_throttle", Lack::Rt), Ok(false));
        let error = requires("rt,io-uring", Lack::Rt).unwrap_err();
        assert!(error.contains("\"io-uring\"") && error.contains("io_uring, iopoll, "), "{error}");
    }

    #[test]
    fn no_two_have_one_name() {
        let names: std::collections::BTreeSet<_> =
            Lack::ALL.iter().map(|lack| lack.name()).collect();
        assert_eq!(names.len(), Lack::ALL.len());
    }
}

//! What the tests of this folder have in common.
#![allow(dead_code)]

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use coreshard_topology::{CpuSet, Topology};

/// How long anything may take that would otherwise hang.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// This machine, and its CPUs that this process may use.
pub(crate) fn usable() -> (Topology, CpuSet) {
    let machine = Topology::host().unwrap();
    let cpus = &coreshard_platform::affinity().unwrap() & machine.online();
    (machine, cpus)
}

/// Says that a test has not tested what it is there for, past the harness, which keeps what a test that
/// passes has printed to itself.
pub(crate) fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Runs `body` on a thread of its own, and panics where it is not over in time.
pub(crate) fn within<R: Send + 'static>(
    limit: Duration,
    body: impl FnOnce() -> R + Send + 'static,
) -> R {
    let (say, hear) = mpsc::channel();
    let thread = std::thread::spawn(move || drop(say.send(body())));
    match hear.recv_timeout(limit) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("not over after {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it has sent its value"),
        },
    }
}

/// A number of /proc/self/status.
pub(crate) fn status(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

//! Stacks have the requested size. The test runs its own program, once for each size, since a stack overflow ends the
//! process.
#![allow(unsafe_code, reason = "no core is to be left behind")]

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use rayon_core::ThreadPoolBuilder;

const MIB: usize = 1 << 20;

/// Takes this many MiB of stack.
fn take_stack(mebibytes: u32) {
    let mut buffer = [0_u8; MIB];
    std::hint::black_box(&mut buffer);
    if mebibytes > 1 {
        take_stack(mebibytes - 1);
    }
    std::hint::black_box(&mut buffer);
}

fn run(test: &str) -> ExitStatus {
    Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", &format!("stack_size::{test}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
}

#[test]
fn stack_overflow_crash() {
    let small = run("run_with_small_stack");
    assert!(matches!(small.signal(), Some(libc::SIGABRT | libc::SIGSEGV)), "{small}");
    let large = run("run_with_large_stack");
    assert!(large.success(), "{large}");
}

fn with_stack(bytes: usize) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a plain call with a live argument.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) }, 0);
    let pool = ThreadPoolBuilder::new().stack_size(bytes).build().unwrap();
    pool.install(|| take_stack(33));
}

#[test]
#[ignore = "ends its process; stack_overflow_crash runs it"]
fn run_with_small_stack() {
    with_stack(8 * MIB);
}

#[test]
#[ignore = "stack_overflow_crash runs it"]
fn run_with_large_stack() {
    with_stack(48 * MIB);
}

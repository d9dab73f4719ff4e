//! Runs a program and reports its resource usage.
//!
//! Usage: watch [--threads] REPORT PROGRAM [ARGUMENT ...]
//!
//! REPORT is the file that a line of JSON is written to: exit status (-1: by a signal), seconds by the clock, CPU
//! seconds in user mode and in the kernel, the peak of its memory in KiB; and with --threads the highest number of
//! threads seen, by looking each millisecond, which costs time that a run to be timed ought not to pay.
//!
//! It is a small program because a process's peak of memory starts at that of its parent.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let counts_threads = words.first().is_some_and(|word| word == "--threads");
    if counts_threads {
        words.remove(0);
    }
    let [report, program, arguments @ ..] = words.as_slice() else {
        eprintln!("watch: usage: watch [--threads] REPORT PROGRAM [ARGUMENT ...]");
        std::process::exit(2);
    };

    let began = Instant::now();
    let child = match Command::new(program).args(arguments).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("watch: cannot start {}: {error}", program.display());
            std::process::exit(127);
        }
    };
    let ended = Arc::new(AtomicBool::new(false));
    let counter = counts_threads.then(|| {
        let (pid, ended) = (child.id(), ended.clone());
        thread::spawn(move || most_threads(pid, &ended))
    });
    let (status, usage) = waited_for(child.id());
    let seconds = began.elapsed().as_secs_f64();
    ended.store(true, Ordering::Relaxed);
    let threads =
        counter.map_or(0, |counter| counter.join().expect("the counter of threads panicked"));

    let of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let line = format!(
        "{{\"status\": {}, \"seconds\": {seconds:.6}, \"user\": {:.6}, \"system\": {:.6}, \"peak_kib\": {}, \"threads\": {threads}}}\n",
        status.code().unwrap_or(-1),
        of(usage.ru_utime),
        of(usage.ru_stime),
        usage.ru_maxrss,
    );
    if let Err(error) = fs::write(report, line) {
        eprintln!("watch: cannot write {}: {error}", report.display());
        std::process::exit(2);
    }
    std::process::exit(status.code().unwrap_or(128));
}

/// Waits for the process's end.
fn waited_for(pid: u32) -> (ExitStatus, libc::rusage) {
    let mut status = 0;
    // SAFETY: all bits zero are a valid rusage, which is plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live values that are not shared; the process is a child that was not waited for
        // yet.
        let found = unsafe { libc::wait4(pid as i32, &mut status, 0, &mut usage) };
        if found == pid as i32 {
            return (ExitStatus::from_raw(status), usage);
        }
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "wait4 failed: {error}");
    }
}

/// The highest number of the process's threads that was seen until it ended.
fn most_threads(pid: u32, ended: &AtomicBool) -> usize {
    let mut most = 0;
    while !ended.load(Ordering::Relaxed) {
        if let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) {
            let count = status.lines().find_map(|line| line.strip_prefix("Threads:"));
            most = most.max(count.and_then(|count| count.trim().parse().ok()).unwrap_or(0));
        }
        thread::sleep(Duration::from_millis(1));
    }
    most
}

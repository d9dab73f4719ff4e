//! Runs a job in a child process and observes it from outside: its duration, its resource usage, its
//! largest number of threads, and whether it ended at all.
//!
//! The program calls [`run`] with the job. The first process starts itself again with the same
//! arguments, samples the child's `/proc/PID/status`, and prints one line of JSON about it; the
//! child calls the job. So neither the sampler's thread nor its CPU time is counted for the job.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

const INSIDE: &str = "CORESHARD_PORTS_INSIDE";

/// The report of the job's process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    /// The hash of all bytes that the job made, independent of the order they were made in.
    pub hash: String,
    pub wall_s: f64,
    /// User and system time of the whole process.
    pub cpu_s: f64,
    /// Threads right after the job. The sampler may miss the threads of a job that takes a millisecond.
    pub threads_at_end: u64,
}

/// The printed report, as one line of JSON.
#[derive(Debug, Serialize)]
struct Report {
    ended: bool,
    #[serde(flatten)]
    done: Option<Done>,
    /// All threads, the first one included.
    peak_threads: u64,
    peak_rss_kib: u64,
    voluntary_switches: u64,
    /// Why it did not end, if so.
    failure: Option<String>,
}

/// Runs the job in a child process and observes it for at most `limit`. Inside that child, calls the job.
pub fn run(limit: Duration, every: Duration, job: impl FnOnce() -> Done) -> ExitCode {
    if std::env::var_os(INSIDE).is_some() {
        let done = job();
        println!("{}", serde_json::to_string(&done).expect("numbers and a string"));
        // Does not tear the executor down: threads that wait forever must not keep the process.
        std::process::exit(0);
    }
    match watch(limit, every) {
        Ok(report) => {
            println!("{}", serde_json::to_string(&report).expect("numbers and strings"));
            if report.ended { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("the job's process: {error}");
            ExitCode::FAILURE
        }
    }
}

fn watch(limit: Duration, every: Duration) -> std::io::Result<Report> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let began = Instant::now();
    let status_file = File::open(format!("/proc/{}/status", child.id()))?;
    let mut report = Report {
        ended: false,
        done: None,
        peak_threads: 0,
        peak_rss_kib: 0,
        voluntary_switches: 0,
        failure: None,
    };
    let mut buffer = vec![0; 4096];
    let exit = loop {
        if let Ok(length) = status_file.read_at(&mut buffer, 0) {
            let text = String::from_utf8_lossy(&buffer[..length]);
            report.peak_threads = report.peak_threads.max(field(&text, "Threads:"));
            report.peak_rss_kib = report.peak_rss_kib.max(field(&text, "VmHWM:"));
        }
        if let Some(exit) = child.try_wait()? {
            break Some(exit);
        }
        if began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(every);
    };
    let mut text = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut text)?;
    report.done = serde_json::from_str(&text).ok();
    let at_end = report.done.as_ref().map_or(0, |done| done.threads_at_end);
    report.peak_threads = report.peak_threads.max(at_end);
    match exit {
        None => report.failure = Some(format!("not finished after {} s", limit.as_secs_f64())),
        Some(exit) if exit.success() && report.done.is_some() => report.ended = true,
        Some(exit) => report.failure = Some(exit.to_string()),
    }
    let usage = usage(libc::RUSAGE_CHILDREN);
    report.voluntary_switches = usage.ru_nvcsw.cast_unsigned();
    report.peak_rss_kib = report.peak_rss_kib.max(usage.ru_maxrss.cast_unsigned());
    Ok(report)
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Calls `job`, which returns the hash of its output.
pub fn timed(job: impl FnOnce() -> u64) -> Done {
    let cpu = cpu_time();
    let began = Instant::now();
    let hash = job();
    let wall = began.elapsed();
    let cpu = cpu_time() - cpu;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Done {
        hash: format!("{hash:016x}"),
        wall_s: wall.as_secs_f64(),
        cpu_s: cpu.as_secs_f64(),
        threads_at_end: field(&status, "Threads:"),
    }
}

/// User and system time of this process.
pub fn cpu_time() -> Duration {
    let usage = usage(libc::RUSAGE_SELF);
    let time = |time: libc::timeval| {
        Duration::new(time.tv_sec.cast_unsigned(), time.tv_usec.cast_unsigned() as u32 * 1000)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: all zeros are a valid value, and the call writes only to it.
    unsafe {
        let mut usage = std::mem::zeroed();
        assert_eq!(libc::getrusage(who, &raw mut usage), 0);
        usage
    }
}

/// FNV-1a over the bytes in order. A sum of hashes does not depend on the order of its terms.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

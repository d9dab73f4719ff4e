//! The k-th call of a kind fails, for every k.
//!
//! A small library (`fail.c`) is loaded before all others into a child process, counts its calls of one
//! kind of the C library's functions, and lets the k-th fail, or the k-th and some more. The load is short and
//! the same each time. The sweep of a kind ends when k exceeds the number of calls that the load makes.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

/// Kinds of calls, as `fail.c` knows them.
const KINDS: &[(&str, &str)] = &[
    ("thread", "a thread is started: EAGAIN"),
    ("map", "memory is mapped by the runtimes: ENOMEM"),
    ("affinity", "an affinity is set or asked for: EINVAL"),
    ("policy", "the memory policy of a range is set or asked for: EPERM"),
    ("priority", "a nice value or a policy is set: EPERM"),
    ("futex", "a thread sleeps or wakes others: EINTR, EAGAIN"),
    ("ring", "an io_uring is made, entered or registered with: EAGAIN, ENOMEM"),
    ("open", "a file is opened: EMFILE"),
    ("read", "a file is read: EINTR, EIO"),
    ("write", "a file is written: ENOSPC"),
    ("clock", "the CPU time of a thread is asked for: ESRCH"),
    ("system", "any other system call by number: EPERM"),
];

#[derive(Args)]
pub(crate) struct Options {
    /// The kind of call that fails; `all` for each kind in turn.
    kind: String,
    /// The first k.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// The last k, unless the load makes fewer calls.
    #[arg(long, default_value_t = 2_000)]
    up_to: u64,
    /// Steps from one k to the next.
    #[arg(long, default_value_t = 1)]
    step: u64,
    /// How many calls in a row fail, from the k-th on.
    #[arg(long, default_value_t = 1)]
    in_a_row: u64,
    /// The load's random seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Operations of each of the load's threads.
    #[arg(long, default_value_t = 30)]
    operations: u64,
    /// Children that run at once.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// The outcome of a child.
enum Outcome {
    /// It succeeded.
    Held {
        calls: u64,
    },
    Broken(String),
}

#[allow(clippy::print_stdout, clippy::print_stderr)]
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let kinds: Vec<&str> = KINDS
        .iter()
        .map(|(kind, _)| *kind)
        .filter(|kind| options.kind == "all" || options.kind == *kind)
        .collect();
    let names = KINDS.iter().map(|(kind, what)| format!("{kind} ({what})")).collect::<Vec<_>>();
    ensure!(
        !kinds.is_empty(),
        "unknown kind {:?}: expected all, {}",
        options.kind,
        names.join(", ")
    );
    ensure!(options.step > 0 && options.jobs > 0, "--step and --jobs are at least 1");
    let folder = tempfile::tempdir()?;
    let library = compile(folder.path())?;
    let mut failed = 0;
    for kind in kinds {
        let begin = Instant::now();
        let sweep = sweep(kind, &library, options)?;
        for (k, why) in &sweep.broken {
            eprintln!(
                "{kind}, k = {k}: {why}\n  again: torture kth {kind} --from {k} --up-to {k} --in-a-row {} --seed {} --operations {}",
                options.in_a_row, options.seed, options.operations
            );
        }
        println!(
            "{kind:<10} {} values of k up to {}, {} failed, {:.0} s",
            sweep.runs,
            sweep.last,
            sweep.broken.len(),
            begin.elapsed().as_secs_f64()
        );
        failed += sweep.broken.len();
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compiles the library that lets calls fail.
fn compile(folder: &Path) -> Result<PathBuf> {
    let (source, library) = (folder.join("fail.c"), folder.join("fail.so"));
    std::fs::write(&source, include_str!("fail.c"))?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let compiled = Command::new(&compiler)
        .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .with_context(|| format!("{} cannot be started; set CC", compiler.display()))?;
    let said = String::from_utf8_lossy(&compiled.stderr);
    ensure!(compiled.status.success(), "{} failed: {said}", compiler.display());
    Ok(library)
}

struct Sweep {
    runs: u64,
    last: u64,
    broken: Vec<(u64, String)>,
}

fn sweep(kind: &str, library: &Path, options: &Options) -> Result<Sweep> {
    let mut sweep = Sweep { runs: 0, last: 0, broken: Vec::new() };
    let mut next = options.from;
    // The load's number of calls differs a little between runs: the sweep ends after three runs in a row without a k-th call.
    let mut beyond = 0;
    while next <= options.up_to && beyond < 3 {
        let batch: Vec<u64> = (0..options.jobs as u64)
            .map(|at| next + at * options.step)
            .filter(|k| *k <= options.up_to)
            .collect();
        next += options.jobs as u64 * options.step;
        let outcomes: Vec<(u64, Result<Outcome>)> = thread::scope(|scope| {
            let start = |k| scope.spawn(move || (k, child(kind, k, library, options)));
            let children: Vec<_> = batch.into_iter().map(start).collect();
            children.into_iter().map(|child| child.join().expect("it returns errors")).collect()
        });
        for (k, outcome) in outcomes {
            sweep.runs += 1;
            sweep.last = k;
            match outcome? {
                Outcome::Held { calls } => beyond = if calls < k { beyond + 1 } else { 0 },
                Outcome::Broken(why) => sweep.broken.push((k, why)),
            }
        }
    }
    Ok(sweep)
}

/// Runs the load with a k-th call that fails.
fn child(kind: &str, k: u64, library: &Path, options: &Options) -> Result<Outcome> {
    let log = tempfile::NamedTempFile::new()?;
    let calls = tempfile::NamedTempFile::new()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["run", "--threads", "2", "--seconds", "20", "--hang-after", "20"])
        .args(["--seed", &options.seed.to_string()])
        .args(["--operations", &options.operations.to_string()])
        .arg("--setup-may-fail")
        .env("LD_PRELOAD", library)
        .env("FAIL_KIND", kind)
        .env("FAIL_FROM", k.to_string())
        .env("FAIL_COUNT", options.in_a_row.to_string())
        .env("FAIL_CALLS", calls.path())
        .stdin(Stdio::null())
        .stdout(log.reopen()?)
        .stderr(log.reopen()?)
        .spawn()?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begin.elapsed() > Duration::from_secs(120) {
            child.kill()?;
            child.wait()?;
            return Ok(Outcome::Broken("has not ended, and has not reported a hang".into()));
        }
        thread::sleep(Duration::from_millis(2));
    };
    let said = std::fs::read_to_string(log.path())?;
    if !status.success() {
        let end = said.chars().rev().take(1_500).collect::<Vec<_>>();
        return Ok(Outcome::Broken(format!("{status}: {}", end.iter().rev().collect::<String>())));
    }
    let calls = std::fs::read_to_string(calls.path())?;
    let calls = calls.trim().parse().with_context(|| format!("the count of calls is {calls:?}"))?;
    Ok(Outcome::Held { calls })
}

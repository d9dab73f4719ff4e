//! Runs cells: each in a fresh process, bound to the same CPUs, for a bounded time, the peers of one
//! workload taking turns.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::cell::{Cell, Outcome};

/// The program that runs a peer's cells.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// This program, or another that takes the same arguments.
    Ready { program: PathBuf, first_arguments: Vec<String> },
    /// It is not available here, for the given reason.
    Absent(String),
    /// It should be available but does not build, for the given reason.
    Broken(String),
}

/// How one run of a cell ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Run {
    Ended(Outcome),
    Absent(String),
    Failed(String),
    /// It was stopped after this long.
    Hung(Duration),
}

/// How cells are run.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// The CPUs that a cell's process, and so all its threads, may use.
    pub(crate) cpus: Vec<usize>,
    pub(crate) time_limit: Duration,
}

/// Runs the cell in a new process.
pub(crate) fn run(program: &Program, cell: &Cell, bounds: &Bounds) -> Run {
    match program {
        Program::Absent(reason) => Run::Absent(reason.clone()),
        Program::Broken(reason) => Run::Failed(reason.clone()),
        Program::Ready { program, first_arguments } => {
            let mut command = Command::new(program);
            command.args(first_arguments).args(cell.arguments());
            run_command(command, bounds).unwrap_or_else(|error| Run::Failed(error.to_string()))
        }
    }
}

fn run_command(mut command: Command, bounds: &Bounds) -> io::Result<Run> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    bind_to_cpus(&mut command, &bounds.cpus);
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().expect("it is piped");
    let stderr = child.stderr.take().expect("it is piped");
    let (over, ended) = mpsc::channel();
    // The pipes are closed when the process exits, so no polling is needed.
    let errors = thread::spawn(move || read_all(stderr));
    let output = thread::spawn(move || {
        let text = read_all(stdout);
        // After a timeout, the receiver no longer exists.
        let _ = over.send(());
        text
    });
    let hung = ended.recv_timeout(bounds.time_limit) == Err(RecvTimeoutError::Timeout);
    if hung {
        child.kill()?;
    }
    let status = child.wait()?;
    let text = output.join().expect("reading does not panic")?;
    let errors = errors.join().expect("reading does not panic")?;
    if hung {
        return Ok(Run::Hung(bounds.time_limit));
    }
    if !status.success() {
        let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("");
        return Ok(Run::Failed(format!("{status}: {last}")));
    }
    Ok(match Outcome::parse(&text) {
        Ok(outcome) => Run::Ended(outcome),
        Err(reason) => Run::Failed(reason),
    })
}

fn read_all(mut from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn bind_to_cpus(command: &mut Command, cpus: &[usize]) {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        // SAFETY: the numbers come from a set of the same type, so they are in range.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    let bind = move || {
        // SAFETY: the set is a local copy and its size is given.
        let failed = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec this makes one system call and touches nothing shared.
    unsafe { command.pre_exec(bind) };
}

/// The CPUs this process may use.
pub(crate) fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes a set of the given size.
    let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    let most = libc::CPU_SETSIZE as usize;
    // SAFETY: the number is below the set's size.
    Ok((0..most).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Params;

    fn shell(script: &str) -> Program {
        Program::Ready {
            program: "/bin/sh".into(),
            first_arguments: vec!["-c".into(), script.into()],
        }
    }

    fn run_shell(script: &str, time_limit: Duration) -> Run {
        let cell = Cell {
            workload: "flood".into(),
            peer: "shell".into(),
            items: 1,
            workers: 1,
            rounds_per_ms: 1,
            params: Params::new(),
        };
        run(&shell(script), &cell, &Bounds { cpus: allowed_cpus().unwrap(), time_limit })
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_cell_that_prints_its_figures_has_ended() {
        let Run::Ended(Outcome::Measured(measured)) =
            run_shell("echo items 5; echo elapsed_ns 10; echo end", LONG)
        else {
            panic!("it printed all that is needed");
        };
        assert_eq!((measured.items, measured.elapsed_ns), (5, 10));
    }

    #[test]
    fn a_cell_that_hangs_is_stopped_and_said_to_hang() {
        let limit = Duration::from_millis(50);
        assert_eq!(run_shell("exec sleep 60", limit), Run::Hung(limit));
    }

    #[test]
    fn a_cell_that_fails_is_reported_with_its_last_words() {
        let run = run_shell("echo items 5; echo no memory >&2; exit 3", LONG);
        let Run::Failed(reason) = run else { panic!("{run:?}") };
        assert!(reason.contains('3') && reason.contains("no memory"), "{reason}");
        assert!(matches!(run_shell("kill -SEGV $$", LONG), Run::Failed(_)));
        assert!(matches!(run_shell("echo items 5", LONG), Run::Failed(_)));
    }

    #[test]
    fn a_program_that_is_not_there_fails_alone() {
        let program =
            Program::Ready { program: "/no/such/program".into(), first_arguments: vec![] };
        let cell = Cell::parse(
            &["workload=a", "peer=b", "items=1", "workers=1", "rounds_per_ms=1"].map(str::to_owned),
        )
        .unwrap();
        let bounds = Bounds { cpus: allowed_cpus().unwrap(), time_limit: LONG };
        assert!(matches!(run(&program, &cell, &bounds), Run::Failed(_)));
        let absent = Program::Absent("needs a toolchain".into());
        assert_eq!(run(&absent, &cell, &bounds), Run::Absent("needs a toolchain".into()));
    }

    #[test]
    fn a_cell_runs_on_the_cpus_it_was_given() {
        let cpu = *allowed_cpus().unwrap().last().unwrap();
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "grep Cpus_allowed_list /proc/self/status | sed 's/.*:\\s*/figure cpu /'; echo end",
        ]);
        let bounds = Bounds { cpus: vec![cpu], time_limit: LONG };
        let Run::Ended(Outcome::Measured(measured)) = run_command(command, &bounds).unwrap() else {
            panic!("the script prints a figure");
        };
        assert_eq!(measured.figures["cpu"], cpu as f64);
    }
}

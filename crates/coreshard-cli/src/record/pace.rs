//! The program's own pace: runs on one CPU without a recorder, which give the processor time of each thread.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use coreshard_topology::input;

use super::engine::{self, Engine};
use super::library;
use crate::common::bail_input;

/// Runs are repeated for this long, and at most this often. Other programs only ever make a run longer.
const LONG: Duration = Duration::from_millis(500);
const MOST_RUNS: usize = 20;
/// The least time of each thread is taken if these are at least this part of the shortest run. Otherwise threads divide
/// their work in another way each time.
const ALIKE: f64 = 0.7;

/// A program to run at its own pace.
pub(super) struct Pace {
    runner: PathBuf,
    program: PathBuf,
    arguments: Vec<String>,
}

impl Pace {
    /// Finds `build`, or the recorded program itself if that is empty.
    pub(super) fn of(build: &str, engine: Engine, program: &[String]) -> anyhow::Result<Self> {
        let name = if build.is_empty() { &program[0] } else { build };
        let path = engine::found_or_error(name)?;
        let kind = engine::kind_of(&path)?;
        if kind.is_built_for_recording() || (build.is_empty() && engine == Engine::Tsan) {
            bail_input!(
                "{} was built for recording, which changes its pace: expected --pace=BUILD with the same program built without \
                 these flags",
                input::quoted(name)
            );
        }
        if kind.architecture() != std::env::consts::ARCH {
            bail_input!(
                "{} is for {}: --pace runs it on this machine",
                input::quoted(name),
                kind.architecture()
            );
        }
        let runner = library::built(&library::PACE, &library::compiler())?;
        Ok(Self { runner, program: path, arguments: program[1..].to_vec() })
    }

    /// Runs it some times, and returns the processor time of each thread in nanoseconds.
    pub(super) fn threads_ns(&self) -> anyhow::Result<Vec<u64>> {
        let began = Instant::now();
        let mut shortest = self.run()?;
        let (mut least, mut shortest_ns) = (shortest.clone(), sum(&shortest));
        for _ in 1..MOST_RUNS {
            if began.elapsed() > LONG {
                break;
            }
            let found = self.run()?;
            if found.len() == least.len() {
                least.iter_mut().zip(&found).for_each(|(least, ns)| *least = (*least).min(*ns));
            }
            if sum(&found) < shortest_ns {
                shortest_ns = sum(&found);
                shortest = found;
            }
        }
        let are_alike =
            least.len() == shortest.len() && sum(&least) as f64 >= ALIKE * shortest_ns as f64;
        Ok(if are_alike { least } else { shortest })
    }

    fn run(&self) -> anyhow::Result<Vec<u64>> {
        // A file is read from its beginning again.
        let input = input::regular(Path::new("/proc/self/fd/0"));
        let input = input.map_or_else(|_| Stdio::null(), Stdio::from);
        let mut command = Command::new(&self.runner);
        let done = command.arg(&self.program).args(&self.arguments).stdin(input).output();
        let done = done.context("the run at the program's own pace did not start")?;
        if !done.status.success() {
            let told = String::from_utf8_lossy(&done.stderr).into_owned();
            bail!("the run at the program's own pace failed: {}", input::sentence(&told));
        }
        let told = String::from_utf8_lossy(&done.stdout);
        let found: Result<Vec<u64>, _> = told.lines().map(str::parse).collect();
        found.ok().filter(|found| !found.is_empty()).ok_or_else(|| anyhow!("it printed no times"))
    }
}

fn sum(all: &[u64]) -> u64 {
    all.iter().sum()
}

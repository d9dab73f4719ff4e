//! A study's folder: `study.json`, `runs/` with a file for each finished run, and gathered results.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use coreshard_results::StudyRow;
use coreshard_topology::input;

use super::study::{PlannedRun, Study};
use crate::common::{Destination, bad_input, bail_input};

/// Maximum size of `study.json`. It suffices for thousands of machines.
const STUDY_BYTES: u64 = 16 << 20;
/// Maximum length of a line of results.
const ROW_BYTES: u64 = 64 << 10;

/// The folder of a planned study.
pub(super) struct Folder {
    path: PathBuf,
    study: Study,
}

impl Folder {
    /// Creates the folder of a study, or accepts it if it holds the same study.
    pub(super) fn plan(path: &Path, study: &Study) -> anyhow::Result<()> {
        let is_planned = path.join("study.json").exists();
        if is_planned && Self::open(path)?.study != *study {
            bail_input!("{} holds another study: expected a different folder", input::path(path));
        }
        fs::create_dir_all(path.join("runs"))
            .with_context(|| format!("cannot create the folder {}", input::path(path)))
            .map_err(bad_input)?;
        if is_planned {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(study)?;
        Destination::open(&path.join("study.json"))?.write(|out| writeln!(out, "{text}"))
    }

    /// Opens the folder of a study.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let read = || -> anyhow::Result<Self> {
            let path = fs::canonicalize(path)?;
            let study = Study::read(&input::text(&path.join("study.json"), STUDY_BYTES)?)?;
            Ok(Self { path, study })
        };
        let named = || format!("{} is not a usable study folder", input::path(path));
        read().with_context(named).map_err(bad_input)
    }

    pub(super) fn study(&self) -> &Study {
        &self.study
    }

    /// Returns the absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn results_of(&self, number: u64) -> PathBuf {
        self.path.join("runs").join(format!("{number:06}.json"))
    }

    /// Returns the runs without valid results.
    pub(super) fn missing(&self) -> Vec<u64> {
        let has_results =
            |number: &u64| self.study.run(*number).is_ok_and(|run| self.line_of(&run).is_ok());
        (0..self.study.runs()).filter(|number| !has_results(number)).collect()
    }

    /// Runs one, unless it has results. Returns a message about the outcome.
    pub(super) fn run(&self, run: &PlannedRun) -> anyhow::Result<String> {
        let path = self.results_of(run.number);
        if path.exists() {
            self.line_of(run)?;
            return Ok("already has results".to_owned());
        }
        let row = run.simulate()?;
        let line = serde_json::to_string(&row)?;
        let written = Destination::open(&path)?.write(|out| writeln!(out, "{line}"));
        // The engine may have given the run to two workers. Both have the same results.
        if let Err(error) = written
            && self.line_of(run).is_err()
        {
            return Err(error);
        }
        Ok(format!("{:.0} items/s", row.measurement.items_per_sec))
    }

    /// Reads a run's line of results.
    fn line_of(&self, run: &PlannedRun) -> anyhow::Result<String> {
        let path = self.results_of(run.number);
        let line = input::text(&path, ROW_BYTES)?;
        let row = serde_json::from_str::<StudyRow>(&line);
        match row {
            Ok(row) if run.is_of(&row) && line.trim_end().lines().count() == 1 => Ok(line),
            _ => {
                let problem = "remove it and repeat the run";
                Err(anyhow!("{} does not hold the results of {run}: {problem}", input::path(&path)))
            }
        }
    }

    /// Writes all results into one file and returns its path.
    pub(super) fn gather(&self) -> anyhow::Result<PathBuf> {
        let missing = self.missing();
        if let Some(first) = missing.first() {
            if self.results_of(*first).exists() {
                // Report an invalid results file.
                self.line_of(&self.study.run(*first)?)?;
            }
            let problem = "runs have no results";
            return Err(anyhow!("{} {problem}, first {first}", missing.len()));
        }
        let mut lines = String::new();
        for number in 0..self.study.runs() {
            lines += &self.line_of(&self.study.run(number)?)?;
        }
        let path = self.path.join("results.jsonl");
        Destination::open(&path)?.write(|out| out.write_all(lines.as_bytes()))?;
        Ok(path)
    }
}

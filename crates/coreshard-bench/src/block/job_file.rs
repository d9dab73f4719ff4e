//! fio's job files: sections of `key=value`, with a `[global]` one for all that follow.

use std::fmt;

use coreshard_topology::input::{self, quoted};

use super::job::BlockJob;

/// The error of a job file. Its text names the line.
#[derive(Clone, PartialEq, Eq)]
pub struct JobFileError {
    line: usize,
    problem: String,
}

impl JobFileError {
    /// Returns the line, from 1; 0 if the error concerns the whole file.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for JobFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.problem),
            line => write!(f, "line {line}: {}", self.problem),
        }
    }
}

coreshard_topology::readable_debug!(JobFileError);

impl std::error::Error for JobFileError {}

/// Parses a job file.
///
/// Each section except `[global]` is a job: `defaults`, changed by the `[global]` sections before it and by
/// its own. Jobs run one after another, as if each had `stonewall`. Lines that start with `#` or `;` are
/// comments.
///
/// # Errors
/// The first invalid line, and why it is invalid.
///
/// ```
/// use coreshard_bench::{BlockJob, parse_job_file};
///
/// let text = "[global]\nbs=8k\n[seq]\nrw=read\n[rand]\nrw=randread\niodepth=4\n";
/// let jobs = parse_job_file(text, &BlockJob::default())?;
/// assert_eq!((jobs[1].name.as_str(), jobs[1].bs, jobs[1].iodepth), ("rand", 8192, 4));
/// # Ok::<(), coreshard_bench::JobFileError>(())
/// ```
pub fn parse_job_file(text: &str, defaults: &BlockJob) -> Result<Vec<BlockJob>, JobFileError> {
    let mut global = defaults.clone();
    let mut jobs: Vec<BlockJob> = Vec::new();
    let mut section: Option<&str> = None;
    for (at, line) in text.lines().enumerate() {
        let error =
            |problem: String| JobFileError { line: at + 1, problem: input::sentence(&problem) };
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| {
                error(format!("invalid section {}: expected [name]", quoted(line)))
            })?;
            section = Some(name);
            if name != "global" {
                jobs.push(BlockJob { name: name.to_owned(), ..global.clone() });
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (key.trim(), value.trim());
        let job = match section {
            None => {
                return Err(error(format!("{} comes before the first [section]", quoted(key))));
            }
            Some("global") => &mut global,
            Some(_) => jobs.last_mut().expect("a section has a job"),
        };
        job.set(key, value)
            .map_err(|problem| error(format!("{}: {problem}", input::plain(key))))?;
    }
    if jobs.is_empty() {
        let problem = "no job: expected a section other than [global]".to_owned();
        return Err(JobFileError { line: 0, problem });
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<BlockJob>, JobFileError> {
        parse_job_file(text, &BlockJob::default())
    }

    #[test]
    fn globals_hold_for_what_follows() {
        let jobs = parse(
            "# a comment\n[global]\ndirect=1\n; another\nbs = 16k\n\n[a]\n[global]\niodepth=8\n[b]\nbs=4k\nthread\n",
        )
        .unwrap();
        let seen: Vec<_> =
            jobs.iter().map(|job| (job.name.as_str(), job.bs, job.iodepth, job.direct)).collect();
        assert_eq!(seen, [("a", 16384, 1, true), ("b", 4096, 8, true)]);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = parse("[a]\nbs=4k\nzonemode=zbd\n").unwrap_err();
        assert_eq!(error.line(), 3);
        let text = error.to_string();
        assert!(text.starts_with("line 3: zonemode: unknown key: expected one of name"), "{text}");
    }

    #[test]
    fn what_is_no_job_file_is_told() {
        for (text, line, says) in [
            ("", 0, "no job"),
            ("[global]\nbs=4k\n", 0, "no job"),
            ("bs=4k\n", 1, "before the first"),
            ("[a\n", 1, "invalid section"),
            ("[]\n", 1, "invalid section"),
            ("[a]\nbs=none\n", 2, "bs: \"none\" is not a number of bytes"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line(), line, "{text:?}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}

//! A HyperQueue job file, for `hq job submit-file`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use coreshard_topology::input;

use super::folder::Folder;
use crate::common::{Destination, JOBS_MARK, bad_input};

/// Writes `jobs.toml` with a task for each run without results, and returns its path. A task has the number of its run.
pub(super) fn write(folder: &Folder) -> anyhow::Result<PathBuf> {
    let command = std::env::current_exe().context("cannot determine the path of this command")?;
    let (command, place) = (word(&command)?, word(folder.path())?);
    let mut text = format!("{JOBS_MARK}\nname = \"coreshard sweep\"\n");
    // Keep error output of failed runs only: a study has many runs.
    let errors = folder.path().join("errors");
    fs::create_dir_all(&errors)?;
    for number in folder.missing() {
        let errors = word(&errors.join(number.to_string()))?;
        write!(
            text,
            "\n[[task]]\nid = {number}\ncommand = [{command}, \"sweep\", \"run\", {place}, \"{number}\"]\nstdout = \"none\"\n\
             stderr = {{ path = {errors}, on_close = \"rm-if-finished\" }}\n"
        )?;
    }
    let path = folder.path().join("jobs.toml");
    Destination::open(&path)?.write(|out| out.write_all(text.as_bytes()))?;
    Ok(path)
}

/// Formats a path as a TOML string. It differs from JSON in one character.
fn word(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().ok_or_else(|| {
        bad_input(anyhow!("invalid path {}: expected UTF-8 for a job file", input::path(path)))
    })?;
    Ok(serde_json::to_string(text)?.replace('\u{7f}', "\\u007f"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_of_tomls_strings() {
        for text in ["/plain", "/with \"quotes\"\\ and\u{7f}\u{1}\n", "/ümlaut"] {
            let toml = format!("path = {}", word(Path::new(text)).unwrap());
            let read: toml::Table = toml.parse().unwrap();
            assert_eq!(read["path"].as_str(), Some(text));
        }
    }
}

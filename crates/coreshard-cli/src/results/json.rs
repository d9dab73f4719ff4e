//! `--json`: one option with one meaning in every command that has results for programs.

use std::path::{Path, PathBuf};

use super::destination::{Destination, ForceArgs};
use crate::output;

/// The option of commands that have results for programs.
#[derive(Debug, clap::Args)]
pub(crate) struct JsonArgs {
    /// Write the results as JSON: to FILE, or to standard output in place of the text if there is no FILE or it is "-"
    #[arg(long, value_name = "FILE|-", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,

    #[command(flatten)]
    force: ForceArgs,
}

impl JsonArgs {
    /// True if JSON takes the place of the text on standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    pub(crate) fn is_given(&self) -> bool {
        self.json.is_some()
    }

    /// The file that JSON goes to. Applies `--force`, so files are opened after this call.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.force.apply();
        self.json.as_deref().filter(|_| !self.is_stdout())
    }

    /// Checks that the file can be written, before any work is done.
    pub(crate) fn open(&self) -> anyhow::Result<JsonOutput> {
        let file = self.file().map(Destination::open).transpose()?;
        Ok(self.output(file))
    }

    /// The same for a command that has opened [`file`](Self::file) beside its other files.
    pub(crate) fn output(&self, file: Option<Destination>) -> JsonOutput {
        JsonOutput { is_stdout: self.is_stdout(), file }
    }
}

/// Where the results go, checked to be writable.
pub(crate) struct JsonOutput {
    is_stdout: bool,
    file: Option<Destination>,
}

impl JsonOutput {
    pub(crate) const fn to_stdout() -> Self {
        Self { is_stdout: true, file: None }
    }

    /// The file that JSON goes to.
    pub(crate) const fn file(&self) -> Option<&Destination> {
        self.file.as_ref()
    }

    /// Prints the text, or JSON in its place, and writes the file. `json` ends with a line feed.
    pub(crate) fn print(
        self,
        json: impl FnOnce() -> anyhow::Result<String>,
        text: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        if self.is_stdout {
            return output::print(&json()?);
        }
        output::print(&text()?)?;
        if let Some(file) = self.file {
            let (path, json) = (file.path().to_owned(), json()?);
            file.write(|out| out.write_all(json.as_bytes()))?;
            output::written(&path);
        }
        Ok(())
    }
}

/// Indented JSON with a final line feed.
pub(crate) fn pretty(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

//! `--json`, with the same meaning in every command that has results, and the reports beside it.

use std::path::{Path, PathBuf};

use super::destination::{Destination, ForceArgs};
use super::output;

/// The option of commands with machine-readable results.
#[derive(Debug, clap::Args)]
pub(crate) struct JsonArgs {
    /// Write the results as JSON to FILE, or to standard output (no FILE, or -) instead of text
    #[arg(long, value_name = "FILE|-", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,

    #[command(flatten)]
    force: ForceArgs,
}

impl JsonArgs {
    /// Returns true if JSON replaces the text on standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    pub(crate) fn is_given(&self) -> bool {
        self.json.is_some()
    }

    /// Checks that the file can be written, before any work is done.
    pub(crate) fn open(&self) -> anyhow::Result<JsonOutput> {
        self.open_beside([]).map(|(json, [])| json)
    }

    /// Like [`Self::open`], with other reports. Fails if two are the same file. Applies `--force`.
    pub(crate) fn open_beside<const N: usize>(
        &self,
        others: [Option<&Path>; N],
    ) -> anyhow::Result<(JsonOutput, [Option<Destination>; N])> {
        self.force.apply();
        let is_stdout = self.is_stdout();
        let file = self.json.as_deref().filter(|_| !is_stdout);
        let file = file.map(Destination::open).transpose()?;
        let others = Destination::open_all(file.as_ref(), others)?;
        Ok((JsonOutput { is_stdout, file }, others))
    }
}

/// A checked destination of the results.
pub(crate) struct JsonOutput {
    is_stdout: bool,
    file: Option<Destination>,
}

impl JsonOutput {
    pub(crate) const fn to_stdout() -> Self {
        Self { is_stdout: true, file: None }
    }

    /// Fails if the command uses the same file otherwise.
    pub(crate) fn is_not(&self, file: &Path) -> anyhow::Result<()> {
        self.file.as_ref().map_or(Ok(()), |own| own.is_not(file))
    }

    /// Prints the text or JSON, and writes the file.
    pub(crate) fn print(
        self,
        results: &impl serde::Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        self.print_as(|| pretty(results), text)
    }

    /// Like [`Self::print`], for JSON made by other means than serde. It must end with a line feed.
    pub(crate) fn print_as(
        self,
        json: impl FnOnce() -> anyhow::Result<String>,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if self.is_stdout {
            return output::print(&json()?);
        }
        output::print(&text())?;
        self.file.map_or(Ok(()), |file| file.report(&json()?))
    }
}

/// Output files of the results.
#[derive(Debug, clap::Args)]
pub(crate) struct PageArgs {
    #[command(flatten)]
    json: JsonArgs,

    /// Write an HTML page with the results and charts of their distributions
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Checked output files.
pub(crate) struct PageOutput {
    json: JsonOutput,
    html: Option<Destination>,
}

impl PageArgs {
    /// Checks that the files can be written, before anything is measured.
    pub(crate) fn open(&self) -> anyhow::Result<PageOutput> {
        let (json, [html]) = self.json.open_beside([self.html.as_deref()])?;
        Ok(PageOutput { json, html })
    }
}

impl PageOutput {
    /// Returns true if JSON replaces the text on standard output.
    pub(crate) const fn is_stdout(&self) -> bool {
        self.json.is_stdout
    }

    pub(crate) fn write(
        self,
        results: &impl serde::Serialize,
        table: String,
        page: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        self.json.print(results, || table)?;
        self.html.map_or(Ok(()), |file| file.report(&page()))
    }
}

/// Formats indented JSON with a final line feed.
fn pretty(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

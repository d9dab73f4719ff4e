//! Errors of reading a machine.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use crate::input::{self, InputError, plain, quoted};
use crate::{CpuSet, MAX_CPU, ParseCpuSetError};

/// Why a [`Topology`](crate::Topology) or [`Usable`](crate::Usable) could not be created.
///
/// The message is one sentence that names the file or string, the position in it, the invalid part and the accepted
/// values.
pub struct TopologyError {
    // Boxed, so that `Ok` values do not carry its size.
    inner: Box<Inner>,
}

#[derive(Default)]
struct Inner {
    text: String,
    path: Option<PathBuf>,
    column: Option<usize>,
    source: Option<ParseCpuSetError>,
    #[cfg(feature = "presets")]
    is_unknown_machine: bool,
}

impl Inner {
    fn new(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    fn of_file(path: &Path, text: String) -> Self {
        Self { path: Some(path.to_owned()), ..Self::new(text) }
    }
}

impl TopologyError {
    /// Returns true if a machine was requested by a name that no preset has. A caller that accepts other names can list
    /// them.
    #[cfg(feature = "presets")]
    pub fn is_unknown_machine(&self) -> bool {
        self.inner.is_unknown_machine
    }

    pub(crate) fn folder(path: &Path, problem: impl Display) -> Self {
        let shown = input::path(path);
        Inner::of_file(path, format!("cannot read the folder {shown}: {problem}")).into()
    }

    pub(crate) fn file(path: &Path, problem: impl Display) -> Self {
        Inner::of_file(path, format!("{}: {problem}", input::path(path))).into()
    }

    pub(crate) fn file_at(path: &Path, line: usize, column: usize, problem: impl Display) -> Self {
        let shown = input::path(path);
        let text = format!("{shown}, line {line}, column {column}: {problem}");
        Inner { column: Some(column), ..Inner::of_file(path, text) }.into()
    }

    pub(crate) fn list(path: &Path, source: ParseCpuSetError) -> Self {
        let column = Some(source.column());
        let text = input::path(path).to_string();
        Inner { column, source: Some(source), ..Inner::of_file(path, text) }.into()
    }

    /// `byte` is the position of the problem in `text`.
    pub(crate) fn synthetic(text: &str, byte: usize, problem: impl Display) -> Self {
        let column = text.char_indices().take_while(|(at, _)| *at < byte).count() + 1;
        let text = format!("machine {}, column {column}: {problem}", quoted(text));
        Inner { column: Some(column), ..Inner::new(text) }.into()
    }

    #[cfg(feature = "presets")]
    pub(crate) fn unknown_machine(name: &str, presets: &[&str]) -> Self {
        let text = format!(
            "unknown machine {}: expected {}, or a description such as \"pack:2 numa:1 l3:1 core:8 pu:2\"",
            quoted(name),
            presets.join(", ")
        );
        Inner { is_unknown_machine: true, ..Inner::new(text) }.into()
    }

    #[cfg(feature = "presets")]
    pub(crate) fn preset(name: &str, problem: impl Display) -> Self {
        Inner::new(format!("preset {name}: {problem}")).into()
    }

    pub(crate) fn malformed(name: &str, problem: impl Display) -> Self {
        Inner::new(format!("machine {}: {problem}", quoted(name))).into()
    }

    pub(crate) fn empty_mask() -> Self {
        Inner::new("invalid CPU mask: expected at least one CPU".to_owned()).into()
    }

    pub(crate) fn unknown_cpus(name: &str, missing: &CpuSet, online: &CpuSet) -> Self {
        Inner::new(format!(
            "invalid CPU mask: {} is not online in {}, expected CPUs of {}",
            plain(&missing.to_string()),
            plain(name),
            plain(&online.to_string())
        ))
        .into()
    }

    /// Returns the column of the problem in characters, from 1, if it is in a line of text.
    pub fn column(&self) -> Option<usize> {
        self.inner.column
    }

    /// Returns the file with the problem, if it is in a file.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }
}

impl From<InputError> for TopologyError {
    fn from(error: InputError) -> Self {
        Inner::of_file(error.path(), error.to_string()).into()
    }
}

impl From<Inner> for TopologyError {
    fn from(inner: Inner) -> Self {
        Self { inner: Box::new(inner) }
    }
}

impl Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.text)
    }
}

crate::readable_debug!(TopologyError);

impl std::error::Error for TopologyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|source| source as _)
    }
}

/// Formats the problem of a CPU number that is too high.
pub(crate) fn beyond_max_cpu(found: impl fmt::Display) -> String {
    format!("invalid CPU {found}: expected at most {MAX_CPU}")
}

//! Why a machine could not be read.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::input::{self, InputError, plain, quoted};
use crate::{CpuSet, MAX_CPU, ParseCpuSetError};

/// Why no [`Topology`](crate::Topology) could be made, or no [`Usable`](crate::Usable) be told.
///
/// Its text is one sentence that names the file or string, the place in it, what was found and what
/// is allowed.
pub struct TopologyError {
    // Boxed, so that the happy path does not carry its size.
    kind: Box<TopologyErrorKind>,
}

#[derive(Debug)]
enum TopologyErrorKind {
    Input(InputError),
    Folder {
        path: PathBuf,
        problem: String,
    },
    File {
        path: PathBuf,
        line: Option<usize>,
        column: Option<usize>,
        problem: String,
    },
    List {
        path: PathBuf,
        source: ParseCpuSetError,
    },
    Synthetic {
        text: String,
        column: usize,
        problem: String,
    },
    #[cfg(feature = "presets")]
    UnknownMachine {
        name: String,
        presets: Vec<&'static str>,
    },
    #[cfg(feature = "presets")]
    Preset {
        name: &'static str,
        problem: String,
    },
    Malformed {
        name: String,
        problem: String,
    },
    EmptyMask,
    UnknownCpus {
        name: String,
        missing: CpuSet,
        online: CpuSet,
    },
}

impl TopologyError {
    /// Whether a machine was asked for by a name that no preset has: whoever knows others can name them.
    #[cfg(feature = "presets")]
    #[must_use]
    pub fn is_unknown_machine(&self) -> bool {
        matches!(*self.kind, TopologyErrorKind::UnknownMachine { .. })
    }

    pub(crate) fn folder(path: &Path, problem: impl Into<String>) -> Self {
        TopologyErrorKind::Folder { path: path.to_owned(), problem: problem.into() }.into()
    }

    pub(crate) fn file(path: &Path, problem: impl Into<String>) -> Self {
        Self::file_at(path, None, None, problem)
    }

    pub(crate) fn file_at(
        path: &Path,
        line: Option<usize>,
        column: Option<usize>,
        problem: impl Into<String>,
    ) -> Self {
        TopologyErrorKind::File { path: path.to_owned(), line, column, problem: problem.into() }
            .into()
    }

    pub(crate) fn list(path: &Path, source: ParseCpuSetError) -> Self {
        TopologyErrorKind::List { path: path.to_owned(), source }.into()
    }

    /// `byte` is where in `text` the problem stands.
    pub(crate) fn synthetic(text: &str, byte: usize, problem: impl Into<String>) -> Self {
        let column = text.char_indices().take_while(|(at, _)| *at < byte).count() + 1;
        TopologyErrorKind::Synthetic { text: text.to_owned(), column, problem: problem.into() }
            .into()
    }

    #[cfg(feature = "presets")]
    pub(crate) fn unknown_machine(name: &str, presets: Vec<&'static str>) -> Self {
        TopologyErrorKind::UnknownMachine { name: name.to_owned(), presets }.into()
    }

    #[cfg(feature = "presets")]
    pub(crate) fn preset(name: &'static str, problem: impl Into<String>) -> Self {
        TopologyErrorKind::Preset { name, problem: problem.into() }.into()
    }

    pub(crate) fn malformed(name: &str, problem: impl Into<String>) -> Self {
        TopologyErrorKind::Malformed { name: name.to_owned(), problem: problem.into() }.into()
    }

    pub(crate) fn empty_mask() -> Self {
        TopologyErrorKind::EmptyMask.into()
    }

    pub(crate) fn unknown_cpus(name: &str, missing: CpuSet, online: CpuSet) -> Self {
        TopologyErrorKind::UnknownCpus { name: name.to_owned(), missing, online }.into()
    }

    /// The column of the problem, counted in characters from 1, where it stands in a line of text.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        match &*self.kind {
            TopologyErrorKind::Synthetic { column, .. } => Some(*column),
            TopologyErrorKind::File { column, .. } => *column,
            TopologyErrorKind::List { source, .. } => Some(source.column()),
            _ => None,
        }
    }

    /// The file that the problem is in, where it is in a file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &*self.kind {
            TopologyErrorKind::Input(error) => Some(error.path()),
            TopologyErrorKind::Folder { path, .. }
            | TopologyErrorKind::File { path, .. }
            | TopologyErrorKind::List { path, .. } => Some(path),
            _ => None,
        }
    }
}

impl From<InputError> for TopologyError {
    fn from(error: InputError) -> Self {
        TopologyErrorKind::Input(error).into()
    }
}

impl From<TopologyErrorKind> for TopologyError {
    fn from(kind: TopologyErrorKind) -> Self {
        Self { kind: Box::new(kind) }
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            TopologyErrorKind::Input(error) => error.fmt(f),
            TopologyErrorKind::Folder { path, problem } => {
                write!(f, "cannot read the folder {}: {problem}", input::path(path))
            }
            TopologyErrorKind::File { path, line, column, problem } => {
                write!(f, "{}", input::path(path))?;
                if let Some(line) = line {
                    write!(f, ", line {line}")?;
                }
                if let Some(column) = column {
                    write!(f, ", column {column}")?;
                }
                write!(f, ": {problem}")
            }
            TopologyErrorKind::List { path, .. } => write!(f, "{}", input::path(path)),
            TopologyErrorKind::Synthetic { text, column, problem } => {
                write!(f, "machine {}, column {column}: {problem}", quoted(text))
            }
            #[cfg(feature = "presets")]
            TopologyErrorKind::UnknownMachine { name, presets } => {
                write!(
                    f,
                    "no machine is called {}; there are {}",
                    quoted(name),
                    presets.join(", ")
                )?;
                f.write_str(", and strings such as \"pack:2 numa:1 l3:1 core:8 pu:2\"")
            }
            #[cfg(feature = "presets")]
            TopologyErrorKind::Preset { name, problem } => write!(f, "preset {name}: {problem}"),
            TopologyErrorKind::Malformed { name, problem } => {
                write!(f, "machine {}: {problem}", quoted(name))
            }
            TopologyErrorKind::EmptyMask => {
                f.write_str("the CPU mask is empty; it needs at least one CPU")
            }
            TopologyErrorKind::UnknownCpus { name, missing, online } => {
                write!(
                    f,
                    "the CPU mask holds {}, but the CPUs online in {} are {}",
                    plain(&missing.to_string()),
                    plain(name),
                    plain(&online.to_string())
                )
            }
        }
    }
}

crate::readable_debug!(TopologyError);

impl std::error::Error for TopologyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.kind {
            TopologyErrorKind::List { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The words for a number that no CPU may have.
pub(crate) fn beyond_max_cpu(found: impl fmt::Display) -> String {
    format!("CPU {found} is beyond the highest number allowed, {MAX_CPU}")
}

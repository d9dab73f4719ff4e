//! Why types were not read.

use std::fmt;
use std::path::{Path, PathBuf};

use coreshard_topology::input;

/// Why types were not read. Its text names what was read, the offset, what was found and what is allowed.
pub struct TypesError {
    problem: TypesProblem,
}

#[derive(Debug)]
enum TypesProblem {
    Input(input::InputError),
    Btf { offset: usize, what: String },
    Elf { what: String },
    Dwarf { offset: usize, what: String },
    TooMany { most: usize },
    InFile { file: PathBuf, error: Box<TypesError> },
}

impl TypesError {
    pub(crate) fn btf(offset: usize, what: impl Into<String>) -> Self {
        Self { problem: TypesProblem::Btf { offset, what: what.into() } }
    }

    pub(crate) fn input(error: input::InputError) -> Self {
        Self { problem: TypesProblem::Input(error) }
    }

    pub(crate) fn elf(what: impl fmt::Display) -> Self {
        Self { problem: TypesProblem::Elf { what: what.to_string() } }
    }

    pub(crate) fn dwarf(offset: usize, what: impl fmt::Display) -> Self {
        Self { problem: TypesProblem::Dwarf { offset, what: what.to_string() } }
    }

    /// The error, as one of a file that the program refers to.
    pub(crate) fn in_file(self, file: &Path) -> Self {
        Self { problem: TypesProblem::InFile { file: file.to_owned(), error: Box::new(self) } }
    }

    /// Whether there is no such file.
    pub(crate) fn is_missing_file(&self) -> bool {
        matches!(&self.problem, TypesProblem::Input(error) if error.is_missing())
    }

    pub(crate) fn too_many(most: usize) -> Self {
        Self { problem: TypesProblem::TooMany { most } }
    }
}

impl fmt::Display for TypesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            TypesProblem::Input(error) => write!(f, "{error}"),
            TypesProblem::Btf { offset, what } => {
                write!(f, "BTF at offset {offset}: {}", input::sentence(what))
            }
            TypesProblem::Elf { what } => {
                write!(f, "not an ELF file to be read: {}", input::sentence(what))
            }
            TypesProblem::Dwarf { offset, what } => {
                write!(f, "DWARF at offset {offset:#x}: {}", input::sentence(what))
            }
            TypesProblem::InFile { file, error } => write!(f, "{}: {error}", input::path(file)),
            TypesProblem::TooMany { most } => write!(f, "more than {most} types"),
        }
    }
}

coreshard_topology::readable_debug!(TypesError);

impl std::error::Error for TypesError {}

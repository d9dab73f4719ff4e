//! The error of reading types.

use std::fmt;
use std::path::Path;

use coreshard_topology::input;

/// Types that cannot be read. The message has the input, the offset, the invalid data and the accepted values.
pub struct TypesError {
    text: String,
    is_missing_file: bool,
}

impl TypesError {
    fn new(text: String) -> Self {
        Self { text, is_missing_file: false }
    }

    pub(super) fn btf(offset: usize, what: impl AsRef<str>) -> Self {
        Self::new(format!("BTF at offset {offset}: {}", input::sentence(what.as_ref())))
    }

    pub(super) fn input(error: &input::InputError) -> Self {
        Self { text: error.to_string(), is_missing_file: error.is_missing() }
    }

    pub(super) fn elf(error: impl fmt::Display) -> Self {
        let what = input::sentence(&error.to_string());
        Self::new(format!("not an ELF file to be read: {what}"))
    }

    /// A file with the types of one unit or of several, which is not a program.
    pub(super) fn split_file(ending: &str) -> Self {
        Self::new(format!(
            "a {ending} file of split debug information: expected the program, library or object file that refers to it; \
             the {ending} file is found from there"
        ))
    }

    pub(super) fn dwarf(offset: usize, error: impl fmt::Display) -> Self {
        let what = input::sentence(&error.to_string());
        Self::new(format!("DWARF at offset {offset:#x}: {what}"))
    }

    pub(super) fn too_many(most: usize) -> Self {
        Self::new(format!("more than {most} types"))
    }

    /// Returns the error as an error in a file that the program refers to.
    pub(super) fn in_file(self, file: &Path) -> Self {
        Self { text: format!("{}: {}", input::path(file), self.text), ..self }
    }

    /// Whether the file does not exist.
    pub(super) const fn is_missing_file(&self) -> bool {
        self.is_missing_file
    }
}

impl fmt::Display for TypesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

coreshard_topology::readable_debug!(TypesError);

impl std::error::Error for TypesError {}

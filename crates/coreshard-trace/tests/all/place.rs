//! A temporary folder with sources and the programs that a compiler makes from them.

use std::path::{Path, PathBuf};
use std::process::Command;

use coreshard_trace::{Binary, TypeTable};
use tempfile::TempDir;

/// The sources and programs of one test.
pub(crate) struct Place(pub(crate) TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Runs a compiler in this folder; false if there is none.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let output = Command::new(program).args(arguments).current_dir(self.0.path()).output();
        let output = match output {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return false,
            output => output.unwrap(),
        };
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        true
    }

    /// Returns the files whose names have this suffix.
    pub(crate) fn files(&self, ending: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|file| file.to_string_lossy().ends_with(ending)).collect()
    }

    /// Deletes the files whose names have this suffix, and returns their number.
    pub(crate) fn delete(&self, ending: &str) -> usize {
        let files = self.files(ending);
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        files.len()
    }
}

pub(crate) fn types(program: &Path) -> TypeTable {
    Binary::open(program).unwrap().types().unwrap()
}

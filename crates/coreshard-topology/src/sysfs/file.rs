//! Small files of `/sys`, `/proc` and cgroups. A missing file is `None`. A file that cannot be read or parsed is an
//! error that names it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::input::{self, FOLDER_ENTRIES, InputError, LIST_BYTES, NUMBER_BYTES, quoted};
use crate::{CpuSet, TopologyError};

/// A folder to read files from.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self, name: impl AsRef<Path>) -> Self {
        Self { path: self.path.join(name) }
    }

    /// Reads a file of at most `most_bytes` bytes as text.
    pub(crate) fn text(
        &self,
        name: impl AsRef<Path>,
        most_bytes: u64,
    ) -> Result<Option<String>, TopologyError> {
        present(input::text(&self.path.join(name), most_bytes))
    }

    /// Like [`text`](Self::text), for a table with arbitrary names in any bytes.
    pub(crate) fn table(
        &self,
        name: impl AsRef<Path>,
        most_bytes: u64,
    ) -> Result<Option<String>, TopologyError> {
        present(input::lossy(&self.path.join(name), most_bytes))
    }

    /// Reads the word of a file; `None` if it is empty.
    pub(crate) fn word(&self, name: impl AsRef<Path>) -> Result<Option<String>, TopologyError> {
        let text = self.text(name, NUMBER_BYTES)?;
        let word = text.as_deref().map(trimmed).filter(|word| !word.is_empty());
        Ok(word.map(str::to_owned))
    }

    /// Reads a whole number. The kernel writes a negative number, and recordings an empty file, if it is unknown.
    pub(crate) fn number(&self, name: impl AsRef<Path>) -> Result<Option<u32>, TopologyError> {
        let name = name.as_ref();
        let Some(word) = self.word(name)? else { return Ok(None) };
        match word.parse::<i64>() {
            Ok(number) if number < 0 => Ok(None),
            Ok(number) => u32::try_from(number).map(Some).map_err(|_| {
                let problem = format!("expected a number of at most 32 bits, found {number}");
                TopologyError::file(&self.path.join(name), problem)
            }),
            Err(_) => {
                let problem = format!("expected a whole number, found {}", quoted(&word));
                Err(TopologyError::file(&self.path.join(name), problem))
            }
        }
    }

    /// Reads a set of CPUs in list format.
    pub(crate) fn list(&self, name: impl AsRef<Path>) -> Result<Option<CpuSet>, TopologyError> {
        self.set(name.as_ref(), str::parse)
    }

    /// Reads the first existing set of CPUs among files. Names that end in `list` hold a list, others a mask.
    pub(crate) fn first_set(&self, names: &[&str]) -> Result<Option<CpuSet>, TopologyError> {
        for name in names {
            let is_list = name.ends_with("list");
            let set = self.set(name.as_ref(), if is_list { str::parse } else { CpuSet::from_mask });
            // Ignore an empty set: each object belongs to at least one CPU.
            if let Some(set) = set?.filter(|set| !set.is_empty()) {
                return Ok(Some(set));
            }
        }
        Ok(None)
    }

    fn set(
        &self,
        name: &Path,
        parse: impl Fn(&str) -> Result<CpuSet, crate::ParseCpuSetError>,
    ) -> Result<Option<CpuSet>, TopologyError> {
        let Some(text) = self.text(name, LIST_BYTES)? else { return Ok(None) };
        let text = trimmed(&text);
        if text.is_empty() {
            return Ok(Some(CpuSet::new()));
        }
        let set = parse(text).map_err(|error| TopologyError::list(&self.path.join(name), error))?;
        Ok(Some(set))
    }

    /// Returns the numbers N of entries named `prefixN`, ascending; none if the folder is missing.
    pub(crate) fn numbered(&self, prefix: &str) -> Result<Vec<u32>, TopologyError> {
        let fail = |error: std::io::Error| TopologyError::folder(&self.path, error.to_string());
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if is_missing(error.kind()) => return Ok(Vec::new()),
            Err(error) => return Err(fail(error)),
        };
        let mut numbers = Vec::new();
        for (looked_at, entry) in entries.enumerate() {
            if looked_at == FOLDER_ENTRIES {
                let problem = format!("expected at most {FOLDER_ENTRIES} entries");
                return Err(TopologyError::folder(&self.path, problem));
            }
            let name = entry.map_err(fail)?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(prefix));
            let number = digits.and_then(|digits| digits.parse::<u32>().ok());
            // Only in the kernel's format: `cpu01` and `cpu+1` are not `cpu1`.
            numbers.extend(number.filter(|number| digits == Some(number.to_string().as_str())));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Returns the text, or `None` if the file is missing.
pub(crate) fn present(read: Result<String, InputError>) -> Result<Option<String>, TopologyError> {
    match read {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes white space, and the zero bytes at the end of some recordings.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace())
}

fn is_missing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

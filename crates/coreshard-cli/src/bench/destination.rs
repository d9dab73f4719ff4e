//! Where results go.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::failure::bad_input;

/// A file that was found to be writable before the benchmark, and is written after it.
///
/// Until then a file that was there keeps what it holds, and one that was not is removed again if
/// nothing comes of the benchmark.
#[derive(Debug)]
pub(crate) struct Destination {
    path: PathBuf,
    file: File,
    is_new: bool,
}

impl Destination {
    /// Opens `path` for writing.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let open = |new: bool| OpenOptions::new().write(true).create_new(new).open(path);
        let (opened, is_new) = match open(true) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => (open(false), false),
            opened => (opened, true),
        };
        let file = opened
            .with_context(|| format!("the report {} cannot be written", path.display()))
            .map_err(bad_input)?;
        Ok(Self { path: path.to_owned(), file, is_new })
    }

    /// Replaces what the file holds.
    pub(crate) fn write(
        mut self,
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> anyhow::Result<()> {
        // Whatever comes of it, something of worth may be in it from here on.
        self.is_new = false;
        let written = || {
            // A device or a pipe has no length.
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            let mut out = BufWriter::new(&self.file);
            write(&mut out)?;
            out.flush()
        };
        written().with_context(|| format!("cannot write the report {}", self.path.display()))
    }

    /// Fails where `file`, which the command reads or writes otherwise, is the same one, by whatever
    /// name.
    pub(crate) fn is_not(&self, file: &Path) -> anyhow::Result<()> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let (Ok(one), Ok(other)) = (self.file.metadata(), fs::metadata(file)) else {
            return Ok(());
        };
        let is_device = one.file_type().is_block_device() && one.rdev() == other.rdev();
        if is_device || (one.dev(), one.ino()) == (other.dev(), other.ino()) {
            let (own, file) = (self.path.display(), file.display());
            let problem = format!(
                "the report {own} is the same file as {file}, which it would replace; give another name"
            );
            return Err(bad_input(anyhow::Error::msg(problem)));
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if self.is_new {
            // Nothing is lost with an empty file, and nobody could be told of a failure here.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_something_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        drop(Destination::open(&path).unwrap());
        assert!(!path.exists(), "made for nothing, and removed");

        let destination = Destination::open(&path).unwrap();
        destination.write(|out| out.write_all(b"a long first report")).unwrap();
        drop(Destination::open(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"a long first report");

        let destination = Destination::open(&path).unwrap();
        destination.write(|out| out.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
    }

    #[test]
    fn a_device_can_be_written() {
        let destination = Destination::open(Path::new("/dev/null")).unwrap();
        destination.write(|out| out.write_all(b"gone")).unwrap();
    }
}

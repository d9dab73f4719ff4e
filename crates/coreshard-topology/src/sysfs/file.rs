//! Small files of `/sys`, `/proc` and cgroups. A file that is not there is `None`; one that cannot be
//! read, or that holds something else than it should, is an error that names it.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::{CpuSet, TopologyError};

/// Far more than any file read here holds: `/proc/cpuinfo` of 8,192 CPUs is about 16 MB.
const MOST_BYTES: u64 = 64 << 20;

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

    /// The whole text of a file.
    pub(crate) fn text(&self, name: impl AsRef<Path>) -> Result<Option<String>, TopologyError> {
        text(&self.path.join(name))
    }

    /// A whole number; a negative one is how the kernel says "not known".
    pub(crate) fn number(&self, name: impl AsRef<Path>) -> Result<Option<u32>, TopologyError> {
        let name = name.as_ref();
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.trim().parse::<i64>() {
            Ok(number) if number < 0 => Ok(None),
            Ok(number) => u32::try_from(number).map(Some).map_err(|_| {
                let problem = format!("expected a number of at most 32 bits, found {number}");
                TopologyError::file(&self.path.join(name), problem)
            }),
            Err(_) => {
                let problem = format!("expected a whole number, found {:?}", text.trim());
                Err(TopologyError::file(&self.path.join(name), problem))
            }
        }
    }

    /// A set of CPUs, in list format.
    pub(crate) fn list(&self, name: impl AsRef<Path>) -> Result<Option<CpuSet>, TopologyError> {
        self.set(name.as_ref(), str::parse)
    }

    /// The first set of CPUs there is among files, whose names tell whether they hold a list
    /// (`…list`) or a mask.
    pub(crate) fn first_set(&self, names: &[&str]) -> Result<Option<CpuSet>, TopologyError> {
        for name in names {
            let is_list = name.ends_with("list");
            let set = self.set(name.as_ref(), if is_list { str::parse } else { CpuSet::from_mask });
            if let Some(set) = set? {
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
        let Some(text) = self.text(name)? else { return Ok(None) };
        let set =
            parse(&text).map_err(|error| TopologyError::list(&self.path.join(name), error))?;
        Ok(Some(set))
    }

    /// The numbers N of the entries called `prefixN`, ascending; none if the folder is missing.
    pub(crate) fn numbered(&self, prefix: &str) -> Result<Vec<u32>, TopologyError> {
        let fail = |error| TopologyError::read(&self.path, error);
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            Err(error) => return Err(fail(error)),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(fail)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
            numbers.extend(number.and_then(|number| number.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// The whole text of a file.
pub(crate) fn text(path: &Path) -> Result<Option<String>, TopologyError> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    match read {
        Ok(_) => {}
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(TopologyError::read(path, error)),
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| TopologyError::file(path, "expected text, found other bytes"))
}

/// A file that is not there, or that the kernel has no answer for (`ENODEV`, and `ENXIO` from files
/// of a CPU that went offline meanwhile).
fn is_missing(error: &std::io::Error) -> bool {
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || matches!(error.raw_os_error(), Some(ENXIO | ENODEV))
}

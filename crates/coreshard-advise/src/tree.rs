//! A tree of small files: this machine's `/`, or a recorded one. A missing file is `None`. An unusable file is `None`
//! with a note, so that one bad file does not affect the others.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use coreshard_topology::input::{self, LIST_BYTES, NUMBER_BYTES, TABLE_BYTES, quoted};
use coreshard_topology::{CpuSet, ParseCpuSetError};

/// Maximum number of notes. A tree of garbage would produce too many.
const MOST_NOTES: usize = 40;
/// Maximum number of entries of a folder that are read. No known machine has as many devices of a kind.
const MOST_ENTRIES: usize = 8_192;
/// Maximum distance between a device and its PCI function.
const MOST_ANCESTORS: usize = 12;

#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    /// Without links. Paths outside it are not part of the tree.
    real_root: Option<PathBuf>,
    notes: RefCell<Notes>,
    /// Folders that were read, and whether links to them lead out of the tree.
    folders_outside: RefCell<HashMap<PathBuf, bool>>,
}

#[derive(Debug, Default)]
struct Notes {
    kept: Vec<String>,
    more: usize,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        let real_root = fs::canonicalize(root).ok();
        Self {
            root: root.to_owned(),
            real_root,
            notes: RefCell::default(),
            folders_outside: RefCell::default(),
        }
    }

    /// Returns the notes, one sentence each, for display.
    pub(crate) fn into_notes(self) -> Vec<String> {
        let Notes { mut kept, more } = self.notes.into_inner();
        if more > 0 {
            kept.push(format!("{more} more files were not usable"));
        }
        kept
    }

    pub(crate) fn note(&self, note: impl fmt::Display) {
        let mut notes = self.notes.borrow_mut();
        if notes.kept.len() < MOST_NOTES {
            notes.kept.push(input::sentence(&note.to_string()));
        } else {
            notes.more += 1;
        }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// Returns true if links lead from this path out of the tree. Endless and dangling links are reported when they are
    /// read.
    fn is_outside(&self, path: &Path) -> bool {
        let Some(root) = self.real_root.as_deref().filter(|root| root.parent().is_some()) else {
            return false;
        };
        let leads_out = |path: &Path| fs::canonicalize(path).is_ok_and(|it| !it.starts_with(root));
        match (fs::symlink_metadata(path), path.parent()) {
            (Ok(found), Some(folder)) if !found.is_symlink() => {
                let mut known = self.folders_outside.borrow_mut();
                if let Some(is_outside) = known.get(folder) {
                    return *is_outside;
                }
                *known.entry(folder.to_owned()).or_insert(leads_out(folder))
            }
            (Ok(_), _) => leads_out(path),
            (Err(_), _) => false,
        }
    }

    /// Returns the path to read, or `None` with a note if it leads out of the tree.
    fn within(&self, name: impl AsRef<Path>) -> Option<PathBuf> {
        let path = self.path(name);
        if self.is_outside(&path) {
            self.note_outside(&path);
            return None;
        }
        Some(path)
    }

    fn note_outside(&self, path: &Path) {
        self.note(format_args!("{} leads out of the tree and was not followed", input::path(path)));
    }

    pub(crate) fn has(&self, name: impl AsRef<Path>) -> bool {
        let path = self.path(name);
        path.exists() && !self.is_outside(&path)
    }

    /// Returns what was read; `None` if it is missing, or with a note if it is unusable.
    fn usable(&self, read: Result<String, input::InputError>) -> Option<String> {
        read.inspect_err(|error| {
            if !error.is_missing() {
                self.note(error);
            }
        })
        .ok()
    }

    /// Reads a table, which may contain any names.
    pub(crate) fn table(&self, name: impl AsRef<Path>) -> Option<String> {
        self.usable(input::lossy(&self.within(name)?, TABLE_BYTES))
    }

    /// Reads the beginning of a file that may be long.
    pub(crate) fn head(&self, name: impl AsRef<Path>) -> Option<String> {
        input::head(&self.within(name)?, input::HEAD_BYTES).ok()
    }

    fn trimmed(&self, name: &Path, most_bytes: u64) -> Option<String> {
        let text = self.usable(input::text(&self.within(name)?, most_bytes))?;
        let text = text.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace());
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Reads a file with one word or line.
    pub(crate) fn word(&self, name: impl AsRef<Path>) -> Option<String> {
        self.trimmed(name.as_ref(), NUMBER_BYTES)
    }

    /// Parses the word in a file.
    pub(crate) fn parsed<T>(
        &self,
        name: impl AsRef<Path>,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let name = name.as_ref();
        let word = self.word(name)?;
        let value = parse(&word);
        if value.is_none() {
            let path = self.path(name);
            self.note(format_args!(
                "{}: expected {expected}, found {}",
                input::path(&path),
                quoted(&word)
            ));
        }
        value
    }

    pub(crate) fn number(&self, name: impl AsRef<Path>) -> Option<i64> {
        self.parsed(name, "a whole number", |word| word.parse().ok())
    }

    pub(crate) fn count(&self, name: impl AsRef<Path>) -> Option<u64> {
        self.parsed(name, "a whole number, at least 0", |word| word.parse().ok())
    }

    pub(crate) fn flag(&self, name: impl AsRef<Path>) -> Option<bool> {
        self.parsed(name, "Y, N, 1 or 0", |word| match word {
            "Y" | "y" | "1" => Some(true),
            "N" | "n" | "0" => Some(false),
            _ => None,
        })
    }

    /// Reads CPUs as a list (`0-3,8`).
    pub(crate) fn list(&self, name: impl AsRef<Path>) -> Option<CpuSet> {
        self.cpus(name.as_ref(), str::parse)
    }

    /// Reads CPUs as a mask (`ff,00000000`).
    pub(crate) fn mask(&self, name: impl AsRef<Path>) -> Option<CpuSet> {
        self.cpus(name.as_ref(), CpuSet::from_mask)
    }

    fn cpus(
        &self,
        name: &Path,
        parse: impl Fn(&str) -> Result<CpuSet, ParseCpuSetError>,
    ) -> Option<CpuSet> {
        let text = self.trimmed(name, LIST_BYTES);
        // The kernel writes an empty list for none.
        let Some(text) = text else { return self.has(name).then(CpuSet::new) };
        match parse(&text) {
            Ok(cpus) => Some(cpus),
            Err(error) => {
                self.note(format_args!("{}: {error}", input::path(&self.path(name))));
                None
            }
        }
    }

    /// Returns the names in a folder, sorted, or none if the folder is missing.
    pub(crate) fn names(&self, name: impl AsRef<Path>) -> Vec<String> {
        let Some(path) = self.within(name) else { return Vec::new() };
        let Ok(entries) = fs::read_dir(&path) else { return Vec::new() };
        let mut names = Vec::new();
        for entry in entries.flatten() {
            if names.len() == MOST_ENTRIES {
                self.note(format_args!(
                    "{} has more than {MOST_ENTRIES} entries; the others were ignored",
                    input::path(&path)
                ));
                break;
            }
            match entry.file_name().into_string() {
                Ok(name) if name.chars().all(input::is_plain) => names.push(name),
                _ => self.note(format_args!(
                    "a name in {} is not plain text; the entry was ignored",
                    input::path(&path)
                )),
            }
        }
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        names
    }

    /// Follows a link such as `sys/block/sda/device` within the tree.
    pub(crate) fn device(&self, name: impl AsRef<Path>) -> Option<Device<'_>> {
        let path = self.path(name);
        let real = fs::canonicalize(&path).ok()?;
        let root = self.real_root.as_deref()?;
        match real.strip_prefix(root) {
            Ok(within) => Some(Device { tree: self, path: within.to_owned() }),
            Err(_) => {
                self.note_outside(&path);
                None
            }
        }
    }
}

/// Splits off the number at the end, so that `sda2` sorts before `sda10`.
fn natural(name: &str) -> (&str, usize, &str) {
    let digits = name.len() - name.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let (stem, number) = name.split_at(name.len() - digits);
    (stem, digits, number)
}

/// A device folder below `sys/devices`.
#[derive(Clone, Debug)]
pub(crate) struct Device<'tree> {
    tree: &'tree Tree,
    path: PathBuf,
}

impl Device<'_> {
    /// Returns the folders from the device to the root of its bus.
    fn ancestors(&self) -> impl Iterator<Item = &Path> {
        self.path.ancestors().take(MOST_ANCESTORS).take_while(|path| path.components().count() > 2)
    }

    /// Returns the NUMA node of the nearest ancestor that has one.
    pub(crate) fn node(&self) -> Option<u32> {
        let file =
            self.ancestors().map(|path| path.join("numa_node")).find(|it| self.tree.has(it))?;
        // The kernel writes -1 for an unknown node.
        u32::try_from(self.tree.number(file)?).ok()
    }

    /// Returns the interrupts of the nearest ancestor that has some.
    pub(crate) fn interrupts(&self) -> Vec<u32> {
        for path in self.ancestors() {
            let numbers = self.tree.names(path.join("msi_irqs"));
            let mut numbers: Vec<u32> = numbers.iter().filter_map(|it| it.parse().ok()).collect();
            if numbers.is_empty() && self.tree.has(path.join("irq")) {
                let one = self.tree.number(path.join("irq"));
                // 0 means that the device has no interrupt.
                numbers.extend(one.and_then(|it| u32::try_from(it).ok()).filter(|it| *it > 0));
            }
            if !numbers.is_empty() {
                numbers.sort_unstable();
                return numbers;
            }
        }
        Vec::new()
    }
}

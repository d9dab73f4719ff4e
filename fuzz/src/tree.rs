//! A tree of small files in memory, created from an input. A line that begins with `=` names a file, and the following
//! lines are its contents. A file that begins with `->` is a link.
//!
//! Each thread has one folder. Only differences from the previous input are written: most mutations affect one of
//! thirty files, and creating all of them costs more than reading them. The tree does not depend on earlier inputs.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const MOST_FILES: usize = 200;
const MOST_DEPTH: usize = 11;

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Bytes(Vec<u8>),
    Link(PathBuf),
}

type Entries = BTreeMap<PathBuf, Entry>;

/// Calls `f` with the folder that holds what `data` says.
pub(super) fn with<R>(data: &[u8], f: impl FnOnce(&Path) -> R) -> R {
    thread_local! {
        static FOLDER: RefCell<Folder> = RefCell::new(Folder::new());
    }
    FOLDER.with_borrow_mut(|folder| {
        folder.become_(wanted(data));
        f(&folder.path)
    })
}

/// What an input says.
fn wanted(data: &[u8]) -> Entries {
    let mut files: Vec<(&Path, Vec<u8>)> = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        if let Some(name) = line.strip_prefix(b"=") {
            let Some(path) = std::str::from_utf8(name).ok().map(Path::new) else { continue };
            let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
            let depth = path.components().count();
            if is_inside && (1..=MOST_DEPTH).contains(&depth) && files.len() < MOST_FILES {
                files.push((path, Vec::new()));
            }
        } else if let Some((_, bytes)) = files.last_mut() {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
    }
    let mut entries = Entries::new();
    for (path, bytes) in files {
        let link = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_prefix("->"));
        let link = link.map(str::trim_end).filter(|link| !link.is_empty() && !link.contains('\0'));
        let entry = link.map(PathBuf::from).map_or(Entry::Bytes(bytes), Entry::Link);
        // As `components` has it, so that a file has one name.
        entries.insert(path.components().collect(), entry);
    }
    // A file is not a folder, and nothing may be written below a link, which may lead anywhere.
    let names: BTreeSet<PathBuf> = entries.keys().cloned().collect();
    entries.retain(|path, _| path.ancestors().skip(1).all(|above| !names.contains(above)));
    entries
}

struct Folder {
    path: PathBuf,
    entries: Entries,
}

impl Folder {
    /// Uses memory if available, unless `TMPDIR` names another folder.
    fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let memory = Path::new("/dev/shm");
        let place = match std::env::var_os("TMPDIR") {
            None if memory.is_dir() => memory.to_owned(),
            _ => std::env::temp_dir(),
        };
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("coreshard-fuzz-{}-{number}", std::process::id()));
        // Of a process of this number that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for the machine can be made");
        Self { path, entries: Entries::new() }
    }

    fn become_(&mut self, wanted: Entries) {
        let path = &self.path;
        self.entries.retain(|name, entry| {
            let stays = wanted.get(name) == Some(entry);
            if !stays {
                fs::remove_file(path.join(name)).expect("a created file can be removed");
                remove_empty(path, name);
            }
            stays
        });
        for (name, entry) in wanted {
            if self.entries.contains_key(&name) {
                continue;
            }
            let at = path.join(&name);
            // A name may be too long.
            let _ = at.parent().map(fs::create_dir_all);
            let made = match &entry {
                Entry::Bytes(bytes) => fs::write(&at, bytes),
                Entry::Link(to) => symlink(to, &at),
            };
            if made.is_ok() {
                self.entries.insert(name, entry);
            } else {
                remove_empty(path, &name);
            }
        }
    }
}

/// Removes empty folders above a file, which parsers could see although the input does not contain them.
fn remove_empty(root: &Path, name: &Path) {
    for above in name.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()) {
        match fs::remove_dir(root.join(above)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => break,
            _ => {}
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

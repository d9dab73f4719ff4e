//! The regular files below a folder, one after another.

use std::cmp::Ordering;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

/// The order of listed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By the bytes of the path, like the output of `find` through `LC_ALL=C sort`. The names in one folder
    /// are held in memory for each level of the tree.
    ByPath,
    /// As the file system lists them.
    AsListed,
}

/// A file or folder that could not be read, and why.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) what: String,
    pub(crate) why: String,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// Returns the regular files below `root`, or `root` itself if it is one. Symbolic links are followed at the
/// root only. A folder that cannot be read is one error, and the walk continues.
pub(crate) fn files(root: &Path, order: Order) -> impl Iterator<Item = Result<PathBuf, Unread>> {
    let walk = WalkDir::new(root);
    let walk = match order {
        Order::ByPath => walk.sort_by(by_path),
        Order::AsListed => walk,
    };
    let shown_root = root.to_owned();
    walk.into_iter().filter_map(move |entry| match entry {
        Ok(entry) if entry.file_type().is_file() || is_linked_root(&entry) => {
            Some(Ok(entry.into_path()))
        }
        Ok(_) => None,
        Err(error) => {
            let what = format!("{:?}", error.path().unwrap_or(&shown_root));
            let why = match error.io_error() {
                Some(io) => io.to_string(),
                None => error.to_string(),
            };
            Some(Err(Unread { what, why }))
        }
    })
}

/// Whether the entry is the root and a symbolic link to a regular file.
fn is_linked_root(entry: &DirEntry) -> bool {
    entry.depth() == 0 && entry.path_is_symlink() && entry.path().is_file()
}

/// The order of two entries of one folder in a list of whole paths: a slash follows a folder's name, and a
/// longer sibling name is compared with that slash.
fn by_path(a: &DirEntry, b: &DirEntry) -> Ordering {
    path_bytes(a).cmp(path_bytes(b))
}

fn path_bytes(entry: &DirEntry) -> impl Iterator<Item = u8> {
    let slash = entry.file_type().is_dir().then_some(b'/');
    entry.file_name().as_bytes().iter().copied().chain(slash)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_order_is_that_of_whole_paths() {
        let root = tempfile::tempdir().unwrap();
        // In a list of names, "a" stands before "a-b" and "a.c"; in one of paths, "a/" stands after them.
        for folder in ["a", "a-b", "B", "a/é"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        let names = ["a/x", "a-b/x", "a.c", "B/z", "a0", "a/é/1", "a/é0", "~", "_"];
        for name in names {
            fs::write(root.path().join(name), "").unwrap();
        }
        let mut wanted: Vec<PathBuf> = names.iter().map(|name| root.path().join(name)).collect();
        wanted.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
        let found: Vec<PathBuf> = files(root.path(), Order::ByPath).map(Result::unwrap).collect();
        assert_eq!(found, wanted);
        let mut listed: Vec<PathBuf> =
            files(root.path(), Order::AsListed).map(Result::unwrap).collect();
        listed.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
        assert_eq!(listed, wanted);
    }

    #[test]
    fn links_are_followed_at_the_root_only() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("folder/file"), "").unwrap();
        symlink(at("folder"), at("to-folder")).unwrap();
        symlink(at("folder/file"), at("folder/to-file")).unwrap();
        symlink(at("folder"), at("folder/loop")).unwrap();
        let found = |name: &str| -> Vec<PathBuf> {
            files(&at(name), Order::ByPath).map(Result::unwrap).collect()
        };
        assert_eq!(found("folder"), [at("folder/file")]);
        assert_eq!(found("to-folder"), [at("to-folder/file")]);
        assert_eq!(found("folder/file"), [at("folder/file")]);
        assert_eq!(found("folder/to-file"), [at("folder/to-file")]);
    }
}

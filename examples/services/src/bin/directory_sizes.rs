//! Counts the files below a folder, and their bytes, by extension: in a scope, the item of each folder queues items for its
//! subfolders.
//!
//! ```text
//! directory-sizes src
//!        31     184320  rs
//!         2       4096  md
//! ```
//!
//! Links are not followed. Folders that cannot be read are reported on standard error, and the exit status is 1 then.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::Parser;
use coreshard::WorkScope;

#[derive(Parser)]
struct Arguments {
    folder: PathBuf,
}

/// The results of all folders.
#[derive(Default)]
struct Found {
    /// Files and bytes.
    by_extension: BTreeMap<OsString, (u64, u64)>,
    unread: Vec<(PathBuf, io::Error)>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let queue = coreshard::workqueue()?.name("folders").build()?;
    let found = Mutex::new(Found::default());
    queue.scope(|scope| visit(scope, arguments.folder, &found));
    let Found { by_extension, unread } = found.into_inner().expect("no folder panics");
    let mut output = io::stdout().lock();
    for (extension, (files, bytes)) in by_extension {
        writeln!(output, "{files:>10} {bytes:>14}  {}", extension.display())?;
    }
    for (path, error) in &unread {
        writeln!(io::stderr(), "{}: {error}", path.display())?;
    }
    Ok(if unread.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn visit<'scope>(
    scope: &'scope WorkScope<'scope, '_>,
    folder: PathBuf,
    found: &'scope Mutex<Found>,
) {
    let mut own = Found::default();
    let folders = look(&folder, &mut own).unwrap_or_else(|error| {
        own.unread.push((folder, error));
        Vec::new()
    });
    for folder in folders {
        scope.queue(move || visit(scope, folder, found)).expect("the queue is open");
    }
    // Locked once for each folder, not for each file.
    let mut found = found.lock().expect("no folder panics");
    for (extension, (files, bytes)) in own.by_extension {
        let entry = found.by_extension.entry(extension).or_default();
        *entry = (entry.0 + files, entry.1 + bytes);
    }
    found.unread.append(&mut own.unread);
}

/// Counts a folder's files. Returns its subfolders.
fn look(folder: &Path, own: &mut Found) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    // Another worker takes this worker's place while it waits for the disk.
    let entries = coreshard::blocking(|| fs::read_dir(folder).map(Iterator::collect::<Vec<_>>))?;
    for entry in entries {
        let entry = entry?;
        let counted = entry.metadata().map(|metadata| {
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file() {
                let path = entry.path();
                let extension = path.extension().unwrap_or_default().to_owned();
                let entry = own.by_extension.entry(extension).or_default();
                *entry = (entry.0 + 1, entry.1 + metadata.len());
            }
        });
        counted.unwrap_or_else(|error| own.unread.push((entry.path(), error)));
    }
    Ok(folders)
}

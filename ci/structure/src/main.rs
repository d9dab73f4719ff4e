//! Checks the structure of each crate: `structure [FOLDER]`. FOLDER is the root of a checkout. For adapters and bindings,
//! checks only circles and owners.
//!
//! - *No circle of files.* A file that uses another one's names depends on it, and files that depend on each other
//!   can be understood, tested and changed only together.
//! - *No circle of folders.* The same for sibling modules. A folder has the dependencies of all files in it.
//! - *Few neighbours.* A module directly below a crate's root imports at most seven of the others there.
//! - *One owner.* A type's own methods lie in at most two files of a folder, files of one folder do not call one another's methods in a
//!   circle of more than three, and a folder has at most thirty files.
//! - *A type's name is unique within its crate*, so that a reader knows which type is meant.
//! - *An example for every method* of the types that users write against, and for every free function: a program in
//!   the documentation, which is run.
//!
//! Tests are left out: items with `#[cfg(test)]`, and the files of such modules.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

mod arrows;
mod circles;
mod examples;
mod folders;
mod krate;
mod names;
mod owners;
mod uses;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use krate::Crate;

#[cfg(test)]
testing::watch!();

fn main() -> ExitCode {
    let root = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    match check(Path::new(&root)) {
        Ok((crates, shown, breaches)) if breaches.is_empty() => {
            println!(
                "structure: {crates} crates, no circle of files or folders, one owner of each type, no room of many neighbours, no type name twice, \
                 {shown} functions with an example"
            );
            ExitCode::SUCCESS
        }
        Ok((_, _, breaches)) => {
            breaches.iter().for_each(|breach| eprintln!("invariant broken: {breach}\n"));
            eprintln!("structure: {} broken", breaches.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("structure: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns the number of crates, the number of functions with an example, and the broken rules.
fn check(root: &Path) -> Result<(usize, usize, Vec<String>), String> {
    let (mut crates, mut shown, mut breaches) = (0, 0, Vec::new());
    for group in ["crates", "adapters", "bindings"] {
        for folder in packages(&root.join(group))? {
            let read = Crate::read(&folder)?;
            crates += 1;
            let arrows = arrows::of(&read);
            breaches.extend(circles::find(&read, &arrows));
            breaches.extend(folders::find_circles(&read, &arrows));
            breaches.extend(owners::find(&read));
            if group == "crates" {
                breaches.extend(folders::find_crowded(&read, &arrows));
                breaches.extend(names::find_doubles(&read));
                let (with_example, without) = examples::find_missing(&read);
                shown += with_example;
                breaches.extend(without);
            }
        }
    }
    if crates == 0 {
        Err(format!("{:?} has no crates", root.join("crates")))
    } else {
        Ok((crates, shown, breaches))
    }
}

/// The packages in a folder; none if the folder does not exist.
fn packages(folder: &Path) -> Result<Vec<PathBuf>, String> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{folder:?}: {error}"))?;
    let mut folders: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.retain(|folder| folder.join("Cargo.toml").exists());
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
mod tests;

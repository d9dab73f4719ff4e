//! Checks the structure of each crate: `structure [FOLDER]`, where FOLDER is the root of a checkout. Of adapters and bindings, that
//! there is no circle, and one owner of each type.
//!
//! - *No circle of files.* A file that uses another one's names leans on it, and what leans on each other
//!   can be understood, tested and changed only together.
//! - *No circle of folders.* The same for modules beside one another, where all that lies in a folder is the folder's.
//! - *Few neighbours.* A module directly below a crate's root imports at most seven of the others there.
//! - *One owner.* A type's own methods lie in at most two files of a folder, files of one folder do not call one another's methods in a
//!   circle of more than three, and a folder has at most thirty files.
//! - *A type's name is unique within its crate*, so that whoever reads it knows which one is meant.
//! - *An example for every method* of the types that a user writes against, and for every free function: in its
//!   documentation stands a program that is run.
//!
//! Tests are left out: what stands behind `#[cfg(test)]`, and files of modules that do.
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

/// How many crates there are, how many functions with an example, and what is broken.
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

/// The folders here that are packages; none if there is no such folder.
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

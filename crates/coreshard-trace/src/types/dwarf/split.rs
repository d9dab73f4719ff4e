//! Split debug information: files with types that the program's own debug information only refers to.
//!
//! The program has a skeleton of each unit, which has an id and the name of a `.dwo` file. This file has the unit with
//! the same id.
//! A `.dwp` file beside the program combines many `.dwo` files.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use coreshard_topology::input;
use gimli::{AttributeValue, Reader as _};

use super::sections::{Dwarf, Package, Slice, Unit, read_dwo, read_dwp};

/// The places to search for the split units of one program.
#[derive(Default)]
pub(in crate::types) struct SplitFiles {
    /// Candidates for the program's `.dwp` file.
    packages: Vec<PathBuf>,
    /// Folders with `.dwo` files, in addition to the folders in skeletons.
    folders: Vec<PathBuf>,
    package: OnceLock<Result<Package, Option<String>>>,
}

/// A skeleton's reference to the file with its unit.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) id: gimli::DwoId,
    name: PathBuf,
    /// The working directory of the compiler.
    compiled_in: Option<PathBuf>,
}

impl Reference {
    /// Returns the reference of a skeleton, or none if the unit is not split.
    pub(super) fn of(dwarf: &Dwarf, unit: &Unit) -> Option<Self> {
        let id = unit.dwo_id?;
        let root = unit.entry(unit.header.root_offset()).ok()?;
        let name: AttributeValue<Slice> = root
            .attr_value(gimli::DW_AT_dwo_name)
            .or_else(|| root.attr_value(gimli::DW_AT_GNU_dwo_name))?;
        let name = dwarf.attr_string(unit, name).ok()?;
        Self::new(id, &name, unit.comp_dir.as_ref())
    }

    pub(super) fn new(id: gimli::DwoId, name: &Slice, folder: Option<&Slice>) -> Option<Self> {
        let path_of = |value: &Slice| {
            let bytes = value.to_slice().ok()?;
            (!bytes.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(&bytes)))
        };
        Some(Self { id, name: path_of(name)?, compiled_in: folder.and_then(path_of) })
    }

    /// Returns the path as the compiler wrote it.
    pub(super) fn file(&self) -> PathBuf {
        self.compiled_in.as_deref().unwrap_or(Path::new("")).join(&self.name)
    }
}

impl SplitFiles {
    /// Searches beside these files: the program, and the file with its debug information.
    pub(in crate::types) fn beside(files: &[&Path]) -> Self {
        let mut its = Self::default();
        let mut all: Vec<PathBuf> = files.iter().map(|file| (*file).to_owned()).collect();
        all.extend(files.iter().filter_map(|file| file.canonicalize().ok()));
        for file in all {
            let mut longer = file.as_os_str().to_owned();
            longer.push(".dwp");
            its.packages.extend([PathBuf::from(longer), file.with_extension("dwp")]);
            its.folders.extend(file.parent().map(Path::to_owned));
        }
        for list in [&mut its.packages, &mut its.folders] {
            let mut seen = HashSet::new();
            list.retain(|path| seen.insert(path.clone()));
        }
        its
    }

    /// Returns the program's `.dwp` file, if it has one.
    pub(super) fn package(&self) -> Option<&Package> {
        self.read_package().ok()
    }

    /// Returns the `.dwp` file. The error is none if there is no such file.
    fn read_package(&self) -> Result<&Package, Option<&str>> {
        let read = || {
            let mut problem = None;
            for place in &self.packages {
                match read_dwp(place) {
                    Ok(package) => return Ok(package),
                    Err(error) if error.is_missing_file() => {}
                    Err(error) => problem = Some(error.to_string()),
                }
            }
            Err(problem)
        };
        self.package.get_or_init(read).as_ref().map_err(Option::as_deref)
    }

    /// Returns the sections that contain the unit. The error names the missing file and the places that were searched.
    pub(super) fn sections_of(
        &self,
        program: &Dwarf,
        reference: &Reference,
    ) -> Result<Dwarf, String> {
        let mut problem = None;
        match self.read_package() {
            Ok(package) => match package.find_cu(reference.id, program) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(error) => problem = Some(format!("the .dwp file: {error}")),
            },
            Err(why) => problem = why.map(str::to_owned),
        }
        for place in self.places(reference) {
            match read_dwo(&place) {
                Ok(mut dwarf) => {
                    dwarf.make_dwo(program);
                    if unit_of(&dwarf, reference.id).is_some() {
                        return Ok(dwarf);
                    }
                    problem = Some(format!("{} is of another build", input::path(&place)));
                }
                Err(error) if !error.is_missing_file() => problem = Some(error.to_string()),
                Err(_) => {}
            }
        }
        Err(problem.unwrap_or_else(|| self.not_found(reference)))
    }

    /// Returns a skeleton's unit with its sections, or none if the unit is not split or its file is missing.
    pub(super) fn unit_behind(&self, program: &Dwarf, skeleton: &Unit) -> Option<(Dwarf, Unit)> {
        let reference = Reference::of(program, skeleton)?;
        let dwarf = self.sections_of(program, &reference).ok()?;
        let mut unit = unit_of(&dwarf, reference.id)?;
        unit.copy_relocated_attributes(skeleton);
        Some((dwarf, unit))
    }

    /// Returns candidates for a unit's `.dwo` file, the most likely one first.
    fn places(&self, reference: &Reference) -> Vec<PathBuf> {
        // A program in memory has no folder, so no file is read.
        if self.folders.is_empty() {
            return Vec::new();
        }
        let mut places = vec![reference.file()];
        for folder in &self.folders {
            places.push(folder.join(&reference.name));
            places.extend(reference.name.file_name().map(|name| folder.join(name)));
        }
        places
    }

    fn not_found(&self, reference: &Reference) -> String {
        let file = reference.file();
        match self.packages.first() {
            Some(package) => format!(
                "{} is missing, and there is no {}",
                input::path(&file),
                input::path(package)
            ),
            None => format!("{} is missing", input::path(&file)),
        }
    }
}

/// Returns the unit with an id from sections that may contain it.
fn unit_of(dwarf: &Dwarf, id: gimli::DwoId) -> Option<Unit> {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        if unit.dwo_id == Some(id) {
            return Some(unit);
        }
    }
    None
}

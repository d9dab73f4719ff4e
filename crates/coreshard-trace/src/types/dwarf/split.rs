//! Split debug information: files with the types that a program's own debug information only refers to.
//!
//! A unit of the program, its skeleton, names a `.dwo` file and has an id. The file has the unit with the same id.
//! A `.dwp` file beside the program holds the contents of many `.dwo` files.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use coreshard_topology::input;
use gimli::{AttributeValue, Reader as _};

use super::sections::{Dwarf, Package, Slice, Unit, read_dwo, read_dwp};

/// Where the units of one program with split debug information are looked for.
#[derive(Default)]
pub(in crate::types) struct SplitFiles {
    /// Files that may be the program's `.dwp` file.
    packages: Vec<PathBuf>,
    /// Folders with `.dwo` files, besides those that the units name.
    folders: Vec<PathBuf>,
    package: OnceLock<Result<Package, Option<String>>>,
}

/// What a skeleton says about the file with its unit.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) id: gimli::DwoId,
    name: PathBuf,
    /// The folder in which the compiler ran.
    compiled_in: Option<PathBuf>,
}

impl Reference {
    /// Returns the reference of a skeleton, or none for a unit that is whole.
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

    /// The file as the compiler named it.
    pub(super) fn file(&self) -> PathBuf {
        self.compiled_in.as_deref().unwrap_or(Path::new("")).join(&self.name)
    }
}

impl SplitFiles {
    /// Looks beside these files: the program, and the file with its debug information if that is another.
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

    /// The program's `.dwp` file, if it has one.
    pub(super) fn package(&self) -> Option<&Package> {
        self.read_package().ok()
    }

    /// Returns the `.dwp` file, or why it cannot be read if it is there.
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

    /// Returns the sections that hold the unit, or a text with the file that is missing and the places where it may be.
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

    /// A skeleton's unit, with the sections that it is in; none if the unit is whole, or its file is missing.
    pub(super) fn unit_behind(&self, program: &Dwarf, skeleton: &Unit) -> Option<(Dwarf, Unit)> {
        let reference = Reference::of(program, skeleton)?;
        let dwarf = self.sections_of(program, &reference).ok()?;
        let mut unit = unit_of(&dwarf, reference.id)?;
        unit.copy_relocated_attributes(skeleton);
        Some((dwarf, unit))
    }

    /// Where a unit's `.dwo` file may be, the likeliest place first.
    fn places(&self, reference: &Reference) -> Vec<PathBuf> {
        // Without a folder to look in, as for a program in memory, no file is read.
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

/// The unit with an id, out of the sections that hold it.
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

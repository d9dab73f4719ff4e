//! Loads the sections of ELF files.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use coreshard_topology::input;
use object::{
    CompressionFormat, Object as _, ObjectKind, ObjectSection as _, ObjectSymbol as _,
    RelocationKind, RelocationTarget,
};

use crate::types::error::TypesError;

pub(super) type Slice = gimli::EndianArcSlice<gimli::RunTimeEndian>;
pub(in crate::types) type Dwarf = gimli::Dwarf<Slice>;
pub(super) type Unit = gimli::Unit<Slice>;
pub(super) type Package = gimli::DwarfPackage<Slice>;

/// A program with all its debug information. Chromium has 5 GB, most of it outside of the sections with types.
const MOST_BYTES: u64 = 8 << 30;
/// One section after decompression.
const MOST_SECTION_BYTES: u64 = 8 << 30;
/// Largest compression ratio. A section that exceeds it is not debug information.
const MOST_RATIO: u64 = 1_100;

/// An ELF file as `object` reads it.
pub(in crate::types) type Elf<'data> = object::read::elf::ElfFile64<'data, object::Endianness>;
type Section<'data, 'file> = object::read::elf::ElfSection64<'data, 'file, object::Endianness>;

pub(in crate::types) fn read_file(path: &Path) -> Result<Arc<[u8]>, TypesError> {
    input::bytes(path, MOST_BYTES).map(Arc::from).map_err(|error| TypesError::input(&error))
}

/// Returns the bytes of a section. An object file may have several sections of a name, one for each type; they are
/// concatenated.
pub(in crate::types) fn section(elf: &Elf<'_>, name: &str) -> Option<Arc<[u8]>> {
    let mut all = elf.sections().filter(|section| section.name().is_ok_and(|its| its == name));
    // Old compilers put a `z` before the names of compressed sections.
    let first = all.next().or_else(|| elf.section_by_name(name))?;
    let mut bytes = relocated(elf, &first)?;
    for section in all {
        let further = relocated(elf, &section)?;
        if (bytes.len() + further.len()) as u64 > MOST_SECTION_BYTES {
            return None;
        }
        bytes.to_mut().extend_from_slice(&further);
    }
    Some(Arc::from(bytes.as_ref()))
}

/// Returns the bytes of a section after relocation. Without relocation, all names in an object file would be the first
/// name.
fn relocated<'data>(elf: &Elf<'data>, section: &Section<'data, '_>) -> Option<Cow<'data, [u8]>> {
    let mut bytes = unpacked(section)?;
    if elf.kind() != ObjectKind::Relocatable {
        return Some(bytes);
    }
    for (offset, relocation) in section.relocations() {
        let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
        if relocation.kind() != RelocationKind::Absolute || relocation.has_implicit_addend() {
            continue;
        }
        let Ok(symbol) = elf.symbol_by_index(symbol) else { continue };
        let value = symbol.address().wrapping_add_signed(relocation.addend());
        let length = usize::from(relocation.size() / 8).min(8);
        let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
        let value = if elf.is_little_endian() { &little[..length] } else { &big[8 - length..] };
        let Ok(start) = usize::try_from(offset) else { continue };
        let Some(end) = start.checked_add(length) else { continue };
        if let Some(place) = bytes.to_mut().get_mut(start..end) {
            place.copy_from_slice(value);
        }
    }
    Some(bytes)
}

fn unpacked<'data>(section: &Section<'data, '_>) -> Option<Cow<'data, [u8]>> {
    let packed = section.compressed_data().ok()?;
    let ratio = packed.uncompressed_size / (packed.data.len() as u64).max(1);
    let is_packed = packed.format != CompressionFormat::None;
    if packed.uncompressed_size > MOST_SECTION_BYTES || (is_packed && ratio > MOST_RATIO) {
        return None;
    }
    packed.decompress().ok()
}

fn endian(elf: &Elf<'_>) -> gimli::RunTimeEndian {
    if elf.is_little_endian() { gimli::RunTimeEndian::Little } else { gimli::RunTimeEndian::Big }
}

/// Loads the debug information of a file, if it has any.
pub(in crate::types) fn debug_sections(elf: &Elf<'_>) -> Option<Dwarf> {
    elf.section_by_name(".debug_info").filter(|found| found.size() > 0)?;
    // A debug file lists sections whose contents it does not have.
    Some(load(elf, |id| Some(id.name())))
}

/// Reads a `.dwo` file.
pub(super) fn read_dwo(path: &Path) -> Result<Dwarf, TypesError> {
    let bytes = read_file(path)?;
    let elf = Elf::parse(&*bytes).map_err(|error| TypesError::elf(error).in_file(path))?;
    Ok(load(&elf, |id| id.dwo_name()))
}

/// Reads a `.dwp` file.
pub(super) fn read_dwp(path: &Path) -> Result<Package, TypesError> {
    let bytes = read_file(path)?;
    let elf = Elf::parse(&*bytes).map_err(|error| TypesError::elf(error).in_file(path))?;
    let load = |id: gimli::SectionId| Ok::<_, gimli::Error>(slice(&elf, id.dwo_name()));
    Package::load(load, slice(&elf, None))
        .map_err(|error| TypesError::dwarf(0, error).in_file(path))
}

fn load(elf: &Elf<'_>, name: impl Fn(gimli::SectionId) -> Option<&'static str>) -> Dwarf {
    let load = |id| Ok::<_, std::convert::Infallible>(slice(elf, name(id)));
    match Dwarf::load(load) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

/// Returns the bytes of a section, which are empty if the file does not have the section.
fn slice(elf: &Elf<'_>, name: Option<&'static str>) -> Slice {
    let bytes = name.and_then(|name| section(elf, name));
    Slice::new(bytes.unwrap_or_else(|| Arc::from(&[][..])), endian(elf))
}

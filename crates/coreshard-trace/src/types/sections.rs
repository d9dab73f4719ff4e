//! Sections of ELF files, as the reader of DWARF takes them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use coreshard_topology::input;
use object::{
    CompressionFormat, Object as _, ObjectKind, ObjectSection as _, ObjectSymbol as _,
    RelocationKind, RelocationTarget,
};

use super::error::TypesError;

pub(crate) type Slice = gimli::EndianArcSlice<gimli::RunTimeEndian>;
pub(crate) type Dwarf = gimli::Dwarf<Slice>;
pub(crate) type Unit = gimli::Unit<Slice>;
pub(crate) type Package = gimli::DwarfPackage<Slice>;

/// Of a program with all its debug information; Chromium's has 5 GB, and most of it is no types.
const MOST_BYTES: u64 = 8 << 30;
/// Of one section, once it is unpacked.
const MOST_SECTION_BYTES: u64 = 8 << 30;
/// A compressed section unpacks to so many times its size at most, or it is no debug information.
const MOST_RATIO: u64 = 1_100;

/// An ELF file as `object` reads it.
pub(crate) type Elf<'data> = object::read::elf::ElfFile64<'data, object::Endianness>;
type Section<'data, 'file> = object::read::elf::ElfSection64<'data, 'file, object::Endianness>;

pub(crate) fn read(path: &Path) -> Result<Arc<[u8]>, TypesError> {
    input::bytes(path, MOST_BYTES).map(Arc::from).map_err(TypesError::input)
}

/// The bytes of a section. An object file may have several of a name, one for each type; these are one after another.
pub(crate) fn section(elf: &Elf<'_>, name: &str) -> Option<Arc<[u8]>> {
    let mut all = elf.sections().filter(|section| section.name().is_ok_and(|its| its == name));
    // Old compilers put a `z` before the names of compressed ones.
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

/// The bytes of a section as a linker would have them. Without this, all names in an object file would be the first one.
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
        let value = match elf.is_little_endian() {
            true => value.to_le_bytes(),
            false => value.to_be_bytes(),
        };
        let length = usize::from(relocation.size() / 8).min(value.len());
        let value = match elf.is_little_endian() {
            true => &value[..length],
            false => &value[value.len() - length..],
        };
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

pub(crate) fn endian(elf: &Elf<'_>) -> gimli::RunTimeEndian {
    if elf.is_little_endian() { gimli::RunTimeEndian::Little } else { gimli::RunTimeEndian::Big }
}

/// Reads a `.dwo` file.
pub(crate) fn split(path: &Path) -> Result<Dwarf, TypesError> {
    let bytes = read(path)?;
    let elf = Elf::parse(&*bytes).map_err(|error| TypesError::elf(error).in_file(path))?;
    Ok(load(|id| section(&elf, id.dwo_name()?), endian(&elf)))
}

/// Reads a `.dwp` file.
pub(crate) fn package(path: &Path) -> Result<Package, TypesError> {
    let bytes = read(path)?;
    let elf = Elf::parse(&*bytes).map_err(|error| TypesError::elf(error).in_file(path))?;
    let load = |id: gimli::SectionId| {
        let bytes = id.dwo_name().and_then(|name| section(&elf, name));
        Ok::<_, gimli::Error>(slice(bytes, endian(&elf)))
    };
    Package::load(load, slice(None, endian(&elf)))
        .map_err(|error| TypesError::dwarf(0, error).in_file(path))
}

/// Loads the sections of DWARF out of anything that has sections.
pub(crate) fn load(
    mut section: impl FnMut(gimli::SectionId) -> Option<Arc<[u8]>>,
    endian: gimli::RunTimeEndian,
) -> Dwarf {
    let load = |id| -> Result<Slice, std::convert::Infallible> { Ok(slice(section(id), endian)) };
    match Dwarf::load(load) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

/// A section's bytes; a section that is not there is empty.
pub(crate) fn slice(bytes: Option<Arc<[u8]>>, endian: gimli::RunTimeEndian) -> Slice {
    Slice::new(bytes.unwrap_or_else(|| Arc::from(&[][..])), endian)
}

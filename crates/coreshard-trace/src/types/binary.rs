//! A program's file: its sections, the file with its debug information, and what both tell.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coreshard_topology::input;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

use super::dwarf;
use super::error::TypesError;
use super::sections::{self, Dwarf, Elf, endian, read, section};
use super::split::SplitFiles;
use super::table::TypeTable;

/// Where distributions put debug information.
const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// Where a program's types come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebugSource {
    /// The program's own file.
    Itself,
    /// A file beside it, or below `/usr/lib/debug`.
    Separate(PathBuf),
    /// It has none; the text says how to get it.
    Missing(String),
}

/// A symbol with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address in the file.
    pub address: u64,
    /// Its size in bytes; 0 where nobody says it.
    pub size_bytes: u64,
    /// Its name, as the source has it where that can be told.
    pub name: String,
    /// Whether it is data rather than code.
    pub is_data: bool,
}

/// An ELF file, with its debug information where that is to be had.
pub struct Binary {
    bytes: Arc<[u8]>,
    debug: Option<Arc<Dwarf>>,
    supplement: Option<Dwarf>,
    split: SplitFiles,
    btf: Option<Arc<[u8]>>,
    source: DebugSource,
    symbols: Vec<Symbol>,
    segments: Vec<(u64, u64, u64)>,
}

impl std::fmt::Debug for Binary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Binary")
            .field("source", &self.source)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl Binary {
    /// Reads a program or library, and finds its debug information.
    ///
    /// # Errors
    /// Where the file cannot be read, or is no ELF file of 64 bits. That debug information is missing is none.
    pub fn open(path: &Path) -> Result<Self, TypesError> {
        let bytes: Arc<[u8]> = read(path)?;
        let mut binary = Self::from_bytes(Arc::clone(&bytes))?;
        if binary.debug.is_none() {
            binary.find_debug(path);
        }
        binary.split = match &binary.source {
            DebugSource::Separate(debug) => SplitFiles::beside(&[path, debug]),
            DebugSource::Itself | DebugSource::Missing(_) => SplitFiles::beside(&[path]),
        };
        Ok(binary)
    }

    /// Reads a program out of memory; other files are not looked for.
    ///
    /// # Errors
    /// Where it is no ELF file of 64 bits.
    pub fn from_bytes(bytes: Arc<[u8]>) -> Result<Self, TypesError> {
        let elf = Elf::parse(&*bytes).map_err(TypesError::elf)?;
        let debug = debug_of(&elf).map(Arc::new);
        let btf = section(&elf, ".BTF");
        let symbols = symbols(&elf);
        let segments = segments(&elf);
        let source = match &debug {
            Some(_) => DebugSource::Itself,
            None => DebugSource::Missing(
                "it has no debug information: compile with -g, or install the package with its debug symbols \
                 (in Debian NAME-dbgsym)"
                    .to_owned(),
            ),
        };
        drop(elf);
        let split = SplitFiles::default();
        Ok(Self { bytes, debug, supplement: None, split, btf, source, symbols, segments })
    }

    fn find_debug(&mut self, path: &Path) {
        let Ok(elf) = Elf::parse(&*self.bytes) else { return };
        let mut places = Vec::new();
        let id = elf.build_id().ok().flatten().filter(|id| id.len() > 2);
        if let Some(id) = id {
            places.push(by_build_id(id));
        }
        if let Ok(Some((name, _))) = elf.gnu_debuglink() {
            let name = String::from_utf8_lossy(name).into_owned();
            // A name, and no way out of the folder.
            if let (Some(folder), false) = (path.parent(), name.contains('/')) {
                places.push(folder.join(&name));
                places.push(folder.join(".debug").join(&name));
                if let Ok(folder) = folder.canonicalize() {
                    let below = folder.strip_prefix("/").unwrap_or(&folder).join(&name);
                    places.push(Path::new(DEBUG_FOLDER).join(below));
                }
            }
        }
        for place in places {
            let Ok(bytes) = read(&place) else { continue };
            let Ok(debug) = Elf::parse(&*bytes) else { continue };
            // Of another build, its addresses would be wrong.
            if debug.build_id().ok().flatten() != id {
                continue;
            }
            let Some(found) = debug_of(&debug) else { continue };
            self.supplement = supplement_of(&debug, &place);
            self.symbols.extend(symbols(&debug));
            sort(&mut self.symbols);
            self.debug = Some(Arc::new(found));
            self.source = DebugSource::Separate(place);
            return;
        }
    }

    /// Where its types come from.
    #[must_use]
    pub const fn source(&self) -> &DebugSource {
        &self.source
    }

    /// Its types and globals: from DWARF, or else from BTF within it; an empty table where it has neither.
    ///
    /// # Errors
    /// Where they cannot be read; the text names the offset.
    pub fn types(&self) -> Result<TypeTable, TypesError> {
        match (&self.debug, &self.btf) {
            (Some(debug), _) => dwarf::read(debug, self.supplement.as_ref(), &self.split),
            (None, Some(btf)) => TypeTable::from_btf(btf),
            (None, None) => Ok(TypeTable::default()),
        }
    }

    pub(crate) const fn dwarf(&self) -> Option<&Arc<Dwarf>> {
        self.debug.as_ref()
    }

    pub(crate) const fn split(&self) -> &SplitFiles {
        &self.split
    }

    /// Its symbols, by address.
    #[must_use]
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// The address in the file of a byte at an offset of the file.
    #[must_use]
    pub fn address_of_offset(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|(start, length, address)| {
            let within = offset.checked_sub(*start).filter(|within| within < length)?;
            address.checked_add(within)
        })
    }
}

fn by_build_id(id: &[u8]) -> PathBuf {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Path::new(DEBUG_FOLDER)
        .join(".build-id")
        .join(hex(&id[..1]))
        .join(format!("{}.debug", hex(&id[1..id.len().min(64)])))
}

fn debug_of(elf: &Elf<'_>) -> Option<Dwarf> {
    elf.section_by_name(".debug_info").filter(|found| found.size() > 0)?;
    // A debug file names sections that it does not have.
    Some(sections::load(|id| section(elf, id.name()), endian(elf)))
}

/// The file with what several debug files have in common.
fn supplement_of(elf: &Elf<'_>, path: &Path) -> Option<Dwarf> {
    let (name, id) = elf.gnu_debugaltlink().ok().flatten()?;
    let name = PathBuf::from(String::from_utf8_lossy(name).into_owned());
    let beside = path.parent().map(|folder| folder.join(&name));
    let id = (id.len() > 2).then(|| by_build_id(id));
    beside.into_iter().chain(id).find_map(|place| {
        let bytes = read(&place).ok()?;
        debug_of(&Elf::parse(&*bytes).ok()?)
    })
}

fn symbols(elf: &Elf<'_>) -> Vec<Symbol> {
    let wanted = elf.symbols().chain(elf.dynamic_symbols()).filter(|symbol| {
        symbol.is_definition()
            && symbol.address() != 0
            && matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data | SymbolKind::Tls)
    });
    let mut symbols: Vec<_> = wanted
        .filter(|symbol| symbol.kind() != SymbolKind::Tls)
        .filter_map(|symbol| {
            Some(Symbol {
                address: symbol.address(),
                size_bytes: symbol.size(),
                name: input::plain(&demangled(symbol.name().ok()?)),
                is_data: symbol.kind() == SymbolKind::Data,
            })
        })
        .collect();
    sort(&mut symbols);
    symbols
}

fn sort(symbols: &mut Vec<Symbol>) {
    symbols.sort_by(|a, b| a.address.cmp(&b.address).then(b.size_bytes.cmp(&a.size_bytes)));
    symbols.dedup_by(|a, b| a.address == b.address && a.name == b.name);
}

/// A Rust symbol as the source has it; others as they are.
pub(crate) fn demangled(name: &str) -> String {
    rustc_demangle::try_demangle(name).map_or_else(|_| name.to_owned(), |name| format!("{name:#}"))
}

fn segments(elf: &Elf<'_>) -> Vec<(u64, u64, u64)> {
    use object::ObjectSegment as _;
    let of = |segment: object::read::elf::ElfSegment64<'_, '_, object::Endianness>| {
        let (start, length) = segment.file_range();
        (start, length.max(segment.size()), segment.address())
    };
    elf.segments().map(of).collect()
}

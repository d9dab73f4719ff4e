//! Reads a program's symbols and finds its debug information.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coreshard_topology::input;
use object::{Object as _, ObjectSymbol as _, SymbolKind};

use super::dwarf::{
    self, Context, Dwarf, Elf, Functions, SourcePlace, SplitFiles, Variable, debug_sections,
    read_file, section,
};
use super::error::TypesError;
use super::table::TypeTable;

/// The folder in which distributions install debug information.
const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// The sections of a kernel's BTF whose variables have offsets there, each with the symbol at its start. Per-CPU variables
/// start at 0 in kernels before 6.15, which then have no such symbol.
const KERNEL_SECTIONS: [(&str, &str); 2] =
    [(".data..percpu", "__per_cpu_start"), (super::btf_merge::GLOBALS_SECTION, "_text")];

/// The source of a program's types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebugSource {
    /// The program's own file.
    Itself,
    /// A file beside it, or below `/usr/lib/debug`.
    Separate(PathBuf),
    /// There is none. The text says how to get it.
    Missing(String),
}

/// A symbol with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Its address in the file.
    pub(crate) address: u64,
    /// Its size in bytes; 0 if unknown.
    pub(crate) size_bytes: u64,
    /// Its name, as in the source if it can be demangled.
    pub(crate) name: String,
    /// Whether it is data rather than code.
    pub(crate) is_data: bool,
}

/// An ELF file with its debug information, if available.
pub struct Binary {
    bytes: Arc<[u8]>,
    debug: Option<Arc<Dwarf>>,
    supplement: Option<Dwarf>,
    split: SplitFiles,
    btf: Option<Arc<[u8]>>,
    source: DebugSource,
    symbols: Vec<Symbol>,
    /// For source lines; loaded on first use.
    context: OnceCell<Option<Context>>,
    /// For variables; loaded on first use.
    functions: OnceCell<Functions>,
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
    /// Reads a program or library and finds its debug information.
    ///
    /// # Errors
    /// If the file cannot be read, is not a 64-bit ELF file, or has only split debug information (`.dwo`, `.dwp`).
    /// Missing debug information is not an error.
    pub fn open(path: &Path) -> Result<Self, TypesError> {
        let mut binary = Self::from_bytes(read_file(path)?)?;
        if binary.debug.is_none() {
            binary.find_debug(path);
        }
        binary.split = match &binary.source {
            DebugSource::Separate(debug) => SplitFiles::beside(&[path, debug]),
            DebugSource::Itself | DebugSource::Missing(_) => SplitFiles::beside(&[path]),
        };
        Ok(binary)
    }

    /// Reads a program from memory. Other files are not searched.
    ///
    /// # Errors
    /// If it is not a 64-bit ELF file, or has only split debug information.
    pub fn from_bytes(bytes: Arc<[u8]>) -> Result<Self, TypesError> {
        let elf = Elf::parse(&*bytes).map_err(TypesError::elf)?;
        let debug = debug_sections(&elf).map(Arc::new);
        if debug.is_none() {
            let has = |name| elf.section_by_name(name).is_some();
            if has(".debug_cu_index") || has(".debug_tu_index") {
                return Err(TypesError::split_file(".dwp"));
            }
            if has(".debug_info.dwo") {
                return Err(TypesError::split_file(".dwo"));
            }
        }
        let btf = section(&elf, ".BTF");
        let symbols = symbols(&elf);
        let source = match &debug {
            Some(_) => DebugSource::Itself,
            None => DebugSource::Missing(
                "it has no debug information: compile with -g, or install the package with its debug symbols \
                 (in Debian NAME-dbgsym)"
                    .to_owned(),
            ),
        };
        drop(elf);
        let (context, functions) = (OnceCell::new(), OnceCell::new());
        let (supplement, split) = (None, SplitFiles::default());
        Ok(Self { bytes, debug, supplement, split, btf, source, symbols, context, functions })
    }

    fn find_debug(&mut self, path: &Path) {
        let Ok(elf) = Elf::parse(&*self.bytes) else { return };
        let mut places = Vec::new();
        let id = elf.build_id().ok().flatten().filter(|id| id.len() > 2);
        places.extend(id.map(by_build_id));
        if let Ok(Some((name, _))) = elf.gnu_debuglink() {
            let name = String::from_utf8_lossy(name).into_owned();
            // The name must not lead out of the folder.
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
            let Ok(bytes) = read_file(&place) else { continue };
            let Ok(debug) = Elf::parse(&*bytes) else { continue };
            // The addresses of another build would be wrong.
            if debug.build_id().ok().flatten() != id {
                continue;
            }
            let Some(found) = debug_sections(&debug) else { continue };
            self.supplement = supplement_of(&debug, &place);
            self.symbols.extend(symbols(&debug));
            sort(&mut self.symbols);
            self.debug = Some(Arc::new(found));
            self.source = DebugSource::Separate(place);
            return;
        }
    }

    /// Returns the source of its types.
    #[must_use]
    pub const fn source(&self) -> &DebugSource {
        &self.source
    }

    /// Reads its types and globals from DWARF, or from BTF if it has no DWARF. The table is empty if it has neither.
    ///
    /// # Errors
    /// If they cannot be read. The message names the offset.
    pub fn types(&self) -> Result<TypeTable, TypesError> {
        match (&self.debug, &self.btf) {
            (Some(debug), _) => dwarf::read(debug, self.supplement.as_ref(), &self.split),
            (None, Some(btf)) => {
                let mut types = TypeTable::from_btf(btf)?;
                for (section, symbol) in KERNEL_SECTIONS {
                    types.place_section(section, self.address_of(symbol).unwrap_or(0));
                }
                Ok(types)
            }
            (None, None) => Ok(TypeTable::default()),
        }
    }

    /// Returns the functions at an address of the file, the innermost inlined function first.
    pub(crate) fn frames(&self, address: u64) -> Vec<SourcePlace> {
        let context = self.context.get_or_init(|| dwarf::context(self.debug.as_ref()?));
        let context = context.as_ref();
        context.map_or_else(Vec::new, |context| dwarf::frames(context, &self.split, address))
    }

    /// Returns records that variables of the functions at an address have or point to. `types` must be the types of
    /// this file.
    pub(crate) fn variables_at(&self, types: &TypeTable, address: u64) -> Option<Vec<Variable>> {
        let dwarf = self.debug.as_ref()?;
        let functions = self.functions.get_or_init(|| Functions::of(dwarf));
        dwarf::variables_at(functions, dwarf, &self.split, types, address)
    }

    /// The address of a symbol.
    fn address_of(&self, name: &str) -> Option<u64> {
        self.symbols.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.address)
    }

    /// Returns its symbols, sorted by address.
    pub(crate) fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }
}

fn by_build_id(id: &[u8]) -> PathBuf {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let file = format!("{}.debug", hex(&id[1..id.len().min(64)]));
    Path::new(DEBUG_FOLDER).join(".build-id").join(hex(&id[..1])).join(file)
}

/// Reads the file that several debug files share.
fn supplement_of(elf: &Elf<'_>, path: &Path) -> Option<Dwarf> {
    let (name, id) = elf.gnu_debugaltlink().ok().flatten()?;
    let name = PathBuf::from(String::from_utf8_lossy(name).into_owned());
    let beside = path.parent().map(|folder| folder.join(&name));
    let id = (id.len() > 2).then(|| by_build_id(id));
    beside.into_iter().chain(id).find_map(|place| {
        let bytes = read_file(&place).ok()?;
        debug_sections(&Elf::parse(&*bytes).ok()?)
    })
}

fn symbols(elf: &Elf<'_>) -> Vec<Symbol> {
    let wanted = elf.symbols().chain(elf.dynamic_symbols()).filter(|symbol| {
        symbol.is_definition()
            && symbol.address() != 0
            && matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data)
    });
    let mut symbols: Vec<_> = wanted
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

/// Demangles a Rust symbol and returns other symbols unchanged.
fn demangled(name: &str) -> String {
    rustc_demangle::try_demangle(name).map_or_else(|_| name.to_owned(), |name| format!("{name:#}"))
}

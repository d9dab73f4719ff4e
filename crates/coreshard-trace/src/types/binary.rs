//! A program's file: its symbols, and its debug information wherever that lies.

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
pub(crate) struct Symbol {
    /// Its address in the file.
    pub(crate) address: u64,
    /// Its size in bytes; 0 if the file does not say it.
    pub(crate) size_bytes: u64,
    /// Its name, as the source has it where that can be told.
    pub(crate) name: String,
    /// Whether it is data rather than code.
    pub(crate) is_data: bool,
}

/// An ELF file, with its debug information if that is to be had.
pub struct Binary {
    bytes: Arc<[u8]>,
    debug: Option<Arc<Dwarf>>,
    supplement: Option<Dwarf>,
    split: SplitFiles,
    btf: Option<Arc<[u8]>>,
    source: DebugSource,
    symbols: Vec<Symbol>,
    /// For source lines; made when the first is asked for.
    context: OnceCell<Option<Context>>,
    /// For variables; made when the first is asked for.
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
    /// Reads a program or library, and finds its debug information.
    ///
    /// # Errors
    /// If the file cannot be read, is no ELF file of 64 bits, or holds nothing but split debug information (`.dwo`, `.dwp`).
    /// Missing debug information is no error.
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

    /// Reads a program out of memory; other files are not looked for.
    ///
    /// # Errors
    /// If it is no ELF file of 64 bits, or holds nothing but split debug information.
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
            let Ok(bytes) = read_file(&place) else { continue };
            let Ok(debug) = Elf::parse(&*bytes) else { continue };
            // Of another build, its addresses would be wrong.
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

    /// Where its types come from.
    #[must_use]
    pub const fn source(&self) -> &DebugSource {
        &self.source
    }

    /// Its types and globals: from DWARF, or else from BTF within it; an empty table if it has neither.
    ///
    /// # Errors
    /// If they cannot be read; the text names the offset.
    pub fn types(&self) -> Result<TypeTable, TypesError> {
        match (&self.debug, &self.btf) {
            (Some(debug), _) => dwarf::read(debug, self.supplement.as_ref(), &self.split),
            (None, Some(btf)) => TypeTable::from_btf(btf),
            (None, None) => Ok(TypeTable::default()),
        }
    }

    /// The functions at an address of the file, the innermost of those that were inlined first.
    pub(crate) fn frames(&self, address: u64) -> Vec<SourcePlace> {
        let context = self.context.get_or_init(|| dwarf::context(self.debug.as_ref()?));
        let context = context.as_ref();
        context.map_or_else(Vec::new, |context| dwarf::frames(context, &self.split, address))
    }

    /// Records that variables of the functions at an address of the file have, or point to. `types` are those of this file.
    pub(crate) fn variables_at(&self, types: &TypeTable, address: u64) -> Option<Vec<Variable>> {
        let dwarf = self.debug.as_ref()?;
        let functions = self.functions.get_or_init(|| Functions::of(dwarf));
        dwarf::variables_at(functions, dwarf, &self.split, types, address)
    }

    /// Its symbols, by address.
    pub(crate) fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }
}

fn by_build_id(id: &[u8]) -> PathBuf {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let file = format!("{}.debug", hex(&id[1..id.len().min(64)]));
    Path::new(DEBUG_FOLDER).join(".build-id").join(hex(&id[..1])).join(file)
}

/// The file with what several debug files have in common.
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

/// A Rust symbol as the source has it; others as they are.
fn demangled(name: &str) -> String {
    rustc_demangle::try_demangle(name).map_or_else(|_| name.to_owned(), |name| format!("{name:#}"))
}

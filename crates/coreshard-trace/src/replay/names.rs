//! Names for addresses: functions and source lines of instructions; types and fields of globals, allocations and stacks.

use std::collections::HashMap;
use std::path::Path;

use coreshard_topology::input;

use super::lines::Seen;
use super::pieces::Piece;
use super::plan::{AllocationKind, Module, Plan};
use crate::types::{Binary, DebugSource, FieldPath, Shape, SourcePlace, Symbol, TypeId, TypeTable};

mod memory;

/// What lies at an address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Thing {
    /// What stands for all objects of this kind: a global's name, or a type and where its objects are taken.
    pub(crate) name: String,
    pub(crate) kind: ThingKind,
    /// Of a global, the file of code that has it.
    pub(crate) file: String,
    /// Its first byte.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// Of which it, or each element of it, is one; with the module whose types these are.
    pub(crate) of: Option<(usize, TypeId)>,
    /// Of one element.
    pub(crate) element_bytes: u64,
    /// Whether its first byte and its length are known; else they are those of a line.
    pub(crate) is_whole: bool,
    /// Of a piece of memory, what it has in common with all that are alike.
    pub(crate) allocated: Option<AllocationKind>,
}

impl Thing {
    /// One whose place and length are not known: those of the line that `address` lies on stand for them.
    fn unknown(kind: ThingKind, name: String, address: u64) -> Self {
        Self {
            name,
            kind,
            file: String::new(),
            start: address & !63,
            bytes: 64,
            of: None,
            element_bytes: 0,
            is_whole: false,
            allocated: None,
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.start == other.start && self.name == other.name && self.file == other.file
    }

    pub(crate) const fn holds(&self, address: u64) -> bool {
        self.start <= address && address - self.start < if self.bytes > 0 { self.bytes } else { 1 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
/// What kind of thing lies at an address.
pub enum ThingKind {
    /// A variable that is there all the time.
    Global,
    /// A piece of memory that was taken.
    Heap,
    /// A thread's stack.
    Stack,
    /// Unknown.
    Unknown,
}

/// What a piece of memory is taken to be.
#[derive(Clone, Debug, PartialEq)]
struct Guess {
    module: usize,
    of: TypeId,
    element_bytes: u64,
}

#[derive(Default)]
struct Loaded {
    binary: Option<Binary>,
    types: Option<TypeTable>,
    /// Records, and other types that memory may hold, by name, without namespaces and with them.
    by_name: HashMap<String, Vec<TypeId>>,
}

impl Loaded {
    /// The types of a name; none if an empty type has it as well, such as the standard library's `Global` of allocators.
    fn of_name(&self, name: &str) -> Option<&[TypeId]> {
        let (all, types) = (self.by_name.get(name)?, self.types.as_ref()?);
        all.iter().all(|id| types.size_bytes(*id) != Some(0)).then_some(all)
    }

    fn symbols(&self) -> &[Symbol] {
        self.binary.as_ref().map_or(&[], Binary::symbols)
    }

    /// The variable at an address of the file: by its types, or else by its symbols.
    /// Its addresses are those of the file, and its types those of the module `number`.
    fn global_at(&self, number: usize, within: u64) -> Option<Thing> {
        let symbols = self.symbols();
        if let Some(types) = &self.types {
            let after = types.globals().partition_point(|global| global.address <= within);
            for (before, global) in types.globals()[..after].iter().rev().take(4).enumerate() {
                let mut bytes = global.of.and_then(|of| types.size_bytes(of)).unwrap_or(0);
                if bytes == 0 && before == 0 {
                    // Only declared, or an array whose length another file says.
                    let next = types.globals().get(after).map(|next| next.address);
                    bytes = extent(symbols, global.address, next);
                }
                if within < global.address.saturating_add(bytes.max(1)) {
                    let (of, element_bytes) = element_of(types, global.of, bytes);
                    return Some(Thing {
                        start: global.address,
                        bytes,
                        of: of.map(|of| (number, of)),
                        element_bytes,
                        is_whole: true,
                        ..Thing::unknown(ThingKind::Global, input::plain(&global.name), 0)
                    });
                }
            }
        }
        let (name, start, bytes) = data_at(symbols, within)?;
        let unknown = Thing::unknown(ThingKind::Global, name, 0);
        Some(Thing { start, bytes, is_whole: true, ..unknown })
    }
}

/// What was read of the files of a recording's modules, by their numbers.
#[derive(Default)]
pub(crate) struct Files(Vec<Option<Loaded>>);

/// Names of one recording's addresses; files are read when they are first needed.
pub(crate) struct Names<'p> {
    plan: &'p Plan,
    files: Files,
    places: HashMap<u64, SourcePlace>,
    guesses: HashMap<(u32, u64, u64), Option<Guess>>,
    /// By calls that led there: which of them took memory.
    taken: HashMap<u32, (usize, SourcePlace)>,
    pub(crate) notes: Vec<String>,
}

impl<'p> Names<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Self {
        Self::with_files(plan, Files::default())
    }

    /// With what was read for another replay of the same recording: its modules and their numbers are the same.
    pub(crate) fn with_files(plan: &'p Plan, mut files: Files) -> Self {
        files.0.resize_with(plan.modules.len(), || None);
        Self {
            plan,
            files,
            places: HashMap::new(),
            guesses: HashMap::new(),
            taken: HashMap::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn into_files(self) -> Files {
        self.files
    }

    fn module_at(&self, address: u64) -> Option<(usize, &'p Module)> {
        let after = self.plan.modules.partition_point(|module| module.start <= address);
        let before = self.plan.modules[..after].iter().enumerate().rev().take(8);
        let mut holds = before.filter(|(_, module)| address < module.end);
        holds.next()
    }

    /// What the module's file has, which is read once.
    fn loaded(&mut self, number: usize) -> &Loaded {
        if self.files.0[number].is_none() {
            self.files.0[number] = Some(self.load(number));
        }
        self.files.0[number].as_ref().expect("it was loaded just now")
    }

    fn load(&mut self, number: usize) -> Loaded {
        let path = Path::new(&self.plan.modules[number].path);
        let notes = &mut self.notes;
        let mut note = |why: String| notes.push(format!("{}: {why}", input::path(path)));
        let binary = match Binary::open(path) {
            Ok(binary) => binary,
            Err(error) => {
                note(error.to_string());
                return Loaded::default();
            }
        };
        if let (DebugSource::Missing(why), true) = (binary.source(), is_program(path)) {
            note(why.clone());
        }
        match binary.types() {
            Ok(types) => {
                types.missing_note().into_iter().for_each(note);
                let by_name = index(&types);
                Loaded { binary: Some(binary), types: Some(types), by_name }
            }
            Err(error) => {
                note(error.to_string());
                Loaded { binary: Some(binary), ..Loaded::default() }
            }
        }
    }

    pub(crate) fn types(&mut self, number: usize) -> Option<&TypeTable> {
        self.loaded(number).types.as_ref()
    }

    /// Where an instruction is, told by the address after it.
    pub(crate) fn place(&mut self, instruction: u64) -> SourcePlace {
        if let Some(known) = self.places.get(&instruction) {
            return known.clone();
        }
        let place = self.find_place(instruction.wrapping_sub(1));
        self.places.insert(instruction, place.clone());
        place
    }

    fn find_place(&mut self, address: u64) -> SourcePlace {
        let Some((number, module)) = self.module_at(address) else {
            return SourcePlace { function: format!("{address:#x}"), ..SourcePlace::default() };
        };
        let (within, path) = (address.wrapping_sub(module.base), &module.path);
        let frames = self.frames(number, within);
        // Where calls were inlined: the innermost of the program's own, rather than of a standard library.
        let own = frames.iter().find(|frame| frame.is_own()).or(frames.first());
        let mut place = own.cloned().unwrap_or_default();
        if place.function.is_empty() {
            let symbol = function_at(self.loaded(number).symbols(), within);
            place.function = symbol.unwrap_or_else(|| format!("{}+{within:#x}", file_name(path)));
        }
        place
    }

    /// The functions at an address of a module, the innermost of those that were inlined first.
    fn frames(&mut self, number: usize, within: u64) -> Vec<SourcePlace> {
        let binary = self.loaded(number).binary.as_ref();
        binary.map_or_else(Vec::new, |binary| binary.frames(within))
    }

    /// What lay at an address as an access saw it; `seen_from` are instructions that access it.
    pub(crate) fn thing(&mut self, address: u64, seen: Seen, seen_from: &[u64]) -> Thing {
        let of_thread = |stack: &Piece| {
            Thing::unknown(ThingKind::Stack, format!("stack of thread {}", stack.thread), address)
        };
        if let Some(stack) = self.plan.stack_of(seen.owner) {
            return of_thread(stack);
        }
        if let Some(heap) = self.heap_at(address, seen, seen_from) {
            return heap;
        }
        if let Some((number, module)) = self.module_at(address.wrapping_sub(self.plan.shift)) {
            // Data of a module is shifted, its code is not.
            let base = module.base.wrapping_add(self.plan.shift);
            let file = input::plain(&module.path);
            let global = self.loaded(number).global_at(number, address.wrapping_sub(base));
            return match global {
                Some(its) => Thing { file, start: base.wrapping_add(its.start), ..its },
                None => {
                    let name = format!("data of {}", file_name(&module.path));
                    Thing { file, ..Thing::unknown(ThingKind::Global, name, address) }
                }
            };
        }
        if let Some(stack) = self.plan.stack_at(address, seen.ticket) {
            return of_thread(stack);
        }
        Thing::unknown(ThingKind::Unknown, "memory of unknown origin".to_owned(), address)
    }

    /// The path of the field of a thing at an address.
    pub(crate) fn field(&mut self, thing: &Thing, address: u64) -> String {
        let within = address.saturating_sub(thing.start);
        let types = thing.of.and_then(|(module, of)| Some((self.types(module)?, of)));
        let Some((types, of)) = types else { return format!("+{within}") };
        let element = thing.element_bytes.max(1);
        let (index, inside) = (within / element, within % element);
        let is_array = thing.bytes > element;
        let path = FieldPath::at(types, of, inside).text;
        match (is_array, path.is_empty()) {
            (false, _) => path,
            (true, true) => format!("[{index}]"),
            (true, false) => format!("[{index}].{path}"),
        }
    }
}

/// The type of one element where a global is an array, else its own; with its size.
fn element_of(types: &TypeTable, of: Option<TypeId>, bytes: u64) -> (Option<TypeId>, u64) {
    let shape = of.map(|of| &types.get(types.stripped(of)).shape);
    match shape {
        Some(Shape::Array { of: Some(element), .. }) => {
            let size = types.size_bytes(*element).filter(|size| *size > 0);
            size.map_or((of, bytes), |size| (Some(*element), size))
        }
        _ => (of, bytes),
    }
}

fn index(types: &TypeTable) -> HashMap<String, Vec<TypeId>> {
    let mut by_name: HashMap<String, Vec<TypeId>> = HashMap::new();
    for id in types.records().chain(types.other_elements()) {
        let Some(name) = &types.get(id).name else { continue };
        by_name.entry(name.clone()).or_default().push(id);
        let before = name.find('<').unwrap_or(name.len());
        if let Some(at) = name[..before].rfind("::") {
            by_name.entry(name[at + 2..].to_owned()).or_default().push(id);
        }
    }
    by_name
}

/// Whether it is the program itself, which engines tell of first.
fn is_program(path: &Path) -> bool {
    !path.to_string_lossy().contains(".so")
}

fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name().unwrap_or_default();
    input::plain(&name.to_string_lossy())
}

/// Symbols that begin before an address, the nearest first.
fn before(symbols: &[Symbol], address: u64) -> impl Iterator<Item = &Symbol> {
    let after = symbols.partition_point(|symbol| symbol.address <= address);
    symbols[..after].iter().rev().take(8)
}

fn function_at(symbols: &[Symbol], address: u64) -> Option<String> {
    let mut holds = before(symbols, address).filter(|symbol| {
        !symbol.is_data && address < symbol.address.saturating_add(symbol.size_bytes.max(1))
    });
    holds.next().map(|symbol| symbol.name.clone())
}

/// The name of the data at an address, where it begins, and how long it is.
fn data_at(symbols: &[Symbol], address: u64) -> Option<(String, u64, u64)> {
    let all = before(symbols, address).filter(|symbol| symbol.is_data).map(|symbol| {
        let bytes = match symbol.size_bytes {
            0 => extent(symbols, symbol.address, None),
            bytes => bytes,
        };
        (symbol, bytes)
    });
    let mut holds = all.filter(|(symbol, bytes)| address - symbol.address < *bytes);
    holds.next().map(|(symbol, bytes)| (symbol.name.clone(), symbol.address, bytes))
}

/// How long data is that no type tells the length of: as its symbol says, or else up to what comes next, on one line.
fn extent(symbols: &[Symbol], start: u64, next: Option<u64>) -> u64 {
    let from = symbols.partition_point(|symbol| symbol.address < start);
    let here = symbols[from..].iter().take_while(|symbol| symbol.address == start);
    if let Some(bytes) = here.map(|symbol| symbol.size_bytes).max().filter(|bytes| *bytes > 0) {
        return bytes;
    }
    let after = symbols.partition_point(|symbol| symbol.address <= start);
    let of_symbol = symbols.get(after).map(|symbol| symbol.address);
    let end = next.into_iter().chain(of_symbol).min().unwrap_or(u64::MAX);
    end.min((start | 63).saturating_add(1)).saturating_sub(start)
}

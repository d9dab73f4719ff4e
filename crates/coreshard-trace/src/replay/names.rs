//! Names for addresses: functions and source lines of instructions, and types and fields of globals, allocations and
//! stacks.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use coreshard_topology::input;

use super::accessor::Seen;
use super::pieces::Piece;
use super::plan::{AllocationKind, Module, Plan};
use crate::recording::NAMES_PATH;
use crate::types::{Binary, DebugSource, FieldPath, Shape, SourcePlace, Symbol, TypeId, TypeTable};

mod memory;

/// The object at an address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Thing {
    /// The common name of all objects of this kind: the name of a global, or a type and its allocation site.
    pub(crate) name: String,
    pub(crate) kind: ThingKind,
    /// For a global, the executable or library that contains it.
    pub(crate) file: String,
    /// The address of its first byte.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// The module whose type table has its type, and the type of the object or of its elements.
    pub(crate) of: Option<(usize, TypeId)>,
    /// The size of one element.
    pub(crate) element_bytes: u64,
    /// Whether its address and size are known. Otherwise they are the address and size of a line.
    pub(crate) is_whole: bool,
    /// For an allocation, the properties that similar allocations share.
    pub(crate) allocated: Option<AllocationKind>,
}

impl Thing {
    /// Whether the fields or the size of its elements are known.
    pub(super) const fn has_elements(&self) -> bool {
        let is_object = matches!(self.kind, ThingKind::Global | ThingKind::Heap);
        is_object && (self.of.is_some() || self.element_bytes > 1)
    }

    /// Returns a line as a separate object, for memory whose fields are unknown.
    pub(super) fn of_line(&self, name: String, start: u64, line_bytes: u64) -> Self {
        let (bytes, element_bytes) = (line_bytes, line_bytes);
        let kind = self.kind;
        let file = self.file.clone();
        Self {
            name,
            kind,
            file,
            start,
            bytes,
            of: None,
            element_bytes,
            is_whole: false,
            allocated: None,
        }
    }
}

impl Thing {
    /// Returns an object with unknown address and size, for which the line that contains `address` is used.
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
/// The kind of an object.
pub enum ThingKind {
    /// A variable with a static address.
    Global,
    /// Allocated memory.
    Heap,
    /// A thread's stack.
    Stack,
    /// Unknown.
    Unknown,
}

/// The assumed type of an allocation.
#[derive(Clone, Debug, PartialEq)]
struct Guess {
    module: usize,
    of: TypeId,
    element_bytes: u64,
}

/// The assumed type of similar allocations, and their name.
struct Named {
    name: String,
    guess: Option<Guess>,
}

#[derive(Default)]
struct Loaded {
    binary: Option<Binary>,
    types: Option<TypeTable>,
    /// Records and other types of elements, by name with and without namespaces.
    by_name: HashMap<String, Vec<TypeId>>,
}

impl Loaded {
    /// Returns the types of a name, or none if an empty type also has the name, such as the standard library's `Global`
    /// allocator.
    fn of_name(&self, name: &str) -> Option<&[TypeId]> {
        let (all, types) = (self.by_name.get(name)?, self.types.as_ref()?);
        all.iter().all(|id| types.size_bytes(*id) != Some(0)).then_some(all)
    }

    fn symbols(&self) -> &[Symbol] {
        self.binary.as_ref().map_or(&[], Binary::symbols)
    }

    /// Returns the variable at an address of the file, from its types or else from its symbols. The type belongs to the
    /// module `number`.
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

/// The loaded files of a recording's modules, by module number.
#[derive(Default)]
pub(crate) struct Files(Vec<Option<Loaded>>);

/// Names of one recording's addresses. Files are loaded on first use.
pub(crate) struct Names<'p> {
    plan: &'p Plan,
    files: Files,
    places: HashMap<u64, SourcePlace>,
    /// The types and names of similar allocations.
    named: HashMap<AllocationKind, Named>,
    /// The allocation site of each call stack.
    taken: HashMap<u32, (usize, SourcePlace)>,
    pub(crate) notes: Vec<String>,
}

impl<'p> Names<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Self {
        Self::with_files(plan, Files::default())
    }

    /// Reuses the files of another replay of the same recording, which has the same modules with the same numbers.
    pub(crate) fn with_files(plan: &'p Plan, mut files: Files) -> Self {
        files.0.resize_with(plan.modules.len(), || None);
        Self {
            plan,
            files,
            places: HashMap::new(),
            named: HashMap::new(),
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

    /// Returns the module's file, which is loaded once.
    fn loaded(&mut self, number: usize) -> &Loaded {
        // A kernel's file is several modules: one for each CPU's variables.
        let path = &self.plan.modules[number].path;
        let same = self.plan.modules.iter().position(|module| module.path == *path);
        let number = same.unwrap_or(number);
        if self.files.0[number].is_none() {
            self.files.0[number] = Some(self.load(number));
        }
        self.files.0[number].as_ref().expect("it was loaded just now")
    }

    fn load(&mut self, number: usize) -> Loaded {
        let path = Path::new(&self.plan.modules[number].path);
        let notes = &mut self.notes;
        let mut note = |why: String| notes.push(format!("{}: {why}", input::path(path)));
        let carried = self.plan.names.as_ref().filter(|_| path == Path::new(NAMES_PATH));
        let binary = match carried {
            Some(names) => Binary::from_bytes(Arc::clone(names)),
            None => Binary::open(path),
        };
        let binary = match binary {
            Ok(binary) => binary,
            Err(error) => {
                note(error.to_string());
                return Loaded::default();
            }
        };
        let is_expected = carried.is_none() && is_program(path);
        if let (DebugSource::Missing(why), true) = (binary.source(), is_expected) {
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

    /// Returns where a function and the compiler's variants of it lie.
    pub(crate) fn code_of(&mut self, function: &str) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        for number in 0..self.plan.modules.len() {
            let Module { base, start, end, .. } = self.plan.modules[number];
            let is_it = |symbol: &&Symbol| {
                let rest = symbol.name.strip_prefix(function);
                !symbol.is_data && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            for symbol in self.loaded(number).symbols().iter().filter(is_it) {
                let first = base.wrapping_add(symbol.address);
                if (start..end).contains(&first) {
                    found.push(first..first.saturating_add(symbol.size_bytes));
                }
            }
        }
        found
    }

    pub(crate) fn types(&mut self, number: usize) -> Option<&TypeTable> {
        self.loaded(number).types.as_ref()
    }

    /// Returns the source position of an instruction, given the address after it.
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
        // Prefer the innermost inlined function that belongs to the program rather than to a standard library.
        let own = frames.iter().find(|frame| frame.is_own()).or(frames.first());
        let mut place = own.cloned().unwrap_or_default();
        if place.function.is_empty() {
            let symbol = function_at(self.loaded(number).symbols(), within);
            place.function = symbol.unwrap_or_else(|| format!("{}+{within:#x}", file_name(path)));
        }
        place
    }

    /// Returns the functions at an address of a module, the innermost inlined function first.
    fn frames(&mut self, number: usize, within: u64) -> Vec<SourcePlace> {
        let binary = self.loaded(number).binary.as_ref();
        binary.map_or_else(Vec::new, |binary| binary.frames(within))
    }

    /// Returns the object at an address at the time of an access. `seen_from` are instructions that access it.
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
            // The shift applies to a module's data, not to its code.
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

    /// Returns the path of an object's field at an address.
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

/// Returns the type and size of an array's element, or of the global itself if it is not an array.
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

/// Whether it is the program itself. Engines report it before its libraries.
fn is_program(path: &Path) -> bool {
    !path.to_string_lossy().contains(".so")
}

fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name().unwrap_or_default();
    input::plain(&name.to_string_lossy())
}

/// Returns symbols that begin at or before an address, the nearest first.
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

/// Returns the name, address and size of the data at an address.
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

/// Returns the size of data without type information: the size in its symbol or, if that is 0, the distance to the next
/// symbol or the end of the line.
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

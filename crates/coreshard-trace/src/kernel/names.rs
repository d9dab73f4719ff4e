//! The names of what a kernel's CPUs shared: its symbols and types, and the objects on the lines that several CPUs touched.
//!
//! All is found out when the guest has ended, from its memory, so that a recording can be read anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::flow::Flow;
use super::memory::{DIRECT_MAP, GuestMemory, PAGE_MAP};
use super::slabs::{Slabs, TaskStack, stacks};
use super::structs::Structs;
use super::touched::{LineAccess, Touched};
use super::{KernelSymbols, elf};
use crate::recording::{NAMES_PATH, RecordingError, module_words, object_words, put_event};
use crate::types::{MergedBtf, TypeId, TypeTable, TypedGlobal};

/// Where the kernel's own code and data lie, and those of its modules.
const CODE_START: u64 = 0xffff_ffff_8000_0000;
/// A task's stack on x86-64.
const STACK_BYTES: u64 = 16 << 10;
const PAGE_BYTES: u64 = 4_096;
/// Where memory begins that the kernel maps page by page, such as stacks.
const VMALLOC_START: u64 = 0xffff_c900_0000_0000;
const PAGE_STRUCT_BYTES: u64 = 64;
/// Of what holds a type, a candidate has at least one in so many of the accesses that agree on the object's start.
const LEAST_SHARE: usize = 5;
/// A part of the names in a recording.
const PART_BYTES: usize = 8 << 20;
/// Between a cache and the function that allocated an object of it.
const FROM: &str = " from ";
/// From the first ticket on.
const ALWAYS: u64 = 1;
const EVENT_MODULE: u16 = 14;
const EVENT_OBJECT: u16 = 16;

/// The sources of a kernel's types.
#[derive(Clone, Copy, Debug)]
pub struct KernelTypes<'a> {
    /// The kernel's BTF, as in `/sys/kernel/btf/vmlinux`.
    pub kernel: &'a [u8],
    /// The BTF of its modules, each with the module's name.
    pub modules: &'a [(String, Vec<u8>)],
}

/// Notes during a recording what its CPUs share, and names it afterwards.
#[derive(Default)]
pub struct KernelNames {
    touched: Touched,
}

impl std::fmt::Debug for KernelNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelNames").finish_non_exhaustive()
    }
}

/// The names of a recording.
#[derive(Clone, Debug, Default)]
pub struct NamedKernel {
    /// A file of names, in parts for [`RecordingWriter::names`](crate::RecordingWriter::names).
    pub file: Vec<Vec<u8>>,
    /// Events that name objects, as a chunk.
    pub chunk: Vec<u8>,
    /// What could not be named, and why.
    pub notes: Vec<String>,
}

/// An object to be named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Object {
    start: u64,
    bytes: u64,
    origin: String,
    of: String,
}

/// Types that accesses say an object has: by where the type would begin, how often each.
#[derive(Default)]
struct Votes {
    /// Those of what a pointer points to.
    of: BTreeMap<(u64, TypeId), usize>,
    /// Those that have what the pointer points to, if the access is beside it.
    around: BTreeMap<(u64, TypeId), usize>,
}

/// Whether an origin is a cache.
fn is_cache(origin: &str) -> bool {
    !["pages", "vmalloc", "page map"].contains(&origin) && !origin.starts_with("stack of")
}

impl KernelNames {
    /// Notes the accesses of a chunk of a CPU's events.
    ///
    /// # Errors
    /// If the chunk is damaged.
    pub fn note(&mut self, thread: u32, chunk: &[u8]) -> Result<(), RecordingError> {
        self.touched.note(thread, chunk)
    }

    /// Names what was noted. `debug_file` is the kernel's file with DWARF, if it is installed; its globals then have their types
    /// from there.
    #[must_use]
    pub fn name(
        &self,
        memory: &GuestMemory,
        symbols: &KernelSymbols,
        types: Option<KernelTypes<'_>>,
        cpus: usize,
        debug_file: Option<&str>,
    ) -> NamedKernel {
        let mut named = NamedKernel::default();
        if self.touched.is_full() {
            named.notes.push("beyond two million lines, objects have no names".to_owned());
        }
        let cpu_data = self.put_modules(&mut named, memory, symbols, cpus, debug_file);
        let mut btf = Vec::new();
        match types.map(|types| merged(types, &mut named.notes)) {
            None => named.notes.push(
                "objects have no types: the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)".to_owned(),
            ),
            Some(Err(why)) => named.notes.push(format!("objects have no types: {why}")),
            Some(Ok((mut all, table))) => {
                let mut naming = Naming::new(memory, symbols, &table, &mut named.notes);
                let mut shared = self.touched.shared();
                shared.retain(|(line, _)| !cpu_data.iter().any(|its| its.contains(line)));
                for object in naming.objects(&shared) {
                    let Object { start, bytes, origin, of } = object;
                    let words = object_words(start, bytes, ALWAYS, &origin, &of);
                    put_event(&mut named.chunk, EVENT_OBJECT, &words);
                }
                all.add_globals(&naming.globals(&shared));
                btf = all.bytes();
            }
        }
        let file = elf::file(symbols.all().iter().filter(|symbol| symbol.address != 0), btf);
        named.file = file.chunks(PART_BYTES).map(<[u8]>::to_vec).collect();
        named
    }

    /// The kernel and its modules as one module, and each CPU's own variables as another. Returns where the latter are.
    fn put_modules(
        &self,
        named: &mut NamedKernel,
        memory: &GuestMemory,
        symbols: &KernelSymbols,
        cpus: usize,
        debug_file: Option<&str>,
    ) -> Vec<Range<u64>> {
        let mut put = |base, start, end, path: &str| {
            put_event(&mut named.chunk, EVENT_MODULE, &module_words(base, start, end, path));
        };
        put(0, CODE_START, u64::MAX, NAMES_PATH);
        let path = debug_file.unwrap_or(NAMES_PATH);
        if let (Some(_), Some(start), Some(end)) =
            (debug_file, symbols.address_of("_text"), symbols.address_of("_end"))
        {
            put(0, start, end, path);
        }
        let range = symbols.address_of("__per_cpu_start").zip(symbols.address_of("__per_cpu_end"));
        let offsets = symbols.address_of("__per_cpu_offset");
        let (Some((start, end)), Some(offsets)) = (range, offsets) else {
            named.notes.push(
                "per-CPU variables have no names: the kernel has no symbol __per_cpu_offset"
                    .to_owned(),
            );
            return Vec::new();
        };
        let bases = (0..cpus as u64).map_while(|cpu| memory.word(offsets + 8 * cpu));
        let each = bases.map(|base| {
            let (start, end) = (base.wrapping_add(start), base.wrapping_add(end));
            put(base, start, end, path);
            // A line belongs to it if any of its bytes does.
            start & !63..end
        });
        each.collect()
    }
}

fn merged(
    types: KernelTypes<'_>,
    notes: &mut Vec<String>,
) -> Result<(MergedBtf, TypeTable), String> {
    let mut all = MergedBtf::new(types.kernel).map_err(|error| error.to_string())?;
    for (name, module) in types.modules {
        let before = all.clone();
        if let Err(error) = all.add(module) {
            all = before;
            notes.push(format!("the types of module {name} are not used: {error}"));
        }
    }
    let table = TypeTable::from_btf(&all.bytes()).map_err(|error| error.to_string())?;
    Ok((all, table))
}

struct Naming<'k> {
    symbols: &'k KernelSymbols,
    structs: Structs<'k>,
    flow: Flow<'k>,
    slabs: Option<Slabs<'k>>,
    stacks: Vec<TaskStack>,
    /// The first address of the kernel's own code and data.
    text: u64,
}

impl<'k> Naming<'k> {
    fn new(
        memory: &'k GuestMemory,
        symbols: &'k KernelSymbols,
        types: &'k TypeTable,
        notes: &mut Vec<String>,
    ) -> Self {
        let structs = Structs::of(types);
        let mut known =
            |what: &str, why: String| notes.push(format!("{what} have no names: {why}"));
        let slabs = Slabs::of(memory, symbols, &structs);
        let slabs = slabs.map_err(|why| known("objects of caches", why)).ok();
        let stacks = stacks(memory, symbols, &structs);
        let stacks = stacks.map_err(|why| known("stacks", why)).unwrap_or_default();
        let flow = Flow::new(memory, symbols, types);
        Self {
            symbols,
            structs,
            flow,
            slabs,
            stacks,
            text: symbols.address_of("_text").unwrap_or(0),
        }
    }

    /// The objects on shared lines, by address.
    fn objects(&mut self, shared: &[(u64, Vec<LineAccess>)]) -> Vec<Object> {
        let mut votes: BTreeMap<(u64, u64, String), Votes> = BTreeMap::new();
        for (line, sites) in shared.iter().filter(|(line, _)| *line < CODE_START) {
            let is_stack = *line >= VMALLOC_START
                && *line < PAGE_MAP
                && sites.iter().any(|site| self.flow.is_on_stack(site.pc));
            for LineAccess { pc, address, .. } in sites {
                let key = self.place_of(*line, *address, is_stack);
                let votes = votes.entry(key).or_default();
                let Some(target) = self.flow.target(*pc) else { continue };
                let start = address.wrapping_add_signed(target.offset.wrapping_neg());
                *votes.of.entry((start, target.of)).or_default() += 1;
                let bytes = self.size(target.of);
                if !(0..bytes as i64).contains(&target.offset) {
                    for (holder, at) in self.structs.holders_of(target.of) {
                        let start = start.wrapping_sub(*at);
                        if address.wrapping_sub(start) < self.size(*holder) {
                            *votes.around.entry((start, *holder)).or_default() += 1;
                        }
                    }
                }
            }
        }
        // Types of other objects of a cache tell which of several holders of a struct an object is.
        let mut known: BTreeMap<String, BTreeSet<TypeId>> = BTreeMap::new();
        for ((start, bytes, origin), votes) in &votes {
            if let Some(of) = self.whole(*start, *bytes, origin, votes) {
                known.entry(origin.clone()).or_default().insert(of);
            }
        }
        let named = votes.into_iter().map(|((start, bytes, origin), votes)| {
            let known = known.get(&origin);
            let of = self
                .whole(start, bytes, &origin, &votes)
                .or_else(|| self.around(start, bytes, &origin, &votes, known));
            self.named(start, bytes, origin, of, &votes)
        });
        let mut objects: Vec<Object> = named.flatten().collect();
        objects.sort_by_key(|its| (its.start, std::cmp::Reverse(its.bytes)));
        objects.dedup();
        objects
    }

    /// Where an address lies: the start of what was allocated there, its bytes, and where that comes from.
    fn place_of(&self, line: u64, address: u64, is_stack: bool) -> (u64, u64, String) {
        let before = self.stacks.partition_point(|stack| stack.start <= address);
        if let Some(stack) = self.stacks[..before].last()
            && address - stack.start < STACK_BYTES
        {
            return (stack.start, STACK_BYTES, format!("stack of task {}", stack.task));
        }
        if let Some(object) = self.slabs.as_ref().and_then(|slabs| slabs.object_at(address)) {
            let site = object.allocated_at.and_then(|site| self.symbols.at(site.wrapping_sub(1)));
            let origin = match site.filter(|symbol| !symbol.is_data) {
                Some(function) => format!("{}{FROM}{}", object.cache.name, function.name),
                None => object.cache.name.clone(),
            };
            // What the kernel keeps about an object lies behind it.
            let bytes = match object.allocated_at {
                Some(_) => object.cache.object_bytes,
                None => object.cache.stride,
            };
            return (object.start, bytes, origin);
        }
        if (PAGE_MAP..PAGE_MAP + (1 << 40)).contains(&address) {
            return (line, PAGE_STRUCT_BYTES, "page map".to_owned());
        }
        if is_stack {
            let start = address & !(STACK_BYTES - 1);
            return (start, STACK_BYTES, "stack of an ended task".to_owned());
        }
        let is_direct = (DIRECT_MAP..VMALLOC_START).contains(&address);
        let origin = if is_direct { "pages" } else { "vmalloc" };
        (address & !(PAGE_BYTES - 1), PAGE_BYTES, origin.to_owned())
    }

    fn size(&self, of: TypeId) -> u64 {
        self.structs.types.size_bytes(of).unwrap_or(u64::MAX)
    }

    /// Whether an object of a cache may have a type. Caches of `kmalloc` are for objects of more than half their size.
    fn fits(&self, of: TypeId, bytes: u64, cache: &str) -> bool {
        let size = self.size(of);
        // Masks of CPUs are as long as the machine needs.
        let is_cut = self.structs.named("cpumask") == Some(of);
        let fills = 2 * size > bytes || self.structs.has_open_end(of);
        is_cut || (size <= bytes && (fills || !cache.starts_with("kmalloc-")))
    }

    /// The type of a cache's object, from pointers to its start, or from the name of its cache.
    fn whole(&self, start: u64, bytes: u64, origin: &str, votes: &Votes) -> Option<TypeId> {
        if !is_cache(origin) {
            return None;
        }
        let at_start = |of: TypeId| self.structs.is_record(of) && self.fits(of, bytes, origin);
        let whole: Vec<_> =
            votes.of.iter().filter(|((at, of), _)| *at == start && at_start(*of)).collect();
        let most: usize = whole.iter().map(|(_, count)| **count).sum();
        let often = whole.into_iter().filter(|(_, count)| **count * LEAST_SHARE >= most);
        // A struct often begins with another one.
        let largest = often.max_by_key(|((_, of), count)| (self.size(*of), **count));
        if let Some(((_, of), _)) = largest {
            return Some(*of);
        }
        // Pointers to an array, or to a bitmap, are pointers to its elements.
        let mut elements = votes.of.keys().map(|(_, of)| *of);
        let first = elements.next();
        let is_array = first.is_some_and(|of| {
            let is_element = |at: u64| at.wrapping_sub(start).is_multiple_of(self.size(of));
            !self.structs.is_record(of)
                && elements.all(|other| other == of)
                && votes.of.keys().all(|(at, _)| is_element(*at))
        });
        self.type_of_cache(origin, bytes).or(first.filter(|_| is_array))
    }

    /// The type of a cache's object of which instructions have a pointer to a member alone, and go beyond it: the only struct
    /// with such a member that explains the most of them. If several do, the one that other objects of the cache have.
    fn around(
        &self,
        start: u64,
        bytes: u64,
        origin: &str,
        votes: &Votes,
        known: Option<&BTreeSet<TypeId>>,
    ) -> Option<TypeId> {
        let fits = |of: TypeId| is_cache(origin) && self.fits(of, bytes, origin);
        let found = votes.around.iter().filter(|((at, of), _)| *at == start && fits(*of));
        let most = found.clone().map(|(_, count)| *count).max()?;
        let most: Vec<_> =
            found.filter(|(_, count)| **count == most).map(|((_, of), _)| *of).collect();
        let is_known = |of: &&TypeId| known.is_some_and(|known| known.contains(of));
        let mut others = most.iter().filter(is_known);
        match (&most[..], others.next(), others.next()) {
            ([of], _, _) | (_, Some(of), None) => Some(*of),
            _ => None,
        }
    }

    /// An object with its type, or the typed objects within it.
    fn named(
        &self,
        start: u64,
        bytes: u64,
        origin: String,
        of: Option<TypeId>,
        votes: &Votes,
    ) -> Vec<Object> {
        let object = |start, bytes, of| Object { start, bytes, origin: origin.clone(), of };
        let type_name = |of: TypeId| self.structs.types.describe(Some(of));
        if origin == "page map" {
            return vec![object(start, bytes, "struct page".to_owned())];
        }
        if origin.starts_with("stack of") {
            return vec![object(start, bytes, String::new())];
        }
        if let Some(of) = of {
            return vec![object(start, bytes, type_name(of))];
        }
        let (is_slab, size) = (is_cache(&origin), |of: TypeId| self.size(of));
        // The whole is unknown; parts of it may be known.
        let mut parts: Vec<Object> = Vec::new();
        let mut known: Vec<_> = votes.of.iter().collect();
        known.sort_by_key(|((at, of), count)| (std::cmp::Reverse(**count), *at, *of));
        for ((at, of), _) in known {
            let end = at.saturating_add(size(*of));
            let is_within = !is_slab || (*at >= start && end <= start + bytes);
            let overlaps = parts.iter().any(|its| *at < its.start + its.bytes && its.start < end);
            if is_within && !overlaps && end - at < 1 << 20 {
                let name = match is_slab {
                    true => format!("{origin}+{}", at - start),
                    false => origin.clone(),
                };
                parts.push(Object {
                    start: *at,
                    bytes: size(*of),
                    origin: name,
                    of: type_name(*of),
                });
            }
        }
        if is_slab {
            parts.sort_by_key(|its| its.start);
            let ends = parts.iter().map(|its| its.start + its.bytes);
            let gaps: Vec<_> = std::iter::once(start)
                .chain(ends)
                .zip(parts.iter().map(|its| its.start).chain([start + bytes]))
                .filter(|(from, to)| from < to)
                .collect();
            parts.extend(gaps.into_iter().map(|(from, to)| Object {
                origin: match from - start {
                    0 => origin.clone(),
                    offset => format!("{origin}+{offset}"),
                },
                ..object(from, to - from, String::new())
            }));
        }
        parts
    }

    /// The struct that a cache is named after.
    fn type_of_cache(&self, cache: &str, bytes: u64) -> Option<TypeId> {
        let cache = cache.split(FROM).next().unwrap_or_default();
        let short = cache.trim_end_matches("_cachep").trim_end_matches("_cache");
        let names = match cache {
            "filp" => ["file".to_owned(), String::new(), String::new()],
            // files_cache has `struct files_struct`.
            _ => [cache.to_owned(), short.to_owned(), format!("{short}_struct")],
        };
        names.iter().find_map(|name| {
            let of = self.structs.named(name)?;
            let size = self.structs.types.size_bytes(of)?;
            // A task's struct is followed by its registers.
            (size > 0 && size <= bytes).then_some(of)
        })
    }

    /// The globals on shared lines whose types accesses tell.
    fn globals(&mut self, shared: &[(u64, Vec<LineAccess>)]) -> Vec<TypedGlobal> {
        let mut votes: BTreeMap<u64, BTreeMap<TypeId, usize>> = BTreeMap::new();
        for (_, sites) in shared.iter().filter(|(line, _)| *line >= CODE_START) {
            for LineAccess { pc, address, .. } in sites {
                let Some(symbol) = self.symbols.at(*address) else { continue };
                let Some(target) = self.flow.target(*pc) else { continue };
                let start = address.wrapping_add_signed(target.offset.wrapping_neg());
                let bytes = self.structs.types.size_bytes(target.of).unwrap_or(u64::MAX);
                if start == symbol.address && bytes <= symbol.size_bytes {
                    *votes.entry(start).or_default().entry(target.of).or_default() += 1;
                }
            }
        }
        // A global may be the only one of its struct, and have its name.
        for (line, sites) in shared.iter().filter(|(line, _)| *line >= CODE_START) {
            let addresses = sites.iter().map(|site| site.address).chain([line + 63]);
            for symbol in addresses.filter_map(|address| self.symbols.at(address)) {
                let of = self.structs.of_global(&symbol.name).filter(|_| symbol.is_data);
                let Some(of) = of else { continue };
                let bytes = self.structs.types.size_bytes(of).unwrap_or(u64::MAX);
                if bytes <= symbol.size_bytes {
                    *votes.entry(symbol.address).or_default().entry(of).or_default() += 1;
                }
            }
        }
        for (start, of) in self.numbers(shared) {
            votes.entry(start).or_insert_with(|| BTreeMap::from([(of, 1)]));
        }
        let typed = votes.into_iter().filter_map(|(start, mut votes)| {
            if votes.keys().any(|of| self.structs.is_record(*of)) {
                votes.retain(|of, _| self.structs.is_record(*of));
            }
            let size = |of: TypeId| self.structs.types.size_bytes(of).unwrap_or(0);
            let most: usize = votes.values().sum();
            let often = votes.into_iter().filter(|(_, count)| count * LEAST_SHARE >= most);
            let (of, _) = often.max_by_key(|(of, count)| (size(*of), *count))?;
            let symbol = self.symbols.at(start)?;
            let offset = u32::try_from(start.checked_sub(self.text)?).ok()?;
            Some((symbol.name.clone(), offset, size(of) as u32, of))
        });
        typed.collect()
    }

    /// The globals that all instructions access as one number, and the type of such a number.
    fn numbers(&self, shared: &[(u64, Vec<LineAccess>)]) -> BTreeMap<u64, TypeId> {
        let mut widths: BTreeMap<u64, Option<u8>> = BTreeMap::new();
        for site in shared.iter().flat_map(|(_, sites)| sites) {
            let symbol = self.symbols.at(site.address).filter(|symbol| symbol.is_data);
            let Some(symbol) = symbol else { continue };
            let is_start = symbol.address == site.address;
            let width = Some(site.bytes).filter(|bytes| is_start && bytes.is_power_of_two());
            let known = widths.entry(symbol.address).or_insert(width);
            if *known != width {
                *known = None;
            }
        }
        let typed = widths.into_iter().filter_map(|(start, width)| {
            let name = match width? {
                1 => "unsigned char",
                2 => "short unsigned int",
                4 => "unsigned int",
                8 => "long unsigned int",
                _ => return None,
            };
            Some((start, self.structs.number(name)?))
        });
        typed.filter(|(start, _)| *start >= CODE_START).collect()
    }
}

//! A kernel in miniature: its memory with page tables, caches and code, its types and symbols, and a recording of two CPUs.

use std::fs::File;
use std::os::unix::fs::FileExt;

use coreshard_sim::Machine;

use super::{GuestMemory, KernelNames, KernelSymbols, KernelTypes};
use crate::recording::{
    About, AccessKind, Ending, Recording, RecordingWriter, object_words, put_event,
};
use crate::replay::{ReplayOptions, ReplayReport, replay};

const CODE: u64 = 0xffff_ffff_8000_0000;
const DIRECT: u64 = 0xffff_8880_0000_0000;
const PAGES: u64 = 0xffff_ea00_0000_0000;
const BYTES: u64 = 1 << 22;

/// Where things are in physical memory.
mod at {
    pub(super) const TOP_TABLE: u64 = 0x1000;
    pub(super) const TABLES: u64 = 0x2000;
    pub(super) const BANNER: u64 = 0x10000;
    pub(super) const CACHES: u64 = 0x10100;
    pub(super) const CPU_OFFSETS: u64 = 0x10200;
    pub(super) const CACHE: u64 = 0x11000;
    pub(super) const CACHE_NAME: u64 = 0x11100;
    pub(super) const FUNCTION: u64 = 0x20000;
    pub(super) const INDEXED: u64 = 0x21000;
    pub(super) const CPU_DATA: u64 = 0x30000;
    /// The page structs of the first pages, and the first page of a slab of two.
    pub(super) const PAGE_STRUCTS: u64 = 0x100000;
    pub(super) const SLAB: u64 = 0x200000;
}

/// BTF, type by type.
struct Types {
    words: Vec<u32>,
    names: Vec<u8>,
    next: u32,
}

impl Types {
    fn name(&mut self, name: &str) -> u32 {
        let at = self.names.len() as u32;
        self.names.extend(name.bytes().chain([0]));
        at
    }

    fn add(&mut self, name: &str, info: u32, rest: &[u32]) -> u32 {
        let name = if name.is_empty() { 0 } else { self.name(name) };
        self.words.extend([name, info]);
        self.words.extend(rest);
        self.next += 1;
        self.next - 1
    }

    fn record(&mut self, name: &str, bytes: u32, fields: &[(&str, u32, u32)]) -> u32 {
        let mut rest = vec![bytes];
        for (field, of, offset) in fields {
            let name = if field.is_empty() { 0 } else { self.name(field) };
            rest.extend([name, *of, 8 * offset]);
        }
        self.add(name, 4 << 24 | fields.len() as u32, &rest)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let types = 4 * self.words.len() as u32;
        for word in [24, 0, types, types, self.names.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(&self.names);
        bytes
    }
}

/// The structs that lead to objects, a `struct root_domain`, a function that takes one, and a per-CPU variable.
fn types() -> Vec<u8> {
    let mut all = Types { words: Vec::new(), names: vec![0], next: 1 };
    let int = all.add("int", 1 << 24, &[4, 0x20]);
    let long = all.add("long", 1 << 24, &[8, 0x40]);
    all.add("unsigned int", 1 << 24, &[4, 0x20]);
    // The type of the global `nohz`, and another unnamed struct.
    all.record("", 16, &[("idle_cpus_mask", long, 0), ("has_blocked", int, 8)]);
    all.record("", 16, &[("other", long, 0), ("has_blocked", int, 8)]);
    all.record(
        "kmem_cache",
        64,
        &[
            ("size", int, 0),
            ("object_size", int, 4),
            ("oo", int, 8),
            ("name", long, 16),
            ("list", long, 24),
        ],
    );
    all.record("slab", 64, &[("slab_cache", long, 8)]);
    let domain = all.record(
        "root_domain",
        192,
        &[("refcount", int, 0), ("rto_count", int, 4), ("span", long, 8), ("count", int, 128)],
    );
    let pointer = all.add("", 2 << 24, &[domain]);
    let prototype = {
        let name = all.name("rd");
        all.add("", 13 << 24 | 1, &[0, name, pointer])
    };
    all.add("touch_domain", 12 << 24, &[prototype]);
    let pointer_to = |all: &mut Types, to: u32| all.add("", 2 << 24, &[to]);
    let function = |all: &mut Types, name: &str, parameter: u32| {
        let pointer = pointer_to(all, parameter);
        let word = all.name("its");
        let prototype = all.add("", 13 << 24 | 2, &[0, word, pointer, word, long]);
        all.add(name, 12 << 24, &[prototype]);
    };
    // A pointer to an array of structs, an array of structs in a struct, and a field of type `void *`.
    let word = all.record("sbitmap_word", 128, &[("word", long, 0), ("cleared", long, 64)]);
    let words = pointer_to(&mut all, word);
    let map = all.record("sbitmap", 32, &[("depth", int, 0), ("map", words, 16)]);
    function(&mut all, "touch_words", map);
    let mask = all.record("cpumask", 1_024, &[("bits", long, 0)]);
    let masks = pointer_to(&mut all, mask);
    let vector = all.record("cpupri_vec", 16, &[("count", int, 0), ("mask", masks, 8)]);
    let vectors = all.add("", 3 << 24, &[0, vector, int, 2]);
    let priorities = all.record("cpupri", 48, &[("first", int, 0), ("pri_to_cpu", vectors, 16)]);
    function(&mut all, "touch_vector", priorities);
    let untyped = pointer_to(&mut all, 0);
    let disk = all.record("gendisk", 16, &[("major", int, 0), ("private_data", untyped, 8)]);
    function(&mut all, "touch_private", disk);
    let atomic = all.record("atomic_t", 4, &[("counter", int, 0)]);
    let unnamed = all.record("", 4, &[("timeouts", atomic, 0)]);
    let private = all.record("scsi_disk", 192, &[("device", long, 8), ("", unnamed, 4)]);
    function(&mut all, "use_private", private);
    let queue = all.record("rq", 64, &[("lock", int, 0), ("nr_running", int, 4)]);
    let variable = all.add("runqueues", 14 << 24, &[queue, 1]);
    all.add(".data..percpu", 15 << 24 | 1, &[64, variable, 0x40, 64]);
    all.bytes()
}

fn symbols() -> KernelSymbols {
    let lines = [
        (CODE, 'T', "_text"),
        (CODE + at::TOP_TABLE, 'D', "init_top_pgt"),
        (CODE + at::BANNER, 'R', "linux_banner"),
        (CODE + at::CACHES, 'D', "slab_caches"),
        (CODE + at::CPU_OFFSETS, 'D', "__per_cpu_offset"),
        (CODE + at::FUNCTION, 'T', "touch_domain"),
        (CODE + at::FUNCTION + 0x40, 't', "touch_more.constprop.0"),
        (CODE + at::FUNCTION + 0x60, 'T', "other"),
        (CODE + at::INDEXED, 't', "touch_words"),
        (CODE + at::INDEXED + 0x12, 't', "touch_vector"),
        (CODE + at::INDEXED + 0x23, 't', "touch_private\t[sd_mod]"),
        (CODE + at::INDEXED + 0x34, 't', "use_private\t[sd_mod]"),
        (CODE + at::INDEXED + 0x40, 't', "last"),
        (CODE + 0x38000, 'D', "__per_cpu_start"),
        (CODE + 0x38040, 'D', "runqueues"),
        (CODE + 0x38080, 'D', "__per_cpu_end"),
        (CODE + 0x39000, 'b', "nohz"),
        (CODE + 0x39040, 'D', "ticks"),
        (CODE + 0x39080, 'D', "words"),
        (CODE + 0x40000, 'B', "_end"),
    ];
    let text: String = lines
        .iter()
        .map(|(address, letter, name)| format!("{address:016x} {letter} {name}\n"))
        .collect();
    KernelSymbols::parse(&text).unwrap()
}

/// `touch_domain(rd)`: adds 1 to `rd->rto_count`, loads `rd->count` by way of another register, and passes the domain after
/// it to a function without types.
const FUNCTION: [u8; 26] = [
    0xf0, 0xff, 0x47, 0x04, // lock incl 0x4(%rdi)
    0x48, 0x89, 0xfb, // mov %rdi,%rbx
    0x8b, 0x83, 0x80, 0x00, 0x00, 0x00, // mov 0x80(%rbx),%eax
    0x48, 0x8d, 0xbb, 0x00, 0x00, 0x00, 0x00, // lea 0x0(%rbx),%rdi
    0xe8, 0x27, 0x00, 0x00, 0x00, // call touch_more.constprop.0
    0xc3, // ret
];
/// Loads `rd->span`.
const VARIANT: [u8; 5] = [
    0x48, 0x8b, 0x47, 0x08, // mov 0x8(%rdi),%rax
    0xc3, // ret
];
/// `touch_words(map, index)`, `touch_vector(priorities, index)`, `touch_private(disk)` and `use_private(private)`.
const INDEXED: [u8; 53] = [
    0x48, 0x89, 0xf0, // mov %rsi,%rax
    0x48, 0xc1, 0xe0, 0x07, // shl $7,%rax
    0x48, 0x03, 0x47, 0x10, // add 0x10(%rdi),%rax
    0xf0, 0x48, 0x0f, 0xab, 0x50, 0x40, // lock bts %rdx,0x40(%rax)
    0xc3, // ret
    0x48, 0xc1, 0xe6, 0x04, // shl $4,%rsi
    0x48, 0x01, 0xfe, // add %rdi,%rsi
    0x48, 0x8b, 0x46, 0x18, // mov 0x18(%rsi),%rax
    0xf0, 0x48, 0x0f, 0xab, 0x10, // lock bts %rdx,(%rax)
    0xc3, // ret
    0x48, 0x8b, 0x5f, 0x08, // mov 0x8(%rdi),%rbx
    0x83, 0x43, 0x04, 0x01, // addl $1,0x4(%rbx)
    0x48, 0x89, 0xdf, // mov %rbx,%rdi
    0xe8, 0x01, 0x00, 0x00, 0x00, // call use_private
    0xc3, // ret
    0xc3, // ret
];
const AFTER_WORD: u64 = CODE + at::INDEXED + 0x11;
const AFTER_MASK: u64 = CODE + at::INDEXED + 0x22;
const AFTER_PRIVATE: u64 = CODE + at::INDEXED + 0x2b;
const AFTER_ADD: u64 = CODE + at::FUNCTION + 4;
const AFTER_LOAD: u64 = CODE + at::FUNCTION + 13;
const AFTER_VARIANT: u64 = CODE + at::FUNCTION + 0x44;
const IN_OTHER: u64 = CODE + at::FUNCTION + 0x64;

fn memory() -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(BYTES).unwrap();
    let word = |address: u64, value: u64| file.write_all_at(&value.to_le_bytes(), address).unwrap();
    let half = |address: u64, value: u32| file.write_all_at(&value.to_le_bytes(), address).unwrap();
    // Three tables of large pages, which map physical memory from 0 on.
    for (number, start) in [CODE, DIRECT].into_iter().enumerate() {
        let table = at::TABLES + 0x1000 * number as u64;
        word(at::TOP_TABLE + (start >> 39 & 0x1ff) * 8, table | 1);
        word(table + (start >> 30 & 0x1ff) * 8, 1 << 7 | 1);
    }
    let (third, fourth) = (at::TABLES + 0x2000, at::TABLES + 0x3000);
    word(at::TOP_TABLE + (PAGES >> 39 & 0x1ff) * 8, third | 1);
    word(third + (PAGES >> 30 & 0x1ff) * 8, fourth | 1);
    let fifth = at::TABLES + 0x4000;
    word(fourth, fifth | 1);
    for page in 0..16 {
        word(fifth + 8 * page, (at::PAGE_STRUCTS + 0x1000 * page) | 1);
    }
    file.write_all_at(b"Linux version 7", at::BANNER).unwrap();
    file.write_all_at(&FUNCTION, at::FUNCTION).unwrap();
    file.write_all_at(&VARIANT, at::FUNCTION + 0x40).unwrap();
    file.write_all_at(&INDEXED, at::INDEXED).unwrap();
    // One cache, of objects of 256 bytes in slabs of two pages.
    let list = DIRECT + at::CACHE + 24;
    word(at::CACHES, list);
    word(at::CACHE + 24, CODE + at::CACHES);
    half(at::CACHE, 256);
    half(at::CACHE + 4, 192);
    half(at::CACHE + 8, 1 << 16 | 32);
    word(at::CACHE + 16, DIRECT + at::CACHE_NAME);
    file.write_all_at(b"kmalloc-256\0", at::CACHE_NAME).unwrap();
    word(at::PAGE_STRUCTS + (at::SLAB >> 12) * 64 + 8, DIRECT + at::CACHE);
    for cpu in 0..2 {
        let start = DIRECT + at::CPU_DATA + 0x1000 * cpu;
        word(at::CPU_OFFSETS + 8 * cpu, start.wrapping_sub(CODE + 0x38000));
    }
    file
}

/// An access as the recorder writes it.
fn access(chunk: &mut Vec<u8>, site: u16, instruction: u64, address: u64, kind: AccessKind) {
    chunk.extend((site << 4 | 5).to_le_bytes());
    chunk.extend(instruction.to_le_bytes());
    chunk.extend(address.to_le_bytes());
    chunk.extend([if kind == AccessKind::Modify { 2 | 4 } else { 0 }, 4]);
}

/// The third object of the slab, on its second page.
const DOMAIN: u64 = DIRECT + at::SLAB + 0x1200;
/// The object after it, which the variant alone accesses.
const NEXT_DOMAIN: u64 = DOMAIN + 0x100;
/// Objects of two `struct sbitmap_word`, of a mask of CPUs, and of what a module keeps behind a `void *`.
const WORDS: u64 = DOMAIN + 0x200;
const MASK: u64 = DOMAIN + 0x300;
const PRIVATE: u64 = DOMAIN + 0x400;
/// The run queue of the second CPU.
const QUEUE: u64 = DIRECT + at::CPU_DATA + 0x1000 + 0x40;

fn events(cpu: u64) -> Vec<u8> {
    let mut chunk = Vec::new();
    put_event(&mut chunk, 1, &[0, 1 + cpu, cpu]);
    put_event(&mut chunk, 13, &[1, 0]);
    for round in 0..40 {
        let ticket = 10 + 4 * round + 2 * cpu;
        put_event(&mut chunk, 5, &[QUEUE, 0, ticket, IN_OTHER]);
        access(&mut chunk, 3, IN_OTHER, QUEUE + 4, AccessKind::Modify);
        put_event(&mut chunk, 6, &[QUEUE, ticket + 1]);
        access(&mut chunk, 3, IN_OTHER, QUEUE + 4, AccessKind::Modify);
        access(&mut chunk, 1, AFTER_ADD, DOMAIN + 4, AccessKind::Modify);
        access(&mut chunk, 2, AFTER_LOAD, DOMAIN + 128, AccessKind::Modify);
        access(&mut chunk, 4, AFTER_VARIANT, NEXT_DOMAIN + 8, AccessKind::Modify);
        access(&mut chunk, 9, AFTER_WORD, WORDS + 128 + 64, AccessKind::Modify);
        access(&mut chunk, 10, AFTER_MASK, MASK, AccessKind::Modify);
        access(&mut chunk, 11, AFTER_PRIVATE, PRIVATE + 4, AccessKind::Modify);
        for (site, global) in (5..).zip([0x39008, 0x39040, 0x39080, 0x39084]) {
            access(&mut chunk, site, IN_OTHER, CODE + global, AccessKind::Modify);
        }
    }
    chunk
}

fn recording() -> (Vec<u8>, Vec<String>) {
    let (symbols, types) = (symbols(), types());
    let memory = GuestMemory::new(vec![(BYTES, memory())], &symbols).unwrap();
    let mut bytes = Vec::new();
    let mut writer = RecordingWriter::new(&mut bytes, &About::default()).unwrap();
    let mut names = KernelNames::default();
    for cpu in 0..2 {
        let chunk = events(cpu);
        names.note(cpu as u32 + 1, &chunk).unwrap();
        writer.chunk(cpu as u32 + 1, 0, &chunk).unwrap();
    }
    let types = KernelTypes { kernel: &types, modules: &[] };
    let named = names.name(&memory, &symbols, Some(types), 2, None);
    for (order, part) in named.file.iter().enumerate() {
        writer.names(order as u32, part).unwrap();
    }
    writer.chunk(1, u32::MAX, &named.chunk).unwrap();
    writer.finish(&Ending::default()).unwrap();
    (bytes, named.notes)
}

fn replayed(bytes: Vec<u8>) -> ReplayReport {
    let recording = Recording::from_bytes(bytes).unwrap();
    replay(&recording, &Machine::pocket(), &ReplayOptions::default()).unwrap()
}

#[test]
fn heap_objects_and_per_cpu_variables_have_names_and_fields() {
    let (bytes, notes) = recording();
    // The types have no tasks, and the note says so.
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("stacks have no names"), "{notes:?}");
    let report = replayed(bytes.clone());
    let field = |object: &str, field: &str| {
        report
            .lines
            .iter()
            .any(|line| line.object == object && line.words.iter().any(|word| word.field == field))
    };
    let told: Vec<_> = report.lines.iter().map(|line| &line.object).collect();
    assert!(field("struct root_domain (kmalloc-256)", "rto_count"), "{told:?}");
    assert!(field("struct root_domain (kmalloc-256)", "count"), "{told:?}");
    assert!(field("struct root_domain (kmalloc-256)", "span"), "a caller knows its type: {told:?}");
    assert!(field("struct sbitmap_word (kmalloc-256+128)", "cleared"), "an element: {told:?}");
    assert!(field("struct cpumask (kmalloc-256)", "bits"), "a pointer of an element: {told:?}");
    assert!(field("struct scsi_disk (kmalloc-256)", "timeouts"), "a call tells it: {told:?}");
    assert!(field("nohz", "has_blocked"), "{told:?}");
    assert!(field("ticks", ""), "it is one number: {told:?}");
    assert!(field("words", "+4"), "it is several: {told:?}");
    assert!(
        report
            .lines
            .iter()
            .flat_map(|line| &line.words)
            .any(|word| word.place.function == "touch_domain"),
        "instructions have their functions"
    );
    assert_eq!(report, replayed(bytes), "one recording, one machine, one result");
}

#[test]
fn a_lock_of_the_kernel_is_waited_for_and_not_spun_on() {
    let report = replayed(recording().0);
    let lock = report.locks.iter().find(|lock| lock.object == "runqueues");
    assert_eq!(lock.map(|lock| lock.field.as_str()), Some("lock"), "{:?}", report.locks);
}

#[test]
fn a_recording_that_is_cut_is_read_as_far_as_it_goes() {
    let (bytes, _) = recording();
    let whole = replayed(bytes.clone());
    let cut = replayed(bytes[..bytes.len() / 2].to_vec());
    assert!(cut.notes.iter().any(|note| note.contains("truncated")), "{:?}", cut.notes);
    assert!(0 < cut.accesses && cut.accesses < whole.accesses);
}

#[test]
fn kernels_without_types_or_with_other_memory_say_so() {
    let symbols = symbols();
    let memory = GuestMemory::new(vec![(BYTES, memory())], &symbols).unwrap();
    let notes = |types: Option<KernelTypes<'_>>| {
        KernelNames::default().name(&memory, &symbols, types, 2, None).notes.join("; ")
    };
    assert!(notes(None).contains("CONFIG_DEBUG_INFO_BTF"));
    let damaged = KernelTypes { kernel: b"no types", modules: &[] };
    assert!(notes(Some(damaged)).contains("BTF at offset 0"));
    let empty = tempfile::tempfile().unwrap();
    empty.set_len(BYTES).unwrap();
    let error = GuestMemory::new(vec![(BYTES, empty)], &symbols).unwrap_err();
    assert!(error.contains("not where its symbols say"), "{error}");
    let few = KernelSymbols::parse("ffffffff81000000 T _text\n").unwrap();
    let error = GuestMemory::new(Vec::new(), &few).unwrap_err();
    assert!(error.contains("no symbol"), "{error}");
}

#[test]
fn an_object_of_unknown_type_has_its_caches_name_and_offsets() {
    let mut bytes = Vec::new();
    let mut writer = RecordingWriter::new(&mut bytes, &About::default()).unwrap();
    for cpu in 0..2 {
        writer.chunk(cpu as u32 + 1, 0, &events(cpu)).unwrap();
    }
    let mut named = Vec::new();
    put_event(&mut named, 16, &object_words(DOMAIN, 256, 1, "kmalloc-256", ""));
    writer.chunk(1, 1, &named).unwrap();
    writer.finish(&Ending::default()).unwrap();
    let report = replayed(bytes);
    let line = report.lines.iter().find(|line| line.object == "kmalloc-256 object");
    let line = line.unwrap_or_else(|| panic!("{:?}", report.lines));
    assert!(line.words.iter().any(|word| word.field == "+4" || word.field == "+128"), "{line:?}");
}

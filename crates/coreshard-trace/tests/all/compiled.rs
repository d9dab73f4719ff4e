//! Types of programs that the test compiles: split debug information, and C++ classes.

use std::path::PathBuf;
use std::process::Command;

use coreshard_trace::{Binary, FieldPath, Layout, TypeTable};
use testing::{Lack, skip};

use crate::place::{Place, types};

impl Place {
    fn c_program(&self, options: &[&str]) -> Option<PathBuf> {
        self.write("left.c", LEFT);
        self.write("right.c", RIGHT);
        let arguments = [&["-o", "program", "left.c", "right.c"], options].concat();
        let is_compiled = self.run("cc", &arguments);
        if !is_compiled {
            skip(Lack::CCompiler, "cc does not start");
        }
        is_compiled.then(|| self.path("program"))
    }

    fn rust_program(&self, split: &str) -> PathBuf {
        self.write("program.rs", RUST);
        let split = format!("-Csplit-debuginfo={split}");
        let arguments = ["-g", "--edition", "2024", &split, "-Ccodegen-units=4", "program.rs"];
        assert!(self.run("rustc", &arguments), "rustc compiled this test");
        self.path("program")
    }
}

/// Two units of the same shape, with their entries at the same offsets.
const LEFT: &str = "struct left { char kind; long count; };\nstruct left left_one;\nint main(void) { return left_one.kind; }\n";
const RIGHT: &str = "struct sight { int kind; char count; };\nstruct sight right_one;\nint other(void) { return right_one.kind; }\n";
const RUST: &str = "#[repr(C)] pub struct Kept { pub kind: u8, pub count: u64 }\n\
    mod inner { #[repr(C)] pub struct Other { pub flag: bool, pub word: u32 } }\n\
    pub static KEPT: Kept = Kept { kind: 1, count: 2 };\n\
    fn main() {\n\
        let other = inner::Other { flag: std::env::args().count() > 0, word: 1 };\n\
        std::process::exit(i32::from(KEPT.kind) - i32::from(std::hint::black_box(&other).flag) + other.word as i32 - 1);\n\
    }\n";

/// Returns the name, offset and size of each field of a type, of which there must be exactly one.
fn fields(types: &TypeTable, name: &str) -> Vec<(String, u64, u64)> {
    let found = types.named(name);
    assert_eq!(
        found.len(),
        1,
        "{name}: {:?}",
        found.iter().map(|id| types.get(*id)).collect::<Vec<_>>()
    );
    let layout = Layout::of(types, found[0], 64).unwrap();
    layout
        .fields
        .into_iter()
        .map(|field| (field.name, field.offset_bytes, field.size_bytes))
        .collect()
}

fn told(name: &str, offset_bytes: u64, size_bytes: u64) -> (String, u64, u64) {
    (name.to_owned(), offset_bytes, size_bytes)
}

fn assert_c_types(types: &TypeTable) {
    assert_eq!(fields(types, "left"), [told("kind", 0, 1), told("count", 8, 8)]);
    assert_eq!(fields(types, "sight"), [told("kind", 0, 4), told("count", 4, 1)]);
    for (name, of) in [("left_one", "struct left"), ("right_one", "struct sight")] {
        let global = types.globals().iter().find(|global| global.name == name).expect(name);
        assert_eq!(types.describe(global.of), of);
        assert!(global.address > 0);
    }
}

fn assert_rust_types(types: &TypeTable) {
    assert_eq!(fields(types, "program::Kept"), [told("kind", 0, 1), told("count", 8, 8)]);
    assert_eq!(fields(types, "program::inner::Other"), [told("flag", 0, 1), told("word", 4, 4)]);
    let global = types.globals().iter().find(|global| global.name == "program::KEPT").unwrap();
    assert_eq!(types.describe(global.of), "program::Kept");
}

const C_OPTIONS: [&[&str]; 4] = [
    &["-gsplit-dwarf", "-gdwarf-4"],
    &["-gsplit-dwarf", "-gdwarf-5"],
    &["-gsplit-dwarf", "-gdwarf-4", "-fdebug-types-section"],
    &["-gsplit-dwarf", "-gdwarf-5", "-fdebug-types-section"],
];

#[test]
fn types_of_c_are_read_from_dwo_files() {
    for options in C_OPTIONS {
        let place = Place::new();
        let Some(program) = place.c_program(options) else { return };
        let types = types(&program);
        assert_c_types(&types);
        assert_eq!(types.missing_files(), &[] as &[String], "{options:?}");
    }
}

#[test]
fn types_of_c_are_read_from_a_dwp_file() {
    for options in C_OPTIONS {
        let place = Place::new();
        let Some(program) = place.c_program(options) else { return };
        // GNU's dwp crashes on DWARF 5.
        let (tool, lack) = match options.contains(&"-gdwarf-5") {
            true => ("llvm-dwp", Lack::LlvmDwp),
            false => ("dwp", Lack::Dwp),
        };
        if !place.run(tool, &["-e", "program", "-o", "program.dwp"]) {
            skip(lack, format_args!("{tool} does not start"));
            continue;
        }
        assert_eq!(place.delete(".dwo"), 2);
        assert_c_types(&types(&program));
    }
}

#[test]
fn dwo_files_are_found_beside_a_program_that_was_moved() {
    let place = Place::new();
    let Some(program) = place.c_program(C_OPTIONS[1]) else { return };
    let moved = Place::new();
    for entry in std::fs::read_dir(place.0.path()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, moved.path(&path.file_name().unwrap().to_string_lossy())).unwrap();
    }
    drop(place);
    assert!(!program.exists());
    assert_c_types(&types(&moved.path("program")));
}

#[test]
fn types_of_rust_are_read_from_each_form_of_split_debug_information() {
    for split in ["off", "packed", "unpacked"] {
        let place = Place::new();
        let program = place.rust_program(split);
        let split_files = ["packed", "unpacked"].contains(&split);
        let is_split = std::fs::read_dir(place.0.path()).unwrap().any(|entry| {
            let path = entry.unwrap().path();
            path.extension().is_some_and(|ending| ending == "dwo" || ending == "dwp")
        });
        assert_eq!(is_split, split_files, "{split}");
        assert_rust_types(&types(&program));
    }
}

#[test]
fn a_dwo_file_that_is_missing_is_named() {
    let place = Place::new();
    let Some(program) = place.c_program(C_OPTIONS[1]) else { return };
    let lost = place.files("left.dwo").remove(0);
    std::fs::remove_file(&lost).unwrap();
    let types = types(&program);
    assert_eq!(fields(&types, "sight").len(), 2, "the other file is read");
    assert!(types.named("left").is_empty());
    let [missing] = types.missing_files() else { panic!("{:?}", types.missing_files()) };
    assert!(missing.contains(&*lost.to_string_lossy()), "{missing}");
    assert!(missing.contains("program.dwp"), "{missing}");
}

#[test]
fn a_dwp_file_that_cannot_be_read_is_named() {
    let place = Place::new();
    let Some(program) = place.c_program(C_OPTIONS[1]) else { return };
    place.write("program.dwp", "not an object file");
    assert_c_types(&types(&program));
    assert_eq!(place.delete(".dwo"), 2);
    let types = types(&program);
    assert!(types.is_empty());
    let missing = types.missing_note().unwrap();
    assert!(missing.contains("program.dwp: not an ELF file"), "{missing}");
    assert!(missing.ends_with("(and 1 other file)"), "{missing}");
}

#[test]
fn a_file_of_split_debug_information_is_no_program() {
    let place = Place::new();
    let Some(_) = place.c_program(C_OPTIONS[1]) else { return };
    let refused = |ending: &str| {
        let error = Binary::open(&place.files(ending)[0]).unwrap_err().to_string();
        let expected = format!("a {ending} file of split debug information: expected the program");
        assert!(error.starts_with(&expected), "{error}");
    };
    refused(".dwo");
    if place.run("llvm-dwp", &["-e", "program", "-o", "program.dwp"]) {
        refused(".dwp");
    } else {
        skip(Lack::LlvmDwp, "llvm-dwp does not start");
    }
}

#[test]
fn a_dwo_file_of_another_build_is_not_read() {
    let place = Place::new();
    let Some(program) = place.c_program(C_OPTIONS[1]) else { return };
    place.write("kept", "");
    std::fs::copy(&program, place.path("kept")).unwrap();
    place.write("left.c", &LEFT.replace("long", "short"));
    place.run("cc", &["-o", "program", "left.c", "right.c", "-gsplit-dwarf", "-gdwarf-5"]);
    let types = types(&place.path("kept"));
    assert!(types.named("left").is_empty());
    let [missing] = types.missing_files() else { panic!("{:?}", types.missing_files()) };
    assert!(missing.contains("left.dwo") && missing.contains("another build"), "{missing}");
}

#[test]
fn a_class_that_stands_for_one_in_a_type_unit_is_that_class() {
    const SOURCE: &str = "struct Part { Part() {} int run(); long one; char two; };\n\
        enum Kind : short { first };\n\
        struct Whole : Part { Whole() {} Part part; Kind kind; int (Part::*run)(); Part many[2]; };\n\
        Whole whole;\n\
        int Part::run() { return 1; }\n\
        int main() { FIELD(Whole, part); FIELD(Whole, kind); FIELD(Whole, run); FIELD(Whole, many); }\n";
    for split in ["-gno-split-dwarf", "-gsplit-dwarf"] {
        let place = Place::new();
        let options = ["-fdebug-types-section", split];
        let Some((program, printed)) = cpp_program(&place, SOURCE, &options) else { return };
        let types = types(&program);
        let printed: Vec<_> =
            printed.into_iter().map(|(_, name, offset, size)| (name, offset, size)).collect();
        assert_eq!(fields(&types, "Whole")[1..], printed);
        let layout = Layout::of(&types, types.named("Whole")[0], 64).unwrap();
        let type_names: Vec<_> = layout.fields.iter().map(|field| &*field.type_name).collect();
        assert_eq!(type_names, ["Part", "Part", "Kind", "function Part::*", "Part[2]"]);
        assert_eq!(layout.fields[0].name, "(base Part)");
    }
}

#[test]
fn an_object_file_is_read_before_it_is_linked() {
    for options in [&["-g"][..], &["-g", "-gdwarf-4"], &["-g", "-fdebug-types-section"]] {
        let place = Place::new();
        place.write("left.c", LEFT);
        if !place.run("cc", &[&["-c", "left.c"], options].concat()) {
            return skip(Lack::CCompiler, "cc does not start");
        }
        let types = types(&place.path("left.o"));
        assert_eq!(fields(&types, "left"), [told("kind", 0, 1), told("count", 8, 8)]);
    }
}

/// Type, field, offset and size.
type Printed = Vec<(String, String, u64, u64)>;

/// Compiles a C++ program that prints the offsets of its own fields, one line each: type, field, offset, size. For a
/// base it prints the size 0, because it cannot determine the size of a base subobject.
fn cpp_program(place: &Place, source: &str, options: &[&str]) -> Option<(PathBuf, Printed)> {
    place.write("program.cpp", &format!("{CPP_HEAD}{source}"));
    let general = ["-g", "-std=c++17", "-Wno-invalid-offsetof", "-o", "program", "program.cpp"];
    if !place.run("c++", &[&general, options].concat()) {
        skip(Lack::CppCompiler, "c++ does not start");
        return None;
    }
    let program = place.path("program");
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let of_line = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().unwrap();
        (words[0].to_owned(), words[1].to_owned(), number(2), number(3))
    };
    Some((program, text.lines().map(of_line).collect()))
}

const CPP_HEAD: &str = "#include <cstddef>\n#include <cstdio>\n\
    #define FIELD(of, name) std::printf(\"%s %s %zu %zu\\n\", #of, #name, offsetof(of, name), sizeof(of::name))\n\
    template<class B, class D> void base(const char *of, const char *name) {\n\
        static D it;\n\
        std::printf(\"%s (virtual%cbase%c%s) %td 0\\n\", of, '_', '_', name, (char *)static_cast<B *>(&it) - (char *)&it);\n\
    }\n\
    #define BASE(of, name) base<name, of>(#of, #name)\n";

#[test]
fn pointers_to_members_have_the_size_that_the_compiler_gives_them() {
    const SOURCE: &str = "struct Task { int x; long y; int run(int); };\n\
        typedef int (Task::*Run)(int);\n\
        struct Row { char c; int (Task::*run)(int); int (Task::*kept)(int) const; Run named; Run many[2];\n\
                     int Task::*data; void (*Task::*function)(int); decltype(nullptr) none; long end; };\n\
        Row row;\n\
        int main() { FIELD(Row, c); FIELD(Row, run); FIELD(Row, kept); FIELD(Row, named); FIELD(Row, many);\n\
                     FIELD(Row, data); FIELD(Row, function); FIELD(Row, none); FIELD(Row, end); }\n";
    let place = Place::new();
    let Some((program, printed)) = cpp_program(&place, SOURCE, &[]) else { return };
    let types = types(&program);
    let printed: Vec<_> =
        printed.into_iter().map(|(_, name, offset, size)| (name, offset, size)).collect();
    assert_eq!(fields(&types, "Row"), printed);
    let layout = Layout::of(&types, types.named("Row")[0], 64).unwrap();
    assert_eq!(layout.alignment_bytes, 8);
    assert_eq!((layout.holes.len(), layout.wasted_bytes()), (1, 7), "{:?}", layout.holes);
    let type_names: Vec<_> = layout.fields.iter().map(|field| &*field.type_name).collect();
    assert_eq!(type_names[1], "function Task::*");
    assert_eq!(type_names[5], "int Task::*");
}

#[test]
fn virtual_bases_lie_where_the_compiler_put_them() {
    const SOURCE: &str = "struct V { long v; virtual ~V() {} };\n\
        struct L : virtual V { int l; };\n\
        struct R : virtual V { int r; char c; };\n\
        struct Diamond : L, R { char d; };\n\
        struct Below : Diamond, virtual R { short b; };\n\
        struct Plain { int a; char b; };\n\
        struct Made { Made() {} int a; char b; };\n\
        class Kept { int a; char b; public: int sum() { return a + b; } };\n\
        struct Char { Char() {} char c; };\n\
        struct AfterPlain : virtual Plain, virtual Char { char e; };\n\
        struct AfterMade : virtual Made, virtual Char { char e; };\n\
        struct AfterKept : virtual Kept, virtual Char { char e; };\n\
        struct Empty {};\n\
        struct OnEmpty : virtual Empty { int e; };\n\
        struct Face { virtual void f() {} };\n\
        struct OnFace : virtual Face { int o; };\n\
        struct TwoFaces : OnFace, virtual Face { int t; };\n\
        struct OtherFace : virtual Face { long o; };\n\
        struct BothFaces : OnFace, OtherFace { char b; };\n\
        struct Chain : virtual OnFace, virtual L { char c; };\n\
        struct alignas(32) Wide { Wide() {} char w; };\n\
        struct OnWide : virtual Char, virtual Wide { char o; };\n\
        struct Holds { Face face; short s; };\n\
        struct AfterHolds : virtual Holds, virtual Char { char e; };\n\
        struct alignas(16) Sixteen { long s; };\n\
        struct OnSixteen : virtual Sixteen { char o; };\n\
        struct AfterSixteen : virtual Sixteen, virtual Char, virtual OnSixteen { char e; };\n\
        struct alignas(16) Own : virtual Sixteen { char o[12]; };\n\
        struct AfterOwn : virtual Char, virtual Own { long e; };\n\
        struct OnlyBase : virtual Face {};\n\
        struct Inner : OnlyBase { short s; char c; };\n\
        struct AfterInner : virtual Inner { short s[3]; };\n\
        int main() {\n\
            BASE(AfterOwn, Sixteen); BASE(AfterOwn, Own); BASE(AfterInner, Inner); BASE(AfterInner, Face);\n\
            BASE(AfterHolds, Holds); BASE(AfterHolds, Char); BASE(AfterSixteen, Sixteen);\n\
            BASE(AfterSixteen, Char); BASE(AfterSixteen, OnSixteen);\n\
            BASE(L, V); BASE(R, V); BASE(Diamond, V); BASE(Below, V);\n\
            BASE(AfterPlain, Plain); BASE(AfterPlain, Char); BASE(AfterMade, Made); BASE(AfterMade, Char);\n\
            BASE(AfterKept, Kept); BASE(AfterKept, Char); BASE(OnEmpty, Empty); BASE(OnFace, Face);\n\
            BASE(TwoFaces, Face); BASE(BothFaces, Face); BASE(Chain, OnFace); BASE(Chain, L); BASE(Chain, V);\n\
            BASE(Chain, Face); BASE(OnWide, Char); BASE(OnWide, Wide);\n\
        }\n";
    for options in [&["-gdwarf-5"][..], &["-gsplit-dwarf"], &["-fdebug-types-section"]] {
        assert_virtual_bases(SOURCE, options);
    }
}

fn assert_virtual_bases(source: &str, options: &[&str]) {
    let place = Place::new();
    let Some((program, printed)) = cpp_program(&place, source, options) else { return };
    let types = types(&program);
    let mut wrong = Vec::new();
    for (of, base, offset, _) in &printed {
        let base = base.replace("(virtual_base_", "(virtual base ");
        let found = types.named(of);
        assert_eq!(found.len(), 1, "{of}");
        let layout = Layout::of(&types, found[0], 64).unwrap();
        let told: Vec<_> = layout.fields.iter().filter(|field| field.name == base).collect();
        if told.len() != 1 || told[0].offset_bytes != *offset {
            wrong.push(format!("{of}: {base} at {offset}, not {:?}", layout.fields));
        }
    }
    assert!(printed.len() == 29 && wrong.is_empty(), "{}", wrong.join("\n"));
    // A base has the size of its base subobject, so that no members overlap.
    let diamond = Layout::of(&types, types.named("Diamond")[0], 64).unwrap();
    let told: Vec<_> = diamond
        .fields
        .iter()
        .map(|field| (&*field.name, field.offset_bytes, field.size_bytes))
        .collect();
    assert_eq!(diamond.size_bytes, 48);
    assert_eq!(
        told,
        [("(base L)", 0, 12), ("(base R)", 16, 13), ("d", 29, 1), ("(virtual base V)", 32, 16)]
    );
    assert_eq!((diamond.alignment_bytes, diamond.padding_bytes), (8, 0));
    let path = FieldPath::at(&types, types.named("Diamond")[0], 40);
    assert_eq!((path.text.as_str(), path.offset_bytes), ("v", 40));
}

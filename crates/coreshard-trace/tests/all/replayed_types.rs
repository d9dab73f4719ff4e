//! Recordings of accesses to objects whose types are known from a compiled program.

use std::path::Path;

use coreshard_sim::Machine;
use coreshard_trace::{
    About, Ending, Layout, Recording, RecordingWriter, ReplayOptions, propose_layouts, replay,
};
use object::{Object as _, ObjectSymbol as _};
use testing::{Lack, skip};

use crate::place::{Place, types};

/// An atomic read-modify-write, as a recording has it.
const ATOMIC: u8 = 2 | 4;
const TIMES: usize = 500;

/// An event other than an access.
fn event(kind: u16, words: &[u64]) -> Vec<u8> {
    let mut bytes = (kind << 4 | 6).to_le_bytes().to_vec();
    bytes.extend((words.len() as u16).to_le_bytes());
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes
}

/// The program as a module, loaded at the addresses in its file.
fn module(program: &Path) -> Vec<u8> {
    let path = program.to_str().unwrap().as_bytes();
    let mut words = vec![0, 0x1000, 0x10_0000_0000, path.len() as u64];
    for part in path.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        words.push(u64::from_le_bytes(word));
    }
    event(14, &words)
}

fn allocation(address: u64, bytes: u64, from: u64) -> Vec<u8> {
    event(9, &[address, bytes, 0, 1, from])
}

/// Two threads that each modify a word many times. The first thread begins with other events.
fn recording(others: &[u8], words: [u64; 2]) -> Recording {
    let mut file = Vec::new();
    let mut writer = RecordingWriter::new(&mut file, &About::default()).unwrap();
    for (thread, word) in (1..).zip(words) {
        let mut events = if thread == 1 { others.to_vec() } else { Vec::new() };
        events.extend(5u16.to_le_bytes());
        events.extend(0x7f00_0000_0000_u64.to_le_bytes());
        events.extend(word.to_le_bytes());
        events.extend([ATOMIC, 8]);
        events.extend([0; 2].repeat(TIMES - 1));
        writer.chunk(thread, 0, &events).unwrap();
    }
    writer.finish(&Ending::default()).unwrap();
    Recording::from_bytes(file).unwrap()
}

fn address_of(program: &Path, symbol: &str) -> u64 {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.symbol_by_name(symbol).expect(symbol).address()
}

#[test]
fn memory_is_named_by_its_type_whatever_form_debug_information_has() {
    const SOURCE: &str = "#include <stdlib.h>\n\
        struct widget { long one, two, three, four, five; };\n\
        struct widget *make(void) { struct widget *its = malloc(sizeof *its); its->one = 1; return its; }\n\
        int main(void) { return make()->one - 1; }\n";
    for options in [
        &["-gdwarf-5"][..],
        &["-gdwarf-5", "-fdebug-types-section"],
        &["-gdwarf-4", "-fdebug-types-section"],
        &["-gdwarf-5", "-fdebug-types-section", "-gsplit-dwarf"],
    ] {
        let place = Place::new();
        place.write("program.c", SOURCE);
        let general = ["-g", "-no-pie", "-o", "program", "program.c"];
        if !place.run("cc", &[&general, options].concat()) {
            return skip(Lack::CCompiler, "cc does not start");
        }
        let program = place.path("program");
        let address = 0x20_0000_0000;
        let within = address_of(&program, "make") + 16;
        let others = [module(&program), allocation(address, 40, within)].concat();
        let recording = recording(&others, [address, address + 8]);
        let report = replay(&recording, &Machine::pocket(), &ReplayOptions::default()).unwrap();
        let object = &report.lines[0].object;
        assert!(object.starts_with("struct widget, taken at program.c:3"), "{options:?}: {object}");
    }
}

#[test]
fn what_the_compiler_places_stays_in_a_proposed_layout() {
    const SOURCE: &str = "struct Empty {};\n\
        struct V { long v; virtual ~V() {} };\n\
        struct B { long b; };\n\
        struct Whole : B, Empty, virtual V { long one, two; virtual void run() {} };\n\
        Whole whole;\n\
        int main() { return whole.one; }\n";
    let place = Place::new();
    place.write("program.cpp", SOURCE);
    if !place.run("c++", &["-g", "-no-pie", "-o", "program", "program.cpp"]) {
        return skip(Lack::CppCompiler, "c++ does not start");
    }
    let program = place.path("program");
    let types = types(&program);
    let layout = Layout::of(&types, types.named("Whole")[0], 64).unwrap();
    let at = |name: &str| {
        let field = layout.fields.iter().find(|field| field.name == name);
        field.unwrap_or_else(|| panic!("{name}: {:?}", layout.fields)).offset_bytes
    };
    let whole = address_of(&program, "whole");
    let recording = recording(&module(&program), [whole + at("one"), whole + at("two")]);
    let proposals =
        propose_layouts(&recording, &Machine::pocket(), &ReplayOptions::default()).unwrap();
    let [proposals] = &proposals[..] else { panic!("{proposals:#?}") };
    assert!(!proposals.proposals.is_empty(), "{proposals:#?}");
    for proposal in &proposals.proposals {
        let new = |name: &str| proposal.order.iter().find(|(its, _)| its == name).unwrap().1;
        for name in ["_vptr.Whole", "(base B)"] {
            assert_eq!(new(name), at(name), "{proposal:#?}");
        }
        let last = proposal.order.iter().max_by_key(|(_, to)| *to).unwrap();
        assert_eq!(last.0, "(virtual base V)", "{proposal:#?}");
        assert!(!proposal.suggestion.contains("base"), "{proposal:#?}");
    }
    let apart = |proposal: &&coreshard_trace::Proposal| {
        let new = |name: &str| proposal.order.iter().find(|(its, _)| its == name).unwrap().1;
        new("one") / 64 != new("two") / 64
    };
    assert!(proposals.proposals.iter().any(|proposal| apart(&proposal)), "{proposals:#?}");
}

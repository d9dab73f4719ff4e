//! Parsers of recordings and of other programs' types. Each function takes any bytes, and panics if a promise is
//! broken.

use std::hint::black_box;
use std::sync::Arc;

use coreshard_sim::Machine;
use coreshard_trace::{
    About, Binary, Ending, FieldPath, Layout, Recording, RecordingWriter, ReplayOptions, TypeTable,
    most_mixed, most_wasteful, propose_layouts, replay,
};

use super::told;

/// Threads of a recording that is made here.
const THREADS: usize = 4;

/// A file as `coreshard record` writes it, replayed.
pub fn recording(data: &[u8]) {
    match Recording::from_bytes(data.to_vec()) {
        Ok(recording) => is_replayed(&recording),
        Err(error) => told(error),
    }
}

/// Events of some threads, which checksums would keep from being reached: parts of the input, each a chunk.
pub fn recorded_events(data: &[u8]) {
    let mut file = Vec::new();
    let about = About { counts_instructions: data.len() % 2 == 1, ..About::default() };
    let mut writer = RecordingWriter::new(&mut file, &about).expect("memory can be written");
    for (number, chunk) in data.chunks(data.len() / THREADS + 1).enumerate() {
        writer.chunk(number as u32 + 1, 0, chunk).expect("memory can be written");
    }
    writer.finish(&Ending::default()).expect("memory can be written");
    is_replayed(&Recording::from_bytes(file).expect("it was written just now"));
}

fn is_replayed(recording: &Recording) {
    let (machine, options) = (Machine::pocket(), ReplayOptions::default());
    match replay(recording, &machine, &options) {
        Ok(report) => {
            let lost: f64 = report.lines.iter().map(|line| line.cost_ns).sum();
            assert!(lost.is_finite() && report.lines.len() <= report.shared_lines, "{report:?}");
            serde_json::to_string(&report).expect("it has no key but text");
            let names = report.lines.iter().map(|line| &line.object).chain(&report.notes);
            for name in names.filter(|name| !name.is_empty()) {
                told(name);
            }
        }
        Err(error) => told(error),
    }
    if let Err(error) = propose_layouts(recording, &machine, &options) {
        told(error);
    }
}

/// The kernel's types.
pub fn btf(data: &[u8]) {
    match TypeTable::from_btf(data) {
        Ok(types) => are_laid_out(&types),
        Err(error) => told(error),
    }
}

/// A program's types.
pub fn dwarf(data: &[u8]) {
    match Binary::from_bytes(Arc::from(data)).and_then(|binary| binary.types()) {
        Ok(types) => are_laid_out(&types),
        Err(error) => told(error),
    }
}

fn are_laid_out(types: &TypeTable) {
    for id in types.records().take(1_000) {
        let Some(layout) = Layout::of(types, id, 64) else { continue };
        let in_holes: u64 = layout.holes.iter().map(|hole| hole.size_bytes).sum();
        assert!(in_holes <= layout.size_bytes, "{layout:?}");
        for offset in [0, 1, layout.size_bytes / 2, layout.size_bytes] {
            black_box(FieldPath::at(types, id, offset));
        }
        black_box(types.describe(Some(id)));
    }
    assert!(most_wasteful(types, 64, 10).len() <= 10 && most_mixed(types, 64, 10).len() <= 10);
}

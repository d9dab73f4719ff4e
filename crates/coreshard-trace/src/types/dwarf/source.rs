//! Source lines of instructions.

use std::sync::Arc;

use addr2line::{LookupContinuation as _, LookupResult};
use coreshard_topology::input;

use super::sections::{Dwarf, Slice};
use super::split::{Reference, SplitFiles};

/// The position of an instruction in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct SourcePlace {
    /// The function; if unknown, the executable or library.
    pub function: String,
    /// The source file; empty if unknown.
    pub file: String,
    /// The line; 0 if unknown.
    pub line: u32,
}

impl SourcePlace {
    /// Whether it is known, and in neither a standard library nor a kernel's common headers.
    pub(crate) fn is_own(&self) -> bool {
        const LIBRARIES: [&str; 7] = [
            "/rustc/",
            "/rustlib/",
            "/include/c++/",
            "/sysdeps/",
            "/include/linux/",
            "/include/asm/",
            "/include/asm-generic/",
        ];
        self.line > 0
            && !self.file.starts_with("./")
            && !LIBRARIES.iter().any(|library| self.file.contains(library))
    }

    /// Whether the function allocates memory on behalf of its callers.
    pub(crate) fn is_allocator(&self) -> bool {
        let arguments = self.function.find(['<', '(']).unwrap_or(self.function.len());
        let name = self.function[..arguments].rsplit("::").next().unwrap_or_default();
        name.to_ascii_lowercase().contains("alloc")
    }
}

pub(in crate::types) type Context = addr2line::Context<Slice>;

pub(in crate::types) fn context(dwarf: &Arc<Dwarf>) -> Option<Context> {
    Context::from_arc_dwarf(Arc::clone(dwarf)).ok()
}

/// Returns the functions at an address, the innermost inlined function first.
pub(in crate::types) fn frames(
    context: &Context,
    split: &SplitFiles,
    address: u64,
) -> Vec<SourcePlace> {
    let mut lookup = context.find_frames(address);
    let found = loop {
        match lookup {
            LookupResult::Output(found) => break found,
            LookupResult::Load { load, continuation } => {
                let reference = load
                    .path
                    .as_ref()
                    .and_then(|name| Reference::new(load.dwo_id, name, load.comp_dir.as_ref()));
                let sections = reference
                    .and_then(|reference| split.sections_of(&load.parent, &reference).ok());
                lookup = continuation.resume(sections.map(Arc::new));
            }
        }
    };
    let mut all = Vec::new();
    let Ok(mut frames) = found else { return all };
    while let Ok(Some(frame)) = frames.next() {
        let function = frame.function.as_ref().and_then(|function| function.demangle().ok());
        let (file, line) = frame.location.map_or((None, None), |its| (its.file, its.line));
        all.push(SourcePlace {
            function: function.map(|name| input::plain(&name)).unwrap_or_default(),
            file: input::plain(file.unwrap_or_default()),
            line: line.unwrap_or(0),
        });
    }
    all
}

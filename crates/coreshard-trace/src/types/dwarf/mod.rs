//! DWARF, the debug information of programs: types and globals, source lines of instructions, variables of functions.
//!
//! | file | what it knows |
//! |---|---|
//! | `sections.rs` | sections of ELF files, as gimli takes them |
//! | `split.rs` | the files that a program with split debug information refers to |
//! | `entry.rs` | the attributes of one entry |
//! | `functions.rs` | the functions of a program by their addresses |
//! | `references.rs` | which entries stand for which types, and who refers to them |
//! | `virtual_bases.rs` | where C++ puts the virtual bases of a class |
//! | `walk.rs` | all types and globals, in one walk over all entries |
//! | `source.rs` | source lines of instructions |
//! | `variables.rs` | what variables of a function point to |

mod entry;
mod functions;
mod references;
mod sections;
mod source;
mod split;
mod variables;
mod virtual_bases;
mod walk;

pub(super) use functions::Functions;
pub(super) use sections::{Dwarf, Elf, debug_sections, read_file, section};
pub use source::SourcePlace;
pub(super) use source::{Context, context, frames};
pub(super) use split::SplitFiles;
pub(super) use variables::{Variable, variables_at};
pub(super) use walk::read;

//! DWARF, the debug information of programs: types and globals, source lines of instructions, variables of functions.
//!
//! | file | contents |
//! |---|---|
//! | `sections.rs` | sections of ELF files in the form that gimli expects |
//! | `split.rs` | the files that a program with split debug information refers to |
//! | `entry.rs` | the attributes of one entry |
//! | `functions.rs` | the functions of a program by their addresses |
//! | `references.rs` | references from types to the entries of other types |
//! | `virtual_bases.rs` | the offsets of virtual bases in C++ classes |
//! | `walk.rs` | all types and globals, in one pass over all entries |
//! | `source.rs` | source lines of instructions |
//! | `variables.rs` | the records that a function's variables point to |

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

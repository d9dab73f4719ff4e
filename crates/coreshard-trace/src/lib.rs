//! Recordings of a program's memory accesses, the names of what they touch, and layouts of its types.
//!
//! What is where:
//!
//! 1. [`TypeTable`], [`Binary`]: types and globals, read from DWARF and BTF.
//! 2. [`Layout`]: fields, holes and lines of a record; which records waste, and which mix what many write with
//!    what they read.
//! 3. [`Spool`], [`RecordingWriter`], [`Recording`]: how accesses come into a file, and out of it.
//! 4. [`replay`]: a recording on a machine that is not there, line by line, with names and advice.
//!
//! Whatever is read here comes from outside: it is bounded, and what is wrong is an error with its offset.

#![forbid(unsafe_code)]
#![doc(html_root_url = "https://docs.rs/coreshard-trace/0.1.0")]

mod layout;
mod recording;
mod replay;
mod types;

pub use layout::{Field, Hole, Layout, Mixed, Wasted, most_mixed, most_wasteful};
pub use recording::{
    About, AccessKind, Ending, Lack, ProgramFile, RECORDING_MARK, Recording, RecordingError,
    RecordingWriter, Spool, SpoolCounts, Taken,
};
pub use replay::{
    Advice, LatentCase, LatentSharing, LineView, ObjectView, Proposal, ReplayOptions, ReplayReport,
    Sharing, ThingKind, ThreadView, TypeProposals, WordView, latent_sharing, propose_layouts,
    replay,
};
pub use types::{
    Binary, DebugSource, FieldPath, Global, Keyword, Language, Member, Record, Role, Shape,
    SourcePlace, Type, TypeId, TypeTable, TypesError,
};

#[cfg(test)]
testing::watch!();

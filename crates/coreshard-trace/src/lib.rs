//! Recordings of a program's memory accesses, names for the accessed addresses, and layouts of types.
//!
//! 1. [`TypeTable`], [`Binary`]: types and globals, read from DWARF and BTF.
//! 2. [`Layout`]: fields, holes and lines of a record. [`most_wasteful`] and [`most_mixed`] rank the records of a program.
//! 3. [`Spool`], [`RecordingWriter`], [`Recording`]: the path of accesses into a file, and back out of it.
//! 4. [`replay`], [`propose_layouts`], [`latent_sharing`]: replays a recording on a simulated machine and reports each
//!    line with names and advice.
//!
//! All input is untrusted. Its size is bounded, and errors name the offset.
#![forbid(unsafe_code)]
#![doc(html_root_url = "https://docs.rs/coreshard-trace/0.1.0")]

mod kernel;
mod layout;
mod recording;
mod replay;
mod types;

pub use kernel::{
    GuestMemory, HookKind, KernelHook, KernelNames, KernelSymbol, KernelSymbols, KernelTypes,
    NamedKernel,
};
pub use layout::{Field, Hole, Layout, Mixed, Wasted, most_mixed, most_wasteful};
pub use recording::{
    About, AccessKind, Ending, KERNEL_ENGINE, Lack, ProgramFile, RECORDING_MARK, Recording,
    RecordingError, RecordingWriter, Spool, SpoolCounts, Taken,
};
pub use replay::{
    Advice, EarlyUnlock, Finding, FindingField, LatentCase, LatentSharing, LinePicture, LineView,
    LockView, ObjectView, PictureWord, Proposal, ReplayOptions, ReplayReport, SeparateFields,
    Sharing, ThingKind, ThreadView, TypeProposals, WordView, latent_sharing, propose_layouts,
    replay,
};
pub use types::{
    Binary, DebugSource, FieldPath, Global, Keyword, Language, Member, Record, Role, Shape,
    SourcePlace, Type, TypeId, TypeTable, TypesError,
};

#[cfg(test)]
testing::watch!();

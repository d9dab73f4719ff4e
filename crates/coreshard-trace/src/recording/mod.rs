//! Recordings of the memory accesses of a program's threads. The README in this folder describes the format.

mod about;
mod error;
mod event;
mod file;
mod program;
mod reader;
mod spool;

pub use about::{About, Ending, Lack};
pub use error::RecordingError;
pub use event::AccessKind;
pub(crate) use event::words as event_words;
pub(crate) use event::{Access, Event, Events, module_words, object_words, put_event};
pub use file::RecordingWriter;
pub use program::ProgramFile;
pub use reader::Recording;
pub(crate) use reader::ThreadEvents;
pub use spool::{Spool, SpoolCounts, Taken};

/// The first bytes of every recording.
pub const RECORDING_MARK: &str = "CSTRACE1";
/// The path of the module whose names a kernel's recording carries itself.
pub(crate) const NAMES_PATH: &str = "kernel";
/// The engine of a kernel's recording.
pub const KERNEL_ENGINE: &str = "kernel";
/// The version of the format that is read and written.
const VERSION: u32 = 1;
/// The header of a frame.
const HEAD_BYTES: usize = 24;
/// Largest frame after decompression, far beyond any that an engine writes.
const MOST_FRAME_BYTES: usize = 16 << 20;
/// Threads of one recording.
const MOST_THREADS: usize = 1 << 16;

/// Kinds of frames.
mod frame {
    pub(super) const ABOUT: u32 = 1;
    pub(super) const CHUNK: u32 = 2;
    pub(super) const END: u32 = 3;
    pub(super) const FILE: u32 = 4;
}

//! Metadata of a recording: what was recorded, and what is missing from it.

use coreshard_topology::input;
use serde::{Deserialize, Serialize};

/// What was recorded, and how; the first frame of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What saw the accesses: `tsan` or `qemu`.
    pub engine: String,
    /// The processor's architecture that the program is for.
    pub architecture: String,
    /// Whether each access tells how many instructions went before it.
    pub counts_instructions: bool,
    /// Milliseconds after which recording began.
    pub from_ms: u64,
    /// Milliseconds after which it ended; none for the program's end.
    pub to_ms: Option<u64>,
    /// In windows of the first number of milliseconds out of each second one.
    pub sample_ms: Option<(u64, u64)>,
}

/// How a recording ended; its last frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// The program's exit status, or 128 and its signal's number.
    pub status: i32,
    /// How long the program ran, in milliseconds.
    pub ran_ms: u64,
    /// What is missing.
    pub lacks: Vec<Lack>,
}

/// Something that a recording does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// Only windows of the time were asked for.
    Windows,
    /// Recording stopped when the file had as many bytes as it may have.
    Size {
        /// That bound.
        most_bytes: u64,
    },
    /// Time between slices: from some time on the file was half full, and only slices of the time were recorded.
    Slices {
        /// When that was, in milliseconds.
        from_ms: u64,
        /// How much was recorded since then, in milliseconds.
        recorded_ms: u64,
        /// Of how much, in milliseconds.
        of_ms: u64,
    },
    /// Events of signals' handlers, while the recorder was at work.
    Events {
        /// How many.
        count: u64,
    },
    /// Threads for which there was no chunk.
    Threads {
        /// How many.
        count: u64,
    },
    /// Other processes that the program started.
    Processes {
        /// How many.
        count: u64,
    },
    /// What the process did after it went on as another program, by `exec`.
    Replaced,
    /// An emulated program's allocations, and its locks but for waits in the kernel.
    Unhelped,
    /// Code that was not compiled for it: the C library, and others.
    Uninstrumented,
    /// The file has no end: the command was killed.
    End,
    /// From this offset on there is something else.
    Garbage {
        /// In bytes.
        offset: u64,
        /// What was found there.
        what: String,
    },
    /// The file is cut at this offset, within a frame.
    Cut {
        /// In bytes.
        offset: u64,
    },
}

impl Lack {
    /// Whether parts of the time were recorded, and not all of it.
    #[must_use]
    pub const fn is_sample(&self) -> bool {
        matches!(self, Self::Windows | Self::Slices { .. } | Self::Size { .. })
    }
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Windows => f.write_str("what happened outside of the windows that were asked for"),
            Self::Size { most_bytes } => {
                write!(f, "what came after {most_bytes} bytes, which is as many as the file may have")
            }
            Self::Slices { from_ms, recorded_ms, of_ms } => {
                let [from, recorded, of] = [from_ms, recorded_ms, of_ms].map(|ms| *ms as f64 / 1e3);
                write!(
                    f,
                    "the time between slices: from {from:.1} s on, when its file was half full, {recorded:.2} s of {of:.2} s were \
                     recorded"
                )
            }
            Self::Events { count } => write!(f, "{count} events that came while another was being written"),
            Self::Threads { count } => write!(f, "{count} threads, for which there was no room"),
            Self::Processes { count: 1 } => f.write_str("a further process"),
            Self::Processes { count } => write!(f, "{count} further processes"),
            Self::Replaced => f.write_str("what came after exec, by which the process went on as another program"),
            Self::Unhelped => f.write_str(
                "allocations, and locks but for waits in the kernel: the program is not linked dynamically with glibc, or no \
                 compiler for its processor is here",
            ),
            Self::Uninstrumented => f.write_str(
                "accesses of code that was not built for it, such as the C library, but for its copies and locks",
            ),
            Self::End => f.write_str("its end: the command that wrote it was ended before the program"),
            Self::Garbage { offset, what } => {
                write!(f, "what came after offset {offset}, where no recording goes on: {}", input::sentence(what))
            }
            Self::Cut { offset } => write!(f, "what came after offset {offset}, where the file is cut"),
        }
    }
}

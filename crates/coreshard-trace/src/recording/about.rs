//! Metadata of a recording: the recorded program, the engine, and known gaps.

use coreshard_topology::input;
use serde::{Deserialize, Serialize};

/// The program and the settings of a recording; its first frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The engine that observed the accesses: `tsan` or `qemu`.
    pub engine: String,
    /// The architecture of the program.
    pub architecture: String,
    /// Whether each access has the number of instructions before it.
    pub counts_instructions: bool,
    /// Start of the recording, in milliseconds after the program's start.
    pub from_ms: u64,
    /// End of the recording, in milliseconds; none for the program's end.
    pub to_ms: Option<u64>,
    /// Records the first number of milliseconds out of every period, which is the second number.
    pub sample_ms: Option<(u64, u64)>,
}

/// The end of a recording; its last frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// The program's exit status, or 128 and its signal's number.
    pub status: i32,
    /// How long the program ran, in milliseconds.
    pub ran_ms: u64,
    /// Known gaps.
    pub lacks: Vec<Lack>,
    /// The processor time of each thread in a run on one CPU without a recorder, in the order of their creation and in
    /// nanoseconds; empty if there was no such run.
    pub threads_ns: Vec<u64>,
}

/// A gap in a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// The user asked for windows of time only.
    Windows,
    /// The file reached its maximum size.
    Size {
        /// The maximum size.
        most_bytes: u64,
    },
    /// The file was half full. From then on only slices of the time were recorded.
    Slices {
        /// Start of the slices, in milliseconds.
        from_ms: u64,
        /// Recorded time since then, in milliseconds.
        recorded_ms: u64,
        /// Total time since then, in milliseconds.
        of_ms: u64,
    },
    /// Events of signal handlers that interrupted the recorder.
    Events {
        /// How many.
        count: u64,
    },
    /// Threads that found no free chunk.
    Threads {
        /// How many.
        count: u64,
    },
    /// Other processes that the program started.
    Processes {
        /// How many.
        count: u64,
    },
    /// Everything after the process called `exec`.
    Replaced,
    /// An emulated program's allocations and locks, except for waits in the kernel.
    Unhelped,
    /// Accesses of code that was not instrumented, such as the C library.
    Uninstrumented,
    /// The file has no end frame because the command was killed.
    End,
    /// Unreadable data starts at this offset.
    Garbage {
        /// In bytes.
        offset: u64,
        /// A description of the data at that offset.
        what: String,
    },
    /// The file is truncated within a frame.
    Cut {
        /// In bytes.
        offset: u64,
    },
}

impl Lack {
    /// Whether only part of the time was recorded.
    #[must_use]
    pub const fn is_sample(&self) -> bool {
        matches!(self, Self::Windows | Self::Slices { .. } | Self::Size { .. })
    }
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Windows => f.write_str("everything outside of the requested windows"),
            Self::Size { most_bytes } => {
                write!(f, "everything after the maximum file size of {most_bytes} bytes")
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
            Self::Threads { count } => write!(f, "{count} threads, because there was no free memory for them"),
            Self::Processes { count: 1 } => f.write_str("a further process"),
            Self::Processes { count } => write!(f, "{count} further processes"),
            Self::Replaced => f.write_str("everything after exec, which replaced the program by another one"),
            Self::Unhelped => f.write_str(
                "allocations, and locks but for waits in the kernel: the program is not linked dynamically with glibc, or no \
                 compiler for its processor is here",
            ),
            Self::Uninstrumented => f.write_str(
                "accesses of code that was not built for it, such as the C library, but for its copies and locks",
            ),
            Self::End => f.write_str("its end: the recording command was killed before the program ended"),
            Self::Garbage { offset, what } => {
                write!(f, "everything after offset {offset}, because the file is damaged: {}", input::sentence(what))
            }
            Self::Cut { offset } => write!(f, "everything after offset {offset}, because the file is truncated"),
        }
    }
}

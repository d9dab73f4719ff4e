//! Commands and their completions.
#![allow(unsafe_code)]

use crate::request::Op;

/// The memory of a command.
#[derive(Clone, Copy, Debug)]
pub enum Data {
    /// None.
    None,
    /// One piece.
    One {
        /// Its first byte.
        start: *mut u8,
        /// Its length in bytes.
        bytes: usize,
        /// Its number among the registered buffers, where it is one.
        registered: Option<u16>,
    },
    /// Several pieces.
    Many {
        /// Start and length of each; lives as long as the command.
        pieces: *const libc::iovec,
        /// How many.
        count: u32,
    },
}

/// One attempt at a request, as a channel gets it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Identifies it in its completion, and to cancel it. Below 2⁶³.
    pub id: u64,
    /// What to do.
    pub op: Op,
    /// Where.
    pub offset: u64,
    /// How much, for those without data.
    pub bytes: u64,
    /// The memory to move.
    pub data: Data,
    /// The value for the kernel, see ioprio_set(2).
    pub ioprio: u16,
}

impl Command {
    pub(crate) fn data_bytes(&self) -> usize {
        match self.data {
            Data::None => 0,
            Data::One { bytes, .. } => bytes,
            Data::Many { pieces, count } => {
                // SAFETY: by the contract of `Channel::start` they live as long as the command.
                let pieces = unsafe { std::slice::from_raw_parts(pieces, count as usize) };
                pieces.iter().map(|piece| piece.iov_len).sum()
            }
        }
    }
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which.
    pub id: u64,
    /// Bytes, or the negative errno.
    pub result: i32,
}

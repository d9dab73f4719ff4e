//! A forked call in a word: whose it is, where its result goes, and what is to be computed.

use super::program::Piece;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Job(pub(crate) u64);

impl Job {
    /// `depth`: of its owner's results, which one.
    pub(crate) fn new(owner: usize, depth: usize, piece: Piece) -> Self {
        Self((owner as u64) << 48 | (depth as u64) << 32 | u64::from(piece))
    }

    pub(crate) fn owner(self) -> usize {
        (self.0 >> 48) as usize
    }

    pub(crate) fn depth(self) -> usize {
        usize::from((self.0 >> 32) as u16)
    }

    pub(crate) fn piece(self) -> Piece {
        self.0 as Piece
    }
}

//! Programs that fork down to the last call, as trees of numbers.

use std::fmt;
use std::time::Duration;

use coreshard_sim::Sim;

/// The number of a call. It determines all calls below it.
pub(crate) type Piece = u64;

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The left call has one level more than the right one.
    Fib,
    /// Both calls have the same levels.
    Tree,
    /// The left call is a leaf, and the right one has one level less.
    Chain,
}

/// A tree of calls, and how long each computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    shape: Shape,
    pub(crate) root: Piece,
    call: Duration,
}

impl Program {
    pub(crate) fn fib(levels: u32, call: Duration) -> Self {
        Self { shape: Shape::Fib, root: levels.into(), call }
    }

    pub(crate) fn tree(levels: u32, call: Duration) -> Self {
        Self { shape: Shape::Tree, root: levels.into(), call }
    }

    pub(crate) fn chain(levels: u32, call: Duration) -> Self {
        Self { shape: Shape::Chain, root: levels.into(), call }
    }

    /// Computes one call, and returns the two below it unless it is a leaf.
    pub(crate) fn split(self, piece: Piece) -> Option<[Piece; 2]> {
        Sim::compute(self.call);
        match self.shape {
            Shape::Fib => (piece > 1).then(|| [piece - 1, piece - 2]),
            Shape::Tree => (piece > 0).then(|| [piece - 1, piece - 1]),
            Shape::Chain => (piece > 0).then(|| [0, piece - 1]),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = match self.shape {
            Shape::Fib => "fib",
            Shape::Tree => "tree",
            Shape::Chain => "chain",
        };
        write!(f, "{shape}:{}:{}", self.root, self.call.as_nanos())
    }
}

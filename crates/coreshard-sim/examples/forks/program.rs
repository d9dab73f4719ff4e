//! Programs that fork down to the last call, as trees of numbers.

use std::str::FromStr;
use std::time::Duration;

use coreshard_sim::Sim;

/// A part of a program, from which all of it below follows.
pub(crate) type Piece = u32;

/// Of the public suite's skynet.
const CHILDREN: u32 = 10;
/// Its pieces are so many calls, below the levels that each has under it.
const CALLS: u32 = 16;

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Each call has a left side that is larger than its right one.
    Fib,
    /// Both sides are equal.
    Tree,
    /// A call makes ten, which are halved until each is by itself.
    Skynet,
}

/// What is computed, and how long a call takes by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    shape: Shape,
    pub(crate) root: Piece,
    call: Duration,
}

impl Program {
    fn new(shape: Shape, levels: u32, call: Duration) -> Self {
        let root = if matches!(shape, Shape::Skynet) { levels * CALLS + 1 } else { levels };
        Self { shape, root, call }
    }

    /// The two calls that this one makes; of none it is a leaf.
    pub(crate) fn split(self, piece: Piece) -> Option<[Piece; 2]> {
        if let (Shape::Skynet, calls @ 2..) = (self.shape, piece % CALLS) {
            return Some([piece - calls + calls / 2, piece - calls / 2]);
        }
        Sim::compute(self.call);
        match self.shape {
            Shape::Fib => (piece > 1).then(|| [piece - 1, piece - 2]),
            Shape::Tree => (piece > 0).then(|| [piece - 1, piece - 1]),
            Shape::Skynet => (piece > CALLS).then(|| [piece - 1 - CALLS + CHILDREN / 2; 2]),
        }
    }

    pub(crate) fn leaf(self, piece: Piece) -> u64 {
        match self.shape {
            Shape::Fib => piece.into(),
            Shape::Tree | Shape::Skynet => 1,
        }
    }

    /// On one thread, with no fork.
    pub(crate) fn serial(self, piece: Piece) -> u64 {
        match self.split(piece) {
            Some([one, other]) => self.serial(one) + self.serial(other),
            None => self.leaf(piece),
        }
    }
}

/// Such as `fib:24:5`: calls of 5 ns, beside what their forks cost.
impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no program; as in fib:24:5, tree:16:5 or skynet:5:5 (levels, ns a call)"
            )
        };
        let parts: Vec<&str> = text.split(':').collect();
        let [shape, levels, call_ns] = parts[..] else { return Err(wrong()) };
        let shape = match shape {
            "fib" => Shape::Fib,
            "tree" => Shape::Tree,
            "skynet" => Shape::Skynet,
            _ => return Err(wrong()),
        };
        let levels = levels.parse().ok().filter(|levels| *levels < 40).ok_or_else(wrong)?;
        let call_ns = call_ns.parse().map_err(|_| wrong())?;
        Ok(Self::new(shape, levels, Duration::from_nanos(call_ns)))
    }
}

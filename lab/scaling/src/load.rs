//! The loads, as every executor runs them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::program::Program;

/// What an executor does after 10 ms of silence.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// A parallel loop of `elements` that compute for `each`, called from a thread outside.
    Loop { elements: u32, each: Duration },
    /// `items` that compute for `each`, submitted by one thread outside.
    Burst { items: u32, each: Duration },
    /// As many `passes` over a grid of `rows`, each a parallel loop called from a thread outside.
    Stencil { rows: u32, passes: u32 },
    /// As many `rounds` as this: one thread outside submits `items` of 100 ns and waits until they have run.
    PingPong { rounds: u32, items: u32 },
    /// `tasks` of 100 ns, submitted by `spawners` threads outside.
    Spawn { tasks: u32, spawners: u32 },
    /// A tree of joins, called from a thread outside.
    Fork(Program),
}

const FORMS: &str = "loop:ELEMENTS:NS, burst:ITEMS:NS, stencil:ROWS:PASSES, pingpong:ROUNDS:ITEMS, spawn:TASKS:SPAWNERS, fib:LEVELS:NS, tree:LEVELS:NS or chain:LEVELS:NS";

/// The work of one task of [`Load::Spawn`] and [`Load::PingPong`].
pub(crate) const SPAWNED: Duration = Duration::from_nanos(100);

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loop { elements, each } => write!(f, "loop:{elements}:{}", each.as_nanos()),
            Self::Burst { items, each } => write!(f, "burst:{items}:{}", each.as_nanos()),
            Self::Stencil { rows, passes } => write!(f, "stencil:{rows}:{passes}"),
            Self::PingPong { rounds, items } => write!(f, "pingpong:{rounds}:{items}"),
            Self::Spawn { tasks, spawners } => write!(f, "spawn:{tasks}:{spawners}"),
            Self::Fork(program) => program.fmt(f),
        }
    }
}

/// Such as `loop:4096:250`, `burst:64:10000`, `spawn:12800:64` and `fib:24:5` (counts, then nanoseconds or spawners).
impl FromStr for Load {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let expected = || format!("invalid load {text:?}: expected {FORMS}");
        let parts: Vec<&str> = text.split(':').collect();
        let [shape, count, last] = parts[..] else { bail!(expected()) };
        let count: u32 = count.parse().with_context(expected)?;
        let last: u32 = last.parse().with_context(expected)?;
        if count == 0 || count > 1 << 16 {
            bail!("invalid count in load {text:?}: expected 1 to 65536");
        }
        let each = Duration::from_nanos(last.into());
        Ok(match shape {
            "loop" if count <= 1 << 12 => Self::Loop { elements: count, each },
            "burst" => Self::Burst { items: count, each },
            "stencil" if count <= 1 << 12 => Self::Stencil { rows: count, passes: last },
            "pingpong" if last > 0 => Self::PingPong { rounds: count, items: last },
            "spawn" if last > 0 => Self::Spawn { tasks: count, spawners: last },
            "fib" if count < 32 => Self::Fork(Program::fib(count, each)),
            "tree" if count < 20 => Self::Fork(Program::tree(count, each)),
            "chain" if count <= 256 => Self::Fork(Program::chain(count, each)),
            _ => bail!(expected()),
        })
    }
}

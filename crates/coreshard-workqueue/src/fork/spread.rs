//! Loops, spread over the workers; with results in order, whoever computes what.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform};

use super::{LoopPiece, join_in};
use crate::pool::{CurrentWorker, WholeName};

/// Pieces a worker gets if all are alike and nobody steals: enough for the others to take some
/// from who is late, few enough to cost next to nothing.
const PIECES_EACH: usize = 16;

/// What a loop runs over: can be cut in two.
pub trait Whole: Send + Sized {
    /// How many elements it has.
    fn len(&self) -> usize;
    /// The first `len` of it, and the rest.
    fn cut_at(self, len: usize) -> (Self, Self);
}

impl Whole for Range<usize> {
    fn len(&self) -> usize {
        ExactSizeIterator::len(self)
    }
    fn cut_at(self, len: usize) -> (Self, Self) {
        let middle = self.start + len;
        (self.start..middle, middle..self.end)
    }
}

impl<T: Send> Whole for &mut [T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }
    fn cut_at(self, len: usize) -> (Self, Self) {
        self.split_at_mut(len)
    }
}

/// A piece that takes longer is long: to share it costs some hundredth of it.
const LONG: Duration = Duration::from_micros(10);

const UNKNOWN: u32 = 0;
const ARE_SHORT: u32 = 1;
const ARE_LONG: u32 = 2;

/// What the pieces of a loop have in common. Its address names the loop.
struct LoopHead<P: Platform> {
    /// Whether its pieces are long, once one was run.
    length: P::AtomicU32,
}

impl<P: Platform> LoopHead<P> {
    fn piece(&self) -> LoopPiece {
        // Relaxed: a hint. Until it is known, they are taken for long.
        let are_long = self.length.load(Relaxed) != ARE_SHORT;
        LoopPiece { name: WholeName::at(self), are_long }
    }

    /// Runs a piece that is cut no more; the first that is over tells how long they are.
    fn run<R>(&self, leaf: impl FnOnce() -> R) -> R {
        if self.length.load(Relaxed) != UNKNOWN {
            return leaf();
        }
        let began = P::now();
        let result = leaf();
        let length = if P::now() - began < LONG { ARE_SHORT } else { ARE_LONG };
        self.length.store(length, Relaxed);
        result
    }
}

/// How often a piece is cut in two, and how often when it was stolen: then somebody has nothing
/// to do.
#[derive(Clone, Copy)]
struct Cuts {
    left: u32,
    when_stolen: u32,
}

impl Cuts {
    fn for_workers(workers: usize) -> Self {
        let pieces = workers.max(1) * PIECES_EACH;
        let left = pieces.next_power_of_two().trailing_zeros();
        Self { left, when_stolen: left }
    }
}

/// Calls `body` with pieces that make up `whole`, on the workers; `workers` is how many there are.
pub(crate) fn spread<P: Platform, W: Whole>(whole: W, workers: usize, body: &(impl Fn(W) + Sync)) {
    let leaf = |piece| {
        body(piece);
        None::<()>
    };
    reduce::<P, W, ()>(whole, workers, &leaf, &|(), ()| ());
}

/// Calls `leaf` with pieces that make up `whole`, on the workers, and brings together what comes of neighbours
/// by `reduce`, the earlier first. `None` where all leaves have none.
pub(crate) fn reduce<P, W, R>(
    whole: W,
    workers: usize,
    leaf: &(impl Fn(W) -> Option<R> + Sync),
    reduce: &(impl Fn(R, R) -> R + Sync),
) -> Option<R>
where
    P: Platform,
    W: Whole,
    R: Send,
{
    let head = LoopHead::<P> { length: P::AtomicU32::new(UNKNOWN) };
    let run = || tree::<P, W, R>(whole, Cuts::for_workers(workers), &head, leaf, reduce);
    match CurrentWorker::<P>::here() {
        Some(worker) => worker.in_loop(WholeName::at(&raw const head), false, run),
        None => run(),
    }
}

fn tree<P, W, R>(
    whole: W,
    cuts: Cuts,
    head: &LoopHead<P>,
    leaf: &(impl Fn(W) -> Option<R> + Sync),
    reduce: &(impl Fn(R, R) -> R + Sync),
) -> Option<R>
where
    P: Platform,
    W: Whole,
    R: Send,
{
    let len = whole.len();
    if cuts.left == 0 || len < 2 {
        return if len > 0 { head.run(|| leaf(whole)) } else { None };
    }
    let (first, second) = whole.cut_at(len / 2);
    let fewer = Cuts { left: cuts.left - 1, ..cuts };
    let results = join_in::<P, _, _, false>(
        Some(head.piece()),
        || tree::<P, W, R>(first, fewer, head, leaf, reduce),
        |stolen| match CurrentWorker::<P>::here().filter(|_| stolen) {
            Some(thief) => {
                let cuts = Cuts { left: cuts.when_stolen, ..cuts };
                let name = WholeName::at(head);
                thief.in_loop(name, true, || tree::<P, W, R>(second, cuts, head, leaf, reduce))
            }
            None => tree::<P, W, R>(second, fewer, head, leaf, reduce),
        },
    );
    match results {
        (Some(one), Some(other)) => Some(reduce(one, other)),
        (one, other) => one.or(other),
    }
}

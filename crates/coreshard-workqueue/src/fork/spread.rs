//! Loops, spread over the workers, with results in order.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform};

use super::{LoopPiece, join_in};
use crate::pool::{CurrentWorker, JobId};

/// Pieces a worker gets if all are alike and none is stolen: enough for the others to take some
/// from a late one, few enough to cost next to nothing.
const PIECES_EACH: usize = 16;

/// The elements of a loop: can be cut in two.
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

/// A piece that takes longer is worth a wake-up of its own: about two wake-ups' time.
const WORTH_A_WAKE_UP: Duration = Duration::from_micros(40);

/// Sleepers that the first worker calls at once when it knows how long the loop is, at most: as many as it wakes in less time than
/// the first of them takes to come. Those call others.
const CALLED_AT_ONCE: u32 = 3;

/// The common part of a loop's pieces. Its address is the loop's id. All that is learned is a hint: Relaxed.
struct LoopHead<P: Platform> {
    /// How many elements the loop has.
    len: usize,
    /// Elements of the first piece that is run.
    first_len: usize,
    /// When that was begun; 0 before.
    began_ns: P::AtomicU64,
    /// How long each of its elements took, in picoseconds; 0 before it has finished.
    first_ps: P::AtomicU64,
    /// How long an element takes, for who is to decide whether it is worth a wake-up: by the first piece if that was long, else by
    /// the second, since code and data had to be fetched for the first one. 0 before.
    element_ps: P::AtomicU64,
}

impl<P: Platform> LoopHead<P> {
    fn new(len: usize, cuts: Cuts) -> Self {
        Self {
            len,
            first_len: (len >> cuts.left).max(1),
            began_ns: P::AtomicU64::new(0),
            first_ps: P::AtomicU64::new(0),
            element_ps: P::AtomicU64::new(0),
        }
    }

    /// The estimates for a piece of `len` elements, in one that was stolen or not.
    fn piece(&self, len: usize, is_stolen: bool) -> LoopPiece {
        let mut first_ps = self.first_ps.load(Relaxed);
        let mut element_ps = self.element_ps.load(Relaxed);
        // Until it is known, they are taken for long.
        let is_unknown = first_ps == 0;
        if is_unknown && is_stolen {
            first_ps = self.at_least_ps();
            element_ps = first_ps;
        }
        LoopPiece {
            name: JobId::at(self),
            are_long: is_unknown || takes(self.first_len, first_ps) >= LONG,
            is_worth_another: takes(len, element_ps) >= WORTH_A_WAKE_UP,
        }
    }

    /// How long an element takes at least, if a thief has come while the first piece was run. 0 if that was no time.
    #[cold]
    fn at_least_ps(&self) -> u64 {
        let began_ns = self.began_ns.load(Relaxed);
        let elapsed_ns = P::now().as_ns().saturating_sub(began_ns);
        let is_long = began_ns != 0 && Duration::from_nanos(elapsed_ns) >= LONG;
        if is_long { ps_each(elapsed_ns, self.first_len) } else { 0 }
    }

    /// Runs a piece that is not cut further; the first that finish tell how long they are.
    fn run<R>(&self, len: usize, cuts: Cuts, leaf: impl FnOnce() -> R) -> R {
        if self.element_ps.load(Relaxed) != 0 {
            return leaf();
        }
        let began = P::now();
        if self.began_ns.load(Relaxed) == 0 {
            self.began_ns.store(began.as_ns(), Relaxed);
        }
        let result = leaf();
        let took = P::now() - began;
        let each_ps = ps_each(took.as_nanos() as u64, len);
        let is_first = self.first_ps.compare_exchange(0, each_ps, Relaxed, Relaxed).is_ok();
        if (!is_first || took >= LONG)
            && self.element_ps.compare_exchange(0, each_ps, Relaxed, Relaxed).is_ok()
            && !cuts.is_stolen
        {
            self.call_for_what_is_shared(cuts, each_ps);
        }
        result
    }

    /// For what the first worker has shared before it was known how long it takes; one was called for that. (A thief that ends its piece sooner has called others for what it
    /// has shared, and for what is left.)
    fn call_for_what_is_shared(&self, cuts: Cuts, element_ps: u64) {
        let shared = (1..=cuts.when_stolen).map(|cuts| takes(self.len >> cuts, element_ps));
        let worth = shared.filter(|piece| *piece >= WORTH_A_WAKE_UP).count() as u32;
        if worth > 1
            && let Some(worker) = CurrentWorker::<P>::here()
            && worker.pool().calls_several()
        {
            worker.call_more_thieves((worth - 1).min(CALLED_AT_ONCE));
        }
    }
}

fn takes(len: usize, element_ps: u64) -> Duration {
    Duration::from_nanos((len as u64).saturating_mul(element_ps) / 1_000)
}

/// Not 0, which is unknown.
fn ps_each(ns: u64, len: usize) -> u64 {
    (ns.saturating_mul(1_000) / len as u64).max(1)
}

/// How often a piece is cut in two, and how often when it was stolen: then a worker is
/// idle.
#[derive(Clone, Copy)]
struct Cuts {
    left: u32,
    when_stolen: u32,
    is_stolen: bool,
}

impl Cuts {
    fn for_workers(workers: usize) -> Self {
        let pieces = workers.max(1) * PIECES_EACH;
        let left = pieces.next_power_of_two().trailing_zeros();
        Self { left, when_stolen: left, is_stolen: false }
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
    let cuts = Cuts::for_workers(workers);
    let head = LoopHead::<P>::new(whole.len(), cuts);
    let run = || tree::<P, W, R>(whole, cuts, &head, leaf, reduce);
    match CurrentWorker::<P>::here() {
        Some(worker) => worker.in_loop(JobId::at(&raw const head), false, run),
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
        return if len > 0 { head.run(len, cuts, || leaf(whole)) } else { None };
    }
    let (first, second) = whole.cut_at(len / 2);
    let fewer = Cuts { left: cuts.left - 1, ..cuts };
    let results = join_in::<P, _, _, false>(
        Some(head.piece(len - len / 2, cuts.is_stolen)),
        || tree::<P, W, R>(first, fewer, head, leaf, reduce),
        |stolen| match CurrentWorker::<P>::here().filter(|_| stolen) {
            Some(thief) => {
                let cuts = Cuts { left: cuts.when_stolen, is_stolen: true, ..cuts };
                let name = JobId::at(head);
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

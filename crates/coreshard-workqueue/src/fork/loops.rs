//! Loops, spread over the workers, with results in order.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform};

use super::{LoopPiece, join_in};
use crate::pool::{CurrentWorker, JobId, WakeCost};

/// Pieces for each worker, at most, if none is stolen: enough for the others to take some from a late one, few enough
/// to cost next to nothing.
const PIECES_EACH: usize = 16;

/// The elements of a loop, which can be cut in two.
pub trait Whole: Send + Sized {
    /// How many elements it has.
    fn len(&self) -> usize;
    /// Returns the first `len` elements, and the rest.
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

/// The shared part of a loop's pieces. Its address is the loop's id. All estimates are hints: Relaxed. Times come from
/// [`Platform::rough_ns`].
struct LoopHead<P: Platform> {
    /// How many elements the loop has.
    len: usize,
    /// Elements of the first piece that runs.
    first_len: usize,
    /// Start time of that piece; 0 before.
    began_ns: P::AtomicU64,
    /// How long an element takes, in picoseconds; 0 before it is known.
    element_ps: P::AtomicU64,
    /// The cost of a wake-up.
    cost: WakeCost,
}

impl<P: Platform> LoopHead<P> {
    fn new(len: usize, cuts: Cuts) -> Self {
        let cost = CurrentWorker::<P>::here().map(|worker| worker.pool().wake_cost());
        Self {
            len,
            first_len: (len >> cuts.left).max(1),
            began_ns: P::AtomicU64::new(0),
            element_ps: P::AtomicU64::new(0),
            cost: cost.unwrap_or(WakeCost::ASSUMED),
        }
    }

    /// True for a piece that is long: sharing it costs about a hundredth of its time.
    fn is_long(&self, ns: u64) -> bool {
        ns >= self.cost.latency_ns() / 4
    }

    /// True for a piece that is not worth cutting; false until the time of an element is known.
    fn is_short(&self, len: usize) -> bool {
        let element_ps = self.element_ps.load(Relaxed);
        element_ps != 0 && !self.is_long(takes_ns(len, element_ps))
    }

    /// True for a piece that is worth a wake-up.
    fn is_worth_a_wake_up(&self, ns: u64) -> bool {
        ns >= 2 * self.cost.latency_ns()
    }

    /// The estimates for a piece of `len` elements, in one that was stolen or not.
    fn piece(&self, len: usize, is_stolen: bool) -> LoopPiece {
        let mut element_ps = self.element_ps.load(Relaxed);
        if element_ps == 0 && is_stolen {
            element_ps = self.at_least_ps();
        }
        LoopPiece {
            name: JobId::at(self),
            is_worth_another: self.is_worth_a_wake_up(takes_ns(len, element_ps)),
        }
    }

    /// Lower bound of an element's time, if a thief has arrived while the first piece ran. 0 if no time had passed.
    #[cold]
    fn at_least_ps(&self) -> u64 {
        let began_ns = self.began_ns.load(Relaxed);
        let elapsed_ns = P::rough_ns().saturating_sub(began_ns);
        let is_long = began_ns != 0 && self.is_long(elapsed_ns);
        if is_long { ps_each(elapsed_ns, self.first_len) } else { 0 }
    }

    /// Runs a piece without cutting it further.
    fn run<W: Whole, R>(
        &self,
        piece: W,
        cuts: Cuts,
        leaf: &impl Fn(W) -> Option<R>,
        reduce: &impl Fn(R, R) -> R,
    ) -> Option<R> {
        if self.element_ps.load(Relaxed) != 0 {
            return leaf(piece);
        }
        self.run_measured(piece, cuts, leaf, reduce)
    }

    /// Runs the first piece in parts, from one element on, each twice as long as the one before, until a part took measurable
    /// time and the time of an element is known. (The very first part loads code and data.)
    #[cold]
    #[inline(never)]
    fn run_measured<W: Whole, R>(
        &self,
        piece: W,
        cuts: Cuts,
        leaf: &impl Fn(W) -> Option<R>,
        reduce: &impl Fn(R, R) -> R,
    ) -> Option<R> {
        if self.began_ns.load(Relaxed) == 0 {
            self.began_ns.store(P::rough_ns(), Relaxed);
        }
        let (mut so_far, mut rest, mut len) = (None, piece, 1);
        loop {
            let is_last = len >= rest.len() || self.element_ps.load(Relaxed) != 0;
            let (part, others) = if is_last {
                len = rest.len();
                (rest, None)
            } else {
                let (part, others) = rest.cut_at(len);
                (part, Some(others))
            };
            let began_ns = P::rough_ns();
            so_far = both(so_far, leaf(part), reduce);
            let took_ns = P::rough_ns().saturating_sub(began_ns);
            if is_last || took_ns >= self.cost.latency_ns() / if len == 1 { 4 } else { 16 } {
                self.learn(ps_each(took_ns, len), cuts);
            }
            let Some(others) = others else { return so_far };
            (rest, len) = (others, len * 2);
        }
    }

    /// Records the time of an element; the first worker that knows it wakes workers for its shared pieces.
    fn learn(&self, element_ps: u64, cuts: Cuts) {
        if self.element_ps.compare_exchange(0, element_ps, Relaxed, Relaxed).is_ok()
            && !cuts.is_stolen
        {
            self.call_for_what_is_shared(element_ps);
        }
    }

    /// Wakes workers for the pieces that the first worker has shared before the time of an element was known; one was woken
    /// then. (A thief that finishes its piece sooner has woken others for the pieces that it has shared, and for the rest.)
    fn call_for_what_is_shared(&self, element_ps: u64) {
        let most = self.cost.workers_for(takes_ns(self.len, element_ps)).min(self.cost.fan_out());
        if let Some(worker) = CurrentWorker::<P>::here() {
            worker.pool().learn_loop(most);
            if most > 0 && worker.pool().calls_several() {
                worker.call_more_thieves(most);
            }
        }
    }
}

fn both<R>(one: Option<R>, other: Option<R>, reduce: &impl Fn(R, R) -> R) -> Option<R> {
    match (one, other) {
        (Some(one), Some(other)) => Some(reduce(one, other)),
        (one, other) => one.or(other),
    }
}

fn takes_ns(len: usize, element_ps: u64) -> u64 {
    (len as u64).saturating_mul(element_ps) / 1_000
}

/// Never 0, which stands for unknown.
fn ps_each(ns: u64, len: usize) -> u64 {
    (ns.saturating_mul(1_000) / len as u64).max(1)
}

/// How often a piece is cut in two, and how often if it was stolen: then a worker is idle.
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

/// Calls `body` with pieces that make up `whole`, on the workers; `workers` is their number.
pub(crate) fn spread<P: Platform, W: Whole>(whole: W, workers: usize, body: &(impl Fn(W) + Sync)) {
    let leaf = |piece| {
        body(piece);
        None::<()>
    };
    reduce::<P, W, ()>(whole, workers, &leaf, &|(), ()| ());
}

/// Calls `leaf` with pieces that make up `whole`, on the workers, and combines the results of neighbours
/// with `reduce`, the earlier first. `None` if no leaf has a result.
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
    if cuts.left == 0 || len < 2 || head.is_short(len) {
        return if len > 0 { head.run(whole, cuts, leaf, reduce) } else { None };
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
    both(results.0, results.1, reduce)
}

//! Fork-join: recursive work that splits in two until nothing is left, without a cut-off: the
//! Fibonacci numbers (`fib`), and the sum over the leaves of a binary tree (`tree_levels`).

use crate::cell::{Cell, Measured};
use crate::measure::{Usage, allocations_during, now_ns};
use crate::peer::ForkJoin;

#[derive(Clone, Copy)]
enum Recursion {
    Fib(u32),
    Tree(u32),
}

impl Recursion {
    fn calls(self) -> u64 {
        match self {
            Self::Fib(n) => 2 * fib(n + 1) - 1,
            Self::Tree(levels) => (1 << levels) - 1,
        }
    }

    fn smaller(self) -> Self {
        match self {
            Self::Fib(n) => Self::Fib(n.saturating_sub(5).max(1)),
            Self::Tree(levels) => Self::Tree(levels.saturating_sub(4).max(1)),
        }
    }

    fn at_most(mut self, calls: u64) -> Self {
        while self.calls() > calls.max(3) {
            self = match self {
                Self::Fib(n) => Self::Fib(n - 1),
                Self::Tree(levels) => Self::Tree(levels - 1),
            };
        }
        self
    }
}

fn fib(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

pub(super) fn run<P: ForkJoin>(cell: &Cell) -> Result<Measured, String> {
    let recursion = match cell.param("fib") {
        Ok(n) => Recursion::Fib(u32::try_from(n).map_err(|_| "fib= is too large")?),
        Err(_) => {
            let levels = cell.param("tree_levels")?;
            Recursion::Tree(u32::try_from(levels).map_err(|_| "tree_levels= is too large")?)
        }
    }
    .at_most(cell.items);
    let peer = super::start::<P>(cell)?;
    let go = |recursion| {
        let (sum, right) = match recursion {
            Recursion::Fib(n) => (peer.fib(n), fib(n)),
            Recursion::Tree(levels) => {
                let leaves = 1_u64 << (levels - 1);
                (peer.sum_of_tree(levels), leaves * (leaves - 1) / 2)
            }
        };
        if sum == right { Ok(()) } else { Err(format!("summed up to {sum} instead of {right}")) }
    };
    go(recursion.smaller())?;
    let before = Usage::now();
    let started_ns = now_ns();
    go(recursion)?;
    let elapsed_ns = now_ns() - started_ns;
    let used = Usage::now().since(before);
    let mut counted = Ok(());
    let allocations = allocations_during(|| counted = go(recursion.smaller()));
    counted?;
    let mut measured = Measured::new(recursion.calls(), elapsed_ns, used)
        .allocations(allocations, recursion.smaller().calls());
    measured.note = P::NOTE.map(str::to_owned);
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recursions_are_counted_right() {
        fn calls_of_fib(n: u32) -> u64 {
            if n < 2 { 1 } else { 1 + calls_of_fib(n - 1) + calls_of_fib(n - 2) }
        }
        for n in 1..15 {
            assert_eq!(Recursion::Fib(n).calls(), calls_of_fib(n));
        }
        assert_eq!(Recursion::Tree(24).calls(), 16_777_215);
        assert_eq!(Recursion::Tree(24).at_most(1_000).calls(), 511);
        assert!(Recursion::Fib(30).at_most(1_000).calls() <= 1_000);
    }
}

//! Searches: trees with very different branches, and with pruning.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use crate::case::{Demo, Lap, Scale, case};
use crate::random::Random;

pub fn demos() -> Vec<Demo> {
    vec![
        Demo::new(
            "nqueens",
            "counts the ways to place queens, a parallel loop in each of the first rows",
            nqueens,
        ),
        Demo::new("tsp", "the shortest round trip, branches cut by the best known to all", tsp),
    ]
}

/// Queens placed so far, as bits: the columns that are taken, and the diagonals, at the next row.
#[derive(Clone, Copy)]
struct Placed {
    columns: u32,
    left: u32,
    right: u32,
    rows: usize,
}

impl Placed {
    fn next(self, side: usize) -> impl Iterator<Item = Placed> + Clone {
        let free = ((1u32 << side) - 1) & !(self.columns | self.left | self.right);
        (0..side).map(|column| 1 << column).filter(move |queen| free & queen != 0).map(
            move |queen| Placed {
                columns: self.columns | queen,
                left: (self.left | queen) << 1,
                right: (self.right | queen) >> 1,
                rows: self.rows + 1,
            },
        )
    }

    fn ways(self, side: usize) -> u64 {
        if self.rows == side {
            return 1;
        }
        self.next(side).map(|placed| placed.ways(side)).sum()
    }

    fn ways_in_parallel(self, side: usize) -> u64 {
        if self.rows >= side / 2 {
            return self.ways(side);
        }
        let branches: Vec<Placed> = self.next(side).collect();
        branches.into_par_iter().map(|placed| placed.ways_in_parallel(side)).sum()
    }
}

fn nqueens(scale: Scale) -> Lap {
    let empty = Placed { columns: 0, left: 0, right: 0, rows: 0 };
    case(scale.of(13, 7), move |side| empty.ways_in_parallel(side), move |side| empty.ways(side))
}

struct Cities {
    distances: Vec<Vec<u32>>,
    /// For each city, the shortest way out of it: a lower bound of a trip's further cost there.
    least: Vec<u32>,
}

impl Cities {
    fn random(count: usize) -> Self {
        let mut random = Random::new(31);
        let places: Vec<(f64, f64)> = (0..count).map(|_| (random.unit(), random.unit())).collect();
        let distances: Vec<Vec<u32>> = places
            .iter()
            .map(|one| {
                places
                    .iter()
                    .map(|two| ((one.0 - two.0).hypot(one.1 - two.1) * 1e6) as u32)
                    .collect()
            })
            .collect();
        let least = (0..count)
            .map(|one| {
                (0..count)
                    .filter(|two| *two != one)
                    .map(|two| distances[one][two])
                    .min()
                    .unwrap_or(0)
            })
            .collect();
        Cities { distances, least }
    }

    /// The cities not yet visited, nearest first, with the cost of the way to each.
    fn onward(&self, at: usize, left: u32) -> Vec<(usize, u32)> {
        let mut ways: Vec<(usize, u32)> = (0..self.least.len())
            .filter(|city| left & (1 << city) != 0)
            .map(|city| (city, self.distances[at][city]))
            .collect();
        ways.sort_by_key(|way| way.1);
        ways
    }

    /// A lower bound of the remaining cost of a trip at `at` with `left` to visit.
    fn bound(&self, at: usize, left: u32) -> u32 {
        let cities = (0..self.least.len()).filter(|city| left & (1 << city) != 0);
        self.least[at] + cities.map(|city| self.least[city]).sum::<u32>()
    }

    fn search(&self, at: usize, left: u32, cost: u32, best: &AtomicU32, parallel_levels: usize) {
        if left == 0 {
            best.fetch_min(cost + self.distances[at][0], Ordering::Relaxed);
            return;
        }
        // Relaxed: the best cost publishes no other data.
        if cost + self.bound(at, left) >= best.load(Ordering::Relaxed) {
            return;
        }
        let ways = self.onward(at, left);
        let visit = |levels: usize| {
            move |(city, way): (usize, u32)| {
                self.search(city, left & !(1 << city), cost + way, best, levels)
            }
        };
        match parallel_levels.checked_sub(1) {
            None => ways.into_iter().for_each(visit(0)),
            Some(levels) => ways.into_par_iter().for_each(visit(levels)),
        }
    }

    fn shortest(&self, parallel_levels: usize) -> u32 {
        let best = AtomicU32::new(u32::MAX);
        let all = (1 << self.least.len()) - 1;
        self.search(0, all & !1, 0, &best, parallel_levels);
        best.into_inner()
    }
}

fn tsp(scale: Scale) -> Lap {
    let count = scale.of(14, 8);
    let cities: &'static Cities = Box::leak(Box::new(Cities::random(count)));
    case((), |()| cities.shortest(4), |()| cities.shortest(0))
}

//! Rounds over the same data: bodies, cells, and multiples crossed out.

use rayon::prelude::*;

use crate::case::{Demo, Lap, Scale, case};
use crate::random::Random;

pub fn demos() -> Vec<Demo> {
    vec![
        Demo::new("nbody", "bodies that attract each other, some steps", nbody),
        Demo::new("life", "Conway's game on a torus, row by row, some generations", life),
        Demo::new("sieve", "odd numbers crossed out, segment by segment", sieve),
    ]
}

#[derive(Clone, PartialEq, Debug)]
struct Body {
    place: [f64; 3],
    speed: [f64; 3],
    mass: f64,
}

/// The body after one step. Each is computed alone and in a fixed order, so that all bits are the same in every run.
fn moved(body: &Body, all: &[Body]) -> Body {
    let mut pull = [0.0; 3];
    for other in all {
        let way: [f64; 3] = std::array::from_fn(|axis| other.place[axis] - body.place[axis]);
        // Softened, so that nothing is divided by zero.
        let square = way.iter().map(|part| part * part).sum::<f64>() + 1e-3;
        let strength = other.mass / (square * square.sqrt());
        pull.iter_mut().zip(way).for_each(|(pull, way)| *pull += way * strength);
    }
    let mut next = body.clone();
    for (axis, pull) in pull.into_iter().enumerate() {
        next.speed[axis] += pull * 1e-4;
        next.place[axis] += next.speed[axis] * 1e-4;
    }
    next
}

fn nbody(scale: Scale) -> Lap {
    let mut random = Random::new(20);
    let mut three = || [random.unit(), random.unit(), random.unit()];
    let bodies: Vec<Body> = (0..scale.of(800, 60))
        .map(|number| Body { place: three(), speed: three(), mass: 1.0 + (number % 7) as f64 })
        .collect();
    const STEPS: usize = 8;
    case(
        bodies,
        |bodies| {
            (0..STEPS).fold(bodies, |all, _| all.par_iter().map(|body| moved(body, &all)).collect())
        },
        |bodies| {
            (0..STEPS).fold(bodies, |all, _| all.iter().map(|body| moved(body, &all)).collect())
        },
    )
}

#[derive(Clone, PartialEq, Debug)]
struct Board {
    side: usize,
    cells: Vec<bool>,
}

impl Board {
    fn random(side: usize) -> Self {
        let mut random = Random::new(21);
        Board { side, cells: (0..side * side).map(|_| random.below(3) == 0).collect() }
    }

    fn next_row(&self, number: usize, out: &mut [bool]) {
        let side = self.side;
        let row = |number: usize| &self.cells[number % side * side..][..side];
        let rows = [row(number + side - 1), row(number), row(number + 1)];
        for (column, cell) in out.iter_mut().enumerate() {
            let columns = [(column + side - 1) % side, column, (column + 1) % side];
            let alive = rows
                .iter()
                .flat_map(|row| columns.map(|column| row[column]))
                .filter(|cell| *cell)
                .count();
            *cell = matches!((rows[1][column], alive), (true, 3 | 4) | (false, 3));
        }
    }
}

fn life(scale: Scale) -> Lap {
    const GENERATIONS: usize = 25;
    let side = scale.of(400, 40);
    case(
        Board::random(side),
        move |mut board| {
            for _ in 0..GENERATIONS {
                let mut cells = vec![false; side * side];
                cells
                    .par_chunks_mut(side)
                    .enumerate()
                    .for_each(|(number, row)| board.next_row(number, row));
                board.cells = cells;
            }
            board
        },
        |mut board| {
            for _ in 0..GENERATIONS {
                let mut cells = vec![false; side * side];
                cells
                    .chunks_mut(side)
                    .enumerate()
                    .for_each(|(number, row)| board.next_row(number, row));
                board.cells = cells;
            }
            board
        },
    )
}

/// How many primes there are in `from..to`, by the primes up to the root of `to`.
fn primes_between(from: usize, to: usize, small: &[usize]) -> usize {
    let mut crossed = vec![false; to - from];
    for prime in small {
        let first = (prime * prime).max(from.div_ceil(*prime) * prime);
        (first..to).step_by(*prime).for_each(|multiple| crossed[multiple - from] = true);
    }
    (from..to).filter(|number| *number > 1 && !crossed[number - from]).count()
}

fn small_primes(up_to: usize) -> Vec<usize> {
    (2..=up_to)
        .filter(|number| (2..).take_while(|d| d * d <= *number).all(|d| number % d != 0))
        .collect()
}

fn sieve(scale: Scale) -> Lap {
    const SEGMENT: usize = 1 << 15;
    let end = scale.of(8_000_000, 100_000);
    case(
        end,
        |end| {
            let small = small_primes(end.isqrt() + 1);
            (0..end.div_ceil(SEGMENT))
                .into_par_iter()
                .map(|number| {
                    primes_between(number * SEGMENT, ((number + 1) * SEGMENT).min(end), &small)
                })
                .sum::<usize>()
        },
        |end| primes_between(0, end, &small_primes(end.isqrt() + 1)),
    )
}

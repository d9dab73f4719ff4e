//! Plain fork and join: many small halves, and memory halved until a part is small.

use rayon::join;

use crate::case::{Demo, Lap, Scale, case};
use crate::random::{Random, mixed};

pub fn demos() -> Vec<Demo> {
    vec![
        Demo::new("join-fib", "Fibonacci numbers by two calls each, joined to the bottom", fib),
        Demo::new(
            "join-increment",
            "adds one to each number of a slice, halved to 1,024",
            increment,
        ),
        Demo::new("join-tiny", "the same, halved to single numbers: nothing but joins", tiny),
        Demo::new("join-uneven", "a lopsided tree: a tenth, and the rest", uneven),
        Demo::new("matmul", "matrices multiplied by quarters, eight products each", matmul),
        Demo::new("strassen", "matrices multiplied by quarters, seven products each", strassen),
    ]
}

fn fib(scale: Scale) -> Lap {
    fn parallel(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (one, two) = join(|| parallel(n - 1), || parallel(n - 2));
        one + two
    }
    fn serial(n: u64) -> u64 {
        (0..n).fold((0, 1), |(one, two), _| (two, one + two)).0
    }
    case(scale.of(31, 12) as u64, parallel, serial)
}

fn halved(numbers: &mut [u64], least: usize) {
    if numbers.len() <= least {
        numbers.iter_mut().for_each(|number| *number += 1);
        return;
    }
    let (left, right) = numbers.split_at_mut(numbers.len() / 2);
    join(|| halved(left, least), || halved(right, least));
}

fn incremented(mut numbers: Vec<u64>, least: usize) -> Vec<u64> {
    halved(&mut numbers, least);
    numbers
}

fn increment(scale: Scale) -> Lap {
    let input: Vec<u64> = (0..scale.of(16 << 20, 1 << 12) as u64).collect();
    case(
        input,
        |numbers| incremented(numbers, 1024),
        |numbers| numbers.iter().map(|n| n + 1).collect(),
    )
}

fn tiny(scale: Scale) -> Lap {
    let input: Vec<u64> = (0..scale.of(1 << 19, 1 << 9) as u64).collect();
    case(
        input,
        |numbers| incremented(numbers, 1),
        |numbers| numbers.iter().map(|n| n + 1).collect(),
    )
}

/// The sum of stirred numbers, the range cut in a tenth and the rest.
fn uneven(scale: Scale) -> Lap {
    fn sum(from: u64, to: u64) -> u64 {
        if to - from < 64 {
            return (from..to).fold(0, |sum, number| mixed(number).wrapping_add(sum));
        }
        let cut = from + (to - from) / 10;
        let (one, two) = join(|| sum(from, cut), || sum(cut, to));
        one.wrapping_add(two)
    }
    case(
        scale.of(8 << 20, 1 << 12) as u64,
        |to| sum(0, to),
        |to| (0..to).fold(0, |sum, number| mixed(number).wrapping_add(sum)),
    )
}

/// A square matrix of whole numbers (their products are the same in any order), row by row.
#[derive(Clone, PartialEq, Debug)]
struct Matrix {
    side: usize,
    cells: Vec<u64>,
}

/// Below this side, three loops do it.
const SMALL: usize = 32;

impl Matrix {
    fn zero(side: usize) -> Self {
        Matrix { side, cells: vec![0; side * side] }
    }

    fn random(side: usize, seed: u64) -> Self {
        Matrix { side, cells: Random::new(seed).numbers(side * side) }
    }

    fn quarter(&self, down: usize, right: usize) -> Self {
        let half = self.side / 2;
        let rows = self.cells.chunks(self.side).skip(down * half).take(half);
        Matrix {
            side: half,
            cells: rows.flat_map(|row| row[right * half..][..half].to_vec()).collect(),
        }
    }

    fn of_quarters(quarters: [Matrix; 4]) -> Self {
        let half = quarters[0].side;
        let mut whole = Matrix::zero(2 * half);
        for (at, quarter) in quarters.iter().enumerate() {
            for (number, row) in quarter.cells.chunks(half).enumerate() {
                let begin = (at / 2 * half + number) * 2 * half + at % 2 * half;
                whole.cells[begin..begin + half].copy_from_slice(row);
            }
        }
        whole
    }

    fn with(mut self, other: &Matrix, each: fn(u64, u64) -> u64) -> Self {
        self.cells.iter_mut().zip(&other.cells).for_each(|(one, two)| *one = each(*one, *two));
        self
    }

    fn plus(self, other: &Matrix) -> Self {
        self.with(other, u64::wrapping_add)
    }

    fn minus(self, other: &Matrix) -> Self {
        self.with(other, u64::wrapping_sub)
    }

    fn times_plainly(&self, other: &Matrix) -> Self {
        let side = self.side;
        let mut product = Matrix::zero(side);
        for (row, out) in self.cells.chunks(side).zip(product.cells.chunks_mut(side)) {
            for (factor, other_row) in row.iter().zip(other.cells.chunks(side)) {
                for (cell, number) in out.iter_mut().zip(other_row) {
                    *cell = cell.wrapping_add(factor.wrapping_mul(*number));
                }
            }
        }
        product
    }
}

fn quarters(of: &Matrix) -> [Matrix; 4] {
    [of.quarter(0, 0), of.quarter(0, 1), of.quarter(1, 0), of.quarter(1, 1)]
}

fn join_four<T: Send>(
    one: impl FnOnce() -> T + Send,
    two: impl FnOnce() -> T + Send,
    three: impl FnOnce() -> T + Send,
    four: impl FnOnce() -> T + Send,
) -> [T; 4] {
    let ((one, two), (three, four)) = join(|| join(one, two), || join(three, four));
    [one, two, three, four]
}

fn by_quarters(a: &Matrix, b: &Matrix) -> Matrix {
    if a.side <= SMALL {
        return a.times_plainly(b);
    }
    let (a, b) = (quarters(a), quarters(b));
    let cell = |row: usize, column: usize| {
        let (one, two) = join(
            || by_quarters(&a[2 * row], &b[column]),
            || by_quarters(&a[2 * row + 1], &b[2 + column]),
        );
        one.plus(&two)
    };
    Matrix::of_quarters(join_four(|| cell(0, 0), || cell(0, 1), || cell(1, 0), || cell(1, 1)))
}

/// Volker Strassen, "Gaussian elimination is not optimal" (1969).
fn by_seven(a: &Matrix, b: &Matrix) -> Matrix {
    if a.side <= SMALL {
        return a.times_plainly(b);
    }
    let ([a11, a12, a21, a22], [b11, b12, b21, b22]) = (&quarters(a), &quarters(b));
    let sum = |one: &Matrix, two: &Matrix| one.clone().plus(two);
    let less = |one: &Matrix, two: &Matrix| one.clone().minus(two);
    let ([m1, m2, m3, m4], ((m5, m6), m7)) = join(
        || {
            join_four(
                || by_seven(&sum(a11, a22), &sum(b11, b22)),
                || by_seven(&sum(a21, a22), b11),
                || by_seven(a11, &less(b12, b22)),
                || by_seven(a22, &less(b21, b11)),
            )
        },
        || {
            join(
                || {
                    join(
                        || by_seven(&sum(a11, a12), b22),
                        || by_seven(&less(a21, a11), &sum(b11, b12)),
                    )
                },
                || by_seven(&less(a12, a22), &sum(b21, b22)),
            )
        },
    );
    let c11 = sum(&m1, &m4).minus(&m5).plus(&m7);
    let c12 = sum(&m3, &m5);
    let c21 = sum(&m2, &m4);
    let c22 = less(&m1, &m2).plus(&m3).plus(&m6);
    Matrix::of_quarters([c11, c12, c21, c22])
}

fn matmul(scale: Scale) -> Lap {
    let side = scale.of(512, 64);
    let input = (Matrix::random(side, 1), Matrix::random(side, 2));
    case(input, |(a, b)| by_quarters(&a, &b), |(a, b)| a.times_plainly(&b))
}

fn strassen(scale: Scale) -> Lap {
    let side = scale.of(512, 64);
    let input = (Matrix::random(side, 3), Matrix::random(side, 4));
    case(input, |(a, b)| by_seven(&a, &b), |(a, b)| a.times_plainly(&b))
}

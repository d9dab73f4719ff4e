use crate::executor::Executor;

/// A square part of a matrix whose rows are `stride` apart.
#[derive(Clone, Copy)]
struct Part {
    first: *mut i32,
    stride: usize,
}

// SAFETY: only `multiply` reads and writes through it, and its parallel calls write to different quarters.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    fn at(self, row: usize, column: usize) -> Self {
        // SAFETY: callers ask for a place inside of the part.
        let first = unsafe { self.first.add(row * self.stride + column) };
        Self { first, ..self }
    }
}

/// A cache line of a matrix. The system allocator would put 16 bytes in front of it, so that each vector spans two lines.
/// tcmalloc, which the other programs use, does not.
#[derive(Clone)]
#[repr(align(64))]
pub(crate) struct Line([i32; 16]);

/// The product of two matrices of ones.
pub(crate) fn run<E: Executor>(n: usize) -> Vec<Line> {
    let matrix = |of: i32| vec![Line([of; 16]); (n * n).div_ceil(16)];
    let (mut a, mut b, mut c) = (matrix(1), matrix(1), matrix(0));
    let part = |matrix: &mut Vec<Line>| Part { first: matrix.as_mut_ptr().cast(), stride: n };
    multiply::<E>(part(&mut a), part(&mut b), part(&mut c), n);
    c
}

/// Adds the product of `a` and `b` to `c`.
fn multiply<E: Executor>(a: Part, b: Part, c: Part, n: usize) {
    if n <= 32 {
        // SAFETY: the parts are n x n, and no other call writes to this part of `c` now.
        unsafe { multiply_small(a, b, c, n) };
        return;
    }
    let k = n / 2;
    for (left, upper) in [(0, 0), (k, k)] {
        let mut quarters = [(0, 0), (0, k), (k, 0), (k, k)];
        E::join_each(&mut quarters, |&mut (row, column)| {
            multiply::<E>(a.at(row, left), b.at(upper, column), c.at(row, column), k);
        });
    }
}

/// # Safety
/// All three must be `n` x `n`, and no other thread may write to `c` meanwhile.
unsafe fn multiply_small(a: Part, b: Part, c: Part, n: usize) {
    for i in 0..n {
        // SAFETY: a row of `c`, which no other thread reads or writes now.
        let sums = unsafe { std::slice::from_raw_parts_mut(c.first.add(i * c.stride), n) };
        for k in 0..n {
            // SAFETY: inside `a`, and a row of `b`, which is not written.
            let (factor, row) = unsafe {
                (
                    *a.first.add(i * a.stride + k),
                    std::slice::from_raw_parts(b.first.add(k * b.stride), n),
                )
            };
            for (sum, other) in sums.iter_mut().zip(row) {
                *sum += factor * other;
            }
        }
    }
}

pub(crate) fn check(n: usize, product: &[Line]) -> Result<(), String> {
    match product.iter().flat_map(|line| line.0).take(n * n).find(|&sum| sum as usize != n) {
        Some(wrong) => super::equal("matmul", wrong as usize, n),
        None => Ok(()),
    }
}

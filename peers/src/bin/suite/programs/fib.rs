use crate::executor::Executor;

pub(crate) fn run<E: Executor>(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = E::join(|| run::<E>(n - 1), || run::<E>(n - 2));
    a + b
}

pub(crate) fn check(n: u32, given: u64) -> Result<(), String> {
    super::equal("fib", given, (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0)
}

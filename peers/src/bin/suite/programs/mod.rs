//! One program in each module: `run` is called on a worker, `check` checks its result.

pub(crate) mod fib;
pub(crate) mod matmul;
pub(crate) mod nqueens;
pub(crate) mod skynet;

fn equal<T: PartialEq + std::fmt::Display>(what: &str, given: T, right: T) -> Result<(), String> {
    if given == right {
        return Ok(());
    }
    Err(format!("{what} gave {given} instead of {right}"))
}

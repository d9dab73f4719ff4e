//! One program each: `run` inside a worker, `check` of what it gave.

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

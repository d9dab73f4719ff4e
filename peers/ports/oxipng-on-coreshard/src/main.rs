//! On rayon with its core exchanged for Coreshard's adapter: nothing else differs.

use std::process::ExitCode;

#[path = "../../oxipng/src/program.rs"]
mod program;

fn main() -> ExitCode {
    program::run(|| ())
}

//! On rayon with Coreshard's adapter in place of rayon-core: nothing else differs.

use std::process::ExitCode;

#[path = "../../oxipng/src/program.rs"]
mod program;

fn main() -> ExitCode {
    program::run(|| ())
}

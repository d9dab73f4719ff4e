//! On rayon as published.

mod program;

fn main() -> std::process::ExitCode {
    program::run(|| ())
}

//! Prints the page of keys: `cargo run -p coreshard-report --example keys > docs/RESULTS.md`.
#![allow(clippy::print_stdout, reason = "examples print")]

fn main() {
    print!("{}", coreshard_report::keys::markdown());
}

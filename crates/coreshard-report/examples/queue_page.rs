//! Draws the page of results that were written as JSON, or of invented ones, to standard output:
//!
//! ```text
//! cargo run -p coreshard-report --example queue_page                         > invented.html
//! cargo run -p coreshard-report --example queue_page -- coreshard-results.json > page.html
//! ```
//!
//! `two-cpus` in place of a file draws a small invented machine.

#[path = "../tests/all/sample.rs"]
mod sample;

use std::error::Error;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let results = match std::env::args_os().nth(1) {
        None => sample::many_cpus(),
        Some(name) if name == "two-cpus" => sample::two_cpus(),
        Some(path) => serde_json::from_slice(&std::fs::read(path)?)?,
    };
    std::io::stdout().write_all(coreshard_report::html::queue_page(&results).as_bytes())?;
    Ok(())
}

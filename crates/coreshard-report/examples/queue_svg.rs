//! Draws the chart of items per second, for a README or a slide, to standard output:
//!
//! ```text
//! cargo run -p coreshard-report --example queue_svg coreshard-results.json > throughput.svg
//! ```

use std::error::Error;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("give the results as a JSON file")?;
    let results = serde_json::from_slice(&std::fs::read(path)?)?;
    let drawing =
        coreshard_report::svg::queue_throughput(&results).ok_or("nothing was measured")?;
    std::io::stdout().write_all(drawing.as_bytes())?;
    Ok(())
}

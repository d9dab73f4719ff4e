//! A cache that is changed by lines on standard input, and written to a file when it is left alone.
//!
//! ```text
//! debounced-cache --file words.tsv --quiet-ms 200 --at-most-ms 5000
//! set colour green
//! get colour            # answers: green
//! ```
//!
//! At the end of the input it writes the remaining changes, and prints the number of writes.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use services::DebouncedCache;

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    file: PathBuf,
    /// How long it must be unchanged before it is written.
    #[arg(long, default_value_t = 200)]
    quiet_ms: u64,
    /// How long a change waits at most.
    #[arg(long, default_value_t = 5_000)]
    at_most_ms: u64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let queue = coreshard::workqueue()?.name("cache").build()?;
    let quiet = Duration::from_millis(arguments.quiet_ms);
    let at_most = Duration::from_millis(arguments.at_most_ms);
    let cache = DebouncedCache::open(arguments.file, queue, quiet, at_most)?;
    let mut output = io::stdout();
    let mut changes = 0;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("set"), Some(key), Some(value)) => {
                cache.set(key.to_owned(), value.to_owned())?;
                changes += 1;
            }
            (Some("get"), Some(key), None) => {
                writeln!(output, "{}", cache.get(key).unwrap_or_default())?;
            }
            _ => writeln!(io::stderr(), "neither \"set KEY VALUE\" nor \"get KEY\": {line:?}")?,
        }
    }
    let writes = cache.close()?;
    writeln!(output, "{changes} changes, {writes} writes")?;
    Ok(())
}

//! Results as JSON.

use std::io::{self, Write};

use coreshard_results::QueueResults;

/// Writes `results` as indented JSON and a final line feed, with the keys and the order that
/// [`QueueResults`] promises.
///
/// # Errors
/// What the writer reports; a figure that is not finite is no error and becomes `null`.
pub fn write_queue<W: Write>(results: &QueueResults, mut writer: W) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut writer, results)?;
    writer.write_all(b"\n")?;
    writer.flush()
}

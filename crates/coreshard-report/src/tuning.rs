//! What `tune` found, as a table for a terminal or a text file.

use coreshard_results::Tuning;

use crate::plain;

/// Each candidate, one a line: the recommended one is marked `*`, those that are about as good `~`.
///
/// ```
/// use coreshard_results::{Candidate, Tuning};
///
/// let candidate = Candidate { scope: "cache".into(), worth: 0.5, worth_q1: 0.4, worth_q3: 0.6, ..Candidate::default() };
/// let tuning = Tuning { candidates: vec![candidate], ..Tuning::default() };
/// let table = coreshard_report::tuning::table(&tuning, 100);
/// assert!(table.lines().nth(1).unwrap().trim_start().starts_with("*  cache"), "{table}");
/// ```
pub fn table(tuning: &Tuning, width: usize) -> String {
    plain::table(&tuning.rows(), width)
}

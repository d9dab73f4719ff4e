//! Options that take a list of variants, and counts with their nouns.

use std::fmt::Display;
use std::str::FromStr;

/// Parses one word of a list of variants.
pub(crate) fn variant<V: FromStr<Err: ToString>>(word: &str) -> Result<V, String> {
    word.trim().parse().map_err(|error: V::Err| error.to_string())
}

/// Returns the help of an option that takes a list of variants.
pub(crate) fn variants<V: Display>(what: &str, all: &[V]) -> String {
    let names: Vec<_> = all.iter().map(ToString::to_string).collect();
    format!("{what}: {} [default: all]", names.join(", "))
}

/// Returns the listed variants, or all of them if none are listed.
pub(crate) fn or_all<V: Copy>(listed: &[V], all: &[V]) -> Vec<V> {
    if listed.is_empty() { all.to_vec() } else { listed.to_vec() }
}

/// Returns `1 pod`, `2 pods`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

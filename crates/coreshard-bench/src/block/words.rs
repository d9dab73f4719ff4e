//! The values of a job's words, in fio's notation.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use coreshard_topology::input::quoted;

/// A number of bytes, or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Per cent of the file, or, for `io_size`, of `size`.
    Percent(u8),
}

impl Amount {
    /// Returns the bytes, out of `whole`.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Accepts a switch that is always on.
pub(super) fn always(value: &str, why: &str) -> Result<(), String> {
    if switch(value)? {
        Ok(())
    } else {
        Err(format!("0 is not supported: {why}; leave the word out"))
    }
}

/// Parses a file's name. In fio a colon separates several names, and `\:` stands for a colon.
pub(super) fn one_file(value: &str) -> Result<PathBuf, String> {
    let escaped = value.replace("\\:", "\0");
    if escaped.contains(':') {
        return Err(format!(
            "{} names several files, and a job has one; give one file, and write \\: for a colon in its name",
            quoted(value)
        ));
    }
    Ok(PathBuf::from(escaped.replace('\0', ":")))
}

/// Parses bytes or per cent.
pub(super) fn amount(value: &str, least: u64) -> Result<Amount, String> {
    match value.strip_suffix('%') {
        None => bytes_between(value, least, 1 << 62).map(Amount::Bytes),
        Some(percent) => number(percent, least, 100)
            .map(|percent| Amount::Percent(percent as u8))
            .map_err(|_| format!("{} is not a percentage from {least}% to 100%", quoted(value))),
    }
}

/// Parses `4k/60:64k/40`. Sizes without a percentage share the rest.
pub(super) fn split(value: &str) -> Result<Vec<(u32, u8)>, String> {
    let wanted = |what: &str| {
        format!(
            "{} {what}; give sizes with their percentages, such as 4k/60:64k/40, of which the larger are \
             multiples of the smallest",
            quoted(value)
        )
    };
    if value.contains(',') {
        return Err(wanted("has different sizes for reads and for writes, which is not supported"));
    }
    let mut parts = Vec::new();
    for part in value.split(':') {
        let (bytes, percent) = part.split_once('/').unwrap_or((part, ""));
        let bytes = bytes_between(bytes, 1, 1 << 30)? as u32;
        let percent = if percent.is_empty() { None } else { Some(number(percent, 1, 100)?) };
        parts.push((bytes, percent));
    }
    let given: u64 = parts.iter().filter_map(|(_, percent)| *percent).sum();
    let open = parts.iter().filter(|(_, percent)| percent.is_none()).count() as u64;
    let left = 100_u64.checked_sub(given).filter(|left| *left >= open && (open > 0 || *left == 0));
    let left = left.ok_or_else(|| wanted("has percentages that do not add up to 100"))?;
    let mut number = 0;
    let mut split: Vec<(u32, u8)> = Vec::new();
    parts.sort_unstable();
    for (bytes, percent) in parts {
        let percent = percent.unwrap_or_else(|| {
            number += 1;
            left * number / open - left * (number - 1) / open
        }) as u8;
        match split.last_mut() {
            Some(last) if last.0 == bytes => last.1 += percent,
            _ => split.push((bytes, percent)),
        }
    }
    if split.iter().any(|(bytes, _)| bytes % split[0].0 != 0) {
        return Err(wanted("has sizes that are not multiples of the smallest"));
    }
    Ok(split)
}

/// Parses `1000`, or `1000,500` for reads and writes.
pub(super) fn rates(value: &str) -> Result<[u32; 2], String> {
    let (reads, writes) = value.split_once(',').unwrap_or((value, value));
    let rate = |text: &str| number(text, 1, 1_000_000_000).map(|rate| rate as u32);
    Ok([rate(reads)?, rate(writes)?])
}

pub(super) fn given(value: &str) -> Result<&str, String> {
    if value.is_empty() { Err("expected a value".to_owned()) } else { Ok(value) }
}

/// Returns the first name of a value among `names`.
pub(super) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, named)| named == value).map_or("", |(name, _)| name)
}

pub(super) fn parsed<T: FromStr<Err: fmt::Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

pub(super) fn named<T: Copy>(names: &[(&str, T)], value: &str) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == value).map(|(_, named)| *named);
    found.ok_or_else(|| {
        let names = names.iter().map(|(name, _)| *name).filter(|name| !name.is_empty());
        let names = names.collect::<Vec<&str>>().join(", ");
        format!("invalid value {}: expected one of {names}", quoted(value))
    })
}

pub(super) fn switch(value: &str) -> Result<bool, String> {
    // The key alone switches on, as in fio.
    named(&[("", true), ("1", true), ("0", false)], value)
}

pub(super) fn number(value: &str, least: u64, most: u64) -> Result<u64, String> {
    let wanted = || format!("{} is not a whole number from {least} to {most}", quoted(value));
    value.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(wanted)
}

/// Parses a number with one of these suffixes.
fn scaled(value: &str, units: &[(&[&str], u64)]) -> Option<u64> {
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let suffix = &value[digits.len()..];
    let (_, unit) = units.iter().find(|(names, _)| names.contains(&suffix))?;
    digits.parse::<u64>().ok()?.checked_mul(*unit)
}

/// Parses a number of bytes with fio's suffixes: k, m, g and t are powers of 1024, with or without b or ib.
pub(super) fn bytes_between(value: &str, least: u64, most: u64) -> Result<u64, String> {
    const UNITS: [(&[&str], u64); 5] = [
        (&["", "b"], 1),
        (&["k", "kb", "kib"], 1 << 10),
        (&["m", "mb", "mib"], 1 << 20),
        (&["g", "gb", "gib"], 1 << 30),
        (&["t", "tb", "tib"], 1 << 40),
    ];
    let bytes = scaled(&value.to_ascii_lowercase(), &UNITS);
    bytes.filter(|bytes| (least..=most).contains(bytes)).ok_or_else(|| {
        let given = quoted(value);
        format!("{given} is not a number of bytes from {least} to {most}, such as 4096, 4k or 1g")
    })
}

/// Parses a time with fio's suffixes; the default unit is seconds.
pub(super) fn duration(value: &str) -> Result<Duration, String> {
    const UNITS: [(&[&str], u64); 5] = [
        (&["us"], 1_000),
        (&["ms"], 1_000_000),
        (&["", "s"], 1_000_000_000),
        (&["m"], 60_000_000_000),
        (&["h"], 3_600_000_000_000),
    ];
    let ns = scaled(value, &UNITS).filter(|ns| *ns > 0).map(Duration::from_nanos);
    ns.ok_or_else(|| {
        format!("{} is not a time above 0, such as 10, 10s, 500ms or 2m", quoted(value))
    })
}

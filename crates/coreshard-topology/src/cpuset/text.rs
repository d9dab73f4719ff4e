//! The two ways the kernel writes a set of CPUs: a list (`0-3,8`) and a mask (`00000001,0000000f`).

use std::fmt;
use std::str::FromStr;

use super::{BITS, CpuSet, MAX_CPU, Word};
use crate::CpuId;
use crate::input::{LISTED_CPUS, quoted};

impl fmt::Display for CpuSet {
    /// Formats the kernel's list format: ranges and single numbers, ascending, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = String::new();
        let mut cpus = self.iter().peekable();
        while let Some(start) = cpus.next() {
            let mut end = start;
            while let Some(next) = cpus.next_if(|next| next.0 - 1 == end.0) {
                end = next;
            }
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(&start.to_string());
            if end > start {
                list.push('-');
                list.push_str(&end.to_string());
            }
        }
        f.pad(&list)
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    /// Parses the kernel's list format: numbers and ranges separated by commas, and ranges with a stride (`0-10:2/4` is
    /// the first 2 of every 4). White space around an item, a trailing newline, and zero bytes at the end, with which
    /// some recordings pad files, are accepted. The empty string is the empty set.
    ///
    /// Takes time proportional to the text and the CPUs that it names, at most [`LISTED_CPUS`].
    ///
    /// # Errors
    ///
    /// If the text is not such a list, names a CPU beyond [`MAX_CPU`], or names too many. The message gives the column.
    fn from_str(text: &str) -> Result<Self, ParseCpuSetError> {
        let mut set = Self::new();
        let text = unpadded(text);
        if text.trim().is_empty() {
            return Ok(set);
        }
        let (mut at, mut left) = (0, LISTED_CPUS);
        for item in text.split(',') {
            Cursor::new(text, at, item).range(&mut set, &mut left)?;
            at += item.len() + 1;
        }
        Ok(set)
    }
}

impl CpuSet {
    /// Parses the kernel's mask format: hexadecimal 32-bit words, the highest first, separated by commas
    /// (`00000001,0000000f` is CPUs 0-3 and 32). Also parses the form in hwloc XML files: words start with `0x`, and
    /// zero words may be omitted.
    ///
    /// # Errors
    ///
    /// If the text is not such a mask, or contains a CPU beyond [`MAX_CPU`]. The message gives the column or CPU.
    pub fn from_mask(text: &str) -> Result<Self, ParseCpuSetError> {
        let body = unpadded(text);
        let mut words = Vec::new();
        let mut at = 0;
        let is_one = !body.contains(',');
        for word in body.split(',') {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            let fail = |problem| ParseCpuSetError::at("CPU mask", text, at, problem);
            let bits = if word.is_empty() && !is_one {
                0
            } else if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(fail("expected hexadecimal digits"));
            } else {
                let bits = u32::from_str_radix(digits, 16);
                bits.map_err(|_| fail("expected words of at most 32 bits"))?
            };
            words.push((bits, at));
            at += word.len() + 1;
        }
        // From the lowest word, two per word of the set.
        let most = MAX_CPU.index() / 32;
        let beyond =
            words.iter().rev().enumerate().find(|(place, word)| *place > most && word.0 > 0);
        if let Some((_, (_, at))) = beyond {
            return Err(ParseCpuSetError::at("CPU list", text, *at, too_high()));
        }
        let lowest: Vec<u32> = words.iter().rev().take(most + 1).map(|(bits, _)| *bits).collect();
        let pairs = lowest
            .chunks(2)
            .map(|pair| u64::from(pair[0]) | u64::from(pair.get(1).copied().unwrap_or(0)) << 32);
        let words = (0..).zip(pairs).map(|(place, bits)| Word { place, bits });
        Ok(Self { words: words.filter(|word| word.bits != 0).collect() })
    }
}

const EXPECTED_STRIDE: &str = "expected a stride USED/GROUP, as in \"0-10:2/4\"";

fn too_high() -> String {
    format!("expected a CPU number up to {MAX_CPU}")
}

/// Removes line feeds and zero bytes at the end.
fn unpadded(text: &str) -> &str {
    text.trim_end_matches(|letter: char| letter == '\0' || letter.is_whitespace())
}

/// Parses one item of a list, and tracks its position in the whole text.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str, at: usize, item: &str) -> Self {
        let leading = item.len() - item.trim_start().len();
        Self { text, at: at + leading, end: at + leading + item.trim().len() }
    }

    /// `left` is how many more CPUs the list may name.
    fn range(mut self, set: &mut CpuSet, left: &mut u64) -> Result<(), ParseCpuSetError> {
        let start_at = self.at;
        let start = self.number("expected a CPU number, as in \"0-3,8\"")?;
        let mut end = start;
        if self.take(b'-') {
            end = self.number("expected the last CPU of the range")?;
            if end < start {
                return Err(self.fail_at(start_at, "the range ends before it starts"));
            }
        }
        let (mut used, mut group) = (1, 1);
        if self.take(b':') {
            let stride_at = self.at;
            used = self.number(EXPECTED_STRIDE)?;
            if !self.take(b'/') {
                return Err(self.fail_at(self.at, EXPECTED_STRIDE));
            }
            group = self.number(EXPECTED_STRIDE)?;
            if group == 0 || used > group {
                let problem =
                    "expected a stride USED/GROUP with GROUP at least 1 and at least USED";
                return Err(self.fail_at(stride_at, problem));
            }
        }
        if self.at < self.end {
            return Err(self.fail_at(self.at, "expected a comma or the end of the list"));
        }
        let named = u64::from(end - start) + 1;
        *left = left.checked_sub(named).ok_or_else(|| {
            let most = format!("expected at most {LISTED_CPUS} CPUs");
            self.fail_at(start_at, format!("{most}, counted as often as they are named"))
        })?;
        if used < group {
            set.extend((start..=end).filter(|cpu| (cpu - start) % group < used).map(CpuId));
            return Ok(());
        }
        // Word by word: recorded machines name all CPUs in the files of each.
        for place in start / BITS..=end / BITS {
            let from = start.max(place * BITS) % BITS;
            let to = end.min(place * BITS + (BITS - 1)) % BITS;
            let bits = u64::MAX >> (BITS - 1 - (to - from)) << from;
            set.insert_word(Word { place, bits });
        }
        Ok(())
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.at < self.end && self.text.as_bytes()[self.at] == byte;
        self.at += usize::from(found);
        found
    }

    fn number(&mut self, missing: &str) -> Result<u32, ParseCpuSetError> {
        let rest = &self.text.as_bytes()[self.at..self.end];
        let length = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if length == 0 {
            return Err(self.fail_at(self.at, missing));
        }
        // Only ASCII digits were counted, so the slice is on character boundaries.
        let number = self.text[self.at..self.at + length].parse::<u32>();
        let number = number.ok().filter(|n| *n <= MAX_CPU.0);
        let number = number.ok_or_else(|| self.fail_at(self.at, too_high()))?;
        self.at += length;
        Ok(number)
    }

    fn fail_at(&self, at: usize, problem: impl fmt::Display) -> ParseCpuSetError {
        ParseCpuSetError::at("CPU list", self.text, at, problem)
    }
}

/// Why a text is not a set of CPUs, with the column.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseCpuSetError {
    /// The message, with the text escaped and shortened, as it may be a whole file.
    text: String,
    column: usize,
}

impl ParseCpuSetError {
    /// `form` names the expected form, and `byte` is the position of the problem in `text`.
    fn at(form: &str, text: &str, byte: usize, problem: impl fmt::Display) -> Self {
        let column = text.char_indices().take_while(|(at, _)| *at < byte).count() + 1;
        let shown = quoted(unpadded(text));
        Self { text: format!("{form} {shown}, column {column}: {problem}"), column }
    }

    /// Returns the column of the first wrong character, in characters from 1.
    pub const fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for ParseCpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

crate::readable_debug!(ParseCpuSetError);

impl std::error::Error for ParseCpuSetError {}

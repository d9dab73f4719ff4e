//! The two ways the kernel writes a set of CPUs: a list (`0-3,8`) and a mask (`00000001,0000000f`).

use std::fmt;
use std::str::FromStr;

use super::{CpuSet, MAX_CPU};
use crate::CpuId;

impl fmt::Display for CpuSet {
    /// The kernel's list format: ranges and single numbers, ascending, parted by commas.
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

    /// Reads the kernel's list format: numbers and ranges parted by commas, and ranges with a
    /// stride (`0-10:2/4` is the first 2 of every 4). White space around an item, and a trailing
    /// newline, are allowed; so is the empty string, which is the empty set.
    ///
    /// # Errors
    /// Names the column of the first thing that is not such a list, or that names a CPU beyond
    /// [`MAX_CPU`].
    fn from_str(text: &str) -> Result<Self, ParseCpuSetError> {
        let mut set = Self::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        let mut at = 0;
        for item in text.split(',') {
            Cursor::new(text, at, item).range(&mut set)?;
            at += item.len() + 1;
        }
        Ok(set)
    }
}

impl CpuSet {
    /// Reads the kernel's mask format: hexadecimal words of 32 bits, the highest first, parted by
    /// commas (`00000001,0000000f` is CPUs 0-3 and 32). Also reads the form of hwloc's XML files,
    /// where each word starts with `0x` and may be left out when it is zero.
    ///
    /// # Errors
    /// Names the column of the first thing that is not such a mask, or the CPU beyond [`MAX_CPU`].
    pub fn from_mask(text: &str) -> Result<Self, ParseCpuSetError> {
        let body = text.trim_end();
        let words: Vec<&str> = body.split(',').collect();
        let count = words.len();
        let mut set = Self::new();
        let mut at = 0;
        for (index, word) in words.into_iter().enumerate() {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            let fail = |problem| ParseCpuSetError::at(text, at, problem);
            let skippable = word.is_empty() && count > 1;
            let bits = if skippable {
                0
            } else if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(fail(Problem::NotHexadecimal));
            } else {
                u32::from_str_radix(digits, 16).map_err(|_| fail(Problem::WordTooLong))?
            };
            let base = u64::try_from(count - 1 - index).unwrap_or(u64::MAX).saturating_mul(32);
            for bit in (0..32).filter(|bit| bits & (1 << bit) != 0) {
                let cpu = base.saturating_add(bit);
                let cpu = u32::try_from(cpu).ok().filter(|cpu| *cpu <= MAX_CPU.0);
                set.insert(CpuId(cpu.ok_or_else(|| fail(Problem::TooHigh))?));
            }
            at += word.len() + 1;
        }
        Ok(set)
    }
}

/// Reads one item of a list; remembers where in the whole text it stands.
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

    fn range(mut self, set: &mut CpuSet) -> Result<(), ParseCpuSetError> {
        let start_at = self.at;
        let start = self.number(Problem::ExpectedCpu)?;
        let mut end = start;
        if self.take(b'-') {
            end = self.number(Problem::ExpectedRangeEnd)?;
            if end < start {
                return Err(ParseCpuSetError::at(self.text, start_at, Problem::Backwards));
            }
        }
        let (mut used, mut group) = (1, 1);
        if self.take(b':') {
            let stride_at = self.at;
            used = self.number(Problem::ExpectedStride)?;
            if !self.take(b'/') {
                return Err(self.fail(Problem::ExpectedStride));
            }
            group = self.number(Problem::ExpectedStride)?;
            if group == 0 || used > group {
                return Err(ParseCpuSetError::at(self.text, stride_at, Problem::BadStride));
            }
        }
        if self.at < self.end {
            return Err(self.fail(Problem::Unexpected));
        }
        set.extend((start..=end).filter(|cpu| (cpu - start) % group < used).map(CpuId));
        Ok(())
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.at < self.end && self.text.as_bytes()[self.at] == byte;
        self.at += usize::from(found);
        found
    }

    fn number(&mut self, missing: Problem) -> Result<u32, ParseCpuSetError> {
        let rest = &self.text.as_bytes()[self.at..self.end];
        let length = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if length == 0 {
            return Err(self.fail(missing));
        }
        // Only ASCII digits were counted, so the slice is on character boundaries.
        let number = self.text[self.at..self.at + length].parse::<u32>();
        let number = number.ok().filter(|n| *n <= MAX_CPU.0);
        let number = number.ok_or_else(|| self.fail(Problem::TooHigh))?;
        self.at += length;
        Ok(number)
    }

    fn fail(&self, problem: Problem) -> ParseCpuSetError {
        ParseCpuSetError::at(self.text, self.at, problem)
    }
}

/// Why a text is not a set of CPUs, and at which column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseCpuSetError {
    text: String,
    column: usize,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    ExpectedCpu,
    ExpectedRangeEnd,
    ExpectedStride,
    BadStride,
    Backwards,
    TooHigh,
    Unexpected,
    NotHexadecimal,
    WordTooLong,
}

impl ParseCpuSetError {
    fn at(text: &str, byte: usize, problem: Problem) -> Self {
        let column = text.char_indices().take_while(|(at, _)| *at < byte).count() + 1;
        Self { text: text.trim_end().to_owned(), column, problem }
    }

    /// The column of the first wrong character, counted in characters from 1.
    #[must_use]
    pub const fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for ParseCpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.problem {
            Problem::NotHexadecimal | Problem::WordTooLong => "CPU mask",
            _ => "CPU list",
        };
        write!(f, "{form} {:?}, column {}: ", abbreviated(&self.text), self.column)?;
        match self.problem {
            Problem::ExpectedCpu => f.write_str("expected a CPU number, as in \"0-3,8\""),
            Problem::ExpectedRangeEnd => f.write_str("expected the last CPU of the range"),
            Problem::ExpectedStride => {
                f.write_str("expected a stride USED/GROUP, as in \"0-10:2/4\"")
            }
            Problem::BadStride => {
                f.write_str("a stride USED/GROUP needs a GROUP of at least 1 and of at least USED")
            }
            Problem::Backwards => f.write_str("the range ends before it starts"),
            Problem::TooHigh => write!(f, "CPU numbers go up to {MAX_CPU}"),
            Problem::Unexpected => f.write_str("expected a comma or the end of the list"),
            Problem::NotHexadecimal => f.write_str("expected hexadecimal digits"),
            Problem::WordTooLong => f.write_str("a word of a mask has at most 32 bits"),
        }
    }
}

impl std::error::Error for ParseCpuSetError {}

/// The text, cut so that a message stays readable when a whole file was given.
fn abbreviated(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain("…".chars()).collect()
}

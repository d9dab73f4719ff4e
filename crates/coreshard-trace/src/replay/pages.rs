//! The threads that access each line: a table of pages with a word for each line.
//!
//! A line that only one thread accesses costs only its first fetch, on every machine. A pass before the replay
//! therefore finds the shared lines, and only these are passed to the simulated caches.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const PAGE_BITS: u32 = 12;
/// Pages of one recording: 16 GiB of memory.
const MOST_PAGES: usize = 4 << 20;

const WRITTEN: u32 = 1 << 30;
const FETCHED: u32 = 1 << 29;
const SHARED: u32 = 1 << 31;
/// Several threads read it, and none writes it.
const READ_BY_SEVERAL: u32 = WRITTEN - 1 - FETCHED;

/// The number of a shared line, or the state of a private one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// The first access of a private line, or of a line that several threads only read.
    Fresh,
    /// A later access.
    Private,
    Shared(u32),
}

#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }
    fn write_u64(&mut self, number: u64) {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

pub(crate) type PageMap<V> = HashMap<u64, V, BuildHasherDefault<PageHasher>>;

/// Pages that a thread remembers; a power of two. Threads alternate between a few pages: stack, code, and current data.
const REMEMBERED: usize = 128;

/// The pages that a thread accessed recently. Each page has one slot, which depends on its number.
#[derive(Clone, Debug)]
pub(super) struct Lately(Box<[(u64, u32); REMEMBERED]>);

impl Default for Lately {
    fn default() -> Self {
        Self(Box::new([(u64::MAX, 0); REMEMBERED]))
    }
}

impl Lately {
    #[inline]
    fn place(page: u64) -> usize {
        (page ^ (page >> 7)) as usize % REMEMBERED
    }
}

pub(super) struct Pages {
    line_bits: u32,
    numbers: PageMap<u32>,
    /// A word for each line of each page.
    lines: Vec<u32>,
    is_full: bool,
}

impl Pages {
    pub(super) fn new(line_bytes: usize) -> Self {
        let line_bits = line_bytes.clamp(16, 4_096).ilog2();
        Self { line_bits, numbers: HashMap::default(), lines: Vec::new(), is_full: false }
    }

    /// Whether the recording has more than the maximum number of pages.
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    fn per_page(&self) -> usize {
        1 << (PAGE_BITS - self.line_bits)
    }

    /// Returns the index of a line in `lines`. An unknown page is added if `adds` is set. Returns none if the page is
    /// unknown, or if there are too many pages.
    #[inline]
    fn at(&mut self, address: u64, lately: &mut Lately, adds: bool) -> Option<usize> {
        let page = address >> PAGE_BITS;
        let place = Lately::place(page);
        let (its, number) = lately.0[place];
        let number = if its == page { number } else { self.look_up(page, place, lately, adds)? };
        let within = (address & ((1 << PAGE_BITS) - 1)) >> self.line_bits;
        Some(number as usize * self.per_page() + within as usize)
    }

    fn look_up(&mut self, page: u64, place: usize, lately: &mut Lately, adds: bool) -> Option<u32> {
        let number = match self.numbers.get(&page) {
            Some(number) => *number,
            None if !adds => return None,
            None if self.numbers.len() >= MOST_PAGES => {
                self.is_full = true;
                return None;
            }
            None => {
                let next = self.numbers.len() as u32;
                self.numbers.insert(page, next);
                let length = self.lines.len() + self.per_page();
                self.lines.resize(length, 0);
                next
            }
        };
        lately.0[place] = (page, number);
        Some(number)
    }

    /// Records that a thread accesses the line. Threads are numbered from 1 on.
    #[inline]
    pub(super) fn touch(&mut self, address: u64, thread: u32, writes: bool, lately: &mut Lately) {
        let Some(at) = self.at(address, lately, true) else { return };
        let line = &mut self.lines[at];
        let written = if writes { WRITTEN } else { 0 };
        if *line & SHARED != 0 {
            return;
        }
        *line = match (*line & !WRITTEN, *line & WRITTEN | written) {
            (0, _) => thread | written,
            (its, any) if its == thread => thread | any,
            (_, 0) => READ_BY_SEVERAL,
            _ => SHARED,
        };
    }

    /// Returns the kind of the line. A shared line gets the next number of `count` on the first call.
    #[inline]
    pub(super) fn kind(&mut self, address: u64, count: &mut u32, lately: &mut Lately) -> LineKind {
        let Some(at) = self.at(address, lately, false) else { return LineKind::Private };
        let line = &mut self.lines[at];
        if *line & SHARED != 0 {
            if *line == SHARED {
                *count += 1;
                *line = SHARED | *count;
            }
            return LineKind::Shared((*line & !SHARED) - 1);
        }
        if *line & FETCHED != 0 {
            return LineKind::Private;
        }
        *line |= FETCHED;
        LineKind::Fresh
    }

    /// Returns the addresses of the shared lines in order: lines that several threads access and at least one writes.
    pub(super) fn shared(&self) -> Vec<u64> {
        let mut shared: Vec<u64> = Vec::new();
        for (page, number) in &self.numbers {
            let lines = &self.lines[*number as usize * self.per_page()..][..self.per_page()];
            let found = (0u64..).zip(lines).filter(|(_, line)| **line & SHARED != 0);
            shared.extend(found.map(|(at, _)| (page << PAGE_BITS) + (at << self.line_bits)));
        }
        shared.sort_unstable();
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shared_once_a_second_thread_is_there_and_one_writes() {
        let mut pages = Pages::new(64);
        let mut lately = Lately::default();
        pages.touch(0x1000, 1, true, &mut lately);
        pages.touch(0x1008, 1, false, &mut lately);
        pages.touch(0x1040, 1, false, &mut lately);
        pages.touch(0x1044, 2, false, &mut lately);
        pages.touch(0x1080, 1, false, &mut lately);
        pages.touch(0x10bf, 2, true, &mut lately);
        let mut count = 0;
        let mut kind = |address| pages.kind(address, &mut count, &mut Lately::default());
        assert_eq!(kind(0x1000), LineKind::Fresh);
        assert_eq!(kind(0x1010), LineKind::Private);
        assert_eq!(kind(0x1040), LineKind::Fresh);
        assert_eq!(kind(0x1090), LineKind::Shared(0));
        assert_eq!(kind(0x1080), LineKind::Shared(0));
        assert_eq!(kind(0x9000), LineKind::Private, "no thread touched it");
        assert_eq!(pages.shared(), [0x1080]);
    }
}

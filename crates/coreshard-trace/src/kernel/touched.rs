//! The lines that several CPUs touch, and some of the instructions that do. Their objects get names.

use crate::recording::{Access, AccessKind, Event, Events, RecordingError};
use crate::replay::PageMap;

const LINE_BYTES: u64 = 64;
/// Lines of one recording that are kept track of: each takes some 200 bytes.
const MOST_LINES: usize = 2 << 20;
/// Instructions of one line.
const MOST_SITES: usize = 10;

/// One line.
#[derive(Clone, Debug, Default)]
struct Touch {
    /// The thread, or `u32::MAX` for several.
    thread: u32,
    is_written: bool,
    /// Instructions, the byte of the line that each accesses, and how many.
    sites: Vec<(u64, u8, u8)>,
}

/// An instruction that accesses a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineAccess {
    /// The address after the instruction.
    pub(super) pc: u64,
    /// The first byte that it accesses.
    pub(super) address: u64,
    pub(super) bytes: u8,
}

/// Lines, and the instructions that access them.
#[derive(Default)]
pub(super) struct Touched {
    lines: PageMap<Touch>,
    events: Events,
    is_full: bool,
}

impl Touched {
    /// Notes what a chunk of a thread's events accesses.
    ///
    /// # Errors
    /// If the chunk is damaged.
    pub(super) fn note(&mut self, thread: u32, chunk: &[u8]) -> Result<(), RecordingError> {
        let Self { lines, events, is_full } = self;
        events.begin();
        let mut at = 0;
        while let Some(event) = events.next(chunk, &mut at)? {
            if let Event::Access(access) = event {
                *is_full |= !note(lines, thread, &access);
            }
        }
        Ok(())
    }

    /// Whether lines were left out.
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the lines that several threads touch and one of them writes, by address, each with its instructions.
    pub(super) fn shared(&self) -> Vec<(u64, Vec<LineAccess>)> {
        let shared = self.lines.iter().filter(|(_, its)| its.thread == u32::MAX && its.is_written);
        let mut shared: Vec<_> = shared
            .map(|(line, its)| {
                let start = line * LINE_BYTES;
                let site = |(pc, offset, bytes): &(u64, u8, u8)| LineAccess {
                    pc: *pc,
                    address: start + u64::from(*offset),
                    bytes: *bytes,
                };
                (start, its.sites.iter().map(site).collect())
            })
            .collect();
        shared.sort_by_key(|(line, _)| *line);
        shared
    }
}

/// Returns false if there is no room for a further line.
fn note(lines: &mut PageMap<Touch>, thread: u32, access: &Access) -> bool {
    let line = access.address / LINE_BYTES;
    let has_room = lines.len() < MOST_LINES;
    let its = match lines.get_mut(&line) {
        Some(its) => its,
        None if has_room => {
            lines.entry(line).or_insert_with(|| Touch { thread, ..Touch::default() })
        }
        None => return false,
    };
    if its.thread != thread {
        its.thread = u32::MAX;
    }
    its.is_written |= access.kind != AccessKind::Load;
    let bytes = u8::try_from(access.size_bytes).unwrap_or(u8::MAX);
    let site = (access.instruction, (access.address % LINE_BYTES) as u8, bytes);
    if its.sites.len() < MOST_SITES && !its.sites.contains(&site) {
        its.sites.push(site);
    }
    true
}

//! The words of an object's costliest line, for a drawing: where they are, and where the best layout puts them.

use std::collections::{BTreeMap, BTreeSet};

use super::lines::Line;
use super::moved::Moves;
use super::names::Names;
use super::on_line::{FEW, OnLine};
use crate::recording::AccessKind;

/// The words of a line, now and with the best layout.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePicture {
    /// The length of a line in bytes.
    pub line_bytes: u64,
    /// Its words, sorted by address.
    pub words: Vec<PictureWord>,
    /// The best layout, in a few words; `None` if no layout was tried, or none gains.
    pub remedy: Option<&'static str>,
}

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureWord {
    /// The field; empty if the object is one word.
    pub field: String,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The threads that write it, sorted, without the few writes of an initialization.
    pub writers: Vec<u32>,
    /// The threads that read it, sorted.
    pub readers: Vec<u32>,
    /// Its address in the recorded program.
    pub address: u64,
    /// Its address with the best layout; otherwise the same.
    pub then: u64,
    /// The approximate ticket of its first access.
    ticket: u64,
}

#[derive(Default)]
struct WordUse {
    row: usize,
    size_bytes: u64,
    count: u64,
    writers: BTreeSet<u32>,
    readers: BTreeSet<u32>,
}

impl LinePicture {
    /// Returns the words of a line that are used after their initialization.
    pub(super) fn of(
        line: &Line,
        on_line: &OnLine<'_>,
        line_bytes: u64,
        names: &mut Names<'_>,
    ) -> Self {
        let mut words: BTreeMap<u64, WordUse> = BTreeMap::new();
        for (number, row) in line.rows.iter().enumerate() {
            let word = words.entry(u64::from(row.offset)).or_default();
            let size_bytes = u64::from(row.size_bytes);
            if word.size_bytes < size_bytes {
                (word.row, word.size_bytes) = (number, size_bytes);
            }
            word.count += row.count;
            if row.kind == AccessKind::Load {
                word.readers.extend(row.threads());
            } else if row.count > FEW {
                word.writers.extend(row.threads());
            }
        }
        let used = words.into_iter().filter(|(_, its)| its.count > FEW);
        let words = used.map(|(offset, its)| {
            let address = line.address + offset;
            PictureWord {
                field: on_line.field(its.row, names),
                size_bytes: its.size_bytes,
                writers: its.writers.into_iter().collect(),
                readers: its.readers.into_iter().collect(),
                address,
                then: address,
                ticket: line.rows[its.row].ticket,
            }
        });
        Self { line_bytes, words: words.collect(), remedy: None }
    }

    /// Moves the words to their places with a layout.
    pub(super) fn lay_out(&mut self, what: &'static str, moves: &Moves) {
        self.remedy = Some(what);
        for word in &mut self.words {
            word.then = moves.of(word.address, word.ticket);
        }
    }
}

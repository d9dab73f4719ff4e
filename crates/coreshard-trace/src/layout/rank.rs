//! Ranks records by wasted memory, and by contended words that share a line with other fields.

use serde::Serialize;

use super::Layout;
use crate::types::{Role, TypeTable};

/// A record with unused bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wasted {
    /// The record.
    pub layout: Layout,
    /// Bytes in holes and at the end.
    pub wasted_bytes: u64,
}

/// A record with atomics or locks that share a line with other fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mixed {
    /// The record.
    pub layout: Layout,
    /// Atomics and locks that share their line.
    pub contended: Vec<String>,
    /// Plain fields on the same lines.
    pub beside: Vec<String>,
    /// Pairs of atomics or locks on one line.
    pub rivals: u64,
}

/// Returns the `most` records with the most wasted bytes, in descending order.
#[must_use]
pub fn most_wasteful(types: &TypeTable, line_bytes: u64, most: usize) -> Vec<Wasted> {
    let layouts = types.records().filter_map(|id| Layout::of(types, id, line_bytes));
    let mut all: Vec<_> = layouts
        .map(|layout| Wasted { wasted_bytes: layout.wasted_bytes(), layout })
        .filter(|found| found.wasted_bytes > 0)
        .collect();
    all.sort_by(|a, b| {
        b.wasted_bytes.cmp(&a.wasted_bytes).then_with(|| a.layout.name.cmp(&b.layout.name))
    });
    all.truncate(most);
    all
}

/// Returns the `most` records that have the most atomics and locks on a line with other fields.
#[must_use]
pub fn most_mixed(types: &TypeTable, line_bytes: u64, most: usize) -> Vec<Mixed> {
    let layouts = types.records().filter_map(|id| Layout::of(types, id, line_bytes));
    let mut all: Vec<_> = layouts.filter_map(mixed).collect();
    let weight = |found: &Mixed| (found.rivals, found.contended.len(), found.beside.len());
    all.sort_by(|a, b| weight(b).cmp(&weight(a)).then_with(|| a.layout.name.cmp(&b.layout.name)));
    all.truncate(most);
    all
}

fn mixed(layout: Layout) -> Option<Mixed> {
    if layout.keyword == "union" || layout.fields.len() < 2 {
        return None;
    }
    let lines = |field: &super::Field| {
        let first = field.offset_bytes / layout.line_bytes;
        first..=field.end_bytes().saturating_sub(1).max(field.offset_bytes) / layout.line_bytes
    };
    let meet = |one: &super::Field, other: &super::Field| {
        let (one, other) = (lines(one), lines(other));
        one.start() <= other.end() && other.start() <= one.end()
    };
    let (mut contended, mut beside, mut rivals) = (Vec::new(), Vec::new(), 0);
    for (at, field) in layout.fields.iter().enumerate() {
        if field.role == Role::Plain {
            continue;
        }
        let mut is_alone = true;
        for (other_at, other) in layout.fields.iter().enumerate() {
            if other_at == at || other.size_bytes == 0 || !meet(field, other) {
                continue;
            }
            is_alone = false;
            if other.role == Role::Plain {
                if !beside.contains(&other.name) {
                    beside.push(other.name.clone());
                }
            } else {
                rivals += u64::from(other_at > at);
            }
        }
        if !is_alone {
            contended.push(field.name.clone());
        }
    }
    (!contended.is_empty()).then_some(Mixed { layout, contended, beside, rivals })
}

//! Finds latent false sharing: objects that would be contended at a slightly different address, as another allocator or
//! another version may choose, or on a machine with longer lines.
//!
//! All data is shifted by the same number of bytes, so that neighbours stay neighbours while the boundaries between
//! lines move. Shifts that a type's alignment forbids are omitted.

use std::collections::BTreeMap;

use coreshard_sim::Machine;
use serde::Serialize;

use super::engine::ns;
use super::findings::WORTH;
use super::moved::Moves;
use super::names::{Files, Names, ThingKind};
use super::on_line::thing_of;
use super::replayed::{self, ReplayOptions, Replayed};
use crate::recording::{Recording, RecordingError};

/// Shifts in bytes. An allocator's own data can shift memory by any multiple of 8 bytes.
const SHIFTS: [u64; 7] = [8, 16, 24, 32, 40, 48, 56];
/// The longest lines of current machines. Other machines fetch pairs of shorter lines.
const LONG_LINE_BYTES: usize = 128;
/// Lines that are examined in one replay, the costliest first.
const MOST_LINES: usize = 4_096;

/// An object that has false sharing only at another address or with longer lines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatentSharing {
    /// The name of the object.
    pub object: String,
    /// Time that threads wait for it because of false sharing at its current address, in nanoseconds.
    pub now_ns: f64,
    /// Other addresses and line lengths, the costliest first.
    pub elsewhere: Vec<LatentCase>,
}

/// An address or a line length with false sharing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatentCase {
    /// The shift in bytes.
    pub shift_bytes: u64,
    /// The length of lines in bytes.
    pub line_bytes: u64,
    /// Time that threads would wait because of false sharing, in nanoseconds.
    pub false_ns: f64,
}

/// The cost of false sharing for one object, and its alignment.
struct Cost {
    false_ns: f64,
    alignment_bytes: u64,
}

/// Finds objects that would have false sharing if they were shifted by 8, 16, 24 and so on up to 56 bytes, or if lines
/// had 128 bytes.
///
/// # Errors
/// If the recording cannot be read. The message names the offset.
///
/// ```
/// use coreshard_sim::Machine;
/// use coreshard_trace::{About, Ending, Recording, RecordingWriter, ReplayOptions, latent_sharing};
///
/// let mut bytes = Vec::new();
/// RecordingWriter::new(&mut bytes, &About::default())?.finish(&Ending::default())?;
/// let recording = Recording::from_bytes(bytes)?;
/// let found = latent_sharing(&recording, &Machine::pocket(), &ReplayOptions::default())?;
/// assert!(found.is_empty(), "no threads would fight");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn latent_sharing(
    recording: &Recording,
    machine: &Machine,
    options: &ReplayOptions,
) -> Result<Vec<LatentSharing>, RecordingError> {
    let mut files = Files::default();
    let unmoved = replayed::run(recording, machine, options, None)?;
    let (now, all_ns) = false_sharing(&unmoved, &mut files);
    let mut found: BTreeMap<String, LatentSharing> = BTreeMap::new();
    let longer = machine.clone().with_line_bytes(LONG_LINE_BYTES);
    let cases = SHIFTS.iter().map(|shift| (machine, *shift));
    for (machine, shift_bytes) in cases.chain([(&longer, 0)]) {
        let moves = Moves::shifted(shift_bytes);
        let moves = (shift_bytes > 0).then_some((&moves, &unmoved.plan));
        let replayed = replayed::run(recording, machine, options, moves)?;
        for (object, cost) in false_sharing(&replayed, &mut files).0 {
            let now_ns = now.get(&object).map_or(0.0, |cost| cost.false_ns);
            let is_possible = shift_bytes % cost.alignment_bytes.max(1) == 0;
            if !is_possible || cost.false_ns < WORTH * all_ns || cost.false_ns < 2.0 * now_ns {
                continue;
            }
            let of = found.entry(object.clone()).or_insert_with(|| LatentSharing {
                object,
                now_ns,
                elsewhere: Vec::new(),
            });
            of.elsewhere.push(LatentCase {
                shift_bytes,
                line_bytes: machine.line_bytes() as u64,
                false_ns: cost.false_ns,
            });
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    for of in &mut found {
        of.elsewhere.sort_by(|a, b| b.false_ns.total_cmp(&a.false_ns));
    }
    found.sort_by(|a, b| b.elsewhere[0].false_ns.total_cmp(&a.elsewhere[0].false_ns));
    Ok(found)
}

/// Returns the cost of false sharing by object, and the total time of all threads.
fn false_sharing(replayed: &Replayed, files: &mut Files) -> (BTreeMap<String, Cost>, f64) {
    let mut names = Names::with_files(&replayed.plan, std::mem::take(files));
    let mut by_object: BTreeMap<String, Cost> = BTreeMap::new();
    for line in replayed::costliest(&replayed.outcome.lines, MOST_LINES) {
        let thing = thing_of(line, &mut names);
        if !matches!(thing.kind, ThingKind::Global | ThingKind::Heap) {
            continue;
        }
        let alignment_bytes = match thing.of {
            Some((module, of)) => {
                names.types(module).map_or(1, |types| types.alignment_bytes(types.stripped(of)))
            }
            None => 1,
        };
        let cost = by_object.entry(thing.name).or_insert(Cost { false_ns: 0.0, alignment_bytes });
        cost.false_ns += ns(line.false_ps);
    }
    *files = names.into_files();
    let all_ns = replayed.outcome.threads.iter().map(|thread| thread.ended_ns).sum();
    (by_object, all_ns)
}

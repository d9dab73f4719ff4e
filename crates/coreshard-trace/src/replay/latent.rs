//! Latent false sharing: objects that would be fought for if memory lay a little further, as another allocator or another
//! version may put it, or on a machine with longer lines.
//!
//! All data is shifted by the same number of bytes, so that the borders of lines fall elsewhere and neighbours stay neighbours.
//! Shifts that a type's alignment forbids are left out.

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

/// How much further memory may lie: by any multiple of 8 bytes, as an allocator's own data before it may shift it.
const SHIFTS: [u64; 7] = [8, 16, 24, 32, 40, 48, 56];
/// Lines of some machines; others fetch pairs of shorter ones.
const LONG_LINE_BYTES: usize = 128;
/// Lines of one replay that are looked at.
const MOST_LINES: usize = 4_096;

/// Objects that threads would fight for by false sharing elsewhere, and do not where they are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatentSharing {
    /// What it is.
    pub object: String,
    /// What threads wait for it by false sharing as it lies, in nanoseconds.
    pub now_ns: f64,
    /// What they would wait elsewhere, the worst first.
    pub elsewhere: Vec<LatentCase>,
}

/// A place, or a machine, where an object would be fought for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatentCase {
    /// How much further it would lie, in bytes.
    pub shift_bytes: u64,
    /// The length of lines in bytes.
    pub line_bytes: u64,
    /// What threads would wait by false sharing, in nanoseconds.
    pub false_ns: f64,
}

/// What lines of one object cost by false sharing, and its alignment.
struct Cost {
    false_ns: f64,
    alignment_bytes: u64,
}

/// Finds objects that threads would fight for if they lay 8, 16, 24 and so on up to 56 bytes further, or on lines of 128 bytes.
///
/// # Errors
/// If the recording cannot be read; the text names the offset.
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

/// By object, what false sharing costs; and all threads' time.
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

//! Replays recordings on a simulated machine, to predict the effect of its caches on the program.

mod accessor;
mod advice;
mod apart;
mod conflicts;
mod engine;
mod findings;
mod latent;
mod lines;
mod moved;
mod names;
mod on_line;
mod owners;
mod pace;
mod pages;
mod parts;
mod picture;
mod pieces;
mod plan;
mod proposals;
mod replayed;
mod report;
mod reuse;
mod rows;
mod stores;

pub use advice::{Advice, Sharing};
pub use apart::SeparateFields;
pub use engine::ThreadView;
pub use findings::{Finding, FindingField};
pub use latent::{LatentCase, LatentSharing, latent_sharing};
pub use names::ThingKind;
pub(crate) use pages::PageMap;
pub use picture::{LinePicture, PictureWord};
pub use proposals::{Proposal, TypeProposals, propose_layouts};
pub use replayed::{EarlyUnlock, ReplayOptions};
pub use report::{LineView, LockView, ObjectView, ReplayReport, WordView, replay};

/// The longest access, such as a large fill or copy. The rest of a longer one is ignored.
const MOST_RANGE_BYTES: u64 = 1 << 24;

/// Calls `each` for each line that `bytes` bytes at `address` overlap, with the overlapping part.
fn each_line(address: u64, bytes: u64, line_bytes: u64, mut each: impl FnMut(u64, u64)) {
    let (mut at, mut left) = (address, bytes.min(MOST_RANGE_BYTES));
    while left > 0 {
        let size = left.min(line_bytes - at % line_bytes);
        each(at, size);
        at = at.wrapping_add(size);
        left -= size;
    }
}

//! Tells that a CPU spins: that its thread does nothing but look at one word.

use crate::machine::Ps;
use crate::memory::{Access, Place};

/// What the running thread looked at last, and how often it has spun since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpinDetector {
    pub(super) place: Option<Place>,
    /// Turns of spinning with no other access between them.
    pub(super) turns: u32,
    /// When what it looked at comes, where it goes on meanwhile.
    pub(super) comes_at: Ps,
    /// Whether what it does is noted as a turn of looks.
    pub(super) notes_looks: bool,
}

impl SpinDetector {
    #[inline]
    pub(super) fn note_access(&mut self, place: Place, access: Access) {
        if access != Access::Load || self.place != Some(place) {
            let place = if access == Access::Load { Some(place) } else { None };
            *self = Self { place, turns: 0, comes_at: 0, ..*self };
        }
    }
}

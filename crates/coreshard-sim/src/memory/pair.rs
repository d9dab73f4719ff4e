//! The other line of a pair, which some machines bring along (`pair_prefetch`).
//!
//! Intel's second-level caches "complete" a line that they fetch with the one beside it, to 128 aligned bytes (Intel 64 and
//! IA-32 Architectures Optimization Reference Manual, "Spatial Prefetcher"). Where other CPUs want that line, it is taken from them
//! for nothing: two words that many CPUs write contend in a pair nearly as in one line. So a miss asks for both, in the same way, and
//! nobody waits for the second. A line of memory that nobody has had yet is left there: capacity is not in this model.

use super::access::Access;
use super::arbiter::Request;
use super::lines::{LineState, Place};
use super::{Memory, Outcome};
use crate::machine::Ps;

/// What a prefetcher did that whoever runs the machine has to see to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prefetched {
    /// A line is taken: who is to be called when.
    pub(crate) waits: Option<(Ps, usize)>,
    /// CPUs that spin on a line have lost it: when it is elsewhere.
    pub(crate) wakes: Option<(Place, Ps)>,
}

impl Memory {
    /// What prefetchers did since the last call.
    #[inline]
    pub(crate) fn take_prefetched(&mut self) -> Option<Prefetched> {
        let done = self.prefetched.as_mut()?;
        (done.waits.is_some() || done.wakes.is_some()).then(|| std::mem::take(done))
    }

    /// A CPU has asked for a line, and its prefetcher asks for the other one of the pair.
    pub(super) fn prefetch_pair(&mut self, cpu: usize, place: Place, access: Access, now: Ps) {
        let other = Place(self.lines.first_of(place).0 ^ self.lines.line_bytes() as u64);
        let access = if access == Access::Load { Access::Load } else { Access::Fetch };
        let Some(arbiter) = &mut self.arbiter else { return };
        let entry = self.lines.entry(other);
        if entry.line.state == LineState::Untouched
            || entry.is_at(cpu)
            || arbiter.is_prefetched(other, cpu)
        {
            return;
        }
        let free = entry.line.busy_until;
        if free <= now && !arbiter.has_waiters(other) {
            self.prefetch_line(cpu, other, access, now);
        } else if let Some(slot) = arbiter.push(other, Request::of_prefetcher(cpu, access, now))
            && let Some(done) = &mut self.prefetched
        {
            done.waits = Some((free.max(now), slot));
        }
    }

    /// A prefetcher gets a line, unless its CPU has got it meanwhile.
    pub(super) fn prefetch_line(
        &mut self,
        cpu: usize,
        line: Place,
        access: Access,
        now: Ps,
    ) -> Option<Outcome> {
        if self.lines.entry(line).is_at(cpu) {
            return None;
        }
        let outcome = self.miss(cpu, line, access, now);
        if let Some(done) = self.prefetched.as_mut().filter(|_| outcome.wakes) {
            done.wakes = Some((line, outcome.done));
        }
        Some(outcome)
    }
}

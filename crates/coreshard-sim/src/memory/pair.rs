//! The other line of a pair, which some machines bring along (`pair_prefetch`).
//!
//! Intel's second-level caches "complete" a line that they fetch with the one beside it, to 128 aligned bytes (Intel 64 and
//! IA-32 Architectures Optimization Reference Manual, "Spatial Prefetcher"). Where another CPU writes that line, it has to take it
//! back: so two words that many CPUs write contend on a pair of lines nearly as on one. It is fetched to be read, also with a line
//! that is to be written: else words that are only read, beside a contended one, would be lost to all with each write, and
//! structures that were padded to 64 bytes would have gained nothing. Nobody waits for it. What nobody has had yet stays in
//! memory: capacity is not in this model.

use super::access::Access;
use super::arbiter::Request;
use super::lines::{LineState, Place};
use super::{Memory, Outcome};
use crate::machine::Ps;

/// What prefetchers of pairs ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pairs {
    /// A line that is taken, and for which nobody waited before: when it is free, and its slot of the arbiter's.
    waits: Option<(Ps, usize)>,
}

impl Memory {
    /// Who is to be called when, since a prefetcher waits for a line.
    #[inline]
    pub(crate) fn take_prefetch(&mut self) -> Option<(Ps, usize)> {
        self.pairs.as_mut()?.waits.take()
    }

    /// A CPU has asked for a line, and its prefetcher asks for the other one of the pair.
    pub(super) fn prefetch_pair(&mut self, cpu: usize, place: Place, now: Ps) {
        let other = Place(self.lines.first_of(place).0 ^ self.lines.line_bytes() as u64);
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
            self.prefetch_line(cpu, other, now);
        } else if let Some(slot) =
            arbiter.push(other, Request::of_prefetcher(cpu, Access::Load, now))
        {
            self.pairs = Some(Pairs { waits: Some((free.max(now), slot)) });
        }
    }

    /// A prefetcher gets a line, unless its CPU has got it meanwhile.
    pub(super) fn prefetch_line(&mut self, cpu: usize, line: Place, now: Ps) -> Option<Outcome> {
        let is_here = self.lines.entry(line).is_at(cpu);
        (!is_here).then(|| self.miss(cpu, line, Access::Load, now))
    }
}

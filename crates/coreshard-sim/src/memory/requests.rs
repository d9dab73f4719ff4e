//! Accesses, and requests for contended lines on machines whose file models arbitration.

use super::arbiter::Request;
use super::lines::LineState;
use super::{Access, LineSource, Memory, Outcome, Place};
use crate::machine::Ps;

/// Farther than any CPU.
const FARTHEST: Ps = 1 << 48;

impl Memory {
    /// Accesses one line at `now`.
    #[inline]
    pub(crate) fn access(&mut self, cpu: usize, place: Place, access: Access, now: Ps) -> Outcome {
        let outcome = self.serve(cpu, place, access, now);
        if outcome.source != LineSource::Hit && self.has_pairs {
            self.prefetch_pair(cpu, place, now);
        }
        outcome
    }

    /// Lets a CPU wait for a line, if it is taken. If no CPU waits for it yet, returns which slot to call,
    /// and when.
    #[inline]
    pub(crate) fn wait_for_line(
        &mut self,
        cpu: usize,
        place: Place,
        access: Access,
        now: Ps,
    ) -> Option<Option<(Ps, usize)>> {
        let waits = self.ask_for_line(cpu, place, access, now)?;
        if self.has_pairs {
            self.prefetch_pair(cpu, place, now);
        }
        Some(waits)
    }

    #[inline]
    fn ask_for_line(
        &mut self,
        cpu: usize,
        place: Place,
        access: Access,
        now: Ps,
    ) -> Option<Option<(Ps, usize)>> {
        let arbiter = self.arbiter.as_mut()?;
        let (far, hold) = (self.arbitration.far_atomic > 0, self.arbitration.hold);
        let line = self.lines.first_of(place);
        let entry = self.lines.entry(place);
        let here = entry.is_at(cpu);
        let exclusive = entry.line.state == LineState::Exclusive;
        let access = if far { access } else { access.near() };
        if access == Access::StoreExclusive && !here {
            return None;
        }
        if access == Access::Load && entry.is_at_sibling(&self.siblings, cpu) {
            return None;
        }
        // A locked instruction waits until the CPU's stores have left the buffer. If one is to this line,
        // others may request it meanwhile.
        let drains = access == Access::ReadModifyWrite && hold == 0 && entry.line.busy_until > now;
        let port = &self.ports[cpu];
        let follows = port.stored_last == line && port.stores_done >= entry.line.busy_until;
        let keeps = here && exclusive && (!drains || follows && arbiter.follows_at_once());
        if keeps || here && access == Access::Load || entry.line.state == LineState::Untouched {
            return None;
        }
        // The home executes these one after the other, in the order of arrival.
        if entry.line.state == LineState::AtHome
            && matches!(access, Access::Add | Access::AddAndForget)
        {
            return None;
        }
        let waiters = arbiter.has_waiters(line);
        if waiters {
            arbiter.push(line, Request::new(cpu, access, now));
            return Some(None);
        }
        let arrives = arbiter.request_arrives(access, now, exclusive && !here);
        let free = entry.line.busy_until.max(arrives);
        if now >= free + 2 * hold {
            return None;
        }
        let free = free + arbiter.kept(exclusive);
        if now >= free {
            return None;
        }
        Some(arbiter.push(line, Request::new(cpu, access, now)).map(|slot| (free.max(now), slot)))
    }

    /// Lets the prefetcher of a CPU that has requested a line request the other line of the pair
    /// (`pair_prefetch`).
    ///
    /// Intel's second-level caches "complete" a line that they fetch with the adjacent one, to 128 aligned
    /// bytes (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Spatial Prefetcher"). A CPU
    /// that writes the adjacent line then has to take it back. The adjacent line is fetched for reading, even
    /// with a line that is to be written. Otherwise each write would evict read-only words beside a contended
    /// line from all caches, and structures padded to 64 bytes would have gained nothing. No CPU waits for
    /// it, and it is not fetched if others wait for it. Two CPUs that add to words 64 bytes apart take 12 ns
    /// for each add, 8 ns if they are 128 bytes apart, and 38 ns on one line (measured on a Xeon, family 6,
    /// model 207). A line that no CPU has had yet stays in memory, since this model has no capacity.
    fn prefetch_pair(&mut self, cpu: usize, place: Place, now: Ps) {
        let other = Place(self.lines.first_of(place).0 ^ self.lines.line_bytes() as u64);
        let Some(arbiter) = &mut self.arbiter else { return };
        let entry = self.lines.entry(other);
        if entry.line.state == LineState::Untouched
            || entry.is_at(cpu)
            || arbiter.has_waiters(other)
        {
            return;
        }
        let free = entry.line.busy_until;
        if free <= now {
            self.prefetch_line(cpu, other, now);
        } else if let Some(slot) =
            arbiter.push(other, Request::of_prefetcher(cpu, Access::Load, now))
        {
            self.prefetch = Some((free.max(now), slot));
        }
    }

    /// Gives a line to a prefetcher, unless its CPU has got it meanwhile.
    fn prefetch_line(&mut self, cpu: usize, line: Place, now: Ps) {
        if !self.lines.entry(line).is_at(cpu) {
            self.miss(cpu, line, Access::Load, now);
        }
    }

    /// Returns the slot to call, and when, if a prefetcher waits for a line.
    #[inline]
    pub(crate) fn take_prefetch(&mut self) -> Option<(Ps, usize)> {
        self.prefetch.take()
    }

    /// Returns the line of a slot of the arbiter.
    pub(crate) fn contended_line(&self, slot: usize) -> Option<Place> {
        self.arbiter.as_ref()?.line(slot)
    }

    /// Gives a free contended line to the next CPU. Returns that CPU, the result of its access, and when the
    /// line is free again if others still wait.
    pub(crate) fn hand_out(
        &mut self,
        slot: usize,
        now: Ps,
    ) -> (Option<(usize, Access, Outcome)>, Option<Ps>) {
        let cpus = self.ports.len();
        let Some(arbiter) = self.arbiter.as_mut() else { return (None, None) };
        let Some(line) = arbiter.line(slot) else { return (None, None) };
        let entry = self.lines.entry(line);
        if entry.line.busy_until > now {
            return (None, Some(entry.line.busy_until));
        }
        let owner = usize::from(entry.line.owner);
        let latency = &self.latency;
        // A CPU that requested the line while the owner kept it is served before the owner requests it again.
        let siblings = self.siblings.get(owner);
        let request = arbiter.draw(slot, |cpu| match cpu == owner {
            true => FARTHEST,
            // The line leaves for another core's request; a sibling requests it with the others of its cache.
            false if siblings.is_some_and(|siblings| siblings.contains(&cpu)) => {
                self.neighbours.beyond(owner, latency[cpu * cpus + owner])
            }
            false => latency[cpu * cpus + owner],
        });
        self.waited = now.saturating_sub(request.since);
        let served = if request.is_prefetch {
            self.prefetch_line(request.cpu, line, now);
            None
        } else {
            let outcome = self.serve(request.cpu, line, request.access, now);
            Some((request.cpu, request.access, outcome))
        };
        self.waited = 0;
        let entry = self.lines.entry(line);
        let exclusive = entry.line.state == LineState::Exclusive;
        let free = entry.line.busy_until;
        let arbiter = self.arbiter.as_mut().filter(|arbiter| arbiter.has_waiters(line));
        let next = arbiter.map(|arbiter| free + arbiter.kept(exclusive));
        (served, next)
    }
}

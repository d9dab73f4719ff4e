//! Accesses, and requests for contended lines on machines whose file has a model of arbitration.

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

    /// Has a CPU wait for a line, if it is taken: then, which slot is to be called when, if no CPU waits for it yet.
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
        // A locked instruction waits until the CPU's stores are out; if one is to this line, others may ask for it meanwhile.
        let drains = access == Access::ReadModifyWrite && hold == 0 && entry.line.busy_until > now;
        let port = &self.ports[cpu];
        let follows = port.stored_last == line && port.stores_done >= entry.line.busy_until;
        let keeps = here && exclusive && (!drains || follows && arbiter.follows_at_once());
        if keeps || here && access == Access::Load || entry.line.state == LineState::Untouched {
            return None;
        }
        // The home does these one after the other, as they come.
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

    /// A CPU has asked for a line, and its prefetcher asks for the other one of the pair (`pair_prefetch`).
    ///
    /// Intel's second-level caches "complete" a line that they fetch with the one beside it, to 128 aligned bytes (Intel 64 and
    /// IA-32 Architectures Optimization Reference Manual, "Spatial Prefetcher"). If another CPU writes that line, it has to take
    /// it back. It is fetched to be read, also with a line that is to be written: else words that are only read, beside a
    /// contended one, would be lost to all with each write, and structures that were padded to 64 bytes would have gained nothing.
    /// No CPU waits for it, and it is left if others wait for it: two CPUs that add to words 64 bytes apart take 12 ns for each, 8
    /// if they are 128 apart, and 38 on one line (measured on a Xeon, family 6, model 207). A line that no CPU has had yet stays
    /// in memory: capacity is not in this model.
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

    /// A prefetcher gets a line, unless its CPU has got it meanwhile.
    fn prefetch_line(&mut self, cpu: usize, line: Place, now: Ps) {
        if !self.lines.entry(line).is_at(cpu) {
            self.miss(cpu, line, Access::Load, now);
        }
    }

    /// Which slot is to be called when, since a prefetcher waits for a line.
    #[inline]
    pub(crate) fn take_prefetch(&mut self) -> Option<(Ps, usize)> {
        self.prefetch.take()
    }

    /// The line of a slot of the arbiter's.
    pub(crate) fn contended_line(&self, slot: usize) -> Option<Place> {
        self.arbiter.as_ref()?.line(slot)
    }

    /// A contended line is free: gives it to the next CPU. Returns that CPU and what its access did, and when the line is
    /// free again for those that still wait.
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
        // A CPU that asked while the owner kept the line is served before the owner asks anew.
        let siblings = self.siblings.get(owner);
        let request = arbiter.draw(slot, |cpu| match cpu == owner {
            true => FARTHEST,
            // The line leaves for another core's request; a sibling asks with the others of its cache.
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

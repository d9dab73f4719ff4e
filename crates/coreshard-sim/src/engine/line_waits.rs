//! CPUs that wait for a contended line, on machines whose file says how such lines change hands.
//!
//! A thread that finds a line taken is suspended, and its CPU waits, as for a lock that is handed over. When the line is
//! free, the memory's arbiter says whose it is next; that CPU goes on when it has the line, and only then is its value
//! read or written: so what happens to a line happens in the order in which it changes hands. Where a CPU goes on late (a
//! fault held it back), others may have had the line meanwhile: its access is no less atomic for that.

use super::events::Event;
use super::state::SimState;
use crate::machine::Ps;
use crate::memory::{Access, Place};
use crate::site::Site;
use crate::space::in_host;

impl SimState {
    /// True if the running thread's CPU must wait for the line.
    pub(super) fn awaits_line(&mut self, address: usize, access: Access) -> bool {
        if self.mode.uniform_memory || self.mode.at_waits {
            return false;
        }
        // What is stored is made of what is on its way.
        if access == Access::Store && self.spin_detector.comes_at > self.now {
            return false;
        }
        let place = self.place(address);
        let waits = in_host(|| self.memory.wait_for_line(self.cpu, place, access, self.now));
        let Some(first) = waits else { return false };
        self.await_prefetch();
        if let Some((free, slot)) = first {
            in_host(|| self.events.push(free, Event::Line(slot)));
            self.set_horizon(free);
        }
        self.cpus[self.cpu].awaits_since = self.now;
        self.busy_cpus += 1;
        true
    }

    /// A line for which CPUs wait is free.
    pub(super) fn hand_out_line(&mut self, slot: usize, time: Ps) {
        in_host(|| {
            let line = self.memory.contended_line(slot);
            let (served, free) = self.memory.hand_out(slot, time);
            match free {
                Some(free) => self.events.end_with(free, Event::Line(slot)),
                None => self.events.end(),
            }
            if let Some((cpu, access, outcome)) = served {
                self.busy_cpus -= 1;
                let line = line.expect("whoever waited did so for a line");
                self.note_access(cpu, line, access, time, &outcome);
                if let Some(thread) = self.cpus[cpu].current {
                    self.threads[thread].granted = Some(outcome);
                }
                self.step_at(cpu, outcome.end);
            }
        });
    }

    /// A prefetcher may wait for a line.
    #[inline]
    pub(super) fn await_prefetch(&mut self) {
        if let Some((free, slot)) = self.memory.take_prefetch() {
            in_host(|| self.events.push(free, Event::Line(slot)));
            self.set_horizon(free);
        }
    }

    /// When the access was over for which the running thread has waited; `None` if it did not.
    pub(super) fn take_granted_line(
        &mut self,
        place: Place,
        access: Access,
        site: Site,
    ) -> Option<Ps> {
        if !self.memory.arbitrates() {
            return None;
        }
        let outcome = self.threads[self.thread].granted.take()?;
        let since = self.cpus[self.cpu].awaits_since;
        self.note_touch(place, access, &outcome, since, site);
        Some(self.now.max(outcome.end))
    }
}

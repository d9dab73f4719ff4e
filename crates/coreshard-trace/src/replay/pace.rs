//! The time that a thread takes between its accesses.
//!
//! Without a measurement, an instruction takes a fixed part of a cycle if the recording counts instructions, and no time
//! otherwise. `coreshard record --pace` also runs the program without a recorder, on one CPU, on which no thread waits for
//! lines, and stores the processor time of each thread. The time that the machine's costs do not explain is then divided among
//! the thread's instructions, or among its accesses if instructions are not counted.
//!
//! Threads that share work may divide it otherwise on one CPU. So each thread has a pace of its own only if the run had the
//! same threads and each took as long as its accesses need at least. Otherwise all threads but the first have one pace, or
//! all threads if the first was alone.

use std::collections::HashMap;

use coreshard_sim::StepCosts;

use crate::recording::{Access, AccessKind, Event, Recording};

/// A core is at most this much faster than assumed.
const FASTEST: f64 = 4.0;
/// Instructions are at most this much slower than assumed: each waits for memory.
const SLOWEST: u64 = 500;
/// A thread with less than this part of the work does not matter.
const LITTLE: f64 = 0.02;
/// Units of a picosecond.
const PER_PS: u64 = 1 << 10;
/// One more than the largest [`Access::before`].
const MOST_BEFORE: usize = 32;

/// Counts of a thread's own work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Loads and stores; a range has one for each line.
    pub(super) plain: u64,
    pub(super) modifies: u64,
    /// Instructions without an access.
    pub(super) others: u64,
}

impl Work {
    #[inline]
    pub(super) fn note_access(&mut self, access: &Access) {
        let is_modify = access.kind == AccessKind::Modify;
        self.modifies += u64::from(is_modify);
        self.plain = self.plain.saturating_add(u64::from(!is_modify));
        self.others = self.others.saturating_add(u64::from(access.before));
    }

    pub(super) fn note(&mut self, event: &Event<'_>, line_bytes: u64) {
        match event {
            Event::Access(access) => self.note_access(access),
            Event::Range { bytes, .. } => {
                self.plain = self.plain.saturating_add(1 + bytes / line_bytes.max(1));
            }
            Event::Instructions { count } => self.others = self.others.saturating_add(*count),
            _ => {}
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            plain: self.plain.saturating_add(other.plain),
            modifies: self.modifies.saturating_add(other.modifies),
            others: self.others.saturating_add(other.others),
        }
    }

    /// Returns the least time that it can take.
    fn least_ps(&self, costs: &StepCosts) -> f64 {
        (self.known_ps(costs) + self.others as f64 * costs.hit_ps as f64) / FASTEST
    }

    fn known_ps(&self, costs: &StepCosts) -> f64 {
        self.plain as f64 * costs.hit_ps as f64 + self.modifies as f64 * costs.atomic_ps as f64
    }
}

/// The time of instructions and before accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// In units of [`PER_PS`].
    instruction: u64,
    /// The time before an access, by the number of instructions.
    before_ps: [u64; MOST_BEFORE],
}

impl Pace {
    /// Returns the pace with these times, in units of [`PER_PS`].
    fn of(instruction: u64, access: u64) -> Self {
        let before = |count| instruction.saturating_mul(count as u64).saturating_add(access);
        Self { instruction, before_ps: std::array::from_fn(|count| before(count) / PER_PS) }
    }

    /// Returns how long instructions without an access take.
    pub(super) const fn computes_ps(&self, instructions: u64) -> u64 {
        instructions.saturating_mul(self.instruction) / PER_PS
    }

    /// Returns the time between an access and the one before it.
    #[inline]
    pub(super) const fn before_ps(&self, access: &Access) -> u64 {
        self.before_ps[access.before as usize % MOST_BEFORE]
    }

    /// Returns the pace without a measurement: without a count of instructions, an access costs only its own time. The
    /// machine's `compute` is the time between accesses of shared words, but most accesses here are private.
    pub(super) fn assumed(costs: &StepCosts, counts_instructions: bool) -> Self {
        let instruction = costs.cycle_ps * PER_PS / costs.instructions_per_cycle.max(1);
        Self::of(if counts_instructions { instruction } else { 0 }, 0)
    }

    /// Returns the pace at which work takes `ns`.
    fn measured(work: &Work, ns: u64, costs: &StepCosts, counts_instructions: bool) -> Self {
        let left_ps = (ns as f64 * 1e3 - work.known_ps(costs)).max(0.0);
        let units = |among: u64| (left_ps * PER_PS as f64 / among.max(1) as f64) as u64;
        let assumed = Self::assumed(costs, counts_instructions);
        match counts_instructions {
            // A thread that spins takes all of the CPU, but few instructions are recorded.
            true if units(work.others) > SLOWEST * assumed.instruction => assumed,
            true => Self::of(units(work.others), 0),
            false => Self::of(0, units(work.plain.saturating_add(work.modifies))),
        }
    }
}

/// Returns each thread's pace by its number if it was measured.
pub(super) fn paces(
    recording: &Recording,
    works: &[(u32, Work)],
    costs: &StepCosts,
) -> HashMap<u32, Pace> {
    let counts_instructions = recording.about().counts_instructions;
    let measured = recording.threads_ns();
    if measured.is_empty() {
        return HashMap::new();
    }
    let pace = |work: &Work, ns| Pace::measured(work, ns, costs, counts_instructions);
    let ns_of = |thread: u32| measured.get((thread as usize).wrapping_sub(1)).copied().unwrap_or(0);
    let (first, others) = works.split_at(works.partition_point(|(thread, _)| *thread <= 1));
    let (first_ns, all_ns) =
        (ns_of(1), measured.iter().fold(0u64, |all, ns| all.saturating_add(*ns)));
    let mut found = HashMap::new();
    let mut share = |works: &[(u32, Work)], ns| {
        let all = works.iter().fold(Work::default(), |all, (_, work)| all.and(*work));
        let its = pace(&all, ns);
        found.extend(works.iter().map(|(thread, _)| (*thread, its)));
    };
    if measured.len() == 1 || first.is_empty() {
        share(works, all_ns);
        return found;
    }
    share(first, first_ns);
    share(others, all_ns - first_ns);
    let all_least_ps: f64 = others.iter().map(|(_, work)| work.least_ps(costs)).sum();
    let is_plausible = |(thread, work): &(u32, Work)| {
        let least_ps = work.least_ps(costs);
        least_ps < LITTLE * all_least_ps || ns_of(*thread) as f64 * 1e3 > least_ps
    };
    if works.len() == measured.len() && others.iter().all(is_plausible) {
        found.extend(others.iter().map(|(thread, work)| (*thread, pace(work, ns_of(*thread)))));
    }
    found
}

//! The memory system of a machine by itself, for accesses that do not come from simulated code.

use coreshard_topology::CpuId;

use crate::machine::Machine;
use crate::memory::{Access, LineSource, Memory};

/// Code rarely fills a core. With this number, and hits that cost no more than other instructions, 22 of 25 small programs
/// take 0.5 to 2 times as long as predicted on a Xeon (family 6, model 207).
const PER_CYCLE: u64 = 2;
/// The same if each hit takes its whole latency.
const PER_CYCLE_BUT_HITS: u64 = 4;
/// Words in a store buffer and stores to one word, by cycle of work ahead. A reorder buffer of 512 entries holds 171 cycles of
/// code. Store buffers have a fifth to a quarter of its entries (Golden Cove 112, Zen 3 64 of 256, Zen 5 104 of 448), and a
/// loop with one store continues for 270 stores during a round trip of its line (measured on that Xeon).
const STORE_BUFFER: (u64, u64) = (2, 3);
const STORES_AHEAD: (u64, u64) = (8, 5);

/// The caches and memory of a machine: the cost of an access, from any source.
///
/// The caller must make accesses in the order of time. It chooses the addresses, below
/// [`MOST_BYTES`](Self::MOST_BYTES). Times are picoseconds.
///
/// ```
/// use coreshard_sim::{CacheAccess, Caches, LineSource, Machine};
///
/// let mut caches = Caches::new(&Machine::pocket());
/// let first = caches.access(0, 0x40, CacheAccess::Store, 0);
/// let other = caches.access(1, 0x48, CacheAccess::Load, first.done_ps);
/// assert_eq!(other.source, LineSource::ModifiedLocal);
/// assert!(other.end_ps > first.done_ps);
/// ```
pub struct Caches {
    memory: Memory,
    costs: StepCosts,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheAccess {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes at once.
    Modify,
}

/// The result of an access.
#[derive(Clone, Copy, Debug)]
pub struct CacheOutcome {
    /// When the CPU continues, in picoseconds.
    pub end_ps: u64,
    /// When the access is visible to all CPUs, in picoseconds.
    pub done_ps: u64,
    /// The source of the line.
    pub source: LineSource,
}

/// Costs of a program's steps apart from lines in other caches, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCosts {
    /// A clock cycle.
    pub cycle_ps: u64,
    /// How many instructions a CPU completes in a cycle.
    pub instructions_per_cycle: u64,
    /// A load or store that hits.
    pub hit_ps: u64,
    /// A read-modify-write that hits.
    pub atomic_ps: u64,
    /// A line from the memory of the CPU's own node.
    pub memory_ps: u64,
    /// Waking a thread, for the waker.
    pub wake_ps: u64,
    /// A switch from one thread to another.
    pub switch_ps: u64,
    /// Creating a thread.
    pub create_ps: u64,
    /// How long a thread runs while others wait for its CPU.
    pub slice_ps: u64,
    /// How much work a CPU does while a line is in transit to it; 0 if it waits for each line.
    pub work_ahead_ps: u64,
    /// How many plain stores to lines in other caches a CPU can have pending.
    pub stores_ahead: u64,
    /// How many different words these stores can write, if consecutive stores of one word count once.
    pub store_buffer: u64,
}

impl std::fmt::Debug for Caches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caches").field("costs", &self.costs).finish_non_exhaustive()
    }
}

impl Caches {
    /// The number of distinguishable addresses: 32 GiB.
    pub const MOST_BYTES: u64 = 1 << 35;

    /// Creates the caches of a machine, empty.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        let costs = machine.costs();
        let work_ahead_ps = costs.arbitration.map_or(0, |its| its.work_ahead);
        let cycles_ahead = work_ahead_ps / costs.cycle.max(1);
        let costs = StepCosts {
            cycle_ps: costs.cycle,
            instructions_per_cycle: if work_ahead_ps > 0 { PER_CYCLE } else { PER_CYCLE_BUT_HITS },
            hit_ps: costs.l1_hit,
            atomic_ps: costs.atomic,
            memory_ps: costs.memory_local,
            wake_ps: costs.syscall + costs.futex + costs.wake,
            switch_ps: costs.context_switch,
            create_ps: costs.thread_create,
            slice_ps: costs.slice,
            work_ahead_ps,
            stores_ahead: cycles_ahead * STORES_AHEAD.0 / STORES_AHEAD.1,
            store_buffer: cycles_ahead * STORE_BUFFER.0 / STORE_BUFFER.1,
        };
        let mut memory = Memory::new(machine, 0, 0);
        // The caller decides which CPU waits for a line, so requests are served in order.
        memory.serve_replay();
        Self { memory, costs }
    }

    /// Lets a load or store that hits take as long as another instruction, if the machine's CPUs work ahead: instructions
    /// that are independent of it need not wait for it.
    pub const fn hide_hits(&mut self) {
        if self.costs.work_ahead_ps > 0 {
            self.costs.hit_ps = self.costs.cycle_ps / self.costs.instructions_per_cycle;
            self.memory.set_hit(self.costs.hit_ps);
        }
    }

    /// Returns the costs of a machine's steps.
    #[must_use]
    pub const fn costs(&self) -> StepCosts {
        self.costs
    }

    /// Accesses the line of `address` from the CPU at this position in the machine's list, at `now_ps`.
    #[inline]
    pub fn access(
        &mut self,
        cpu: usize,
        address: u64,
        access: CacheAccess,
        now_ps: u64,
    ) -> CacheOutcome {
        let access = match access {
            CacheAccess::Load => Access::Load,
            CacheAccess::Store => Access::Store,
            CacheAccess::Modify => Access::ReadModifyWrite,
        };
        let place = self.memory.place(address as usize);
        let outcome = self.memory.access(cpu, place, access, now_ps);
        CacheOutcome { end_ps: outcome.end, done_ps: outcome.done, source: outcome.source }
    }
}

/// How threads are placed on a machine's CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// As far apart as possible: packages in turn, then their caches, then cores.
    #[default]
    Spread,
    /// As close together as possible: one cache after the other.
    Compact,
    /// These CPUs, one after the other.
    List(Vec<CpuId>),
}

impl Placement {
    /// Returns the CPUs for one thread after the other, as positions in the machine's list.
    ///
    /// CPUs of a list that the machine lacks are omitted.
    ///
    /// ```
    /// use coreshard_sim::{Machine, Placement};
    ///
    /// let pocket = Machine::pocket();
    /// let cpus = pocket.topology().cpus();
    /// let spread = Placement::Spread.order(&pocket);
    /// assert_ne!(cpus[spread[0]].package, cpus[spread[1]].package);
    /// let compact = Placement::Compact.order(&pocket);
    /// assert_eq!(cpus[compact[0]].llc, cpus[compact[1]].llc);
    /// ```
    #[must_use]
    pub fn order(&self, machine: &Machine) -> Vec<usize> {
        use std::collections::HashMap;
        let cpus = machine.topology().cpus();
        if let Self::List(list) = self {
            return list
                .iter()
                .filter_map(|id| cpus.iter().position(|cpu| cpu.id == *id))
                .collect();
        }
        // A CPU's number within its core, its core's within its cache, its cache's within its package.
        let (mut in_core, mut in_llc, mut in_package) =
            (HashMap::new(), HashMap::new(), HashMap::new());
        let (mut cores, mut llcs) = (HashMap::new(), HashMap::new());
        let mut keys = Vec::with_capacity(cpus.len());
        for (place, cpu) in cpus.iter().enumerate() {
            let count = in_core.entry(cpu.core).or_insert(0u32);
            let thread = *count;
            *count += 1;
            let core = *cores.entry(cpu.core).or_insert_with(|| next(&mut in_llc, cpu.llc));
            let llc = *llcs.entry(cpu.llc).or_insert_with(|| next(&mut in_package, cpu.package));
            let package = cpu.package.0;
            let key = match self {
                Self::Compact => (package, llc, thread, core),
                _ => (thread, core, llc, package),
            };
            keys.push((key, place));
        }
        keys.sort_unstable();
        keys.into_iter().map(|(_, place)| place).collect()
    }
}

fn next<K: Eq + std::hash::Hash>(counts: &mut std::collections::HashMap<K, u32>, key: K) -> u32 {
    let count = counts.entry(key).or_insert(0);
    *count += 1;
    *count - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how long two CPUs wait for each add, in nanoseconds, if they alternately add to words of one
    /// line as fast as possible.
    fn adds(machine: &Machine) -> f64 {
        const ADDS: u32 = 10_000;
        let mut caches = Caches::new(machine);
        let mut now = [0, 1];
        for _ in 0..2 * ADDS {
            let cpu = usize::from(now[1] < now[0]);
            let address = 0x40 + 8 * cpu as u64;
            now[cpu] = caches.access(cpu, address, CacheAccess::Modify, now[cpu]).end_ps;
        }
        now[0].max(now[1]) as f64 / 1_000.0 / f64::from(ADDS)
    }

    #[test]
    fn an_owner_keeps_its_line_for_as_long_as_the_machine_says() {
        let text = include_str!("machine/pocket.toml");
        let kept = format!("{text}\n[costs.arbitration]\nhold_ns = 50\nsource = \"assumed\"\n");
        let (at_once, kept) = (
            adds(&Machine::from_toml("at once", text).unwrap()),
            adds(&Machine::from_toml("kept", &kept).unwrap()),
        );
        let costs = Caches::new(&Machine::pocket()).costs();
        let atomic = costs.atomic_ps as f64 / 1_000.0;
        let machine = Machine::pocket();
        let cpus = machine.topology().cpus();
        let way = machine.latency_ns(cpus[0].id, cpus[1].id).unwrap();
        // One transfer per add if no CPU keeps the line; otherwise two transfers, and twice the hold time,
        // for all adds that fit into it.
        assert!((at_once / (2.0 * way) - 1.0).abs() < 0.1, "{at_once} of {way}");
        let expected = 2.0 * (way + 50.0) / (1.0 + 50.0 / atomic);
        assert!((kept / expected - 1.0).abs() < 0.2, "{kept} of {expected}");
        assert!(kept < at_once);
    }
}

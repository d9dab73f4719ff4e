//! Caches and memory: the cost of an access, and which CPU has the line afterwards.
//!
//! A line is *untouched* (only in memory), *exclusive* (one CPU has it, and may write it), or *shared* (some
//! CPUs have it for reading). Caches are unlimited: a line leaves one only because another CPU wants it. So
//! the model covers contention, but not capacity.
//!
//! | access | line is | costs |
//! |---|---|---|
//! | load | here | a hit |
//! | load | at another CPU of the same core, if lines are arbitrated | a hit: they share their first cache |
//! | load | exclusive elsewhere | the latency from its owner; shared from then on |
//! | load | shared elsewhere | the latency from the nearest sharer; the holder answers several readers one after the other, `shared_read` each |
//! | load, store, read-modify-write | untouched | memory, near or far |
//! | store, read-modify-write | here, exclusive | a hit, or the cost of an atomic |
//! | store, read-modify-write | exclusive elsewhere | the latency from its owner |
//! | store, read-modify-write | shared | the latency to the farthest sharer, whose copy must go |
//! | the second half of a read-modify-write, on a machine without such instructions | taken since the first half | a hit, and it fails |
//! | add, swap, and, or | not here, on a machine with far atomics | `far_atomic` at the line's home, which gets it back first |
//!
//! Requests for a line are served in their order: each begins when the previous one is complete
//! (`busy_until`), and the wait is a part of the access's cost. If a machine's file models arbitration, CPUs
//! that want a taken line wait, and [`Arbiter`] chooses the next one. If the file says so, a line brings the
//! other one of its pair along (`pair_prefetch`).
//!
//! A store does not wait for its line, which is in transit while the CPU continues. The CPU only waits for
//! the previous store, and in a read-modify-write for all of them. This models a store buffer that serves one
//! miss at a time. If a machine's file gives the number of concurrent misses of a core (`misses_at_once`),
//! the lines of stores are requested as the stores come, and others see the stores in order, as in x86's
//! memory order (T. Downs, "What has your microcode done for you lately?", measures 5 cycles for a store that
//! misses to a cache 35 cycles away). The CPU then does not wait for a word that it loads and stores to next
//! either: the store waits in the store buffer for the loaded value, and the CPU begins the following
//! instructions (Intel 64 and IA-32 Architectures Optimization Reference Manual: "a cache miss for a load
//! does not prevent other loads from issuing and completing"). A locked instruction waits for all of that.
//!
//! The value is read or written when the access begins, in the order of virtual time. So all simulated code
//! sees one order of all accesses, which is stronger than any requested ordering. To reveal bugs that this
//! would hide, stores can wait in store buffers (`engine/hardware/store_buffers.rs`), as x86's memory order
//! permits. Weaker orders are left to a model checker.

mod access;
mod arbiter;
mod kept;
mod lines;
mod requests;
mod sharers;

use crate::machine::{Arbitration, Costs, Machine, Ps};
pub(crate) use access::Access;
use arbiter::Arbiter;
use kept::Kept;
pub(crate) use lines::{ByPlace, Place};
use lines::{LineState, Lines};
use sharers::Neighbours;

/// The number of atomics that a line's home executes for one CPU alone before that CPU takes the line.
const FAR_IN_A_ROW: u8 = 8;

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSource {
    /// The CPU had it, with the required permission.
    Hit,
    /// A CPU of the same package that had written it.
    ModifiedLocal,
    /// A CPU of another package that had written it.
    ModifiedRemote,
    /// A cache that had it unchanged, here or elsewhere.
    Clean,
    /// Memory.
    Memory,
}

/// The result of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// When the CPU continues.
    pub(crate) end: Ps,
    /// When the access is visible to all CPUs.
    pub(crate) done: Ps,
    pub(crate) source: LineSource,
    /// Whether spinning CPUs have lost their copies.
    pub(crate) wakes: bool,
    /// Whether it is a store whose line was taken meanwhile.
    pub(crate) fails: bool,
}

/// A CPU's part of the memory system.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    /// When its last store that missed completes.
    stores_done: Ps,
    /// The line of its last store.
    stored_last: Place,
    node: u16,
    package: u16,
}

pub(crate) struct Memory {
    lines: Lines,
    ports: Vec<Port>,
    neighbours: Neighbours,
    latency: Box<[Ps]>,
    /// The package, by node.
    package_of_node: Vec<u16>,
    costs: Costs,
    /// How contended lines change hands; all fields are 0 if requests are served in order.
    arbitration: Arbitration,
    arbiter: Option<Arbiter>,
    /// Set if requests are served in order.
    kept: Option<Kept>,
    /// How long the request being served has waited for its turn.
    waited: Ps,
    /// By CPU: the others of its core; empty if cores have one CPU each.
    siblings: Box<[Box<[usize]>]>,
    /// By CPU: when its last misses complete, one for each possible concurrent miss; empty if only one is
    /// possible.
    at_once: Box<[Ps]>,
    misses_at_once: usize,
    /// Whether each core has a prefetcher of pairs.
    has_pairs: bool,
    /// A taken line whose first waiter is a prefetcher: when it becomes free, and its slot in the
    /// arbiter.
    prefetch: Option<(Ps, usize)>,
}

impl Memory {
    pub(crate) fn new(machine: &Machine, arena_start: usize, seed: u64) -> Self {
        let topology = machine.topology();
        let mut costs = machine.costs().clone();
        costs.memory_remote = costs.memory_remote.max(costs.memory_local);
        let arbitration = costs.arbitration.unwrap_or_default();
        let node_of = |cpu: &coreshard_topology::Cpu| {
            let place = topology.node_ids().iter().position(|node| Some(*node) == cpu.node);
            u16::try_from(place.unwrap_or(0)).expect("fewer nodes than CPUs")
        };
        let mut package_of_node = vec![0; topology.nodes().max(1)];
        let mut ports = Vec::with_capacity(topology.cpus().len());
        for cpu in topology.cpus() {
            let node = node_of(cpu);
            let package = u16::try_from(cpu.package.0).expect("fewer packages than CPUs");
            package_of_node[usize::from(node)] = package;
            ports.push(Port { node, package, ..Port::default() });
        }
        let others = |one: usize| {
            let cpus = topology.cpus();
            let of_core = |other: &usize| *other != one && cpus[*other].core == cpus[one].core;
            (0..cpus.len()).filter(of_core).collect()
        };
        let siblings: Box<[Box<[usize]>]> = (0..ports.len()).map(others).collect();
        let misses_at_once = arbitration.misses_at_once as usize;
        let alone = siblings.iter().all(|others| others.is_empty());
        Self {
            at_once: vec![0; ports.len() * misses_at_once].into(),
            misses_at_once,
            has_pairs: arbitration.pair_prefetch,
            prefetch: None,
            // If a read-modify-write is a load and a store that fails without the line, a CPU needs the line
            // itself.
            siblings: if alone || arbitration.exclusives { Box::default() } else { siblings },
            lines: Lines::new(arena_start, machine.line_bytes(), ports.len()),
            neighbours: Neighbours::new(machine),
            ports,
            latency: machine.latency().into(),
            package_of_node,
            arbiter: costs.arbitration.map(|costs| Arbiter::new(costs, seed)),
            arbitration,
            costs,
            kept: None,
            waited: 0,
        }
    }

    /// Serves requests in their order, whatever the machine's file says. An owner still has its line until it
    /// leaves, and keeps it for about `hold` first. CPUs do no work ahead.
    pub(crate) fn serve_in_order(&mut self) {
        let arbitration = std::mem::take(&mut self.arbitration);
        self.kept = Some(Kept::new(&Arbitration { work_ahead: 0, ..arbitration }));
        self.arbiter = None;
    }

    /// Serves requests in the order in which a replay makes them. If CPUs work ahead, an owner keeps its line for `hold`, or for
    /// the request's part of a latency if that is 0. A latency includes this time, as in a ping-pong.
    pub(crate) fn serve_replay(&mut self) {
        if self.arbitration.work_ahead == 0 {
            return self.serve_in_order();
        }
        let all = std::mem::take(&mut self.arbitration);
        let hold = if all.hold > 0 { all.hold } else { all.request };
        self.kept = Some(Kept::new(&Arbitration { hold, ..all }));
        self.arbitration = Arbitration { hold, locked: all.locked, ..Arbitration::default() };
        self.arbiter = None;
    }

    /// Sets the cost of a load or store that hits.
    pub(crate) const fn set_hit(&mut self, hit: Ps) {
        self.costs.l1_hit = hit;
    }

    /// Returns true if a CPU that wants a taken line waits for it.
    #[inline]
    pub(crate) fn arbitrates(&self) -> bool {
        self.arbiter.is_some()
    }

    /// Returns the time of a transfer: a published latency includes the time that the owner keeps a line.
    fn transfer(&self, latency: Ps) -> Ps {
        // The part of the request that was already in transit.
        let early = self.arbitration.request.min(self.waited);
        latency.saturating_sub(self.arbitration.hold + early).max(latency / 4)
    }

    /// Returns whether a read-modify-write is a load and a store that may fail.
    #[inline]
    pub(crate) const fn has_exclusives(&self) -> bool {
        self.arbitration.exclusives
    }

    /// Returns whether a CPU continues while lines are in transit to it.
    #[inline]
    pub(crate) fn has_several_misses(&self) -> bool {
        self.misses_at_once > 0 && self.arbiter.is_some()
    }

    /// Returns when the first of a CPU's misses completes, if there can be no more of them.
    fn first_of_misses(&self, cpu: usize) -> Ps {
        let misses = &self.at_once[cpu * self.misses_at_once..][..self.misses_at_once];
        misses.iter().copied().min().unwrap_or(0)
    }

    /// Records a miss of a CPU in place of the first one.
    fn note_miss(&mut self, cpu: usize, done: Ps) {
        let misses = &mut self.at_once[cpu * self.misses_at_once..][..self.misses_at_once];
        if let Some(first) = misses.iter_mut().min() {
            *first = done;
        }
    }

    /// Returns the place of an address, in the simulation's own terms.
    #[inline]
    pub(crate) fn place(&mut self, address: usize) -> Place {
        self.lines.place(address)
    }

    /// Returns the latency from one CPU's cache to another's.
    pub(crate) fn latency(&self, requester: usize, owner: usize) -> Ps {
        self.latency[requester * self.ports.len() + owner]
    }

    /// Returns the first byte of the line that contains a place.
    #[inline]
    pub(crate) const fn line_of(&self, place: Place) -> Place {
        self.lines.first_of(place)
    }

    pub(crate) fn line_bytes(&self) -> usize {
        self.lines.line_bytes()
    }

    /// Returns the number of lines that were accessed.
    pub(crate) fn touched_lines(&self) -> u64 {
        self.lines.touched()
    }

    /// Returns the node of a line's memory, by its position in the machine's list, once the line was
    /// accessed.
    pub(crate) fn home(&mut self, place: Place) -> Option<usize> {
        self.lines.entry(place).home().map(usize::from)
    }

    /// Places fresh pages on a node, or on the node of their first access.
    pub(crate) fn renew(&mut self, start: Place, bytes: usize, node: Option<u16>) {
        self.lines.renew(start, bytes, node);
    }

    /// Records that a CPU begins or stops waiting for a write to a line.
    pub(crate) fn watch(&mut self, place: Place, watched: bool) {
        self.lines.entry(place).line.watched = watched;
    }

    /// Returns true if `cpu` would find the line in its cache.
    #[inline]
    pub(crate) fn has(&mut self, cpu: usize, place: Place) -> bool {
        self.lines.entry(place).is_at(cpu)
    }

    /// Accesses one line, which was requested before.
    #[inline]
    fn serve(&mut self, cpu: usize, place: Place, access: Access, now: Ps) -> Outcome {
        let far_atomics = self.arbitration.far_atomic > 0;
        if access == Access::Store {
            self.ports[cpu].stored_last = self.lines.first_of(place);
        }
        let entry = self.lines.entry(place);
        let here = entry.is_at(cpu);
        let exclusive = entry.line.state == LineState::Exclusive;
        // The CPUs of a core share their first-level cache.
        let at_sibling = !here
            && access == Access::Load
            && self.arbiter.is_some()
            && entry.is_at_sibling(&self.siblings, cpu);
        match access {
            Access::Load if here || at_sibling => Outcome::hit(now + self.costs.l1_hit),
            Access::Store if here && exclusive => {
                entry.line.dirty = true;
                // Visible to others after the earlier stores, so the line is kept that long.
                entry.line.busy_until = entry.line.busy_until.max(self.ports[cpu].stores_done);
                Outcome::hit(now + self.costs.l1_hit)
            }
            // The CPU that took the line ended the reservation; no other CPU is asked.
            Access::StoreExclusive if !here => {
                Outcome { fails: true, ..Outcome::hit(now + self.costs.l1_hit) }
            }
            Access::StoreExclusive if exclusive => {
                entry.line.dirty = true;
                Outcome::hit(now + self.costs.atomic.saturating_sub(self.costs.l1_hit))
            }
            Access::ReadModifyWrite | Access::Add | Access::AddAndForget if here && exclusive => {
                entry.line.dirty = true;
                entry.line.locked = true;
                Outcome::hit(now.max(self.ports[cpu].stores_done) + self.costs.atomic)
            }
            Access::Add | Access::AddAndForget
                if far_atomics && entry.line.far_in_a_row < FAR_IN_A_ROW =>
            {
                self.far_atomic(cpu, place, access, now)
            }
            _ => {
                let locked = access.is_locked();
                let from = if locked { now.max(self.ports[cpu].stores_done) } else { now };
                if self.keeps(cpu, place, from) {
                    if let Some(kept) = self.kept.as_mut().filter(|_| locked) {
                        kept.note_locked(self.lines.first_of(place), cpu);
                    }
                    Outcome::hit(from + if locked { self.costs.atomic } else { self.costs.l1_hit })
                } else {
                    self.miss(cpu, place, access.near(), now)
                }
            }
        }
    }

    /// Returns whether the CPU still has a line that another waits for.
    #[inline]
    fn keeps(&self, cpu: usize, place: Place, now: Ps) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.has(self.lines.first_of(place), cpu, now))
    }

    /// Executes an operation at the line's home, which first fetches the line if a cache has it.
    #[inline(never)]
    fn far_atomic(&mut self, cpu: usize, place: Place, access: Access, now: Ps) -> Outcome {
        let port = self.ports[cpu];
        let mut entry = self.lines.entry(place);
        let home = entry.home_or(port.node);
        let issued = now.max(port.stores_done);
        let start = issued.max(entry.line.busy_until);
        let owner = usize::from(entry.line.owner);
        // The distance to the home and back is that to the CPU that had it last.
        let way = way_to(&self.neighbours, &self.latency, cpu, owner);
        let (recall, source) = match entry.line.state {
            LineState::AtHome => (0, LineSource::Memory),
            LineState::Untouched if home == port.node => {
                (self.costs.memory_local, LineSource::Memory)
            }
            LineState::Untouched => (self.costs.memory_remote, LineSource::Memory),
            LineState::Exclusive if entry.line.dirty => {
                let near = self.ports[owner].package == port.package;
                (way, if near { LineSource::ModifiedLocal } else { LineSource::ModifiedRemote })
            }
            LineState::Exclusive | LineState::Shared => (way, LineSource::Clean),
        };
        let wakes = entry.line.watched;
        let served = start + recall + self.arbitration.far_atomic;
        let again = entry.line.state == LineState::AtHome && owner == cpu;
        entry.line.far_in_a_row = if again { entry.line.far_in_a_row + 1 } else { 0 };
        entry.line.busy_until = served;
        entry.line.state = LineState::AtHome;
        entry.line.dirty = true;
        entry.line.owner = cpu as u16;
        let end = match access {
            // Several can be in transit at once, as many as the distance permits.
            Access::AddAndForget => {
                (issued + self.costs.atomic).max(served.saturating_sub(way + recall))
            }
            _ => served + if recall == 0 { way } else { way / 2 },
        };
        Outcome { end, done: served, source, wakes, fails: false }
    }

    /// Returns the time of a line's transfer to a CPU that does not have it, the additional time of a far
    /// home, and the line's source.
    fn way_of(&mut self, cpu: usize, place: Place, access: Access) -> (Ps, Ps, LineSource) {
        let port = self.ports[cpu];
        let mut entry = self.lines.entry(place);
        let home = entry.home_or(port.node);
        let line = *entry.line;
        let owner = usize::from(line.owner);
        let package_of_owner = self.ports[owner].package;
        let (way, source) = match (line.state, access) {
            (LineState::Untouched, _) if home == port.node => {
                return (self.costs.memory_local, 0, LineSource::Memory);
            }
            (LineState::Untouched, _) => return (self.costs.memory_remote, 0, LineSource::Memory),
            (LineState::AtHome, _) => {
                (way_to(&self.neighbours, &self.latency, cpu, owner), LineSource::Clean)
            }
            (LineState::Exclusive, _) => {
                let source = match (line.dirty, package_of_owner == port.package) {
                    (false, _) => LineSource::Clean,
                    (true, true) => LineSource::ModifiedLocal,
                    (true, false) => LineSource::ModifiedRemote,
                };
                (self.transfer(self.latency(cpu, owner)), source)
            }
            (LineState::Shared, Access::Load) => {
                let nearest = self.neighbours.nearest(cpu, entry.sharers());
                (self.latency(cpu, nearest), LineSource::Clean)
            }
            (LineState::Shared, _) => {
                let farthest = self.neighbours.farthest(cpu, entry.sharers());
                // Even the only sharer must ask whether it is alone.
                (farthest.max(self.costs.atomic), LineSource::Clean)
            }
        };
        let home = self.package_of_node[usize::from(home)];
        let is_far = home != port.package && home != package_of_owner;
        (way, if is_far { self.costs.home_far } else { 0 }, source)
    }

    #[inline(never)]
    fn miss(&mut self, cpu: usize, place: Place, access: Access, now: Ps) -> Outcome {
        let port = self.ports[cpu];
        // The line of a store is requested as soon as the store is in the buffer, ahead of earlier stores.
        let asks_at_once = self.has_several_misses() && access == Access::Store;
        let issued = match access {
            Access::Load => now,
            Access::Store if asks_at_once => now.max(self.first_of_misses(cpu)),
            _ => now.max(port.stores_done),
        };
        let (way, far, source) = self.way_of(cpu, place, access);
        let line = self.lines.first_of(place);
        let entry = self.lines.entry(place);
        let was = *entry.line;
        let owner = usize::from(was.owner);
        let moves = was.state == LineState::Exclusive;
        let mut start = issued.max(was.busy_until);
        if let Some(kept) = self.kept.as_mut().filter(|_| moves && owner != cpu) {
            if was.locked {
                kept.note_locked(line, owner);
            }
            start = start.max(kept.until(line, owner, was.busy_until));
            kept.give(line, owner, start, now);
        }
        if let Some(kept) = &mut self.kept {
            kept.note_fetch(line, access);
        }
        let loads_take =
            self.arbitration.loads_take || self.kept.as_ref().is_some_and(|kept| kept.loads_take);
        let takes = access == Access::Load && moves && was.dirty && loads_take;
        // A load of a line that others share takes nothing from them.
        let locked = match access {
            Access::Load if !moves => 0,
            Access::StoreExclusive => 0,
            _ => self.arbitration.locked,
        };
        let jitter = self.arbiter.as_mut().map_or(0, Arbiter::jitter);
        let way = self.kept.as_mut().map_or(way, |kept| kept.way(way));
        let mut done = start + far + locked + jitter + way;
        if asks_at_once {
            self.note_miss(cpu, done);
            // Stores become visible in their order.
            done = done.max(port.stores_done);
        }
        let mut entry = self.lines.entry(place);
        let alone = matches!(was.state, LineState::Untouched | LineState::AtHome);
        if access == Access::Load && !alone && !takes {
            let is_shared = was.state == LineState::Shared;
            let answered = if is_shared { start + self.costs.shared_read } else { done };
            entry.line.busy_until = was.busy_until.max(answered);
            entry.line.dirty = false;
            entry.line.locked = false;
            entry.share_with(cpu);
        } else {
            entry.line.busy_until = done;
            entry.line.state = LineState::Exclusive;
            entry.line.dirty = access != Access::Load;
            entry.line.locked = access.is_locked();
            entry.line.owner = cpu as u16;
            entry.line.far_in_a_row = 0;
        }
        let end = match access {
            Access::Store => {
                self.ports[cpu].stores_done = done;
                issued + self.costs.l1_hit
            }
            // A replay has no queue of requests, in which the CPU would wait for its next one.
            _ if self.kept.is_some() => done,
            // Its line is kept for the rest of the request's time: a plain access that follows still hits.
            _ => done - locked,
        };
        // A spinning CPU that has lost its line would not notice a later store, which hits.
        let wakes = was.watched && (access != Access::Load || takes);
        Outcome { end, done, source, wakes, fails: false }
    }
}

/// Returns the latency to the CPU that had a line last, or to the nearest other one if that is the CPU
/// itself.
fn way_to(neighbours: &Neighbours, latency: &[Ps], cpu: usize, owner: usize) -> Ps {
    match owner == cpu {
        true => neighbours.least(cpu),
        false => latency[cpu * neighbours.cpus() + owner],
    }
}

impl Outcome {
    #[inline]
    fn hit(end: Ps) -> Self {
        Self { end, done: end, source: LineSource::Hit, wakes: false, fails: false }
    }
}

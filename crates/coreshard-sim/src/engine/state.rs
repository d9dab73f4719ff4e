//! The state of a simulation.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::HashMap;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use coreshard_platform::LocalKey;
use coreshard_topology::{CpuId, CpuSet, NodeId};

use super::allowance::Allowance;
use super::call_failures::CallFailures;
use super::cpu::{Cpu, Needs};
use super::events::{Event, Events};
use super::fault_injector::FaultInjector;
use super::inheritance::Inheritance;
use super::item_counts::ItemCounts;
use super::mode::Mode;
use super::noise::Noise;
use super::pulse::Pulse;
use super::spin_detector::SpinDetector;
use super::store_buffers::StoreBuffers;
use super::thread::{Suspender, Thread};
use super::wait_queues::WaitQueues;
use crate::machine::{Costs, Machine, Ps};
use crate::memory::{Access, ByPlace, Memory, Outcome, Place, Source};
use crate::profile::Profile;
use crate::random::mix;
use crate::report::{Recorded, Recorder};
use crate::site::Site;
use crate::space::{Arena, in_host};

thread_local! {
    static CURRENT: Cell<*mut SimState> = const { Cell::new(ptr::null_mut()) };
}

/// The simulation whose code runs on this host thread.
#[inline]
pub(crate) fn current() -> Option<NonNull<SimState>> {
    NonNull::new(CURRENT.get())
}

/// While this guard lives, `current` is its simulation.
pub(super) struct EnterGuard(*mut SimState);

impl EnterGuard {
    pub(super) fn new(sim: *mut SimState) -> Self {
        Self(CURRENT.replace(sim))
    }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Loads in a row after which a thread is taken for one that spins, where threads are switched at waits alone.
const LOOKS: u32 = 2_000;
/// Accesses of any kind after which it is, too: it may try something again and again.
const MOST_ACCESSES_IN_TURN: u32 = 500_000;
/// Accesses after which it is told that the run goes on.
const BEAT_EVERY: u32 = 64;

/// Why a thread gave the host thread back to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Another CPU is earlier.
    NotNext,
    /// It waits; its state says for what.
    Waits,
    /// It lets others run.
    Yields,
    /// Its slice is over, or somebody is to run at once.
    Preempted,
    /// It spins on a line, and goes on when that is written, or at this time.
    Spins { until: Ps },
    /// It must go to another CPU.
    Moves,
    /// It waits, and keeps its CPU.
    SpinsInQueue,
    /// Its CPU waits for a line that others want, too.
    AwaitsLine,
}

/// All that a simulation consists of.
pub(crate) struct SimState {
    /// The time of the CPU that runs.
    pub(super) now: Ps,
    /// Until when that CPU need not look whether others are earlier.
    pub(super) horizon: Ps,
    /// The CPU that runs.
    pub(super) cpu: usize,
    /// The thread that runs.
    pub(super) thread: usize,
    pub(super) spin_detector: SpinDetector,
    /// The last access was a store that failed.
    pub(super) store_failed: bool,
    /// What the thread that was suspended last needs when it goes on.
    pub(super) needs: Needs,
    pub(super) pause: Pause,
    pub(super) suspender: Suspender,
    pub(super) memory: Memory,
    pub(super) events: Events,
    pub(super) costs: Costs,
    /// `None` where costs are the same each time.
    pub(super) noise: Option<Noise>,
    pub(super) profile: Profile,
    pub(super) cpus: Vec<Cpu>,
    /// Idle CPUs, a bit for each.
    pub(super) idle: Box<[u64]>,
    /// CPUs for which fair threads wait, a bit for each.
    pub(super) crowded: Box<[u64]>,
    /// Offline CPUs, a bit for each.
    pub(super) offline: Box<[u64]>,
    pub(super) all_cpus: Box<[u64]>,
    /// Events that are no part of the program: where there are no others, the program is deadlocked.
    pub(super) background: usize,
    /// How far ahead the program's clock is.
    pub(super) clock_ahead: Ps,
    /// Threads in run queues.
    pub(super) queued: usize,
    pub(super) threads: Vec<Thread>,
    /// Threads that have not ended.
    pub(super) alive: usize,
    /// CPUs that go on, are about to, or spin: while there are none, only timers are left.
    pub(super) busy_cpus: usize,
    pub(super) futexes: WaitQueues,
    pub(super) inheritance: Inheritance,
    /// Threads that spin in the queues of locks, by the lock's word.
    pub(super) lock_queues: WaitQueues,
    pub(super) in_lock_queues: usize,
    /// CPUs that spin, by the line that they look at.
    pub(super) spinners: ByPlace<Vec<usize>>,
    pub(super) arena: NonNull<Arena>,
    pub(super) online: CpuSet,
    /// By CPU number: its index in `cpus`.
    pub(super) index_of_cpu: Vec<Option<u32>>,
    pub(super) node_ids: Vec<NodeId>,
    pub(super) recorder: Option<Box<Recorder>>,
    pub(super) store_buffers: StoreBuffers,
    /// `None` where no faults are injected.
    pub(super) injector: Option<FaultInjector>,
    pub(super) trace_hash: u64,
    pub(super) accesses: u64,
    pub(super) misses: u64,
    pub(super) pauses: u64,
    pub(super) context_switches: u64,
    pub(super) wakeups: u64,
    pub(super) ipis: u64,
    /// Threads that a panic has ended.
    pub(super) panicked: usize,
    /// Threads that could not be started.
    pub(super) failed_spawns: usize,
    /// Calls that fail by their number.
    pub(super) call_failures: CallFailures,
    pub(super) last_time: Ps,
    /// Read-side sections that threads are inside of.
    pub(super) readings: u64,
    /// A rule that the program has broken: the run ends.
    pub(super) broken_rule: Option<String>,
    pub(super) mode: Mode,
    /// Loads in a row, with nothing else done.
    pub(super) looks: u32,
    /// Accesses since the running thread came on.
    pub(super) accesses_in_turn: u32,
    pub(super) items: ItemCounts,
    /// There where the run is by hand, until the program is over.
    pub(super) hand: Option<Allowance>,
    pub(super) pulse: Option<Arc<Pulse>>,
    /// True once the run is to be ended.
    pub(super) stop: Option<Arc<AtomicBool>>,
    /// Where memory is uniform: the words that are waited for, by address, in the order of first use.
    pub(super) words: HashMap<usize, u64>,
}

impl SimState {
    pub(super) fn new(
        machine: &Machine,
        arena: NonNull<Arena>,
        seed: u64,
        profile: Profile,
        recorder: Option<Box<Recorder>>,
    ) -> Self {
        // SAFETY: the arena lives as long as the simulation.
        let arena_start = unsafe { arena.as_ref() }.start();
        let topology = machine.topology();
        let cpus = Cpu::all(machine);
        let mut idle = vec![0_u64; cpus.len().div_ceil(64)];
        (0..cpus.len()).for_each(|cpu| idle[cpu / 64] |= 1 << (cpu % 64));
        let highest = topology.online().last().map_or(0, CpuId::index);
        let mut index_of_cpu = vec![None; highest + 1];
        for (index, cpu) in topology.cpus().iter().enumerate() {
            index_of_cpu[cpu.id.index()] = u32::try_from(index).ok();
        }
        Self {
            now: 0,
            horizon: 0,
            cpu: 0,
            thread: 0,
            spin_detector: SpinDetector::default(),
            store_failed: false,
            needs: Needs::default(),
            pause: Pause::NotNext,
            suspender: ptr::null(),
            memory: Memory::new(machine, arena_start, seed),
            store_buffers: StoreBuffers::new(cpus.len()),
            events: Events::new(seed),
            costs: profile.apply(machine.costs()),
            noise: machine.costs().variation.map(|of| Noise::new(of, seed)),
            profile,
            cpus,
            crowded: vec![0; idle.len()].into(),
            offline: vec![0; idle.len()].into(),
            all_cpus: idle.clone().into(),
            idle: idle.into(),
            background: 0,
            clock_ahead: 0,
            queued: 0,
            threads: Vec::new(),
            alive: 0,
            busy_cpus: 0,
            futexes: WaitQueues::default(),
            inheritance: Inheritance::default(),
            lock_queues: WaitQueues::default(),
            in_lock_queues: 0,
            spinners: ByPlace::default(),
            arena,
            online: topology.online().clone(),
            index_of_cpu,
            node_ids: topology.node_ids().to_vec(),
            recorder,
            injector: None,
            trace_hash: mix(seed),
            accesses: 0,
            misses: 0,
            pauses: 0,
            context_switches: 0,
            wakeups: 0,
            ipis: 0,
            panicked: 0,
            failed_spawns: 0,
            call_failures: CallFailures::new(None),
            last_time: 0,
            readings: 0,
            broken_rule: None,
            mode: Mode::default(),
            looks: 0,
            accesses_in_turn: 0,
            items: ItemCounts::default(),
            hand: None,
            pulse: None,
            stop: None,
            words: HashMap::new(),
        }
    }

    /// What a call into the kernel, a wake-up or a switch takes this time.
    pub(super) fn call_takes(&mut self, cost: Ps) -> Ps {
        self.noise.as_mut().map_or(cost, |noise| noise.call(cost))
    }

    /// What the exit from an idle state takes this time.
    pub(super) fn exit_takes(&mut self, cost: Ps) -> Ps {
        self.noise.as_mut().map_or(cost, |noise| noise.exit(cost))
    }

    /// The running thread runs for `time`.
    #[inline]
    pub(super) fn run_for(&mut self, time: Ps) {
        self.now += time;
        self.interrupt(time);
    }

    /// The running thread has run for `time`, and its CPU was interrupted meanwhile.
    #[inline]
    pub(super) fn interrupt(&mut self, time: Ps) {
        if let Some(noise) = &mut self.noise {
            self.now += noise.interruptions(time);
        }
    }

    /// The clock that the program reads.
    pub(crate) fn read_clock(&mut self) -> Ps {
        let jump = self.injector.as_mut().and_then(FaultInjector::clock_jump);
        self.clock_ahead += jump.unwrap_or(0);
        self.now + self.clock_ahead
    }

    pub(crate) fn cpu_id(&self) -> CpuId {
        self.cpus[self.cpu].id
    }

    pub(crate) fn local(&mut self, key: LocalKey) -> &mut *mut () {
        &mut self.threads[self.thread].locals[key as usize]
    }

    pub(crate) fn arena(&self) -> *mut Arena {
        self.arena.as_ptr()
    }

    /// The number of the thread that runs.
    pub(crate) fn thread(&self) -> usize {
        self.thread
    }

    pub(crate) fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_deref_mut()
    }

    #[inline]
    pub(crate) fn place(&mut self, address: usize) -> Place {
        if self.mode.uniform_memory { self.word_at(address) } else { self.memory.place(address) }
    }

    /// Where memory is uniform: words are told apart, and named, by the order of their first use.
    fn word_at(&mut self, address: usize) -> Place {
        let next = self.words.len() as u64;
        Place::outside(in_host(|| *self.words.entry(address).or_insert(next)))
    }

    /// Where memory is uniform: the running CPU accesses some of it.
    pub(super) fn touch_anywhere(&mut self, access: Access) {
        self.now += self.costs.compute
            + match access {
                Access::Load | Access::Store => self.costs.l1_hit,
                _ => self.costs.atomic,
            };
        let access = access.near();
        self.looks = if access == Access::Load { self.looks + 1 } else { 0 };
        self.accesses += 1;
        self.accesses_in_turn += 1;
        if self.accesses_in_turn.is_multiple_of(BEAT_EVERY)
            && let Some(pulse) = &self.pulse
        {
            pulse.beat();
        }
        self.trace_hash =
            (self.trace_hash.rotate_left(5) ^ access as u64 ^ self.now.rotate_left(32))
                .wrapping_mul(0x517C_C1B7_2722_0A95)
                .wrapping_add(self.cpu as u64);
    }

    /// True if the running thread looks at memory again and again, and so is to let others go first.
    pub(super) fn spins_by_looking(&mut self) -> bool {
        let spins = self.mode.at_waits
            && (self.looks > LOOKS || self.accesses_in_turn > MOST_ACCESSES_IN_TURN);
        if spins {
            self.looks = 0;
            self.accesses_in_turn = 0;
            self.looks_around(LOOKS);
        }
        spins
    }

    /// Lays fresh pages on a node. False where a node is asked for and there is none of that
    /// number: then they lie where they are touched first.
    pub(crate) fn renew(&mut self, address: usize, bytes: usize, node: Option<NodeId>) -> bool {
        let index = node.and_then(|node| self.node_ids.iter().position(|known| *known == node));
        let start = self.memory.place(address);
        self.memory.renew(start, bytes, index.map(|index| index as u16));
        node.is_none() || index.is_some()
    }

    /// The running CPU accesses memory, at its turn. It is the later of several accesses that it
    /// makes at once where `since` is before its time.
    #[inline]
    pub(super) fn touch(&mut self, place: Place, access: Access, since: Ps, site: Site) -> Outcome {
        let outcome = self.access_for(self.cpu, place, access, since);
        self.note_touch(place, access, &outcome, since, site);
        outcome
    }

    /// An access of the running CPU was done.
    #[inline]
    pub(super) fn note_touch(
        &mut self,
        place: Place,
        access: Access,
        outcome: &Outcome,
        since: Ps,
        site: Site,
    ) {
        self.store_failed = outcome.fails;
        self.spin_detector.note_access(place, access);
        if self.spin_detector.notes_looks {
            self.note_look(place, access, outcome);
        }
        if let Some(recorder) = &mut self.recorder {
            let latency = outcome.done.saturating_sub(since);
            let (cpu, thread, access) = (self.cpu, self.thread, access.near());
            let recorded = Recorded { cpu, thread, place, access, outcome, latency, site };
            in_host(|| recorder.record(&recorded));
        }
    }

    /// A CPU accesses memory.
    #[inline]
    pub(super) fn access_for(
        &mut self,
        cpu: usize,
        place: Place,
        access: Access,
        since: Ps,
    ) -> Outcome {
        let outcome = self.memory.access(cpu, place, access, since);
        self.note_access(cpu, place, access, since, &outcome);
        outcome
    }

    /// Counts an access of a CPU, and wakes those who spin on its line.
    #[inline]
    pub(super) fn note_access(
        &mut self,
        cpu: usize,
        place: Place,
        access: Access,
        since: Ps,
        outcome: &Outcome,
    ) {
        self.accesses += 1;
        let what = place.0 << 2 | access.near() as u64;
        self.trace_hash = (self.trace_hash.rotate_left(5) ^ what ^ since.rotate_left(32))
            .wrapping_mul(0x517C_C1B7_2722_0A95)
            .wrapping_add(cpu as u64);
        if outcome.source != Source::Hit {
            self.misses += 1;
            if outcome.wakes {
                self.wake_spinners(place, since, outcome.done);
            }
            self.await_prefetch();
        }
    }

    /// The running thread needs what it loaded last.
    #[inline]
    pub(super) fn wait_for_loaded(&mut self) {
        self.now = self.now.max(std::mem::take(&mut self.spin_detector.comes_at));
    }

    /// The same, but where it is about to store to that word: what is stored is made of what was loaded, and waits for it in
    /// the store buffer.
    #[inline]
    pub(super) fn wait_for_loaded_unless(&mut self, address: usize, access: Access) {
        if self.spin_detector.comes_at > self.now {
            let place = self.place(address);
            if access != Access::Store || self.spin_detector.place != Some(place) {
                self.wait_for_loaded();
            }
        }
    }

    /// True once the run is to be ended, and until it is.
    pub(super) fn is_to_stop(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
    }

    /// The running CPU looks at `time` whether others are earlier.
    pub(super) fn set_horizon(&mut self, time: Ps) {
        if !self.mode.at_waits {
            self.horizon = self.horizon.min(time);
        }
    }

    /// A CPU goes on at `time`; an event for it that is already on its way becomes stale.
    pub(super) fn step_at(&mut self, cpu: usize, time: Ps) {
        let target = &mut self.cpus[cpu];
        if target.step_at.is_none() {
            self.busy_cpus += 1;
        }
        target.step_at = Some(time);
        self.events.push(time, Event::Cpu(cpu));
        self.set_horizon(time);
    }
}

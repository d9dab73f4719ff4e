//! The kernel's unbound workqueue as a benchmark program. It is written from its documentation
//! (Documentation/core-api/workqueue.rst) and release notes, not from its code.
//!
//! It models everything that costs time:
//!
//! - the pending bit of an item;
//! - the pool's lock with its worklist, its idle workers and its table of busy ones;
//! - the line that connects queue and pool;
//! - the node's count of active items (since 6.9: a compare-and-swap loop under the pool's lock, and an
//!   atomic decrement with result when the item finishes);
//! - waking an idle worker under that lock, and a beginning worker waking the next one.
//!
//! It omits everything that never happens in a benchmark: rescuers, flushes, frozen queues, reached limits,
//! starting workers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{
    AtomicInt, Lock, Padded, Parker, Platform, ThreadHandle, ThreadSpec, fields,
};
use coreshard_topology::{CpuId, PodId, Pods};

use crate::error::BenchError;
use crate::machine::BenchMachine;

/// When an idle worker is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kick {
    /// With the pool's lock held.
    #[default]
    UnderLock,
    /// Chosen under the lock, and woken after it is released.
    Deferred,
}

/// How a queue's active items are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ActiveCount {
    /// One count for each node: all of its pools write one line.
    #[default]
    PerNode,
    /// One for each pool, under its lock, as before 6.9.
    PerPool,
}

/// A node's count of a queue's active items.
struct NodeActive<P: Platform> {
    max: P::AtomicU32,
    count: P::AtomicU32,
    /// The pools that wait for room; always none here.
    waiting: P::AtomicU64,
}

fields!(NodeActive<P: Platform> { max, count, waiting });

impl<P: Platform> NodeActive<P> {
    fn begin(&self) {
        let max = self.max.load(Relaxed);
        let mut seen = self.count.load(Relaxed);
        while seen < max {
            match self.count.compare_exchange(seen, seen + 1, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    fn end(&self) {
        let left = self.count.fetch_sub(1, AcqRel) - 1;
        if left < self.max.load(Relaxed) {
            self.waiting.load(Relaxed);
        }
    }
}

/// An item, and the word that its producer waits for. Both lie in the producer's memory.
pub(super) struct Item<P: Platform> {
    pending: P::AtomicU32,
    entry: u64,
    pub(super) done: Parker<P>,
}

fields!(Item<P: Platform> { pending, entry, done });

/// The state under the pool's lock.
struct PoolState {
    worklist: VecDeque<usize>,
    /// The idle workers. The latest is last, and woken first.
    idle: Vec<usize>,
}

fields!(PoolState { worklist, idle });

struct KernelPool<P: Platform> {
    /// Lines beside the lock: flags and the watchdog's time.
    lock: Padded<Lock<P, PoolState>>,
    /// The heads of worklist and idle list, and the counts of workers.
    lists: Padded<u64>,
    link: Link,
    busy: Padded<[u64; 64]>,
    node: usize,
    workers: Vec<KernelWorker<P>>,
}

/// The lines of the connection between queue and pool (`pool_workqueue`).
#[derive(Default)]
struct Link {
    /// References, and items in flight.
    flight: Padded<u64>,
    /// Active items, and waiting ones.
    active: Padded<u64>,
    statistics: Padded<u64>,
}

struct KernelWorker<P: Platform> {
    /// Its place in the idle list, and its task.
    entry: Padded<u64>,
    /// Its task's lock, which a wake-up takes even if the task is awake.
    task_lock: Padded<u64>,
    /// Its task's CPU, and the CPUs that it may run on.
    task_cpu: Padded<u64>,
    parker: Padded<Parker<P>>,
}

impl<P: Platform> KernelWorker<P> {
    fn new() -> Self {
        let [entry, task_lock, task_cpu] = [(); 3].map(|()| Padded::default());
        Self { entry, task_lock, task_cpu, parker: Padded::new(Parker::new()) }
    }

    fn wake(&self) {
        P::touch_write(&raw const *self.task_lock);
        self.parker.unpark();
    }
}

/// The queue, and its pools.
pub(super) struct KernelQueue<P: Platform> {
    pools: Vec<KernelPool<P>>,
    /// The pool, by CPU number.
    pool_of_cpu: Vec<usize>,
    nodes: Vec<Padded<NodeActive<P>>>,
    pub(super) items: Vec<Padded<Item<P>>>,
    stopping: Padded<P::AtomicU32>,
    kick: Kick,
    active: ActiveCount,
    /// Whether items compute and some block.
    serves: bool,
}

/// The number of words that an item of a server reads from its own data.
const COMPUTES: usize = 400;
/// One item in this many blocks, as if it read a file; below, for how long.
const BLOCKS_EVERY: usize = 8;
const BLOCKS_FOR: Duration = Duration::from_micros(20);

impl<P: Platform> KernelQueue<P> {
    pub(super) fn new(
        machine: &BenchMachine,
        pods: &Pods,
        items: usize,
        kick: Kick,
        active: ActiveCount,
        serves: bool,
    ) -> Arc<Self> {
        let topology = &machine.topology;
        let node_of = |cpu: CpuId| {
            let cpu = topology.cpus().iter().find(|known| known.id == cpu);
            let node = cpu.and_then(|cpu| cpu.node);
            topology.node_ids().iter().position(|id| Some(*id) == node).unwrap_or(0)
        };
        let pools: Vec<_> = pods
            .iter()
            .map(|pod| KernelPool {
                lock: Padded::new(Lock::new(PoolState {
                    worklist: VecDeque::with_capacity(2 * items),
                    idle: Vec::with_capacity(2 * items),
                })),
                lists: Padded::default(),
                link: Link::default(),
                busy: Padded::new([0; 64]),
                node: pod.cpus.first().map_or(0, &node_of),
                workers: (0..pod.cpus.len() + 1).map(|_| KernelWorker::new()).collect(),
            })
            .collect();
        let highest = machine.usable.last().map_or(0, CpuId::index);
        let pool_of = |cpu: usize| pods.pod_of(CpuId(cpu as u32)).map_or(0, PodId::index);
        let active_of_node = || NodeActive {
            max: P::AtomicU32::new(1_024),
            count: P::AtomicU32::new(0),
            waiting: P::AtomicU64::new(0),
        };
        let item = || Item { pending: P::AtomicU32::new(0), entry: 0, done: Parker::new() };
        let queue = Self {
            pools,
            pool_of_cpu: (0..=highest).map(pool_of).collect(),
            nodes: (0..topology.nodes().max(1)).map(|_| Padded::new(active_of_node())).collect(),
            items: (0..items).map(|_| Padded::new(item())).collect(),
            stopping: Padded::new(P::AtomicU32::new(0)),
            kick,
            active,
            serves,
        };
        queue.pools.iter().for_each(|pool| pool.lock.describe());
        queue.nodes.iter().for_each(|node| P::describe(&raw const **node));
        queue.items.iter().for_each(|item| P::describe(&raw const **item));
        Arc::new(queue)
    }

    /// Starts the workers, each with its pod's CPUs.
    pub(super) fn start(self: &Arc<Self>, pods: &Pods) -> Result<Vec<P::Thread>, BenchError> {
        let mut threads = Vec::new();
        for (number, pod) in pods.iter().enumerate() {
            for worker in 0..self.pools[number].workers.len() {
                let queue = Arc::clone(self);
                let spec = ThreadSpec {
                    name: format!("kworker/u{number}:{worker}"),
                    affinity: Some(pod.cpus.clone()),
                    ..ThreadSpec::default()
                };
                threads.push(P::spawn(spec, Box::new(move || queue.work(number, worker)))?);
            }
        }
        Ok(threads)
    }

    pub(super) fn stop(&self, workers: Vec<P::Thread>) {
        self.stopping.store(1, Release);
        for worker in self.pools.iter().flat_map(|pool| &pool.workers) {
            worker.parker.unpark();
        }
        workers.into_iter().for_each(ThreadHandle::join);
    }

    /// Wakes the first idle worker, if there is work. The worker removes itself from the idle list.
    fn kick<'pool>(
        &self,
        pool: &'pool KernelPool<P>,
        state: &PoolState,
    ) -> Option<&'pool KernelWorker<P>> {
        if state.worklist.is_empty() {
            return None;
        }
        let worker = &pool.workers[*state.idle.last()?];
        P::touch_read(&raw const *worker.entry);
        P::touch_read(&raw const *worker.task_cpu);
        match self.kick {
            Kick::UnderLock => {
                worker.wake();
                None
            }
            Kick::Deferred => Some(worker),
        }
    }

    /// Queues a producer's item, on the CPU where it runs.
    pub(super) fn queue(&self, item: usize) {
        let work = &self.items[item];
        if work.pending.fetch_or(1, AcqRel) & 1 != 0 {
            return;
        }
        let pool = &self.pools[self.pool_of_cpu[P::current_cpu().index()]];
        let mut state = pool.lock.lock();
        P::touch_write(&raw const *pool.link.flight);
        P::touch_write(&raw const *pool.link.active);
        if self.active == ActiveCount::PerNode {
            self.nodes[pool.node].begin();
        }
        P::touch_write(&raw const work.entry);
        if let Some(last) = state.worklist.back() {
            P::touch_write(&raw const self.items[*last].entry);
        }
        P::touch_write(&raw const *pool.lists);
        state.worklist.push_back(item);
        let worker = self.kick(pool, &state);
        drop(state);
        if let Some(worker) = worker {
            worker.wake();
        }
    }

    fn serve(&self, item: usize) {
        (0..COMPUTES).for_each(|_| P::touch_read(&raw const self.items[item].entry));
        if item.is_multiple_of(BLOCKS_EVERY) {
            P::sleep(BLOCKS_FOR);
        }
    }

    /// Moves a worker into or out of the idle list. Its neighbour in the list is written as well.
    fn change_idle(&self, pool: &KernelPool<P>, state: &PoolState, worker: usize) {
        P::touch_write(&raw const *pool.lists);
        P::touch_write(&raw const *pool.workers[worker].entry);
        if let Some(neighbour) = state.idle.last() {
            P::touch_write(&raw const *pool.workers[*neighbour].entry);
        }
    }

    fn work(&self, number: usize, worker: usize) {
        let pool = &self.pools[number];
        let mut state = pool.lock.lock();
        loop {
            while let Some(item) = state.worklist.pop_front() {
                let work = &self.items[item];
                P::touch_write(&raw const *pool.lists);
                P::touch_write(&raw const work.entry);
                P::touch_write(&raw const pool.busy[item % 64]);
                P::touch_write(&raw const *pool.link.statistics);
                // Released here: from now on the item may be queued again.
                work.pending.store(0, Release);
                let next = self.kick(pool, &state);
                drop(state);
                if let Some(next) = next {
                    next.wake();
                }
                if self.serves {
                    self.serve(item);
                }
                work.done.unpark();
                state = pool.lock.lock();
                P::touch_write(&raw const *pool.link.statistics);
                P::touch_write(&raw const pool.busy[item % 64]);
                P::touch_write(&raw const *pool.link.flight);
                P::touch_write(&raw const *pool.link.active);
                if self.active == ActiveCount::PerNode {
                    self.nodes[pool.node].end();
                }
            }
            if self.stopping.load(Acquire) != 0 {
                return;
            }
            self.change_idle(pool, &state, worker);
            state.idle.push(worker);
            drop(state);
            pool.workers[worker].parker.park();
            state = pool.lock.lock();
            state.idle.retain(|idle| *idle != worker);
            self.change_idle(pool, &state, worker);
        }
    }
}

//! The multi-thread scheduler of tokio 1.48, limited to spawns from outside: an injection queue behind a mutex, local queues of 256,
//! a batch taken by each worker, and at most one worker that searches because of a spawn.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex};

use coreshard_platform::{AtomicInt, Lock, Padded, Parker, Platform, ThreadHandle};
use coreshard_sim::Sim;
use coreshard_topology::CpuSet;

use super::{Threads, start_threads};
use crate::executor::{Executor, Items};

type AtomicU64 = <Sim as Platform>::AtomicU64;

const LOCAL: usize = 256;
/// A worker checks the injection queue first after this many tasks.
const GLOBAL_INTERVAL: u32 = 31;

/// In the idle word: searching workers below, unparked ones above.
const ONE_SEARCHES: u64 = 1;
const ONE_UNPARKED: u64 = 1 << 16;

fn searching(word: u64) -> u64 {
    word & 0xffff
}

fn unparked(word: u64) -> u64 {
    word >> 16
}

/// How many tasks a local queue has: the owner's end and the thieves', on one line.
struct Local {
    tasks: AtomicU64,
}

struct Shared {
    /// Tasks in the injection queue. Its length is read without the lock.
    injected: Padded<Lock<Sim, u64>>,
    injected_len: Padded<AtomicU64>,
    idle: Padded<AtomicU64>,
    sleepers: Padded<Lock<Sim, VecDeque<usize>>>,
    locals: Vec<Padded<Local>>,
    parkers: Vec<Padded<Parker<Sim>>>,
    is_ending: Padded<<Sim as Platform>::AtomicU32>,
    items: Mutex<Option<Arc<Items>>>,
}

pub(crate) struct Tokio {
    shared: Arc<Shared>,
    threads: Mutex<Threads>,
}

impl Tokio {
    pub(crate) fn start(cpus: &CpuSet) -> Self {
        let count = cpus.len() as u64;
        let shared = Arc::new(Shared {
            injected: Padded::new(Lock::new(0)),
            injected_len: Padded::new(AtomicU64::new(0)),
            idle: Padded::new(AtomicU64::new(count * ONE_UNPARKED)),
            sleepers: Padded::new(Lock::new(VecDeque::new())),
            locals: cpus.iter().map(|_| Padded::new(Local { tasks: AtomicU64::new(0) })).collect(),
            parkers: cpus.iter().map(|_| Padded::new(Parker::new())).collect(),
            is_ending: Padded::new(<Sim as Platform>::AtomicU32::new(0)),
            items: Mutex::default(),
        });
        let of_threads = Arc::clone(&shared);
        let threads = start_threads(cpus, move |index| of_threads.run(index));
        Self { shared, threads: Mutex::new(threads) }
    }
}

impl Executor for Tokio {
    fn submit(&self, items: &Arc<Items>) {
        *self.shared.items.lock().expect("no thread panics") = Some(Arc::clone(items));
        self.shared.change_injected(|tasks| *tasks += 1);
        self.shared.wake_one();
    }

    fn end(&self) {
        self.shared.is_ending.store(1, SeqCst);
        for parker in &self.shared.parkers {
            parker.unpark();
        }
        let threads = std::mem::take(&mut *self.threads.lock().expect("no thread panics"));
        threads.into_iter().for_each(ThreadHandle::join);
    }
}

impl Shared {
    fn change_injected<R>(&self, change: impl FnOnce(&mut u64) -> R) -> R {
        let mut injected = self.injected.lock();
        let result = change(&mut injected);
        self.injected_len.store(*injected, SeqCst);
        result
    }

    /// Wakes a worker, unless one searches already or none sleeps.
    fn wake_one(&self) {
        let should_wake = || {
            let idle = self.idle.load(SeqCst);
            searching(idle) == 0 && unparked(idle) < self.locals.len() as u64
        };
        if !should_wake() {
            return;
        }
        let mut sleepers = self.sleepers.lock();
        if !should_wake() {
            return;
        }
        let Some(worker) = sleepers.pop_back() else { return };
        self.idle.fetch_add(ONE_UNPARKED + ONE_SEARCHES, SeqCst);
        drop(sleepers);
        self.parkers[worker].unpark();
    }

    fn run(&self, index: usize) {
        let mut is_searching = false;
        let mut tick = 0_u32;
        let mut random = index as u64 + 1;
        while self.is_ending.load(Relaxed) == 0 {
            tick += 1;
            let found = self.take(index, tick) || {
                if !is_searching && 2 * searching(self.idle.load(SeqCst)) < self.locals.len() as u64
                {
                    self.idle.fetch_add(ONE_SEARCHES, SeqCst);
                    is_searching = true;
                }
                is_searching && self.steal(index, &mut random)
            };
            if found {
                if std::mem::take(&mut is_searching)
                    && searching(self.idle.fetch_sub(ONE_SEARCHES, SeqCst)) == 1
                {
                    // The last searching worker wakes another one to search.
                    self.wake_one();
                }
                let items = self.items.lock().expect("no thread panics").clone();
                items.expect("a load of items").run();
            } else {
                is_searching = self.park(index, is_searching);
            }
        }
    }

    /// Takes a task from the worker's queue, or else a batch of injected tasks.
    fn take(&self, index: usize, tick: u32) -> bool {
        if tick.is_multiple_of(GLOBAL_INTERVAL) && self.take_injected(1) > 0 {
            return true;
        }
        let local = &self.locals[index].tasks;
        let mut tasks = local.load(SeqCst);
        while tasks > 0 {
            match local.compare_exchange(tasks, tasks - 1, SeqCst, Relaxed) {
                Ok(_) => return true,
                Err(now) => tasks = now,
            }
        }
        let share = self.injected_len.load(Relaxed) / self.locals.len() as u64 + 1;
        let taken = self.take_injected(share.min(LOCAL as u64 / 2));
        if taken > 1 {
            local.fetch_add(taken - 1, SeqCst);
        }
        taken > 0
    }

    fn take_injected(&self, most: u64) -> u64 {
        if self.injected_len.load(SeqCst) == 0 {
            return 0;
        }
        self.change_injected(|tasks| {
            let taken = most.min(*tasks);
            *tasks -= taken;
            taken
        })
    }

    /// Steals half of the tasks of another worker, starting at a random one, or else takes from the injection queue.
    fn steal(&self, index: usize, random: &mut u64) -> bool {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        let count = self.locals.len();
        let first = (*random % count as u64) as usize;
        for victim in (first..count).chain(0..first).filter(|victim| *victim != index) {
            let theirs = &self.locals[victim].tasks;
            let mut tasks = theirs.load(SeqCst);
            while tasks > 0 {
                let half = tasks.div_ceil(2);
                match theirs.compare_exchange(tasks, tasks - half, SeqCst, Relaxed) {
                    Ok(_) => {
                        if half > 1 {
                            self.locals[index].tasks.fetch_add(half - 1, SeqCst);
                        }
                        return true;
                    }
                    Err(now) => tasks = now,
                }
            }
        }
        self.take_injected(1) > 0
    }

    /// Returns whether the worker searches after it was woken.
    fn park(&self, index: usize, is_searching: bool) -> bool {
        let mut sleepers = self.sleepers.lock();
        let less = ONE_UNPARKED + u64::from(is_searching) * ONE_SEARCHES;
        let before = self.idle.fetch_sub(less, SeqCst);
        sleepers.push_back(index);
        drop(sleepers);
        let has_work = || {
            self.injected_len.load(SeqCst) > 0
                || self.locals.iter().any(|local| local.tasks.load(SeqCst) > 0)
        };
        if is_searching && searching(before) == 1 && has_work() {
            self.wake_one();
        }
        loop {
            self.parkers[index].park();
            let is_listed = self.sleepers.lock().contains(&index);
            if !is_listed {
                return true;
            }
            if self.is_ending.load(Relaxed) != 0 {
                return false;
            }
        }
    }
}

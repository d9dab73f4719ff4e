//! Threads that receive closures from crossbeam-channel's unbounded list: a send wakes one thread if any sleeps.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex};

use coreshard_platform::{AtomicInt, Lock, Padded, Parker, Platform, ThreadHandle};
use coreshard_sim::Sim;
use coreshard_topology::CpuSet;

use super::injector::Injector;
use super::{Threads, start_threads};
use crate::executor::{Executor, Items};

const ITEM: u64 = 0;
const END: u64 = 1;

/// Rounds of crossbeam's backoff: that many double their spins, then the rest yield.
const SPINS: u32 = 6;
const YIELDS: u32 = 4;

struct Shared {
    list: Injector,
    /// False while a thread is registered: senders look at this first.
    is_empty: Padded<<Sim as Platform>::AtomicU32>,
    /// Registered threads, the oldest first.
    waiting: Padded<Lock<Sim, VecDeque<usize>>>,
    parkers: Vec<Padded<Parker<Sim>>>,
    items: Mutex<Option<Arc<Items>>>,
}

pub(crate) struct Channel {
    shared: Arc<Shared>,
    threads: Mutex<Threads>,
}

impl Channel {
    pub(crate) fn start(cpus: &CpuSet) -> Self {
        let shared = Arc::new(Shared {
            list: Injector::new(),
            is_empty: Padded::new(<Sim as Platform>::AtomicU32::new(1)),
            waiting: Padded::new(Lock::new(VecDeque::new())),
            parkers: cpus.iter().map(|_| Padded::new(Parker::new())).collect(),
            items: Mutex::default(),
        });
        let of_threads = Arc::clone(&shared);
        let threads = start_threads(cpus, move |index| of_threads.run(index));
        Self { shared, threads: Mutex::new(threads) }
    }
}

impl Executor for Channel {
    fn submit(&self, items: &Arc<Items>) {
        *self.shared.items.lock().expect("no thread panics") = Some(Arc::clone(items));
        self.shared.send(ITEM);
    }

    fn end(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().expect("no thread panics"));
        threads.iter().for_each(|_| self.shared.send(END));
        threads.into_iter().for_each(ThreadHandle::join);
    }
}

impl Shared {
    fn send(&self, value: u64) {
        self.list.push(value);
        if self.is_empty.load(SeqCst) == 0 {
            let mut waiting = self.waiting.lock();
            let first = waiting.pop_front();
            self.is_empty.store(waiting.is_empty().into(), SeqCst);
            drop(waiting);
            if let Some(thread) = first {
                self.parkers[thread].unpark();
            }
        }
    }

    fn run(&self, index: usize) {
        loop {
            match self.receive(index) {
                ITEM => {
                    let items = self.items.lock().expect("no thread panics").clone();
                    items.expect("a load of items").run();
                }
                _ => return,
            }
        }
    }

    fn receive(&self, index: usize) -> u64 {
        loop {
            for round in 0..SPINS + YIELDS {
                if let Some(value) = self.list.pop() {
                    return value;
                }
                if round < SPINS {
                    (0..1 << round).for_each(|_| Sim::spin_hint());
                } else {
                    Sim::yield_now();
                }
            }
            let mut waiting = self.waiting.lock();
            waiting.push_back(index);
            self.is_empty.store(0, SeqCst);
            drop(waiting);
            if self.list.is_empty() {
                self.parkers[index].park();
            }
            let mut waiting = self.waiting.lock();
            waiting.retain(|thread| *thread != index);
            self.is_empty.store(waiting.is_empty().into(), Relaxed);
        }
    }
}

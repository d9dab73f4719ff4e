//! Pools of threads that steal from one another at random, as models: their idlers look again and again, or sleep as in
//! rayon's registry.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Padded, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::Sim;
use coreshard_topology::CpuSet;

use super::deque::Deque;
use super::program::{Piece, Program};
use super::registry::{Latch, Registry};

type AtomicU64 = <Sim as Platform>::AtomicU64;

/// Calls that a thread is inside of, at most; a stack would be used up.
const DEPTH: usize = 512;

/// A forked call in a word: which thread owns it, which of its owner's results it is, and what is to be computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job(pub(crate) u64);

impl Job {
    fn new(owner: usize, depth: usize, piece: Piece) -> Self {
        Self((owner as u64) << 48 | (depth as u64) << 32 | u64::from(piece))
    }
}

struct Result {
    is_there: Latch,
    value: AtomicU64,
}

struct Thread {
    deque: Deque,
    /// By depth; each on a line of its own, as on a stack.
    results: Vec<Padded<Result>>,
    is_over: Padded<Latch>,
}

struct Shared {
    program: Program,
    threads: Vec<Thread>,
    /// `None` if idlers never sleep.
    registry: Option<Registry>,
}

impl Shared {
    /// Opens what a thread waits for, and wakes it if it sleeps.
    fn open(&self, latch: &Latch, thread: usize) {
        if latch.open()
            && let Some(registry) = &self.registry
        {
            registry.wake(thread);
        }
    }
}

/// A pool whose first thread is the caller's.
pub(crate) struct Stealing {
    shared: Arc<Shared>,
    threads: Vec<<Sim as Platform>::Thread>,
}

struct Worker<'pool> {
    shared: &'pool Shared,
    index: usize,
    random: u64,
}

impl Stealing {
    pub(crate) fn start(
        program: Program,
        cpus: &CpuSet,
        idlers_sleep: bool,
    ) -> std::result::Result<Self, String> {
        let count = cpus.len();
        let thread = || Thread {
            deque: Deque::new(idlers_sleep),
            results: (0..DEPTH)
                .map(|_| Padded::new(Result { is_there: Latch::new(), value: AtomicU64::new(0) }))
                .collect(),
            is_over: Padded::new(Latch::new()),
        };
        let shared = Arc::new(Shared {
            program,
            threads: (0..count).map(|_| thread()).collect(),
            registry: idlers_sleep.then(|| Registry::new(count)),
        });
        let others = cpus.iter().enumerate().skip(1).map(|(index, cpu)| {
            let shared = Arc::clone(&shared);
            let spec = ThreadSpec {
                name: format!("thread-{index}"),
                affinity: Some([cpu].into_iter().collect()),
                ..ThreadSpec::default()
            };
            let body = move || {
                let mut worker = Worker::new(&shared, index);
                worker.wait_at(0, &shared.threads[index].is_over);
            };
            Sim::spawn(spec, Box::new(body)).map_err(|error| error.to_string())
        });
        let threads = others.collect::<std::result::Result<_, _>>()?;
        Ok(Self { shared, threads })
    }

    /// Computes it all, on the caller's thread and on the others.
    pub(crate) fn run(&self) -> u64 {
        Worker::new(&self.shared, 0).call(self.shared.program.root, 0)
    }

    pub(crate) fn end(self) {
        for (index, thread) in self.shared.threads.iter().enumerate() {
            self.shared.open(&thread.is_over, index);
        }
        self.threads.into_iter().for_each(ThreadHandle::join);
    }
}

impl<'pool> Worker<'pool> {
    fn new(shared: &'pool Shared, index: usize) -> Self {
        Self { shared, index, random: 0x9e37_79b9_7f4a_7c15 ^ (index as u64 + 1) << 17 }
    }

    fn own(&self) -> &'pool Thread {
        &self.shared.threads[self.index]
    }

    /// A call: its left side here, its right one for whoever comes.
    fn call(&mut self, piece: Piece, depth: usize) -> u64 {
        let shared = self.shared;
        let Some([left, right]) = shared.program.split(piece) else {
            return shared.program.leaf(piece);
        };
        if depth + 1 >= DEPTH {
            return shared.program.serial(left) + shared.program.serial(right);
        }
        let own = self.own();
        let result = &own.results[depth];
        result.is_there.close();
        let was_empty = own.deque.is_empty();
        own.deque.push(Job::new(self.index, depth, right));
        if let Some(registry) = &shared.registry {
            registry.pushed(was_empty);
        }
        let one = self.call(left, depth + 1);
        let other = if own.deque.pop().is_some() {
            self.call(right, depth + 1)
        } else {
            self.wait_at(depth + 1, &result.is_there);
            result.value.load(Relaxed)
        };
        one + other
    }

    fn run(&mut self, Job(job): Job, depth: usize) {
        let value = self.call(job as Piece, depth);
        let owner = (job >> 48) as usize;
        let result = &self.shared.threads[owner].results[usize::from((job >> 32) as u16)];
        result.value.store(value, Relaxed);
        self.shared.open(&result.is_there, owner);
    }

    /// Runs what others have, until what it waits for is there.
    fn wait_at(&mut self, depth: usize, latch: &Latch) {
        while !latch.is_open() {
            let registry = self.shared.registry.as_ref();
            let mut search = registry.map(|registry| registry.search(self.index));
            let found = loop {
                if latch.is_open() {
                    break None;
                }
                if let Some(job) = self.steal() {
                    break Some(job);
                }
                match &mut search {
                    Some(search) => search.found_none(latch),
                    None => Sim::spin_hint(),
                }
            };
            if let Some(search) = search {
                search.end();
            }
            if let Some(job) = found {
                self.run(job, depth);
            }
        }
    }

    /// From all others, beginning anywhere.
    fn steal(&mut self) -> Option<Job> {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let count = self.shared.threads.len();
        let first = (self.random % count as u64) as usize;
        (first..count)
            .chain(0..first)
            .filter(|victim| *victim != self.index)
            .find_map(|victim| self.shared.threads[victim].deque.steal())
    }
}

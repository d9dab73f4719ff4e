//! Pools of threads that steal from one another at random, as models: what differs is where their idlers go.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Padded, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::Sim;
use coreshard_topology::CpuSet;

use super::deque::Deque;
use super::job::Job;
use super::latch::Latch;
use super::program::{Piece, Program};

type AtomicU64 = <Sim as Platform>::AtomicU64;

/// Calls that a thread is inside of, at most; a stack would be used up.
const DEPTH: usize = 512;

/// What idlers do, and who tells them.
pub(crate) trait Idling: Send + Sync + 'static {
    /// Whether a deque's two ends lie on one line.
    const ENDS_SHARE_A_LINE: bool;

    fn new(threads: usize) -> Self;
    /// A job was pushed on a deque that was empty, or was not.
    fn pushed(&self, was_empty: bool);
    /// A thread begins to look for work that is not its own.
    fn begins(&self, thread: usize) -> Search;
    /// It has looked everywhere, and there was none. It waits for the latch.
    fn found_none(&self, search: &mut Search, latch: &Latch);
    /// It has found some, or needs none any more.
    fn ends(&self, search: Search);
    /// What a thread waits for has come, which fell asleep.
    fn tell(&self, thread: usize);
}

/// A thread that looks for work.
pub(crate) struct Search {
    pub(crate) thread: usize,
    pub(crate) rounds: u32,
    pub(crate) seen: u64,
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

struct Shared<I> {
    program: Program,
    threads: Vec<Thread>,
    idling: I,
}

/// One of them, whose first thread is the caller's.
pub(crate) struct Stealing<I> {
    shared: Arc<Shared<I>>,
    threads: Vec<<Sim as Platform>::Thread>,
}

struct Worker<'pool, I> {
    shared: &'pool Shared<I>,
    index: usize,
    random: u64,
}

impl<I: Idling> Stealing<I> {
    pub(crate) fn start(program: Program, cpus: &CpuSet) -> std::result::Result<Self, String> {
        let count = cpus.len();
        let thread = || Thread {
            deque: Deque::new(I::ENDS_SHARE_A_LINE),
            results: (0..DEPTH)
                .map(|_| Padded::new(Result { is_there: Latch::new(), value: AtomicU64::new(0) }))
                .collect(),
            is_over: Padded::new(Latch::new()),
        };
        let shared = Arc::new(Shared {
            program,
            threads: (0..count).map(|_| thread()).collect(),
            idling: I::new(count),
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
            if thread.is_over.open() {
                self.shared.idling.tell(index);
            }
        }
        self.threads.into_iter().for_each(ThreadHandle::join);
    }
}

impl<'pool, I: Idling> Worker<'pool, I> {
    fn new(shared: &'pool Shared<I>, index: usize) -> Self {
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
        shared.idling.pushed(was_empty);
        let one = self.call(left, depth + 1);
        let other = if own.deque.pop().is_some() {
            self.call(right, depth + 1)
        } else {
            self.wait_at(depth + 1, &result.is_there);
            result.value.load(Relaxed)
        };
        one + other
    }

    fn run(&mut self, job: Job, depth: usize) {
        let value = self.call(job.piece(), depth);
        let result = &self.shared.threads[job.owner()].results[job.depth()];
        result.value.store(value, Relaxed);
        if result.is_there.open() {
            self.shared.idling.tell(job.owner());
        }
    }

    /// Runs what others have, until what it waits for is there.
    fn wait_at(&mut self, depth: usize, latch: &Latch) {
        while !latch.is_open() {
            let mut search = self.shared.idling.begins(self.index);
            let found = loop {
                if latch.is_open() {
                    break None;
                }
                if let Some(job) = self.steal() {
                    break Some(job);
                }
                self.shared.idling.found_none(&mut search, latch);
            };
            self.shared.idling.ends(search);
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

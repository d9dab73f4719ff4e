//! rayon-core 1.13: threads with deques that steal at random, an injector for jobs from outside, and the sleep protocol of
//! [`sleep`](super::sleep). Loops are cut by rayon's adaptive splitter.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};

use coreshard_platform::{AtomicInt, Padded, Platform, ThreadHandle};
use coreshard_sim::Sim;
use coreshard_topology::CpuSet;

use super::deque::Deque;
use super::injector::Injector;
use super::sleep::{Latch, Sleep};
use super::{Threads, start_threads};
use crate::body::Body;
use crate::executor::{Executor, Items};
use crate::program::{Piece, Program};

type AtomicU32 = <Sim as Platform>::AtomicU32;

/// Calls that a thread is inside of, at most.
const DEPTH: usize = 512;

/// A job in a word.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// A half of a join: its owner's latch at `depth`.
    Half { owner: usize, depth: usize, work: Work },
    /// The root of a load. A thread outside waits for it.
    Root(Work),
    /// An item of the burst.
    Item,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Call(Piece),
    Elements { start: u32, len: u32, splits: u32 },
}

const OWNER_BITS: u32 = 9;
const DEPTH_BITS: u32 = 9;
const WORK_BITS: u32 = 37;
const FIELD_BITS: u32 = 13;

fn bits(word: u64, shift: u32, count: u32) -> u64 {
    word >> shift & ((1 << count) - 1)
}

impl Work {
    fn to_bits(self) -> u64 {
        match self {
            Self::Call(piece) => piece << 1,
            Self::Elements { start, len, splits } => {
                let fields = u64::from(splits) << (2 * FIELD_BITS)
                    | u64::from(len) << FIELD_BITS
                    | u64::from(start);
                fields << 1 | 1
            }
        }
    }

    fn of_bits(word: u64) -> Self {
        if word & 1 == 0 {
            return Self::Call(word >> 1);
        }
        let field = |at| bits(word, 1 + at * FIELD_BITS, FIELD_BITS) as u32;
        Self::Elements {
            start: field(0),
            len: field(1),
            splits: bits(word, 1 + 2 * FIELD_BITS, 10) as u32,
        }
    }
}

impl Job {
    fn to_bits(self) -> u64 {
        match self {
            Self::Item => 0,
            Self::Root(work) => work.to_bits() << 2 | 1,
            Self::Half { owner, depth, work } => {
                let place = (owner as u64) << DEPTH_BITS | depth as u64;
                (place << WORK_BITS | work.to_bits()) << 2 | 2
            }
        }
    }

    fn of_bits(word: u64) -> Self {
        let rest = word >> 2;
        match word & 3 {
            0 => Self::Item,
            1 => Self::Root(Work::of_bits(rest)),
            _ => Self::Half {
                owner: bits(rest, WORK_BITS + DEPTH_BITS, OWNER_BITS) as usize,
                depth: bits(rest, WORK_BITS, DEPTH_BITS) as usize,
                work: Work::of_bits(bits(rest, 0, WORK_BITS)),
            },
        }
    }
}

struct Thread {
    deque: Deque,
    /// By depth, each on a separate line, as on a stack.
    latches: Vec<Padded<Latch>>,
    end: Padded<Latch>,
}

/// The work of a load's jobs; the host's memory.
#[derive(Default)]
struct Current {
    program: Option<Program>,
    body: Option<Body>,
    items: Option<Arc<Items>>,
}

struct Shared {
    threads: Vec<Thread>,
    injector: Injector,
    sleep: Sleep,
    root_is_done: AtomicU32,
    current: Mutex<Current>,
}

pub(crate) struct Rayon {
    shared: Arc<Shared>,
    threads: Mutex<Threads>,
}

impl Rayon {
    pub(crate) fn start(cpus: &CpuSet) -> Self {
        let thread = || Thread {
            deque: Deque::new(true),
            latches: (0..DEPTH).map(|_| Padded::new(Latch::new())).collect(),
            end: Padded::new(Latch::new()),
        };
        let shared = Arc::new(Shared {
            threads: cpus.iter().map(|_| thread()).collect(),
            injector: Injector::new(),
            sleep: Sleep::new(cpus.len()),
            root_is_done: AtomicU32::new(0),
            current: Mutex::default(),
        });
        let of_threads = Arc::clone(&shared);
        let threads = start_threads(cpus, move |index| {
            let mut worker = Worker::new(&of_threads, index);
            worker.wait_at(0, &of_threads.threads[index].end);
        });
        Self { shared, threads: Mutex::new(threads) }
    }

    fn set(&self, change: impl FnOnce(&mut Current)) {
        change(&mut self.shared.current.lock().expect("no thread panics"));
    }

    fn inject(&self, job: Job) {
        let was_empty = self.shared.injector.push(job.to_bits());
        self.shared.sleep.new_jobs(was_empty);
    }

    /// The caller sleeps until the root has finished.
    fn install(&self, work: Work) {
        let done = &self.shared.root_is_done;
        done.store(0, Relaxed);
        self.inject(Job::Root(work));
        while done.load(Acquire) == 0 {
            Sim::wait(done, 0, None);
        }
    }
}

impl Executor for Rayon {
    fn submit(&self, items: &Arc<Items>) {
        self.set(|current| current.items = Some(Arc::clone(items)));
        self.inject(Job::Item);
    }

    fn run_loop(&self, elements: u32, body: &Body) -> bool {
        self.set(|current| current.body = Some(body.clone()));
        let splits = self.shared.threads.len() as u32;
        self.install(Work::Elements { start: 0, len: elements, splits });
        true
    }

    fn run_program(&self, program: Program) -> bool {
        self.set(|current| current.program = Some(program));
        self.install(Work::Call(program.root));
        true
    }

    fn end(&self) {
        for (index, thread) in self.shared.threads.iter().enumerate() {
            self.shared.open(&thread.end, index);
        }
        let threads = std::mem::take(&mut *self.threads.lock().expect("no thread panics"));
        threads.into_iter().for_each(ThreadHandle::join);
    }
}

impl Shared {
    /// Opens a latch, and wakes the thread if it sleeps there.
    fn open(&self, latch: &Latch, thread: usize) {
        if latch.open() {
            self.sleep.wake(thread);
        }
    }

    fn program(&self) -> Program {
        self.current.lock().expect("no thread panics").program.expect("a load of forks")
    }

    fn body(&self) -> Body {
        self.current.lock().expect("no thread panics").body.clone().expect("a loop")
    }

    fn items(&self) -> Arc<Items> {
        self.current.lock().expect("no thread panics").items.clone().expect("a load of items")
    }
}

struct Worker<'pool> {
    shared: &'pool Shared,
    index: usize,
    random: u64,
}

impl<'pool> Worker<'pool> {
    fn new(shared: &'pool Shared, index: usize) -> Self {
        Self { shared, index, random: 0x9e37_79b9_7f4a_7c15 ^ (index as u64 + 1) << 17 }
    }

    fn own(&self) -> &'pool Thread {
        &self.shared.threads[self.index]
    }

    fn work(&mut self, work: Work, depth: usize, is_stolen: bool) {
        let halves = match work {
            Work::Call(piece) => {
                self.shared.program().split(piece).map(|halves| halves.map(Work::Call))
            }
            Work::Elements { start, len, splits } => self.cut(start, len, splits, is_stolen),
        };
        match (halves, work) {
            (Some(halves), _) => self.join(halves, depth),
            (None, Work::Elements { start, len, .. }) => self.shared.body().run(start..start + len),
            (None, Work::Call(_)) => {}
        }
    }

    /// rayon's splitter: as many splits as threads, again for a stolen piece.
    fn cut(&self, start: u32, len: u32, splits: u32, is_stolen: bool) -> Option<[Work; 2]> {
        let threads = self.shared.threads.len() as u32;
        let splits = if is_stolen { threads.max(splits / 2) } else { splits / 2 };
        (len > 1 && splits > 0).then(|| {
            let half = len / 2;
            [(start, half), (start + half, len - half)].map(|(start, len)| Work::Elements {
                start,
                len,
                splits,
            })
        })
    }

    fn join(&mut self, [left, right]: [Work; 2], depth: usize) {
        assert!(depth + 1 < DEPTH, "loads are not so deep");
        let own = self.own();
        let latch = &own.latches[depth];
        latch.close();
        let was_empty = own.deque.is_empty();
        own.deque.push(Job::Half { owner: self.index, depth, work: right }.to_bits());
        self.shared.sleep.new_jobs(was_empty);
        self.work(left, depth + 1, false);
        if own.deque.pop().is_some() {
            self.work(right, depth + 1, false);
        } else {
            self.wait_at(depth + 1, latch);
        }
    }

    fn run(&mut self, job: Job, depth: usize) {
        match job {
            Job::Item => self.shared.items().run(),
            Job::Root(work) => {
                self.work(work, depth, false);
                self.shared.root_is_done.store(1, Release);
                Sim::wake_one(&raw const self.shared.root_is_done);
            }
            Job::Half { owner, depth: at, work } => {
                self.work(work, depth, true);
                self.shared.open(&self.shared.threads[owner].latches[at], owner);
            }
        }
    }

    /// Runs jobs of other threads until the latch is open.
    fn wait_at(&mut self, depth: usize, latch: &Latch) {
        while !latch.is_open() {
            let mut search = self.shared.sleep.search(self.index);
            let found = loop {
                if latch.is_open() {
                    break None;
                }
                if let Some(job) = self.find() {
                    break Some(job);
                }
                search.found_none(latch, &self.shared.injector);
            };
            search.end();
            if let Some(job) = found {
                self.run(job, depth);
            }
        }
    }

    /// Takes a job from the other threads, starting at a random one, or else from the injector.
    fn find(&mut self) -> Option<Job> {
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
            .or_else(|| self.shared.injector.pop())
            .map(Job::of_bits)
    }
}

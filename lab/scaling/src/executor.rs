//! The interface of the executors for the loads, and the timing of a load.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::Sim;

use crate::body::{Body, Grid};
use crate::load::{Load, SPAWNED};
use crate::program::Program;

/// Items of a burst or of spawners. The words are the host's: looking at them costs no virtual time.
#[derive(Debug)]
pub(crate) struct Items {
    count: u32,
    each: Duration,
    begun: AtomicU64,
    finished: AtomicU64,
    last_begun_ns: AtomicU64,
    last_finished_ns: AtomicU64,
    /// The word in simulated memory that their submitter waits on.
    round: Option<Round>,
}

/// A thread that waits until its items have run.
#[derive(Debug)]
struct Round {
    items: u32,
    finished: <Sim as Platform>::AtomicU32,
    is_asleep: <Sim as Platform>::AtomicU32,
}

impl Round {
    fn finish_one(&self) {
        let finished = self.finished.fetch_add(1, SeqCst) + 1;
        if finished == self.items && self.is_asleep.load(SeqCst) != 0 {
            Sim::wake_one(&raw const self.finished);
        }
    }

    /// Spins for some microseconds, then sleeps.
    fn wait(&self) {
        const LOOKS: u32 = 256;
        let is_over = || self.finished.load(Acquire) == self.items;
        if Sim::watch(LOOKS, is_over) {
            return;
        }
        self.is_asleep.store(1, SeqCst);
        loop {
            let finished = self.finished.load(SeqCst);
            if finished == self.items {
                return;
            }
            Sim::wait(&self.finished, finished, None);
        }
    }
}

impl Items {
    pub(crate) fn new(count: u32, each: Duration) -> Arc<Self> {
        let word = || AtomicU64::new(0);
        Arc::new(Self {
            count,
            each,
            begun: word(),
            finished: word(),
            last_begun_ns: word(),
            last_finished_ns: word(),
            round: None,
        })
    }

    fn of_round(items: u32) -> Arc<Self> {
        let word = || <Sim as Platform>::AtomicU32::new(0);
        let round = Some(Round { items, finished: word(), is_asleep: word() });
        let new = Arc::into_inner(Self::new(items, SPAWNED)).expect("it is new");
        Arc::new(Self { round, ..new })
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn each(&self) -> Duration {
        self.each
    }

    /// Runs one item.
    pub(crate) fn run(&self) {
        self.begun.fetch_add(1, Relaxed);
        self.last_begun_ns.fetch_max(Sim::virtual_time().as_nanos() as u64, Relaxed);
        Sim::compute(self.each);
        self.last_finished_ns.fetch_max(Sim::virtual_time().as_nanos() as u64, Relaxed);
        self.finished.fetch_add(1, Relaxed);
        if let Some(round) = &self.round {
            round.finish_one();
        }
    }

    /// Waits asleep, so that the executor may have this CPU.
    fn wait(&self) {
        while self.finished.load(Relaxed) < u64::from(self.count) {
            Sim::sleep(Duration::from_micros(200));
        }
        assert_eq!(self.begun.load(Relaxed), u64::from(self.count), "each item runs once");
    }
}

/// An executor on the simulated machine, with its threads started.
pub(crate) trait Executor: Send + Sync {
    /// Submits one item from a thread outside.
    fn submit(&self, items: &Arc<Items>);

    /// Runs a parallel loop, called from a thread outside. False if the executor has no loops.
    fn run_loop(&self, elements: u32, body: &Body) -> bool {
        let _ = (elements, body);
        false
    }

    /// Runs a tree of joins, called from a thread outside. False if the executor has no joins.
    fn run_program(&self, program: Program) -> bool {
        let _ = program;
        false
    }

    /// Ends the threads.
    fn end(&self);
}

const SILENCE: Duration = Duration::from_millis(10);

/// Runs `load` `runs` times, each after a silence, and returns how long each run took: until the last item of a burst began, and
/// until everything finished for all other loads. `None` if the executor cannot run it.
pub(crate) fn time(executor: &Arc<dyn Executor>, load: Load, runs: usize) -> Option<Vec<Duration>> {
    let spawners = match load {
        Load::Spawn { tasks, spawners } => Some(Spawners::start(executor, tasks, spawners)),
        _ => None,
    };
    let times = (0..runs).map(|_| time_once(executor, load, spawners.as_ref())).collect();
    if let Some(spawners) = spawners {
        spawners.end();
    }
    times
}

fn time_once(
    executor: &Arc<dyn Executor>,
    load: Load,
    spawners: Option<&Spawners>,
) -> Option<Duration> {
    Sim::sleep(SILENCE);
    let began = Sim::virtual_time();
    let ended = match load {
        Load::Loop { elements, each } => {
            executor.run_loop(elements, &Body::Compute(each)).then(Sim::virtual_time)?
        }
        Load::Stencil { rows, passes } => {
            let body = Body::Update(Grid::new(rows));
            let began = Sim::virtual_time();
            let ran = (0..passes).all(|_| executor.run_loop(rows, &body));
            return ran.then(|| Sim::virtual_time() - began);
        }
        Load::Fork(program) => executor.run_program(program).then(Sim::virtual_time)?,
        Load::Burst { items: count, each } => {
            let items = Items::new(count, each);
            (0..count).for_each(|_| executor.submit(&items));
            items.wait();
            Duration::from_nanos(items.last_begun_ns.load(Relaxed))
        }
        Load::PingPong { rounds, items: count } => {
            for _ in 0..rounds {
                let items = Items::of_round(count);
                (0..count).for_each(|_| executor.submit(&items));
                if let Some(round) = &items.round {
                    round.wait();
                }
            }
            Sim::virtual_time()
        }
        Load::Spawn { .. } => {
            let items = spawners?.go();
            items.wait();
            Duration::from_nanos(items.last_finished_ns.load(Relaxed))
        }
    };
    Some(ended - began)
}

/// Threads outside that submit items when they are told to.
struct Spawners {
    tasks: u32,
    shared: Arc<Start>,
    threads: Vec<<Sim as Platform>::Thread>,
}

struct Start {
    /// Counts runs; the last one is [`END`].
    word: <Sim as Platform>::AtomicU32,
    items: Mutex<Arc<Items>>,
}

const END: u32 = u32::MAX;

impl Spawners {
    fn start(executor: &Arc<dyn Executor>, tasks: u32, spawners: u32) -> Self {
        let shared = Arc::new(Start {
            word: <Sim as Platform>::AtomicU32::new(0),
            items: Mutex::new(Items::new(tasks, SPAWNED)),
        });
        let threads = (0..spawners)
            .map(|at| {
                let (shared, executor) = (Arc::clone(&shared), Arc::clone(executor));
                let own = tasks / spawners + u32::from(at < tasks % spawners);
                let body = move || shared.submit_when_told(&executor, own);
                let spec = ThreadSpec { name: format!("spawner-{at}"), ..ThreadSpec::default() };
                Sim::spawn(spec, Box::new(body)).expect("the machine has room for the thread")
            })
            .collect();
        Self { tasks, shared, threads }
    }

    fn go(&self) -> Arc<Items> {
        let items = Items::new(self.tasks, SPAWNED);
        *self.shared.items.lock().expect("no thread panics") = Arc::clone(&items);
        self.shared.word.fetch_add(1, Release);
        Sim::wake_all(&raw const self.shared.word);
        items
    }

    fn end(self) {
        self.shared.word.store(END, Release);
        Sim::wake_all(&raw const self.shared.word);
        self.threads.into_iter().for_each(ThreadHandle::join);
    }
}

impl Start {
    fn submit_when_told(&self, executor: &Arc<dyn Executor>, tasks: u32) {
        let mut seen = 0;
        loop {
            while self.word.load(Acquire) == seen {
                Sim::wait(&self.word, seen, None);
            }
            seen = self.word.load(Acquire);
            if seen == END {
                return;
            }
            let items = Arc::clone(&self.items.lock().expect("no thread panics"));
            (0..tasks).for_each(|_| executor.submit(&items));
        }
    }
}

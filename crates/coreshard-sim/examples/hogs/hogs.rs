//! Hogs of each kind, and how long the items of another queue wait beside them. Shared by an example and a
//! test.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, ThreadHandle, ThreadSpec};
use coreshard_topology::Topology;
use coreshard_workqueue::{Runtime, Work, Workqueue, join};

/// The work that occupies the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hog {
    /// Parallel loops of 1 ms pieces.
    Loops,
    /// Calls of `join` whose halves compute.
    Joins,
    /// Computing items, four for each CPU.
    Computing,
    /// Like `Computing`, each in its own queue.
    Queues,
    /// Items of one queue, two for each CPU, that spin until the last one has begun.
    Chain,
    /// Reusable items that compute for 1 ms and queue themselves again.
    Requeuing,
    /// Items that sleep without announcing it, four for each CPU.
    Blocking,
}

impl Hog {
    pub(crate) const ALL: [Self; 7] = [
        Self::Loops,
        Self::Joins,
        Self::Computing,
        Self::Queues,
        Self::Chain,
        Self::Requeuing,
        Self::Blocking,
    ];
}

const PIECE: Duration = Duration::from_millis(1);
/// Longer than the monitor needs to notice the hogs.
const HEAD_START: Duration = Duration::from_millis(100);
const BETWEEN_VICTIMS: Duration = Duration::from_millis(10);

struct Shared<P: Platform> {
    stops: P::AtomicU32,
    /// Items of a chain that have begun.
    begun: P::AtomicU64,
    compute: fn(Duration),
}

impl<P: Platform> Shared<P> {
    fn goes_on(&self) -> bool {
        self.stops.load(Acquire) == 0
    }

    fn hog(&self) {
        while self.goes_on() {
            (self.compute)(PIECE);
        }
    }
}

/// A machine to measure on: its topology, a function that computes for a time, and CPUs for the thread that
/// queues the victims.
pub(crate) struct Bench {
    pub(crate) topology: Topology,
    pub(crate) cpus: usize,
    pub(crate) compute: fn(Duration),
}

/// The started hogs, and the threads that continue them.
struct Started<P: Platform> {
    queues: Vec<Workqueue<P>>,
    threads: Vec<P::Thread>,
    works: Vec<Work<P>>,
}

fn start<P: Platform>(
    runtime: &Runtime<P>,
    bench: &Bench,
    hog: Hog,
    shared: &Arc<Shared<P>>,
) -> Started<P> {
    let new_queue = |name: String| runtime.workqueue().name(name).build().expect("a queue");
    let hogs = new_queue("hogs".into());
    let mut started =
        Started { queues: vec![hogs.clone()], threads: Vec::new(), works: Vec::new() };
    let many = 4 * bench.cpus;
    let on_cpu = |queue: &Workqueue<P>, number: usize, body: fn(&Shared<P>)| {
        let cpu = bench.topology.cpus()[number % bench.cpus].id;
        let shared = Arc::clone(shared);
        queue.queue_on(cpu, move || body(&shared)).expect("the queue is open");
    };
    let thread = |body: fn(&Arc<Shared<P>>, &Workqueue<P>)| {
        let (shared, queue) = (Arc::clone(shared), hogs.clone());
        let body = Box::new(move || body(&shared, &queue));
        P::spawn(ThreadSpec::default(), body).expect("a thread")
    };
    match hog {
        Hog::Loops => started.threads.extend((0..bench.cpus).map(|_| {
            thread(|shared, queue| {
                let shared = Arc::clone(shared);
                let piece = move |_| {
                    if shared.goes_on() {
                        (shared.compute)(PIECE);
                    }
                };
                queue.for_each_range(0..1 << 20, piece).expect("the queue is open");
            })
        })),
        Hog::Joins => started.threads.extend((0..bench.cpus).map(|_| {
            thread(|shared, queue| {
                let shared = Arc::clone(shared);
                let both = move || join::<P, _, _>(|| shared.hog(), || shared.hog());
                queue.install(both).expect("the queue is open");
            })
        })),
        Hog::Computing => (0..many).for_each(|number| on_cpu(&hogs, number, Shared::hog)),
        Hog::Queues => started.queues.extend((0..many).map(|number| {
            let queue = new_queue(format!("hogs {number}"));
            on_cpu(&queue, number, Shared::hog);
            queue
        })),
        Hog::Chain => {
            let items = 2 * bench.cpus as u64;
            (0..items).for_each(|_| {
                let shared = Arc::clone(shared);
                let body = move || {
                    shared.begun.fetch_add(1, AcqRel);
                    while shared.goes_on() && shared.begun.load(Acquire) < items {
                        (shared.compute)(PIECE);
                    }
                };
                hogs.queue(body).expect("the queue is open");
            });
        }
        Hog::Requeuing => started.works.extend((0..many).map(|_| {
            let (shared, queue) = (Arc::clone(shared), hogs.clone());
            let work = Work::<P>::new(move |work| {
                (shared.compute)(PIECE);
                if shared.goes_on() {
                    work.queue(&queue).expect("the queue is open");
                }
            });
            work.queue(&hogs).expect("the queue is open");
            work
        })),
        Hog::Blocking => (0..many).for_each(|number| {
            on_cpu(&hogs, number, |shared| {
                while shared.goes_on() {
                    P::sleep(PIECE);
                }
            });
        }),
    }
    started
}

/// Starts the hogs, then queues `victims` items of 1 ms on another queue, one every 10 ms. Returns how long
/// each waited to begin, in nanoseconds, sorted. An item that has not begun after a second counts with its
/// wait so far.
pub(crate) fn waits<P: Platform>(bench: &Bench, hog: Hog, victims: usize) -> Vec<u64> {
    let runtime = Runtime::<P>::builder(bench.topology.clone()).build().expect("a runtime");
    let compute = bench.compute;
    let (stops, begun) = (P::AtomicU32::new(0), P::AtomicU64::new(0));
    let shared = Arc::new(Shared::<P> { stops, begun, compute });
    let started = start(&runtime, bench, hog, &shared);
    P::sleep(HEAD_START);
    // Dropped after the hogs have stopped, since the drop waits for its items.
    let queue = runtime.workqueue().name("victims").build().expect("a queue");
    let waits = wait_beside::<P>(&queue, victims, compute);
    shared.stops.store(1, Release);
    started.threads.into_iter().for_each(ThreadHandle::join);
    drop(started.works);
    for queue in started.queues {
        queue.shutdown(Duration::from_secs(60)).expect("the hogs end");
    }
    waits
}

fn wait_beside<P: Platform>(
    queue: &Workqueue<P>,
    victims: usize,
    compute: fn(Duration),
) -> Vec<u64> {
    let began: Arc<Vec<P::AtomicU64>> =
        Arc::new((0..victims).map(|_| P::AtomicU64::new(0)).collect());
    let queued: Vec<_> = (0..victims)
        .map(|victim| {
            let (began, since) = (Arc::clone(&began), P::now());
            let body = move || {
                began[victim].store(P::now().ns_since(since).max(1), Relaxed);
                compute(PIECE);
            };
            queue.queue(body).expect("the queue is open");
            P::sleep(BETWEEN_VICTIMS);
            since
        })
        .collect();
    P::sleep(Duration::from_secs(1));
    let now = P::now();
    let wait = |(began, since): (&P::AtomicU64, _)| match began.load(Relaxed) {
        0 => now.ns_since(since),
        wait => wait,
    };
    let mut waits: Vec<u64> = began.iter().zip(queued).map(wait).collect();
    waits.sort_unstable();
    waits
}

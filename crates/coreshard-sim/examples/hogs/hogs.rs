//! Hogs of each kind, and how long the items of another queue wait beside them. Shared by an example and a test.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Platform, ThreadHandle, ThreadSpec};
use coreshard_topology::Topology;
use coreshard_workqueue::{Runtime, Work, Workqueue, join};

/// What occupies the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hog {
    /// Parallel loops, each of pieces of 1 ms.
    Loops,
    /// Calls of `join` whose halves compute.
    Joins,
    /// Items that compute, four for each CPU.
    Computing,
    /// As `Computing`, each in a queue of its own.
    Queues,
    /// Items of one queue, two for each CPU, that spin until the last one has begun.
    Chain,
    /// Reusable items that compute for 1 ms and queue themselves again.
    Requeuing,
    /// Items that sleep without saying so, four for each CPU.
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
}

impl<P: Platform> Shared<P> {
    fn goes_on(&self) -> bool {
        self.stops.load(Acquire) == 0
    }

    fn hog(&self, compute: fn(Duration)) {
        while self.goes_on() {
            compute(PIECE);
        }
    }
}

/// A machine to measure on: its topology, how to compute for a time, and CPUs for the thread that queues the victims.
pub(crate) struct Bench {
    pub(crate) topology: Topology,
    pub(crate) cpus: usize,
    pub(crate) compute: fn(Duration),
}

/// Starts the hogs, then queues `victims` items of 1 ms on another queue, one each 10 ms. Returns how long each waited to
/// begin, in nanoseconds, sorted. One that has not begun after a second counts as long as it waited.
pub(crate) fn waits<P: Platform>(bench: &Bench, hog: Hog, victims: usize) -> Vec<u64> {
    let runtime = Runtime::<P>::builder(bench.topology.clone()).build().expect("a runtime");
    let compute = bench.compute;
    let shared = Arc::new(Shared::<P> { stops: P::AtomicU32::new(0), begun: P::AtomicU64::new(0) });
    let hogs = runtime.workqueue().name("hogs").build().expect("a queue");
    let mut queues = vec![hogs.clone()];
    let mut threads = Vec::new();
    let mut works = Vec::new();
    let thread =
        |body: Box<dyn FnOnce() + Send>| P::spawn(ThreadSpec::default(), body).expect("a thread");
    let many = 4 * bench.cpus;
    let cpu = |number: usize| bench.topology.cpus()[number % bench.cpus].id;
    match hog {
        Hog::Loops => threads.extend((0..bench.cpus).map(|_| {
            let (shared, queue) = (Arc::clone(&shared), hogs.clone());
            let piece = move |_| {
                if shared.goes_on() {
                    compute(PIECE);
                }
            };
            thread(Box::new(move || {
                queue.for_each_range(0..1 << 20, piece).expect("the queue is open")
            }))
        })),
        Hog::Joins => threads.extend((0..bench.cpus).map(|_| {
            let (shared, queue) = (Arc::clone(&shared), hogs.clone());
            let both = move || {
                join::<P, _, _>(|| shared.hog(compute), || shared.hog(compute));
            };
            thread(Box::new(move || queue.install(both).expect("the queue is open")))
        })),
        Hog::Computing => (0..many).for_each(|number| {
            let shared = Arc::clone(&shared);
            hogs.queue_on(cpu(number), move || shared.hog(compute)).expect("the queue is open");
        }),
        Hog::Queues => (0..many).for_each(|number| {
            let queue =
                runtime.workqueue().name(format!("hogs {number}")).build().expect("a queue");
            let shared = Arc::clone(&shared);
            queue.queue_on(cpu(number), move || shared.hog(compute)).expect("the queue is open");
            queues.push(queue);
        }),
        Hog::Chain => {
            let items = 2 * bench.cpus as u64;
            (0..items).for_each(|_| {
                let shared = Arc::clone(&shared);
                let body = move || {
                    shared.begun.fetch_add(1, AcqRel);
                    while shared.goes_on() && shared.begun.load(Acquire) < items {
                        compute(PIECE);
                    }
                };
                hogs.queue(body).expect("the queue is open");
            });
        }
        Hog::Requeuing => (0..many).for_each(|_| {
            let (shared, queue) = (Arc::clone(&shared), hogs.clone());
            let work = Work::<P>::new(move |work| {
                compute(PIECE);
                if shared.goes_on() {
                    work.queue(&queue).expect("the queue is open");
                }
            });
            work.queue(&hogs).expect("the queue is open");
            works.push(work);
        }),
        Hog::Blocking => (0..many).for_each(|number| {
            let shared = Arc::clone(&shared);
            let body = move || {
                while shared.goes_on() {
                    P::sleep(PIECE);
                }
            };
            hogs.queue_on(cpu(number), body).expect("the queue is open");
        }),
    }
    P::sleep(HEAD_START);
    // It is dropped after the hogs have stopped: that waits for its items.
    let queue = runtime.workqueue().name("victims").build().expect("a queue");
    let waits = wait_beside::<P>(&queue, victims, compute);
    shared.stops.store(1, Release);
    threads.into_iter().for_each(ThreadHandle::join);
    drop(works);
    for queue in queues {
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
    let mut waits: Vec<u64> = began
        .iter()
        .zip(queued)
        .map(|(began, since)| match began.load(Relaxed) {
            0 => now.ns_since(since),
            wait => wait,
        })
        .collect();
    waits.sort_unstable();
    waits
}

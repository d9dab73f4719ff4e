//! Coreshard itself, as its documentation tells: a workqueue with the defaults.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::{ForkJoin, ParallelFor, Spawn, Start};
use crate::measure::Padded;

pub(crate) struct Coreshard {
    pub(crate) queue: coreshard::Workqueue,
}

impl Start for Coreshard {
    /// The workers follow the CPUs that the process is bound to.
    fn start(_workers: usize) -> Result<Self, String> {
        let builder = coreshard::workqueue().map_err(|error| error.to_string())?;
        let queue = builder.name("peers").build().map_err(|error| error.to_string())?;
        Ok(Self { queue })
    }
}

impl Spawn for Coreshard {
    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.queue.queue(work).expect("the queue is open");
    }

    #[inline]
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.queue.queue(|| coreshard::blocking(work)).expect("the queue is open");
    }
}

/// Sums of many threads: each adds to its own line.
#[derive(Default)]
struct Sums {
    lines: [Padded<AtomicU64>; 16],
}

impl Sums {
    fn add(&self, value: u64) {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static LINE: usize = THREADS.fetch_add(1, Relaxed);
        }
        let line = LINE.with(|line| line % self.lines.len());
        self.lines[line].0.fetch_add(value, Relaxed);
    }

    fn total(&self) -> u64 {
        self.lines.iter().map(|line| line.0.load(Relaxed)).sum()
    }
}

type Scope<'scope, 'env> = coreshard::WorkScope<'scope, 'env>;

impl ForkJoin for Coreshard {
    const NOTE: Option<&'static str> = Some(
        "has no join: each fork queues one half as an item of one scope, and goes on with the other",
    );

    fn fib(&self, n: u32) -> u64 {
        fn fib<'scope>(scope: &'scope Scope<'scope, '_>, sums: &'scope Sums, mut n: u32) {
            while n >= 2 {
                scope.queue(move || fib(scope, sums, n - 1)).expect("the queue is open");
                n -= 2;
            }
            sums.add(n.into());
        }
        let sums = Sums::default();
        self.queue.scope(|scope| fib(scope, &sums, n));
        sums.total()
    }

    fn sum_of_tree(&self, levels: u32) -> u64 {
        fn sum<'scope>(
            scope: &'scope Scope<'scope, '_>,
            sums: &'scope Sums,
            mut levels: u32,
            place: u64,
        ) {
            while levels > 1 {
                levels -= 1;
                let right = place + (1 << (levels - 1));
                scope.queue(move || sum(scope, sums, levels, right)).expect("the queue is open");
            }
            sums.add(place);
        }
        let sums = Sums::default();
        self.queue.scope(|scope| sum(scope, &sums, levels, 0));
        sums.total()
    }
}

impl ParallelFor for Coreshard {
    const NOTE: Option<&'static str> =
        Some("has no parallel-for: the slice's 128 chunks are items of one scope");

    fn for_each(&self, elements: &mut [u64], body: &(impl Fn(&mut u64) + Sync)) {
        let chunk = elements.len().div_ceil(128).max(1);
        self.queue.scope(|scope| {
            for chunk in elements.chunks_mut(chunk) {
                let work = move || chunk.iter_mut().for_each(body);
                scope.queue(work).expect("the queue is open");
            }
        });
    }
}

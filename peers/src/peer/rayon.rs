//! rayon: a separate pool with an explicit size.

use rayon::prelude::*;

use super::{ForkJoin, ParallelFor, Spawn, Start};

pub(crate) struct Rayon {
    pub(crate) pool: rayon::ThreadPool,
}

impl Start for Rayon {
    fn start(workers: usize) -> Result<Self, String> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
        Ok(Self { pool: pool.map_err(|error| error.to_string())? })
    }
}

impl Spawn for Rayon {
    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.pool.spawn(work);
    }
}

impl ForkJoin for Rayon {
    fn fib(&self, n: u32) -> u64 {
        fn fib(n: u32) -> u64 {
            if n < 2 {
                return n.into();
            }
            let (a, b) = rayon::join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
        self.pool.install(|| fib(n))
    }

    fn sum_of_tree(&self, levels: u32) -> u64 {
        fn sum(levels: u32, place: u64) -> u64 {
            if levels == 1 {
                return place;
            }
            let half = 1 << (levels - 2);
            let (a, b) = rayon::join(|| sum(levels - 1, place), || sum(levels - 1, place + half));
            a + b
        }
        self.pool.install(|| sum(levels, 0))
    }
}

impl ParallelFor for Rayon {
    fn for_each(&self, elements: &mut [u64], body: &(impl Fn(&mut u64) + Sync)) {
        self.pool.install(|| elements.par_iter_mut().for_each(body));
    }
}

//! chili: forks cost next to nothing until a heartbeat finds an idle worker. It takes no work from
//! outside, so it meets only the workloads that join.

use std::num::NonZero;

use chili::{Config, Scope, ThreadPool};

use super::{ForkJoin, ParallelFor, Start};

/// Elements below which a slice is not divided further.
const FEW: usize = 1024;

pub(crate) struct Chili {
    pool: ThreadPool,
}

impl Start for Chili {
    fn start(workers: usize) -> Result<Self, String> {
        // The caller's thread is one of them.
        let config = Config { thread_count: NonZero::new(workers), ..Config::default() };
        Ok(Self { pool: ThreadPool::with_config(config) })
    }
}

impl ForkJoin for Chili {
    fn fib(&self, n: u32) -> u64 {
        fn fib(scope: &mut Scope<'_>, n: u32) -> u64 {
            if n < 2 {
                return n.into();
            }
            let (a, b) = scope.join(|scope| fib(scope, n - 1), |scope| fib(scope, n - 2));
            a + b
        }
        fib(&mut self.pool.scope(), n)
    }

    fn sum_of_tree(&self, levels: u32) -> u64 {
        fn sum(scope: &mut Scope<'_>, levels: u32, place: u64) -> u64 {
            if levels == 1 {
                return place;
            }
            let half = 1 << (levels - 2);
            let (a, b) = scope.join(
                |scope| sum(scope, levels - 1, place),
                |scope| sum(scope, levels - 1, place + half),
            );
            a + b
        }
        sum(&mut self.pool.scope(), levels, 0)
    }
}

impl ParallelFor for Chili {
    const NOTE: Option<&'static str> = Some("halves the slice by join, down to 1,024 elements");

    fn for_each(&self, elements: &mut [u64], body: &(impl Fn(&mut u64) + Sync)) {
        fn halve(scope: &mut Scope<'_>, elements: &mut [u64], body: &(impl Fn(&mut u64) + Sync)) {
            if elements.len() <= FEW {
                return elements.iter_mut().for_each(body);
            }
            let (left, right) = elements.split_at_mut(elements.len() / 2);
            scope.join(|scope| halve(scope, left, body), |scope| halve(scope, right, body));
        }
        halve(&mut self.pool.scope(), elements, body);
    }
}

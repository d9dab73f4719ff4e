//! Coreshard itself, as its documentation recommends: a workqueue with the defaults.

use super::{ForkJoin, ParallelFor, Spawn, SpawnFuture, Start};

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

impl SpawnFuture for Coreshard {
    fn spawn_future<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        self.queue.spawn(future).expect("the queue is open")
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        coreshard::yield_now()
    }
}

impl ForkJoin for Coreshard {
    fn fib(&self, n: u32) -> u64 {
        fn fib(n: u32) -> u64 {
            if n < 2 {
                return n.into();
            }
            let (a, b) = coreshard::join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
        self.queue.install(|| fib(n)).expect("the queue is open")
    }

    fn sum_of_tree(&self, levels: u32) -> u64 {
        fn sum(levels: u32, place: u64) -> u64 {
            if levels == 1 {
                return place;
            }
            let half = 1 << (levels - 2);
            let (a, b) =
                coreshard::join(|| sum(levels - 1, place), || sum(levels - 1, place + half));
            a + b
        }
        self.queue.install(|| sum(levels, 0)).expect("the queue is open")
    }
}

impl ParallelFor for Coreshard {
    fn for_each(&self, elements: &mut [u64], body: &(impl Fn(&mut u64) + Sync)) {
        self.queue.for_each_mut(elements, |element| body(element)).expect("the queue is open");
    }
}
